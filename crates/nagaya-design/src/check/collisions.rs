//! Entities side by side: no two keys are equal, no query reads another entity, no partition is everybody's.

use crate::{
    codes,
    design::{Access, Bound, Design, Entity, KeyTemplates},
    diagnostic::Diagnostic,
    language::Languages,
};

pub(super) fn check(design: &Design, languages: &mut Languages, problems: &mut Vec<Diagnostic>) {
    for (at, entity) in design.entities.iter().enumerate() {
        for other in &design.entities[at + 1..] {
            if entity.table == other.table {
                equal_keys(entity, other, languages, problems);
                equal_discriminators(entity, other, problems);
            }
        }
        former_keys(entity, languages, problems);
        hot_partitions(entity, problems);
    }
    for access in &design.accesses {
        shadowed(design, access, languages, problems);
    }
}

fn forms(entity: &Entity) -> impl Iterator<Item = &KeyTemplates> {
    std::iter::once(&entity.key).chain(&entity.former_keys)
}

fn equal_keys(entity: &Entity, other: &Entity, languages: &mut Languages, problems: &mut Vec<Diagnostic>) {
    for mine in forms(entity) {
        for theirs in forms(other) {
            let Some(sort) = languages.shared(&mine.sort, &theirs.sort) else { continue };
            let Some(partition) = languages.shared(&mine.partition, &theirs.partition) else { continue };
            problems.push(
                Diagnostic::new(&codes::KEY_COLLISION, theirs.sort.span.clone(), format!("`{}` and `{}` items can have the same key", entity.name, other.name))
                    .here(format!("such as `{partition}` / `{sort}`"))
                    .also(mine.sort.span.clone(), "the other key")
                    .help("start each with a constant of its own, such as `USER#` and `USER_PREFS#`, or narrow a field with `pattern`"),
            );
        }
    }
}

/// A key is of one form: an older one never reads as the present one.
fn former_keys(entity: &Entity, languages: &mut Languages, problems: &mut Vec<Diagnostic>) {
    for former in &entity.former_keys {
        let Some(sort) = languages.shared(&entity.key.sort, &former.sort) else { continue };
        let Some(partition) = languages.shared(&entity.key.partition, &former.partition) else { continue };
        problems.push(
            Diagnostic::new(
                &codes::KEY_COLLISION,
                former.sort.span.clone(),
                format!("a former key of `{}` can equal a present one", entity.name),
            )
            .here(format!("such as `{partition}` / `{sort}`"))
            .also(entity.key.sort.span.clone(), "the present key")
            .help("former keys are for forms that the present template cannot give"),
        );
    }
}

fn equal_discriminators(entity: &Entity, other: &Entity, problems: &mut Vec<Diagnostic>) {
    if let (Some(mine), Some(theirs)) = (&entity.discriminator, &other.discriminator)
        && mine == theirs
    {
        problems.push(
            Diagnostic::new(
                &codes::SHADOWED_QUERY,
                other.span.clone(),
                format!(
                    "`{}` and `{}` have the same discriminator `{mine}`, so no query tells them apart",
                    entity.name, other.name
                ),
            )
            .also(entity.span.clone(), "the other entity")
            .help("give one of them another `discriminator`"),
        );
    }
}

/// Whether the query of an access pattern can give items of another entity.
fn shadowed(design: &Design, access: &Access, languages: &mut Languages, problems: &mut Vec<Diagnostic>) {
    let entity = &design.entities[access.entity];
    // With a discriminator the query asks for its own entity.
    if design.table_of(entity).discriminator.is_some() {
        return;
    }
    let (_, key) = design.source_of(access);
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
                Bound::Full => languages.shared(&key.sort, &theirs.sort),
                Bound::Open | Bound::Range(_) | Bound::Prefix(_) => {
                    languages.beginning(&key.sort, access.fixed, &theirs.sort)
                }
            };
            let Some(sort) = sort else { continue };
            let Some(partition) = languages.shared(&key.partition, &theirs.partition) else { continue };
            problems.push(
                Diagnostic::new(
                    &codes::SHADOWED_QUERY,
                    access.span.clone(),
                    format!("the query of `{}` also reads items of `{}`", access.name, other.name),
                )
                .also(theirs.sort.span.clone(), format!("such as `{partition}` / `{sort}`"))
                .also(key.sort.span.clone(), "the query's sort key")
                .help("start each sort key with a constant of its own, or give the table a `discriminator`"),
            );
        }
    }
}

fn hot_partitions(entity: &Entity, problems: &mut Vec<Diagnostic>) {
    let keys = std::iter::once((&entity.key, None))
        .chain(entity.indexes.iter().map(|mapping| (&mapping.key, Some(&mapping.name))));
    for (key, index) in keys {
        // An index that keeps the table's own partition makes it no hotter.
        let known = index.is_some() && key.partition.as_str() == entity.key.partition.as_str();
        if key.partition.is_constant() && !known && !(index.is_none() && key.sort.is_constant()) {
            let place = index.map_or_else(String::new, |index| format!(" of `{index}`"));
            problems.push(
                Diagnostic::new(
                    &codes::HOT_PARTITION,
                    key.partition.span.clone(),
                    format!("every `{}` lies in one partition{place}, whose throughput is limited", entity.name),
                )
                .help("add a field to the partition, or say why it is enough: `# NG0304: …` above this line"),
            );
        }
    }
}
