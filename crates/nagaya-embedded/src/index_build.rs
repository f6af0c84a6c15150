//! Building indexes and expiries from the items of a table, in small steps between writes.
//!
//! A build is part of the table's record, and is committed before its first entry. From then on writes maintain the
//! entries, also after a crash, so an entry never outlives its item. Readers use an index only when it has the entries
//! of all items.

use std::{
    ops::Bound,
    sync::{Arc, PoisonError},
};

use fjall::Slice;
use nagaya_store::{Error, ErrorKind};

use crate::{
    commit::{Committer, Reply},
    layout::{self, Keyspace},
    read::index_number,
    record::{self, PendingBuild, Table},
    storage::{Op, break_if},
};

/// The maximum number of entries, and of bytes of items, in one step.
const STEP: usize = 500;
const STEP_BYTES: usize = 1024 * 1024;

/// The running builds, and the callers that wait for them.
#[derive(Default)]
pub(crate) struct IndexBuilds {
    tasks: Vec<BuildTask>,
    waiting: Vec<(Vec<String>, Reply<()>)>,
}

struct BuildTask {
    table: String,
    build: PendingBuild,
    /// The last key that has been processed.
    after: Option<Vec<u8>>,
}

impl IndexBuilds {
    /// The builds that were interrupted by a restart.
    pub(crate) fn from_tables<'t>(tables: impl Iterator<Item = &'t Arc<Table>>) -> Self {
        let mut builds = IndexBuilds::default();
        tables.for_each(|table| builds.add(table));
        builds
    }

    /// Adds the pending builds of a table.
    fn add(&mut self, table: &Table) {
        let is_known = |tasks: &[BuildTask], build| {
            tasks.iter().any(|task: &BuildTask| task.table == table.spec.name && task.build == build)
        };
        for build in &table.pending_builds {
            if !is_known(&self.tasks, *build) {
                self.tasks.push(BuildTask { table: table.spec.name.clone(), build: *build, after: None });
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Replies when everything of these tables is built, or at once if starting the builds failed.
    pub(crate) fn reply_when_built(&mut self, started: Result<(), Error>, tables: Vec<String>, reply: Reply<()>) {
        match started {
            Ok(()) => {
                self.waiting.push((tables, reply));
                self.reply_finished();
            }
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Replies to the callers whose tables are built.
    fn reply_finished(&mut self) {
        let tasks = &self.tasks;
        let is_built = |(tables, _): &mut (Vec<String>, _)| !tasks.iter().any(|task| tables.contains(&task.table));
        for (_, reply) in self.waiting.extract_if(.., is_built) {
            let _ = reply.send(Ok(()));
        }
    }

    /// Tells all waiting callers about a failure. Building continues once the store has recovered.
    fn reply_failed(&mut self, error: &Error) {
        for (_, reply) in self.waiting.drain(..) {
            let _ = reply.send(Err(Error::unavailable(format!("an index cannot be built yet: {error}"))));
        }
    }
}

impl Committer {
    /// Writes the records of tables, and starts their pending builds.
    pub(crate) fn put_tables(&mut self, tables: Vec<Table>) -> Result<(), Error> {
        let mut ops = Vec::with_capacity(tables.len());
        for table in &tables {
            let encoded = record::encode(table)?;
            ops.push(Op::Put(Keyspace::Meta, record::table_key(&table.spec.name).into(), encoded.into()));
        }
        self.commit(ops, self.sequence)?;
        tables.iter().for_each(|table| self.builds.add(table));
        let mut known = self.shared.tables.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(tables.into_iter().map(|table| (table.spec.name.clone(), Arc::new(table))));
        Ok(())
    }

    /// Starts to rebuild all indexes of a table, or the one with this name.
    pub(crate) fn reindex(&mut self, table: &str, index: Option<&str>) -> Result<(), Error> {
        let mut table = Table::clone(&*self.shared.table(table)?);
        let mut is_found = index.is_none();
        for (at, spec) in table.spec.indexes.iter().enumerate() {
            if index.is_none_or(|name| name == spec.name) {
                is_found = true;
                let index = index_number(at)?;
                table.pending_builds.retain(|build| *build != PendingBuild::Fill { index });
                if table.is_maintained(index) {
                    table.pending_builds.push(PendingBuild::Clear { index });
                }
            }
        }
        if let (false, Some(index)) = (is_found, index) {
            return Err(ErrorKind::NoIndex { table: table.spec.name, index: index.to_owned() }.into());
        }
        // Expiries are derived from the items, too.
        if index.is_none() && table.spec.ttl.is_some() && !table.pending_builds.contains(&PendingBuild::Expiries) {
            table.pending_builds.push(PendingBuild::Expiries);
        }
        self.put_tables(vec![table.clone()])?;
        // Running builds of the table start again from the beginning.
        self.builds.tasks.retain(|task| task.table != table.spec.name);
        self.builds.add(&table);
        Ok(())
    }

    /// Performs one step of a build, if there is one.
    pub(crate) fn build_step(&mut self) {
        let Some(mut task) = self.builds.tasks.pop() else { return };
        let stepped = match task.build {
            PendingBuild::Clear { index } => self.clear_step(&mut task, index),
            PendingBuild::Fill { .. } | PendingBuild::Expiries => self.fill_step(&mut task),
        };
        match stepped {
            Ok(true) => {}
            Ok(false) => self.builds.tasks.push(task),
            Err(error) => {
                tracing::warn!(%error, table = task.table, "an index cannot be built");
                self.builds.reply_failed(&error);
                // From the beginning: it is unknown whether the step was committed.
                self.builds.tasks.push(BuildTask { after: None, ..task });
                if !(error.is_unavailable() || error.is_outcome_unknown()) {
                    // The next attempt will probably fail as well: do not repeat it at once.
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
            }
        }
        self.builds.reply_finished();
    }

    /// Removes some entries of an index; returns whether all are removed.
    fn clear_step(&mut self, task: &mut BuildTask, index: u8) -> Result<bool, Error> {
        let table = self.shared.table(&task.table)?;
        let mut prefix = layout::table_prefix(table.id);
        prefix.push(index);
        let end = layout::prefix_end(&prefix);
        let from = task.after.clone().map_or(Bound::Included(prefix), Bound::Excluded);
        let mut ops = Vec::new();
        self.shared.storage.view()?.range(Keyspace::Index, from, end, false, |key, _| {
            ops.push(Op::Remove(Keyspace::Index, key.into()));
            task.after = Some(key.to_vec());
            break_if(ops.len() >= STEP)
        })?;
        let is_done = ops.len() < STEP;
        self.commit(ops, self.sequence)?;
        if is_done {
            self.finish_build(&table, task.build, Some(PendingBuild::Fill { index }))?;
        }
        Ok(is_done)
    }

    /// Adds the entries of some items; returns whether all are added.
    fn fill_step(&mut self, task: &mut BuildTask) -> Result<bool, Error> {
        let table = self.shared.table(&task.table)?;
        let prefix = layout::table_prefix(table.id);
        let end = layout::prefix_end(&prefix);
        let from = task.after.clone().map_or(Bound::Included(prefix), Bound::Excluded);
        let (mut ops, mut items, mut bytes, build) = (Vec::new(), 0, 0, task.build);
        self.shared.storage.view()?.range(Keyspace::Items, from, end, false, |item_key, value| {
            let item = record::decode_item(value)?;
            if let PendingBuild::Fill { index } = build
                && let Some(spec) = table.spec.indexes.get(usize::from(index))
                && let Some((key, index_key)) = table.spec.key.key_of(&item).zip(spec.key_of(&item))
            {
                let entry = layout::index_entry_key(table.id, index, &index_key, &key);
                ops.push(Op::Put(Keyspace::Index, entry.into(), value.into()));
            }
            if build == PendingBuild::Expiries
                && let Some(second) = table.spec.expiry_of(&item)
            {
                ops.push(Op::Put(Keyspace::Expiry, layout::expiry_key(second, item_key).into(), Slice::empty()));
            }
            task.after = Some(item_key.to_vec());
            items += 1;
            bytes += value.len();
            break_if(items >= STEP || bytes >= STEP_BYTES)
        })?;
        let is_done = items < STEP && bytes < STEP_BYTES;
        self.commit(ops, self.sequence)?;
        if is_done {
            self.finish_build(&table, build, None)?;
        }
        Ok(is_done)
    }

    /// Records that a build is done, and which build follows it.
    fn finish_build(&mut self, table: &Table, build: PendingBuild, next: Option<PendingBuild>) -> Result<(), Error> {
        let mut table = table.clone();
        table.pending_builds.retain(|each| *each != build);
        table.pending_builds.extend(next);
        self.put_tables(vec![table])
    }
}
