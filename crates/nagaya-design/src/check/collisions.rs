//! Collisions: equal keys, queries that read another entity, partitions that all items share.

use crate::{
    codes,
    design::{AccessPattern, Design, Entity, KeyTemplates, SortBound},
    diagnostic::Diagnostic,
    language::Languages,
};

pub(super) fn check(design: &Design, languages: &mut Languages, diagnostics: &mut Vec<Diagnostic>) {
    for (at, entity) in design.entities.iter().enumerate() {
        for other in &design.entities[at + 1..] {
            if entity.table == other.table {
                equal_keys(entity, other, languages, diagnostics);
                equal_discriminators(entity, other, diagnostics);
            }
        }
        former_keys(entity, languages, diagnostics);
        hot_partitions(entity, diagnostics);
    }
    for access in &design.access_patterns {
        shadowed(design, access, languages, diagnostics);
    }
}

fn forms(entity: &Entity) -> impl Iterator<Item = &KeyTemplates> {
    std::iter::once(&entity.key).chain(&entity.former_keys)
}

fn equal_keys(entity: &Entity, other: &Entity, languages: &mut Languages, diagnostics: &mut Vec<Diagnostic>) {
    for mine in forms(entity) {
        for theirs in forms(other) {
            let Some(sort) = languages.common_key(&mine.sort, &theirs.sort) else { continue };
            let Some(partition) = languages.common_key(&mine.partition, &theirs.partition) else { continue };
            let message = format!("`{}` and `{}` items can have the same key", entity.name, other.name);
            let help = "start each with a different constant, such as `USER#` and `USER_PREFS#`, or narrow a field \
                        with `pattern`";
            codes::KEY_COLLISION
                .report(diagnostics, &theirs.sort.span, message)
                .here(format!("such as `{partition}` / `{sort}`"))
                .also(&mine.sort.span, "the other key")
                .help(help);
        }
    }
}

/// A former key never equals a present key.
fn former_keys(entity: &Entity, languages: &mut Languages, diagnostics: &mut Vec<Diagnostic>) {
    for former in &entity.former_keys {
        let Some(sort) = languages.common_key(&entity.key.sort, &former.sort) else { continue };
        let Some(partition) = languages.common_key(&entity.key.partition, &former.partition) else { continue };
        let message = format!("a former key of `{}` can equal a present key", entity.name);
        codes::KEY_COLLISION
            .report(diagnostics, &former.sort.span, message)
            .here(format!("such as `{partition}` / `{sort}`"))
            .also(&entity.key.sort.span, "the present key")
            .help("a former key has to differ from every key of the present template");
    }
}

fn equal_discriminators(entity: &Entity, other: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    if let (Some(mine), Some(theirs)) = (&entity.discriminator, &other.discriminator)
        && mine == theirs
    {
        let message = format!(
            "`{}` and `{}` have the same discriminator `{mine}`, so no query can distinguish them",
            entity.name, other.name
        );
        codes::SHADOWED_QUERY
            .report(diagnostics, &other.span, message)
            .also(&entity.span, "the other entity")
            .help("give one of them another `discriminator`");
    }
}

/// Reports an access pattern whose query can return items of another entity.
fn shadowed(design: &Design, access: &AccessPattern, languages: &mut Languages, diagnostics: &mut Vec<Diagnostic>) {
    let entity = &design.entities[access.entity];
    // With a discriminator the query selects its own entity.
    if design.table_of(entity).discriminator.is_some() {
        return;
    }
    let (_, key) = design.key_of_access(access);
    let index = access.mapping.map(|at| entity.indexes[at].index);
    let others = design.entities.iter().filter(|other| other.table == entity.table && other.name != entity.name);
    for other in others {
        let theirs: Vec<_> = match index {
            None => forms(other).collect(),
            Some(index) => {
                other.indexes.iter().filter(|mapping| mapping.index == index).map(|mapping| &mapping.key).collect()
            }
        };
        for theirs in theirs {
            let sort = match access.bound {
                SortBound::Full => languages.common_key(&key.sort, &theirs.sort),
                SortBound::Open | SortBound::Range(_) | SortBound::Prefix(_) => {
                    languages.common_prefix(&key.sort, access.fixed, &theirs.sort)
                }
            };
            let Some(sort) = sort else { continue };
            let Some(partition) = languages.common_key(&key.partition, &theirs.partition) else { continue };
            let message = format!("the query of `{}` also reads items of `{}`", access.name, other.name);
            codes::SHADOWED_QUERY
                .report(diagnostics, &access.span, message)
                .also(&theirs.sort.span, format!("such as `{partition}` / `{sort}`"))
                .also(&key.sort.span, "the query's sort key")
                .help("start each sort key with a different constant, or give the table a `discriminator`");
        }
    }
}

fn hot_partitions(entity: &Entity, diagnostics: &mut Vec<Diagnostic>) {
    let keys = std::iter::once((&entity.key, None))
        .chain(entity.indexes.iter().map(|mapping| (&mapping.key, Some(&mapping.name))));
    for (key, index) in keys {
        // An index with the partition of the table key has already been reported there.
        let known = index.is_some() && key.partition.as_str() == entity.key.partition.as_str();
        if key.partition.is_constant() && !known && !(index.is_none() && key.sort.is_constant()) {
            let place = index.map_or_else(String::new, |index| format!(" of `{index}`"));
            let message =
                format!("all `{}` items are in one partition{place}, whose throughput is limited", entity.name);
            let help = "add a field to the partition, or explain why it is enough: `# NG0304: …` above this line";
            codes::HOT_PARTITION.report(diagnostics, &key.partition.span, message).help(help);
        }
    }
}
