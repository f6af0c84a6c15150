//! What changed between two designs, and what of it breaks readers, writers or stored items.

mod audit;
mod roles;

use std::fmt;

use crate::{
    design::{Access, Aggregate, Bound, Design, Entity, KeyTemplates, Returns, Table},
    field::{Field, OnDelete, Type},
    form::Precision,
    query::Parameter,
};

/// A difference between two designs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it is about: `entity.user.fields.email`.
    pub path: String,
    /// What changed.
    pub what: String,
    /// Why it breaks something; `None` when it does not.
    pub breaks: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)?;
        match &self.breaks {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

/// Every difference between two designs, in the order of the new one.
pub fn diff(old: &Design, new: &Design) -> Vec<Difference> {
    let mut found = Differences::default();
    found.design(old, new);
    found.found
}

/// Whether the new version says that the change may break.
pub fn allows_breaking(old: &Design, new: &Design) -> bool {
    new.version.major > old.version.major
}

#[derive(Default)]
struct Differences {
    found: Vec<Difference>,
}

const KEYS: &str = "stored items are found under their old keys only";
const READERS: &str = "readers of the old design fail";
const WRITERS: &str = "writers of the old design fail";
const ITEMS: &str = "stored items may not fit";
const CALLERS: &str = "callers of the old design fail";

impl Differences {
    fn add(&mut self, path: &str, what: impl Into<String>, breaks: Option<&str>) {
        self.found.push(Difference { path: path.to_owned(), what: what.into(), breaks: breaks.map(str::to_owned) });
    }

    /// A value that changed.
    fn changed(&mut self, path: &str, key: &str, old: &str, new: &str, breaks: Option<&str>) {
        if old != new {
            let what = match (old, new) {
                ("", new) => format!("{key} is now `{new}`"),
                (old, "") => format!("{key} `{old}` is gone"),
                (old, new) => format!("{key} changed from `{old}` to `{new}`"),
            };
            self.add(path, what, breaks);
        }
    }

    /// A description that changed; never breaking.
    fn described(&mut self, path: &str, old: &Option<String>, new: &Option<String>) {
        if old != new {
            self.add(path, "the description changed", None);
        }
    }

    /// Things with names: those gone, those new, and pairs to compare.
    fn named<'d, T>(
        &mut self,
        section: &str,
        old: &'d [T],
        new: &'d [T],
        name: impl Fn(&T) -> &str,
        gone: &str,
    ) -> Vec<(String, &'d T, &'d T)> {
        let path = |each: &T| format!("{section}.{}", name(each));
        for each in old.iter().filter(|each| new.iter().all(|other| name(other) != name(each))) {
            self.add(&path(each), "removed", Some(gone));
        }
        let mut pairs = Vec::new();
        for each in new {
            match old.iter().find(|other| name(other) == name(each)) {
                Some(other) => pairs.push((path(each), other, each)),
                None => self.add(&path(each), "added", None),
            }
        }
        pairs
    }

    fn design(&mut self, old: &Design, new: &Design) {
        let moves =
            new.tables.iter().any(|table| table.name.contains("{base}")).then_some("tables are called after it");
        self.changed("name", "the name", &old.name, &new.name, moves);
        self.described("description", &old.description, &new.description);
        self.changed("database", "the database", &old.database, &new.database, Some(KEYS));
        self.changed("tenant", "the field", &old.tenant.field, &new.tenant.field, Some("every wall moves"));
        self.changed(
            "tenant",
            "the claim",
            &old.tenant.claim,
            &new.tenant.claim,
            Some("tokens of the old design name no tenant"),
        );
        let system = |design: &Design| design.tenant.system.clone().unwrap_or_default();
        let moved = old.tenant.system.as_ref().map(|_| KEYS);
        self.changed("tenant", "the system tenant", &system(old), &system(new), moved);
        self.claims(old, new);
        self.changed("http", "the prefix", &old.http_prefix, &new.http_prefix, Some(CALLERS));
        let shut_out = old.visitors.then_some("callers without a token are refused");
        self.flag("http", "reading without a token", old.visitors, new.visitors, shut_out);
        self.audit(old, new);
        self.roles(old, new);
        for (path, old, new) in
            self.named("table", &old.tables, &new.tables, |table| &table.id, "its items are out of reach")
        {
            self.table(&path, old, new);
        }
        for (path, before, after) in self.named("entity", &old.entities, &new.entities, |entity| &entity.name, READERS)
        {
            self.entity(&path, (old, before), (new, after));
        }
        for (path, before, after) in self.named("access", &old.accesses, &new.accesses, |access| &access.name, CALLERS)
        {
            self.access(&path, (old, before), (new, after));
        }
        let gone = "its events are out of reach";
        for (path, before, after) in self.named("aggregate", &old.aggregates, &new.aggregates, |each| &each.name, gone)
        {
            self.aggregate(&path, (old, before), (new, after));
        }
    }

    fn table(&mut self, path: &str, old: &Table, new: &Table) {
        self.described(path, &old.description, &new.description);
        self.changed(path, "the name", &old.name, &new.name, Some(KEYS));
        let key = |table: &Table| format!("{}/{}", table.key.partition, table.key.sort);
        self.changed(path, "the key", &key(old), &key(new), Some(KEYS));
        let section = format!("{path}.index");
        for (path, old, new) in self.named(&section, &old.indexes, &new.indexes, |index| &index.name, CALLERS) {
            let key = |index: &crate::design::Index| format!("{}/{}", index.key.partition, index.key.sort);
            self.changed(&path, "the key", &key(old), &key(new), Some("the index has to be built anew"));
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        self.changed(path, "the discriminator", &text(&old.discriminator), &text(&new.discriminator), Some(ITEMS));
        let lost = old.ttl.as_ref().map(|_| "stored expiries no longer count");
        self.changed(path, "the TTL attribute", &text(&old.ttl), &text(&new.ttl), lost);
        let stopped = (old.stream && !new.stream).then_some("consumers of the stream see nothing");
        self.flag(path, "stream", old.stream, new.stream, stopped);
        let unprotected = (old.point_in_time && !new.point_in_time).then_some("past states can no longer be restored");
        self.flag(path, "point-in-time recovery", old.point_in_time, new.point_in_time, unprotected);
        self.flag(path, "encryption with a key of one's own", old.kms, new.kms, None);
        let throughput = |table: &Table| match table.throughput {
            None => "on-demand".to_owned(),
            Some((min, max)) => format!("{min} to {max}"),
        };
        self.changed(path, "the throughput", &throughput(old), &throughput(new), None);
        const LEVELS: [&str; 5] = ["strong", "bounded", "session", "prefix", "eventual"];
        let level = |table: &Table| LEVELS.iter().position(|level| Some(*level) == table.consistency.as_deref());
        let weaker = level(old).zip(level(new)).is_some_and(|(old, new)| new > old);
        let breaks = weaker.then_some("readers may see older states than before");
        self.changed(path, "the consistency", &text(&old.consistency), &text(&new.consistency), breaks);
        if old.indexing != new.indexing {
            self.add(path, "the indexing policy changed", None);
        }
    }

    fn flag(&mut self, path: &str, key: &str, old: bool, new: bool, breaks: Option<&str>) {
        if old != new {
            self.add(path, format!("{key} is now {}", if new { "on" } else { "off" }), breaks);
        }
    }

    /// The same template writes a value otherwise when the form of its field decides how it ends.
    fn written(&mut self, path: &str, old: &KeyTemplates, new: &KeyTemplates) {
        let ends = |key: &KeyTemplates| -> Vec<_> {
            key.partition.slots().chain(key.sort.slots()).map(|slot| slot.end).collect()
        };
        let same_text = old.partition.as_str() == new.partition.as_str() && old.sort.as_str() == new.sort.as_str();
        if same_text && ends(old) != ends(new) {
            self.add(path, "values are escaped in another way", Some(KEYS));
        }
    }

    fn key(&mut self, path: &str, old: &KeyTemplates, new: &KeyTemplates) {
        self.written(path, old, new);
        self.changed(path, "the partition", old.partition.as_str(), new.partition.as_str(), Some(KEYS));
        self.changed(path, "the sort key", old.sort.as_str(), new.sort.as_str(), Some(KEYS));
    }

    fn entity(&mut self, path: &str, (old_design, old): (&Design, &Entity), (new_design, new): (&Design, &Entity)) {
        let table = |design: &Design, entity: &Entity| design.table_of(entity).id.clone();
        self.changed(path, "the table", &table(old_design, old), &table(new_design, new), Some(KEYS));
        self.described(path, &old.description, &new.description);
        self.key(&format!("{path}.key"), &old.key, &new.key);
        self.former_keys(path, old, new);
        let wall = Some("who may read and write it changes");
        self.changed(path, "the wall", &old.wall.to_string(), &new.wall.to_string(), wall);
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        self.changed(path, "the tenant's field", &text(&old.tenant), &text(&new.tenant), wall);
        self.changed(path, "the discriminator", &text(&old.discriminator), &text(&new.discriminator), Some(ITEMS));
        let lost = old.version.is_some().then_some("the versions of stored items no longer count");
        self.changed(path, "the version attribute", &text(&old.version), &text(&new.version), lost);
        self.changed(path, "the path", &old.path, &new.path, Some(CALLERS));
        self.verbs(path, old, new);
        self.audited(path, old, new);
        let section = format!("{path}.index");
        for (path, old, new) in self.named(&section, &old.indexes, &new.indexes, |mapping| &mapping.name, CALLERS) {
            self.key(&path, &old.key, &new.key);
            self.changed(&path, "the wall", &old.wall.to_string(), &new.wall.to_string(), wall);
            let when =
                |mapping: &crate::design::Mapping| mapping.when.as_ref().map_or_else(String::new, ToString::to_string);
            self.changed(
                &path,
                "the condition",
                &when(old),
                &when(new),
                Some("stored items are in the index by the old one"),
            );
        }
        self.fields(&format!("{path}.fields"), &old.fields, &new.fields, &new.changes);
        self.promises(path, old, new);
        self.steps(path, old, new);
        let schema = |entity: &Entity| entity.schema.map_or_else(String::new, |schema| schema.to_string());
        self.changed(path, "the schema version", &schema(old), &schema(new), None);
    }

    fn verbs(&mut self, path: &str, old: &Entity, new: &Entity) {
        for gone in old.routes.iter().filter(|verb| !new.routes.contains(verb)) {
            self.add(path, format!("the route to {gone} is gone"), Some(CALLERS));
        }
        for come in new.routes.iter().filter(|verb| !old.routes.contains(verb)) {
            self.add(path, format!("the route to {come} is new"), None);
        }
    }

    fn former_keys(&mut self, path: &str, old: &Entity, new: &Entity) {
        let texts = |entity: &Entity| -> Vec<String> {
            entity.former_keys.iter().map(|key| format!("{} / {}", key.partition, key.sort)).collect()
        };
        let (before, after) = (texts(old), texts(new));
        for each in before.iter().filter(|each| !after.contains(each)) {
            self.add(path, format!("the former key `{each}` is gone"), Some("items under it are out of reach"));
        }
        for each in after.iter().filter(|each| !before.contains(each)) {
            self.add(path, format!("the former key `{each}` is new"), None);
        }
    }

    fn steps(&mut self, path: &str, old: &Entity, new: &Entity) {
        for step in &old.changes {
            let same = |other: &&crate::design::Change| other.from == step.from && other.to == step.to;
            let name = format!("the step from {} to {}", step.from, step.to);
            match new.changes.iter().find(same) {
                None => self.add(path, format!("{name} is gone"), Some("items of the older version cannot be lifted")),
                Some(other) if !step.does_the_same(other) => {
                    self.add(path, format!("{name} does something else"), Some("items lifted before and after differ"));
                }
                Some(_) => {}
            }
        }
        for step in &new.changes {
            if !old.changes.iter().any(|other| other.from == step.from && other.to == step.to) {
                self.add(path, format!("a step from {} to {}", step.from, step.to), None);
            }
        }
    }

    fn promises(&mut self, path: &str, old: &Entity, new: &Entity) {
        let uniques = |entity: &Entity| -> Vec<String> {
            let text = |unique: &crate::design::Unique| {
                let within = if unique.within_tenant { "within a tenant" } else { "among all" };
                let when = unique.when.as_ref().map_or_else(String::new, |when| format!(" when {when}"));
                format!("{} {within}{when}", unique.fields.join("+"))
            };
            entity.unique.iter().map(text).collect()
        };
        let (before, after) = (uniques(old), uniques(new));
        for each in before.iter().filter(|each| !after.contains(each)) {
            self.add(&format!("{path}.unique"), format!("`{each}` is no longer unique"), None);
        }
        for each in after.iter().filter(|each| !before.contains(each)) {
            self.add(&format!("{path}.unique"), format!("`{each}` has to be unique"), Some(ITEMS));
        }
        let ttl = |entity: &Entity| entity.ttl_after.map_or_else(String::new, |seconds| format!("{seconds}s"));
        let sooner = new.ttl_after.is_some_and(|new| old.ttl_after.is_none_or(|old| new < old));
        self.changed(path, "the time to live", &ttl(old), &ttl(new), sooner.then_some("items go earlier than before"));
        match (&old.soft_delete, &new.soft_delete) {
            (Some(_), None) => {
                self.add(path, "deleting removes items for good", Some("deleted items cannot come back"));
            }
            (None, Some(_)) => self.add(path, "deleting keeps items, marked", None),
            (Some(before), Some(after)) if before.mark != after.mark => {
                self.add(path, "deleted items are marked otherwise", Some("items deleted before look alive"));
            }
            (Some(before), Some(after)) if (&before.at, &before.by) != (&after.at, &after.by) => {
                self.add(path, "a deletion is noted in other fields", Some(READERS));
            }
            _ => {}
        }
    }

    fn fields(&mut self, section: &str, old: &[Field], new: &[Field], steps: &[crate::design::Change]) {
        let has = |fields: &[Field], name: &str| fields.iter().any(|field| field.name == name);
        let gone: Vec<&Field> = old.iter().filter(|field| !has(new, &field.name)).collect();
        let come: Vec<&Field> = new.iter().filter(|field| !has(old, &field.name)).collect();
        let mut renamed: Vec<(&str, &str)> = Vec::new();
        for (from, to) in steps.iter().flat_map(|step| &step.rename) {
            if gone.iter().any(|field| field.name == *from) && come.iter().any(|field| field.name == *to) {
                renamed.push((from, to));
            }
        }
        // Without a step, one field gone and one of the same type come is most likely the same field.
        if let ([from], [to], true) = (gone.as_slice(), come.as_slice(), renamed.is_empty())
            && form(from) == form(to)
        {
            renamed.push((&from.name, &to.name));
        }
        for (from, to) in &renamed {
            self.add(&format!("{section}.{to}"), format!("renamed from `{from}`"), Some(READERS));
        }
        for field in gone.iter().filter(|field| renamed.iter().all(|(from, _)| *from != field.name)) {
            self.add(&format!("{section}.{}", field.name), "removed", Some(READERS));
        }
        for field in come.iter().filter(|field| renamed.iter().all(|(_, to)| *to != field.name)) {
            let required = !field.optional && field.default.is_none();
            let what = if required { "added, required" } else { "added" };
            self.add(
                &format!("{section}.{}", field.name),
                what,
                required.then_some("old writers and stored items do not have it"),
            );
        }
        for field in new {
            if let Some(before) = old.iter().find(|before| before.name == field.name) {
                self.field(&format!("{section}.{}", field.name), before, field, steps);
            }
        }
    }

    fn field(&mut self, path: &str, old: &Field, new: &Field, steps: &[crate::design::Change]) {
        if form(old) != form(new) {
            self.changed(path, "the type", &form(old), &form(new), Some(READERS));
            return;
        }
        match (old.optional, new.optional) {
            (true, false) => self.add(path, "required now", Some("old writers and stored items may not have it")),
            (false, true) => self.add(path, "optional now", None),
            _ => {}
        }
        let missing = |choices: &[String], among: &[String]| -> Vec<String> {
            choices.iter().filter(|choice| !among.contains(choice)).cloned().collect()
        };
        match (old.one_of(), new.one_of()) {
            ([], []) => {}
            ([], _) => self.add(path, "limited to choices", Some(ITEMS)),
            (_, []) => self.add(path, "no longer limited to choices", None),
            (before, after) => {
                for choice in missing(before, after) {
                    self.add(path, format!("the choice `{choice}` is gone"), Some(ITEMS));
                }
                for choice in missing(after, before) {
                    self.add(path, format!("the choice `{choice}` is new"), None);
                }
            }
        }
        self.bounds(path, old, new);
        self.changed(
            path,
            "the pattern",
            old.pattern().unwrap_or(""),
            new.pattern().unwrap_or(""),
            new.pattern().map(|_| ITEMS),
        );
        let format = |field: &Field| {
            field
                .form
                .as_ref()
                .and_then(|form| form.format)
                .map_or_else(String::new, |format| format!("{format:?}").to_lowercase())
        };
        self.changed(path, "the format", &format(old), &format(new), (!format(new).is_empty()).then_some(ITEMS));
        let default = |field: &Field| field.default.as_ref().map_or_else(String::new, |default| format!("{default:?}"));
        if default(old) != default(new) {
            let lost = new.default.is_none() && !new.optional;
            let what = if new.default.is_none() { "the default is gone" } else { "the default changed" };
            self.add(path, what, lost.then_some(WRITERS));
        }
        self.flag(path, "immutable", old.immutable, new.immutable, new.immutable.then_some(WRITERS));
        self.flag(path, "readonly", old.readonly, new.readonly, new.readonly.then_some(WRITERS));
        let since = |field: &Field| field.since.as_ref().map_or_else(String::new, ToString::to_string);
        let moment = match (&old.since, &new.since) {
            (None, _) => WRITERS,
            (Some(_), None) => "it is no longer set by itself",
            (Some(_), Some(_)) => "stored items tell the beginning of the old one",
        };
        self.changed(path, "the condition that it follows from", &since(old), &since(new), Some(moment));
        self.flag(path, "secret", old.secret, new.secret, new.secret.then_some(READERS));
        self.flag(path, "personal", old.personal, new.personal, None);
        let reference = |field: &Field| {
            field.reference.as_ref().map_or_else(String::new, |reference| {
                let on_delete = if reference.on_delete == OnDelete::Cascade { "cascade" } else { "restrict" };
                format!("{} ({on_delete})", reference.entity)
            })
        };
        self.changed(
            path,
            "the reference",
            &reference(old),
            &reference(new),
            new.reference.as_ref().map(|_| "deleting does something else"),
        );
        let also = |field: &Field| {
            field.form.as_ref().and_then(|form| form.also.as_ref()).map_or_else(String::new, |also| also.text.clone())
        };
        self.changed(
            path,
            "the form of older values",
            &also(old),
            &also(new),
            (!also(old).is_empty()).then_some(ITEMS),
        );
        self.described(path, &old.description, &new.description);
        match (&old.kind, &new.kind) {
            (Type::Map(before), Type::Map(after)) if before.is_empty() && !after.is_empty() => {
                self.add(path, "limited to fields", Some(ITEMS));
            }
            (Type::Map(before), Type::Map(after)) if after.is_empty() && !before.is_empty() => {
                self.add(path, "no longer limited to fields", None);
            }
            (Type::List(None), Type::List(Some(_))) => self.add(path, "its elements have a type now", Some(ITEMS)),
            (Type::List(Some(_)), Type::List(None)) => self.add(path, "its elements have no type any more", None),
            (Type::Map(before), Type::Map(after)) => self.fields(path, before, after, steps),
            (Type::List(Some(before)), Type::List(Some(after))) => {
                self.field(&format!("{path}.items"), before, after, steps);
            }
            _ => {}
        }
    }

    fn bounds(&mut self, path: &str, old: &Field, new: &Field) {
        if let (Type::Integer, Some(old), Some(new)) = (&new.kind, &old.form, &new.form) {
            let text = |bound: Option<i64>| bound.map_or_else(String::new, |bound| bound.to_string());
            let ((old_min, old_max), (new_min, new_max)) = (old.bounds, new.bounds);
            let higher = new_min.unwrap_or(i64::MIN) > old_min.unwrap_or(i64::MIN);
            self.changed(path, "the least value", &text(old_min), &text(new_min), higher.then_some(ITEMS));
            let lower = new_max.unwrap_or(i64::MAX) < old_max.unwrap_or(i64::MAX);
            self.changed(path, "the greatest value", &text(old_max), &text(new_max), lower.then_some(ITEMS));
            return;
        }
        let text = |bound: Option<f64>| bound.map_or_else(String::new, |bound| bound.to_string());
        // A text or list cannot be shorter than nothing, said or not.
        let least = |field: &Field| {
            if matches!(field.kind, Type::Number) { field.range.0 } else { Some(field.range.0.unwrap_or(0.0)) }
        };
        let min = (least(old).unwrap_or(f64::MIN), least(new).unwrap_or(f64::MIN));
        self.changed(path, "the least value", &text(least(old)), &text(least(new)), (min.1 > min.0).then_some(ITEMS));
        let sized = matches!(new.kind, Type::String | Type::List(_) | Type::Map(_) | Type::Any);
        if sized {
            let narrower = new.size < old.size;
            self.changed(
                path,
                "the greatest size",
                &old.size.to_string(),
                &new.size.to_string(),
                narrower.then_some(ITEMS),
            );
        } else {
            let max = (old.range.1.unwrap_or(f64::MAX), new.range.1.unwrap_or(f64::MAX));
            self.changed(
                path,
                "the greatest value",
                &text(old.range.1),
                &text(new.range.1),
                (max.1 < max.0).then_some(ITEMS),
            );
        }
    }

    fn access(&mut self, path: &str, (old_design, old): (&Design, &Access), (new_design, new): (&Design, &Access)) {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let entity = |design: &Design, access: &Access| design.entities[access.entity].name.clone();
        self.changed(path, "the entity", &entity(old_design, old), &entity(new_design, new), Some(CALLERS));
        let index = |design: &Design, access: &Access| {
            let entity = &design.entities[access.entity];
            access.mapping.map_or_else(|| "key".to_owned(), |at| entity.indexes[at].name.clone())
        };
        self.described(path, &old.description, &new.description);
        // Another index gives the same answers only if it sorts and leaves out alike.
        let gives = |design: &Design, access: &Access| {
            let entity = &design.entities[access.entity];
            let when = access.mapping.and_then(|at| entity.indexes[at].when.as_ref()).map(ToString::to_string);
            (design.source_of(access).1.sort.as_str().to_owned(), when)
        };
        let other = (gives(old_design, old) != gives(new_design, new))
            .then_some("it may give other items, or in another order");
        self.changed(path, "what serves it", &index(old_design, old), &index(new_design, new), other);
        self.parameters(path, (old_design, old), (new_design, new));
        let filter = |access: &Access| access.filter.as_ref().map_or_else(String::new, ToString::to_string);
        self.changed(path, "the filter", &filter(old), &filter(new), Some("it gives other items"));
        let order = |access: &Access| if access.descending { "descending" } else { "ascending" };
        self.changed(path, "the order", order(old), order(new), Some("it gives items in another order"));
        let returns = |access: &Access| match access.returns {
            Returns::Many => "many",
            Returns::One => "one",
            Returns::Count => "count",
        };
        self.changed(path, "what it returns", returns(old), returns(new), Some(CALLERS));
        self.projection(path, &old.projection, &new.projection);
        let wall = |design: &Design, access: &Access| design.wall_of(access).to_string();
        self.changed(path, "the wall", &wall(old_design, old), &wall(new_design, new), Some("who may ask changes"));
        // One that had no path had no callers.
        let left = old.path.as_ref().map(|_| CALLERS);
        self.changed(path, "the path", &text(&old.path), &text(&new.path), left);
        self.changed(path, "the page size", &old.limit.to_string(), &new.limit.to_string(), None);
    }

    /// What the caller gives: less, or something new that may be left out, does no harm.
    fn parameters(&mut self, path: &str, (old_design, old): (&Design, &Access), (new_design, new): (&Design, &Access)) {
        let given = |design: &Design, access: &Access| {
            let parameters = design.parameters(access).into_iter().filter(|parameter| !parameter.from_token);
            parameters.collect::<Vec<_>>()
        };
        let (before, after) = (given(old_design, old), given(new_design, new));
        let names =
            |parameters: &[Parameter]| parameters.iter().map(|each| each.name.as_str()).collect::<Vec<_>>().join(", ");
        let known = |parameter: &Parameter| before.iter().any(|each| each == parameter);
        let gone = before.iter().any(|parameter| !after.iter().any(|each| each.name == parameter.name));
        let demanded = after.iter().any(|parameter| parameter.required && !known(parameter));
        self.changed(path, "the parameters", &names(&before), &names(&after), (gone || demanded).then_some(CALLERS));
        let prefix = |access: &Access| matches!(access.bound, Bound::Prefix(_));
        if before == after && prefix(old) != prefix(new) {
            let what = if prefix(new) { "a beginning is enough" } else { "the whole value has to be given" };
            self.add(path, what, (!prefix(new)).then_some(CALLERS));
        }
    }

    fn projection(&mut self, path: &str, old: &[String], new: &[String]) {
        // No projection means all fields.
        let narrower = !new.is_empty() && (old.is_empty() || old.iter().any(|field| !new.contains(field)));
        if old != new {
            self.add(path, "the fields that it returns changed", narrower.then_some(READERS));
        }
    }

    fn aggregate(
        &mut self,
        path: &str,
        (old_design, old): (&Design, &Aggregate),
        (new_design, new): (&Design, &Aggregate),
    ) {
        let entity = |design: &Design, at: usize| design.entities[at].name.clone();
        let gone = Some("its events are out of reach");
        self.changed(path, "the id", &old.id, &new.id, gone);
        self.changed(path, "the events", &entity(old_design, old.events), &entity(new_design, new.events), gone);
        self.changed(path, "the head", &entity(old_design, old.head), &entity(new_design, new.head), gone);
        self.described(path, &old.description, &new.description);
        let idempotency = |design: &Design, aggregate: &Aggregate| {
            aggregate.idempotency.map_or_else(String::new, |at| entity(design, at))
        };
        let repeats = old.idempotency.map(|_| "repeated requests are no longer told apart");
        self.changed(
            path,
            "the idempotency entity",
            &idempotency(old_design, old),
            &idempotency(new_design, new),
            repeats,
        );
        let snapshot = |design: &Design, aggregate: &Aggregate| {
            aggregate.snapshot.map_or_else(String::new, |at| entity(design, at))
        };
        let keys =
            |design: &Design, aggregate: &Aggregate| aggregate.keys.map_or_else(String::new, |at| entity(design, at));
        let sealed = old.keys.map(|_| "what is sealed cannot be opened");
        self.changed(path, "the entity of keys", &keys(old_design, old), &keys(new_design, new), sealed);
        // A cache: without it more is read, and nothing is lost.
        self.changed(path, "the snapshot entity", &snapshot(old_design, old), &snapshot(new_design, new), None);
        let projections = |design: &Design, aggregate: &Aggregate| -> Vec<String> {
            aggregate.projections.iter().map(|at| entity(design, *at)).collect()
        };
        let (before, after) = (projections(old_design, old), projections(new_design, new));
        for each in before.iter().filter(|each| !after.contains(each)) {
            self.add(path, format!("`{each}` is no longer built from it"), Some("it stays as it was"));
        }
        for each in after.iter().filter(|each| !before.contains(each)) {
            self.add(path, format!("`{each}` is built from it now"), None);
        }
        let section = format!("{path}.event");
        let unreadable = "stored events cannot be read";
        for (path, old, new) in self.named(&section, &old.event, &new.event, |event| &event.name, unreadable) {
            self.fields(&path, &old.fields, &new.fields, &[]);
        }
    }
}

/// The stored form of a field: its type, precision and prefix.
fn form(field: &Field) -> String {
    let precision = match field.kind {
        Type::Timestamp(Precision::Epoch) => " (epoch)",
        Type::Timestamp(Precision::Millis) => " (millis)",
        Type::Timestamp(Precision::Micros) => " (micros)",
        Type::Timestamp(Precision::Any) => " (any)",
        _ => "",
    };
    let prefix = match field.prefix() {
        "" => String::new(),
        prefix => format!(" after {prefix}"),
    };
    format!("{}{precision}{prefix}", field.kind.name())
}
