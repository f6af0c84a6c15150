//! Making tables, and indexes of tables that are there.

use std::{
    ops::{Bound, ControlFlow},
    sync::{Arc, PoisonError},
};

use fjall::Slice;
use nagaya_store::{Error, IndexSpec, TableSpec};

use crate::{
    backing::Op,
    commit::Committer,
    layout::{self, Space},
    read::index_number,
    record::{self, Table},
};

/// Items that one commit puts into a new index.
const BACKFILL: usize = 1_000;

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
        let (mut made, mut ops): (Vec<Table>, _) = (Vec::new(), Vec::new());
        for spec in specs {
            let table = match self.shared.table(&spec.name) {
                Err(_) if made.iter().any(|table| table.spec.name == spec.name) => continue,
                Err(_) => {
                    let id = next.ok_or_else(|| Error::limit("a directory has at most 65536 tables"))?;
                    next = id.checked_add(1);
                    Table { id, spec: spec.clone() }
                }
                Ok(known) => match self.grown(&known, spec)? {
                    grown if grown.spec == known.spec => continue,
                    grown => grown,
                },
            };
            let described = record::encode(&table)?;
            ops.push(Op::Put(Space::Meta, record::table_key(&spec.name).into(), described.into()));
            made.push(table);
        }
        if ops.is_empty() {
            return Ok(());
        }
        self.shared.backing.commit(ops)?;
        let mut tables = self.shared.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.extend(made.into_iter().map(|table| (table.spec.name.clone(), Arc::new(table))));
        Ok(())
    }

    /// A table with the expiry and the indexes that it lacks, filled from its items. Nothing else is written meanwhile.
    fn grown(&self, known: &Table, spec: &TableSpec) -> Result<Table, Error> {
        let mut table = known.clone();
        table.spec.ttl = spec.ttl.clone().or(table.spec.ttl);
        let lacking = spec.indexes.iter().filter(|index| known.spec.index(&index.name).is_none());
        table.spec.indexes.extend(lacking.cloned());
        let first = known.spec.indexes.len();
        let expires = known.spec.ttl != table.spec.ttl;
        if first == table.spec.indexes.len() && !expires {
            return Ok(table);
        }
        let mut ops = Vec::new();
        let prefix = layout::table(table.id);
        let end = layout::after_prefix(&prefix);
        self.shared.backing.view().range(Space::Items, Bound::Included(prefix), end, false, |bytes, value| {
            let item = record::decode_item(value)?;
            let Some(key) = table.spec.key.key_of(&item) else { return Ok(ControlFlow::Continue(())) };
            for (at, index) in table.spec.indexes.iter().enumerate().skip(first) {
                if let Some(index_key) = index.key_of(&item) {
                    let entry = layout::index_entry(table.id, index_number(at)?, &index_key, &key);
                    ops.push(Op::Put(Space::Index, entry.into(), value.into()));
                }
            }
            if let Some(second) = table.spec.expiry_of(&item).filter(|_| expires) {
                ops.push(Op::Put(Space::Expiry, layout::expiry(second, bytes).into(), Slice::empty()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        // The view above is closed: memory cannot be written while it is read.
        while !ops.is_empty() {
            let rest = ops.split_off(ops.len().min(BACKFILL));
            self.shared.backing.commit(std::mem::replace(&mut ops, rest))?;
        }
        Ok(table)
    }
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
