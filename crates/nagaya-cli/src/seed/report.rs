//! The report of a run, for people and for programs.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::{Value as Json, json};

use super::plan::Skipped;

/// The result for an entity.
#[derive(Debug, Default)]
pub(super) struct EntityReport {
    pub(super) entity: String,
    /// Items that this run has written.
    pub(super) created: usize,
    /// Items that an earlier run has written.
    pub(super) existing: usize,
    /// Items that were deleted in the end.
    pub(super) deleted: usize,
    /// The tenants that have items of it.
    pub(super) tenants: BTreeSet<usize>,
    pub(super) by_operator: bool,
    /// Why an item could not be written.
    pub(super) error: Option<String>,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) system: String,
    pub(super) seed: u64,
    pub(super) until: String,
    pub(super) tenants: Vec<String>,
    pub(super) filled: Vec<EntityReport>,
    pub(super) skipped: Vec<Skipped>,
}

impl Report {
    fn created(&self) -> usize {
        self.filled.iter().map(|each| each.created).sum()
    }

    fn existing(&self) -> usize {
        self.filled.iter().map(|each| each.existing).sum()
    }

    /// Whether all items exist.
    pub(super) fn is_complete(&self) -> bool {
        self.filled.iter().all(|each| each.error.is_none())
    }

    pub(super) fn json(&self) -> Json {
        let entities: Vec<_> = self
            .filled
            .iter()
            .map(|each| {
                json!({
                    "entity": each.entity,
                    "created": each.created,
                    "existing": each.existing,
                    "tenantCount": each.tenants.len(),
                    "byOperator": each.by_operator,
                    "error": each.error,
                })
            })
            .collect();
        let skipped: Vec<_> =
            self.skipped.iter().map(|each| json!({ "entity": each.entity, "reason": each.why })).collect();
        json!({
            "system": self.system,
            "seed": self.seed,
            "until": self.until,
            "tenants": self.tenants,
            "created": self.created(),
            "existing": self.existing(),
            "entities": entities,
            "skipped": skipped,
        })
    }

    /// A table of the items.
    pub(super) fn table(&self) -> String {
        let wide = self.filled.iter().map(|each| each.entity.len()).max().unwrap_or(0).max("entity".len());
        let mut out = format!("{:wide$}  {:>8}  {:>8}\n", "entity", "items", "tenants");
        for each in &self.filled {
            let items = each.created + each.existing;
            let tenants = if each.by_operator { "-".to_owned() } else { each.tenants.len().to_string() };
            // Writing to a text does not fail.
            let _ = writeln!(out, "{:wide$}  {items:>8}  {tenants:>8}", each.entity);
        }
        let (created, existing) = (self.created(), self.existing());
        let existing = if existing == 0 { String::new() } else { format!(", {existing} existed already") };
        let _ = writeln!(out, "{created} items created{existing}; tenants: {}", some(&self.tenants));
        out
    }

    /// Notes beside the table: skipped entities, deleted items and errors.
    pub(super) fn notes(&self) -> String {
        let skipped = self.skipped.iter().map(|each| format!("skipped: `{}` {}\n", each.entity, each.why));
        let failed = self.filled.iter().filter_map(|each| {
            let why = each.error.as_ref()?;
            Some(format!("not created: an item of `{}`: {why}\n", each.entity))
        });
        let deleted = self.filled.iter().filter(|each| each.deleted > 0);
        let deleted = deleted.map(|each| {
            format!("deleted again, so that the data has deleted items: {} of `{}`\n", each.deleted, each.entity)
        });
        skipped.chain(deleted).chain(failed).collect()
    }
}

/// The first few of many.
fn some(names: &[String]) -> String {
    match names {
        [first, second, .., last] if names.len() > 6 => format!("{first}, {second}, … {last} ({})", names.len()),
        _ => names.join(", "),
    }
}
