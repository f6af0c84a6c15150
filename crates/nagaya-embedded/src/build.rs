//! Building indexes and expiries from the items of a table, in small steps between the writes.
//!
//! That something is being built is part of the table's record, and is there before the first entry: from then on writes keep
//! the entries up to date, also after a crash, so that an entry never outlives its item. Readers see an index once it has
//! the entries of all items.

use std::{
    ops::{Bound, ControlFlow},
    sync::{Arc, PoisonError},
};

use fjall::Slice;
use nagaya_store::{Error, ErrorKind};

use crate::{
    backing::Op,
    commit::{Committer, Reply},
    layout::{self, Space},
    read::index_number,
    record::{self, Building, Table},
};

/// Entries that one step deals with, and bytes of items.
const STEP: usize = 500;
const STEP_BYTES: usize = 1024 * 1024;

/// What is being built, and who waits for it.
#[derive(Default)]
pub(crate) struct Builds {
    tasks: Vec<Task>,
    waiting: Vec<(Vec<String>, Reply<()>)>,
}

struct Task {
    table: String,
    building: Building,
    /// The last key that has been dealt with.
    after: Option<Vec<u8>>,
}

impl Builds {
    /// What a crash has interrupted.
    pub(crate) fn of<'t>(tables: impl Iterator<Item = &'t Arc<Table>>) -> Self {
        let mut builds = Builds::default();
        tables.for_each(|table| builds.add(table));
        builds
    }

    /// Takes on what a table says is being built.
    fn add(&mut self, table: &Table) {
        let known = |tasks: &[Task], building| {
            tasks.iter().any(|task: &Task| task.table == table.spec.name && task.building == building)
        };
        for building in &table.building {
            if !known(&self.tasks, *building) {
                self.tasks.push(Task { table: table.spec.name.clone(), building: *building, after: None });
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Answers once everything of these tables is built.
    pub(crate) fn await_built(&mut self, tables: Vec<String>, reply: Reply<()>) {
        self.waiting.push((tables, reply));
        self.answer();
    }

    /// Answers those for whom nothing is left to build.
    fn answer(&mut self) {
        let tasks = &self.tasks;
        let built = |(tables, _): &mut (Vec<String>, _)| !tasks.iter().any(|task| tables.contains(&task.table));
        for (_, reply) in self.waiting.extract_if(.., built) {
            let _ = reply.send(Ok(()));
        }
    }

    /// Tells everybody who waits that it takes longer: building goes on once the store has recovered.
    fn fail(&mut self, error: &Error) {
        for (_, reply) in self.waiting.drain(..) {
            let _ = reply.send(Err(Error::unavailable(format!("an index cannot be built yet: {error}"))));
        }
    }
}

impl Committer {
    /// Writes down how tables are now, and takes on what is to be built of them.
    pub(crate) fn put_tables(&mut self, made: Vec<Table>) -> Result<(), Error> {
        let mut ops = Vec::with_capacity(made.len());
        for table in &made {
            let described = record::encode(table)?;
            ops.push(Op::Put(Space::Meta, record::table_key(&table.spec.name).into(), described.into()));
        }
        self.commit(ops, self.sequence)?;
        made.iter().for_each(|table| self.builds.add(table));
        let mut tables = self.shared.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.extend(made.into_iter().map(|table| (table.spec.name.clone(), Arc::new(table))));
        Ok(())
    }

    /// Builds indexes of a table anew: all, or the one with this name.
    pub(crate) fn reindex(&mut self, table: &str, index: Option<&str>) -> Result<(), Error> {
        let mut table = Table::clone(&*self.shared.table(table)?);
        let mut found = index.is_none();
        for (at, spec) in table.spec.indexes.iter().enumerate() {
            if index.is_none_or(|name| name == spec.name) {
                found = true;
                let index = index_number(at)?;
                table.building.retain(|building| *building != Building::Fill { index });
                if table.is_maintained(index) {
                    table.building.push(Building::Clear { index });
                }
            }
        }
        if let (false, Some(index)) = (found, index) {
            return Err(ErrorKind::NoIndex { table: table.spec.name, index: index.to_owned() }.into());
        }
        // The expiries as well: they are derived from the items, too.
        if index.is_none() && table.spec.ttl.is_some() && !table.building.contains(&Building::Expiries) {
            table.building.push(Building::Expiries);
        }
        self.put_tables(vec![table.clone()])?;
        // From the beginning, whatever was being built before.
        self.builds.tasks.retain(|task| task.table != table.spec.name);
        self.builds.add(&table);
        Ok(())
    }

    /// Takes one step of what is to be built.
    pub(crate) fn build(&mut self) {
        let Some(mut task) = self.builds.tasks.pop() else { return };
        let stepped = match task.building {
            Building::Clear { index } => self.clear_step(&mut task, index),
            Building::Fill { .. } | Building::Expiries => self.fill_step(&mut task),
        };
        match stepped {
            Ok(true) => {}
            Ok(false) => self.builds.tasks.push(task),
            Err(error) => {
                tracing::warn!(%error, table = task.table, "an index cannot be built");
                self.builds.fail(&error);
                // From the beginning: nobody knows whether the step has happened.
                self.builds.tasks.push(Task { after: None, ..task });
                if !matches!(error.kind(), ErrorKind::Unavailable(_) | ErrorKind::Unanswered(_)) {
                    // It will not get better by being tried at once.
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
            }
        }
        self.builds.answer();
    }

    /// Removes some entries of an index; whether it is done.
    fn clear_step(&mut self, task: &mut Task, index: u8) -> Result<bool, Error> {
        let table = self.shared.table(&task.table)?;
        let mut prefix = layout::table(table.id);
        prefix.push(index);
        let end = layout::after_prefix(&prefix);
        let from = task.after.clone().map_or(Bound::Included(prefix), Bound::Excluded);
        let mut ops = Vec::new();
        self.shared.backing.view()?.range(Space::Index, from, end, false, |key, _| {
            ops.push(Op::Remove(Space::Index, key.into()));
            task.after = Some(key.to_vec());
            Ok(if ops.len() >= STEP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let done = ops.len() < STEP;
        self.commit(ops, self.sequence)?;
        if done {
            self.built(&table, task.building, Some(Building::Fill { index }))?;
        }
        Ok(done)
    }

    /// Adds the entries of some items; whether it is done.
    fn fill_step(&mut self, task: &mut Task) -> Result<bool, Error> {
        let table = self.shared.table(&task.table)?;
        let prefix = layout::table(table.id);
        let end = layout::after_prefix(&prefix);
        let from = task.after.clone().map_or(Bound::Included(prefix), Bound::Excluded);
        let (mut ops, mut items, mut bytes, building) = (Vec::new(), 0, 0, task.building);
        self.shared.backing.view()?.range(Space::Items, from, end, false, |place, value| {
            let item = record::decode_item(value)?;
            if let Building::Fill { index } = building
                && let Some(spec) = table.spec.indexes.get(usize::from(index))
                && let Some((key, index_key)) = table.spec.key.key_of(&item).zip(spec.key_of(&item))
            {
                let entry = layout::index_entry(table.id, index, &index_key, &key);
                ops.push(Op::Put(Space::Index, entry.into(), value.into()));
            }
            if building == Building::Expiries
                && let Some(second) = table.spec.expiry_of(&item)
            {
                ops.push(Op::Put(Space::Expiry, layout::expiry(second, place).into(), Slice::empty()));
            }
            task.after = Some(place.to_vec());
            items += 1;
            bytes += value.len();
            let full = items >= STEP || bytes >= STEP_BYTES;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let done = items < STEP && bytes < STEP_BYTES;
        self.commit(ops, self.sequence)?;
        if done {
            self.built(&table, building, None)?;
        }
        Ok(done)
    }

    /// Writes down that something is built, and what is built next in its place.
    fn built(&mut self, table: &Table, building: Building, next: Option<Building>) -> Result<(), Error> {
        let mut table = table.clone();
        table.building.retain(|each| *each != building);
        table.building.extend(next);
        self.put_tables(vec![table])
    }
}
