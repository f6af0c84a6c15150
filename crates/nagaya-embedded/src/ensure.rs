//! Making tables, and indexes of tables that are there.

use std::sync::PoisonError;

use nagaya_store::{Error, IndexSpec, TableSpec};

use crate::{
    commit::Committer,
    read::index_number,
    record::{Building, Table},
};

impl Committer {
    /// Creates tables and indexes that are missing, if none of them contradicts what is there.
    pub(crate) fn ensure(&mut self, specs: &[TableSpec]) -> Result<(), Error> {
        for (at, spec) in specs.iter().enumerate() {
            if specs[..at].iter().any(|earlier| earlier.name == spec.name && earlier != spec) {
                return Err(Error::invalid(format!("the table `{}` is asked for in two forms", spec.name)));
            }
            let twice =
                |(at, index): (usize, &IndexSpec)| spec.indexes[..at].iter().any(|other| other.name == index.name);
            if spec.indexes.iter().enumerate().any(twice) {
                return Err(Error::invalid(format!("the table `{}` has two indexes with one name", spec.name)));
            }
            if let Ok(known) = self.shared.table(&spec.name) {
                agrees(&known, spec)?;
            }
        }
        let mut next = {
            let tables = self.shared.tables.read().unwrap_or_else(PoisonError::into_inner);
            tables.values().map(|table| table.id).max().map_or(Some(0), |id| id.checked_add(1))
        };
        // All in one commit: a system has a dozen tables, and a start should not wait a dozen times.
        let mut made: Vec<Table> = Vec::new();
        for spec in specs {
            match self.shared.table(&spec.name) {
                Err(_) if made.iter().any(|table| table.spec.name == spec.name) => {}
                Err(_) => {
                    let id = next.ok_or_else(|| Error::limit("a directory has at most 65536 tables"))?;
                    next = id.checked_add(1);
                    made.push(Table::new(id, spec.clone()));
                }
                Ok(known) => made.extend(grown(&known, spec)?),
            }
        }
        if made.is_empty() { Ok(()) } else { self.put_tables(made) }
    }
}

/// A table with the expiry and the indexes that it lacks, all still to be built; `None` if it lacks nothing.
fn grown(known: &Table, spec: &TableSpec) -> Result<Option<Table>, Error> {
    let mut table = known.clone();
    for index in spec.indexes.iter().filter(|index| known.spec.index(&index.name).is_none()) {
        // Cleared first: a version that did not write down what it was building may have left entries.
        table.building.push(Building::Clear { index: index_number(table.spec.indexes.len())? });
        table.spec.indexes.push(index.clone());
    }
    if table.spec.ttl.is_none() && spec.ttl.is_some() {
        table.spec.ttl.clone_from(&spec.ttl);
        table.building.push(Building::Expiries);
    }
    Ok((table.spec != known.spec).then_some(table))
}

/// Whether a table that is there can become the one that is asked for without losing anything.
fn agrees(known: &Table, spec: &TableSpec) -> Result<(), Error> {
    let name = &spec.name;
    if known.spec.key != spec.key || (known.spec.ttl.is_some() && known.spec.ttl != spec.ttl) {
        return Err(Error::invalid(format!("the table `{name}` is there with another key or expiry")));
    }
    let other = |index: &&IndexSpec| known.spec.index(&index.name).is_some_and(|there| there.key != index.key);
    match spec.indexes.iter().find(other) {
        Some(index) => Err(Error::invalid(format!("the index `{}` of `{name}` is there with another key", index.name))),
        None => Ok(()),
    }
}
