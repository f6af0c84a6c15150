//! What changed between two designs, and which changes break readers, writers or stored items.

mod access;
mod aggregate;
mod audit;
mod entity;
mod field;
mod roles;
mod table;

use std::fmt;

use crate::design::Design;

/// A difference between two designs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The changed part of the design, such as `entity.user.fields.email`.
    pub path: String,
    /// What changed.
    pub change: String,
    /// Why it breaks something; `None` when it does not.
    pub breaking_reason: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.change)?;
        match &self.breaking_reason {
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

/// Whether the new version allows breaking changes: its major number is higher.
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
    fn design(&mut self, old: &Design, new: &Design) {
        let uses_name = new.tables.iter().any(|table| table.name.contains("{base}"));
        self.compare_value("name", "the name", &old.name, &new.name, uses_name.then_some("table names contain it"));
        self.description("description", &old.description, &new.description);
        self.compare_value("database", "the database", &old.database, &new.database, Some(KEYS));
        let moved = Some("the tenant of every item changes");
        self.compare_value("tenant", "the field", &old.tenant.field, &new.tenant.field, moved);
        let unnamed = Some("tokens of the old design name no tenant");
        self.compare_value("tenant", "the claim", &old.tenant.claim, &new.tenant.claim, unnamed);
        let moved = old.tenant.system.as_ref().map(|_| KEYS);
        self.compare_value("tenant", "the system tenant", text(&old.tenant.system), text(&new.tenant.system), moved);
        self.claims(old, new);
        self.compare_value("http", "the prefix", &old.http_prefix, &new.http_prefix, Some(CALLERS));
        let refused = old.visitors.then_some("callers without a token are refused");
        self.flag("http", "reading without a token", old.visitors, new.visitors, refused);
        self.audit(old, new);
        self.roles(old, new);
        let lost = "its items can no longer be read";
        for (path, old, new) in self.named("table", &old.tables, &new.tables, |table| &table.id, lost) {
            self.table(&path, old, new);
        }
        for (path, before, after) in self.named("entity", &old.entities, &new.entities, |each| &each.name, READERS) {
            self.entity(&path, (old, before), (new, after));
        }
        for (path, before, after) in
            self.named("access", &old.access_patterns, &new.access_patterns, |each| &each.name, CALLERS)
        {
            self.access(&path, (old, before), (new, after));
        }
        let lost = "its events can no longer be read";
        for (path, before, after) in self.named("aggregate", &old.aggregates, &new.aggregates, |each| &each.name, lost)
        {
            self.aggregate(&path, (old, before), (new, after));
        }
    }

    fn add(&mut self, path: &str, what: impl Into<String>, breaks: Option<&str>) {
        self.found.push(Difference {
            path: path.to_owned(),
            change: what.into(),
            breaking_reason: breaks.map(str::to_owned),
        });
    }

    /// Compares a value; an empty text stands for none.
    fn compare_value(&mut self, path: &str, key: &str, old: impl ToString, new: impl ToString, breaks: Option<&str>) {
        let (old, new) = (old.to_string(), new.to_string());
        if old != new {
            let what = match (old.as_str(), new.as_str()) {
                ("", new) => format!("{key} is now `{new}`"),
                (old, "") => format!("{key} `{old}` is gone"),
                (old, new) => format!("{key} changed from `{old}` to `{new}`"),
            };
            self.add(path, what, breaks);
        }
    }

    fn flag(&mut self, path: &str, key: &str, old: bool, new: bool, breaks: Option<&str>) {
        if old != new {
            self.add(path, format!("{key} is now {}", if new { "on" } else { "off" }), breaks);
        }
    }

    fn description(&mut self, path: &str, old: &Option<String>, new: &Option<String>) {
        if old != new {
            self.add(path, "the description changed", None);
        }
    }

    /// Compares two sets. `removed` and `added` are a message, with `{}` in place of the member, and what it breaks.
    fn members<T: PartialEq + fmt::Display>(
        &mut self,
        path: &str,
        (old, new): (&[T], &[T]),
        removed: (&str, Option<&str>),
        added: (&str, Option<&str>),
    ) {
        for (from, other, (message, breaks)) in [(old, new, removed), (new, old, added)] {
            for member in from.iter().filter(|member| !other.contains(member)) {
                self.add(path, message.replace("{}", &member.to_string()), breaks);
            }
        }
    }

    /// Compares two lists by the names of their members; returns the pairs that are in both.
    fn named<'d, T>(
        &mut self,
        section: &str,
        old: &'d [T],
        new: &'d [T],
        name: impl Fn(&T) -> &str,
        removed_breaks: &str,
    ) -> Vec<(String, &'d T, &'d T)> {
        let path = |each: &T| format!("{section}.{}", name(each));
        for each in old.iter().filter(|each| new.iter().all(|other| name(other) != name(each))) {
            self.add(&path(each), "removed", Some(removed_breaks));
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
}

/// The text of a value that may be absent.
fn text<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(String::new, ToString::to_string)
}
