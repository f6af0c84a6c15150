//! Creating tables, and adding indexes to existing ones.

use std::sync::PoisonError;

use nagaya_store::{Error, IndexSpec, TableSpec};

use crate::{
    commit::Committer,
    read::index_number,
    record::{PendingBuild, Table},
};

impl Committer {
    /// Creates missing tables and indexes, unless one of them contradicts an existing one.
    pub(crate) fn ensure(&mut self, specs: &[TableSpec]) -> Result<(), Error> {
        for (at, spec) in specs.iter().enumerate() {
            if specs[..at].iter().any(|earlier| earlier.name == spec.name && earlier != spec) {
                return Err(Error::invalid(format!(
                    "the table `{}` is specified twice, with different specifications",
                    spec.name
                )));
            }
            let is_duplicate =
                |(at, index): (usize, &IndexSpec)| spec.indexes[..at].iter().any(|other| other.name == index.name);
            if spec.indexes.iter().enumerate().any(is_duplicate) {
                return Err(Error::invalid(format!("the table `{}` has two indexes with one name", spec.name)));
            }
            if let Ok(known) = self.shared.table(&spec.name) {
                check_compatible(&known, spec)?;
            }
        }
        let mut next = {
            let tables = self.shared.tables.read().unwrap_or_else(PoisonError::into_inner);
            tables.values().map(|table| table.id).max().map_or(Some(0), |id| id.checked_add(1))
        };
        // In one commit: a system has a dozen tables, and starting should not wait for a dozen syncs.
        let mut made: Vec<Table> = Vec::new();
        for spec in specs {
            match self.shared.table(&spec.name) {
                Err(_) if made.iter().any(|table| table.spec.name == spec.name) => {}
                Err(_) => {
                    let id = next.ok_or_else(|| Error::limit_exceeded("a directory has at most 65536 tables"))?;
                    next = id.checked_add(1);
                    made.push(Table::new(id, spec.clone()));
                }
                Ok(known) => made.extend(with_missing_indexes(&known, spec)?),
            }
        }
        if made.is_empty() { Ok(()) } else { self.put_tables(made) }
    }
}

/// The table with the expiry and the indexes that it lacks, as pending builds; `None` if it lacks nothing.
fn with_missing_indexes(known: &Table, spec: &TableSpec) -> Result<Option<Table>, Error> {
    let mut table = known.clone();
    for index in spec.indexes.iter().filter(|index| known.spec.index(&index.name).is_none()) {
        // Cleared first: an older version, which did not record its builds, may have left entries.
        table.pending_builds.push(PendingBuild::Clear { index: index_number(table.spec.indexes.len())? });
        table.spec.indexes.push(index.clone());
    }
    if table.spec.ttl.is_none() && spec.ttl.is_some() {
        table.spec.ttl.clone_from(&spec.ttl);
        table.pending_builds.push(PendingBuild::Expiries);
    }
    Ok((table.spec != known.spec).then_some(table))
}

/// Checks that an existing table can get the requested specification without losing anything.
fn check_compatible(known: &Table, spec: &TableSpec) -> Result<(), Error> {
    let name = &spec.name;
    if known.spec.key != spec.key || (known.spec.ttl.is_some() && known.spec.ttl != spec.ttl) {
        return Err(Error::invalid(format!("the table `{name}` exists with another key or expiry attribute")));
    }
    let differs = |index: &&IndexSpec| known.spec.index(&index.name).is_some_and(|known| known.key != index.key);
    match spec.indexes.iter().find(differs) {
        Some(index) => Err(Error::invalid(format!("the index `{}` of `{name}` exists with another key", index.name))),
        None => Ok(()),
    }
}
