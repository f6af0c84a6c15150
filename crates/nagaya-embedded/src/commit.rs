//! The committing thread: it alone writes, one request after another, many to a sync.

use std::{
    collections::HashMap,
    ops::{Bound, ControlFlow},
    sync::{
        Arc, PoisonError,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use fjall::Slice;
use nagaya_store::{
    Action, Cause, Change, Error, ErrorKind, Failed, IndexSpec, Item, Key, TableSpec, Write, WriteSet, Written, limits,
};
use tokio::sync::oneshot;

use crate::{
    backing::Op,
    engine::Shared,
    layout::{self, Space},
    read::{self, index_number},
    record::{self, NewChange, SEQUENCE_KEY, Table, Trimmed},
};

/// What the thread is asked for.
pub(crate) enum Request {
    Write { set: WriteSet, answer: oneshot::Sender<Result<Written, Error>> },
    Ensure { tables: Vec<TableSpec>, answer: oneshot::Sender<Result<(), Error>> },
    Sweep { answer: oneshot::Sender<Result<bool, Error>> },
}

/// Write sets that share one sync.
const GROUP: usize = 512;
/// Bytes of new items after which a group is closed, so that large writes do not pile up in memory.
const GROUP_BYTES: usize = 16 * 1024 * 1024;
/// Expired items and old changes that one sweep takes away.
const SWEEP: usize = 500;
/// Items that one commit puts into a new index.
const BACKFILL: usize = 1_000;

pub(crate) struct Committer {
    shared: Arc<Shared>,
    /// The highest sequence given out.
    sequence: u64,
}

/// An item as it will be after the group that is being put together.
type Pending = HashMap<Vec<u8>, Option<Item>>;

/// What a write set will answer once its group is on disk.
type Outcome = (oneshot::Sender<Result<Written, Error>>, Result<Written, Error>);

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self, Error> {
        let view = shared.backing.view();
        let mut sequence = view.get(Space::Meta, SEQUENCE_KEY, record::decode::<u64>)?.transpose()?.unwrap_or(0);
        for table in read::tables(&view)?.values() {
            let prefix = layout::table(table.id);
            let end = layout::after_prefix(&prefix);
            view.range(Space::Changes, Bound::Included(prefix), end, true, |key, _| {
                sequence = sequence.max(layout::sequence(key).unwrap_or(0));
                Ok(ControlFlow::Break(()))
            })?;
        }
        drop(view);
        Ok(Committer { shared, sequence })
    }

    /// Serves requests until nobody can send any more.
    pub(crate) fn run(mut self, requests: &Receiver<Request>) {
        let mut swept = Instant::now();
        loop {
            let every = self.shared.options.sweep_every;
            let first = match every {
                Some(every) => requests.recv_timeout(every),
                None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let mut next = match first {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // Whatever has come meanwhile goes into the same group; nobody waits for more to come.
            let mut writes = Vec::new();
            let mut bytes = 0;
            while let Some(request) = next.take() {
                match request {
                    Request::Write { set, answer } => {
                        bytes += set.put_bytes();
                        writes.push((set, answer));
                    }
                    other => {
                        bytes = 0;
                        self.group(std::mem::take(&mut writes));
                        self.serve(other);
                    }
                }
                if writes.len() < GROUP && bytes < GROUP_BYTES {
                    next = requests.try_recv().ok();
                }
            }
            self.group(writes);
            if every.is_some_and(|every| swept.elapsed() >= every.max(Duration::from_millis(1))) {
                // A sweep that fails is tried again; what it should have removed is not returned meanwhile.
                let _ = self.sweep();
                swept = Instant::now();
            }
        }
    }

    fn serve(&mut self, request: Request) {
        // Whoever has stopped waiting for an answer does not get one.
        match request {
            Request::Ensure { tables, answer } => drop(answer.send(self.ensure(&tables))),
            Request::Sweep { answer } => drop(answer.send(self.sweep())),
            Request::Write { set, answer } => self.group(vec![(set, answer)]),
        }
    }

    /// Commits write sets with one sync, then answers each.
    fn group(&mut self, writes: Vec<(WriteSet, oneshot::Sender<Result<Written, Error>>)>) {
        if writes.is_empty() {
            return;
        }
        let mut pending = Pending::new();
        let mut ops = Vec::new();
        let mut outcomes: Vec<Outcome> = Vec::new();
        for (set, answer) in writes {
            let outcome = self.write_set(set, &mut pending, &mut ops);
            outcomes.push((answer, outcome));
        }
        let committed = if ops.is_empty() { Ok(()) } else { self.shared.backing.commit(ops) };
        // Even a failed condition is only told once the writes that it failed against are on disk.
        let failure = committed.err().map(|error| error.to_string());
        for (answer, outcome) in outcomes {
            let outcome = match &failure {
                Some(failure) => Err(Error::engine(failure.clone())),
                None => outcome,
            };
            let _ = answer.send(outcome);
        }
    }

    /// Adds a write set to the group, if all of its conditions hold.
    fn write_set(&mut self, set: WriteSet, pending: &mut Pending, ops: &mut Vec<Op>) -> Result<Written, Error> {
        let now = self.shared.options.clock.seconds();
        let mut planned: Vec<Planned> = Vec::new();
        let mut failed = Vec::new();
        for (at, write) in set.into_actions().into_iter().enumerate() {
            let table = self.shared.table(&write.table)?;
            let key = key_of(&table, &write)?;
            let bytes = layout::item(table.id, &key);
            if planned.iter().any(|other| other.bytes == bytes) {
                return Err(Error::invalid(format!("the write set has two actions for `{key}` of `{}`", write.table)));
            }
            let stored = match pending.get(&bytes) {
                Some(item) => item.clone(),
                None => self.shared.backing.get(Space::Items, &bytes, record::decode::<Item>)?.transpose()?,
            };
            let found = stored.as_ref().filter(|item| !table.spec.is_expired(item, now));
            let holds = match (&write.condition, found) {
                (None, _) => true,
                (Some(condition), Some(item)) => condition.holds(item),
                (Some(condition), None) => condition.holds(&Item::new()),
            };
            if !holds {
                failed.push(Failed { action: at, found: found.cloned() });
            }
            let writes = !matches!(write.action, Action::Check { .. });
            let new = if holds { after(&table, write.action, &key, found)? } else { None };
            planned.push(Planned { table, key, bytes, stored, new, writes });
        }
        if !failed.is_empty() {
            return Err(ErrorKind::ConditionFailed(failed).into());
        }
        let written: usize = planned.iter().filter_map(|plan| plan.new.as_ref().map(Item::size)).sum();
        if written > limits::MAX_WRITE_SET_BYTES {
            return Err(Error::limit(format!(
                "the write set writes {written} bytes, {} are possible",
                limits::MAX_WRITE_SET_BYTES
            )));
        }
        let single = planned.len() == 1;
        let mut item = None;
        for plan in planned.into_iter().filter(|plan| plan.writes) {
            if single {
                item.clone_from(&plan.new);
            }
            self.record(&plan, Cause::Write, ops)?;
            pending.insert(plan.bytes, plan.new);
        }
        Ok(Written { item })
    }

    /// The changes of one item: the item itself, its index entries, its expiry, and the record of it all.
    fn record(&mut self, plan: &Planned, cause: Cause, ops: &mut Vec<Op>) -> Result<(), Error> {
        let Planned { table, key, bytes, stored, new, .. } = plan;
        if stored.is_none() && new.is_none() {
            return Ok(());
        }
        let encoded = new.as_ref().map(record::encode).transpose()?.map(Slice::from);
        match &encoded {
            Some(encoded) => ops.push(Op::Put(Space::Items, bytes.clone(), encoded.clone())),
            None => ops.push(Op::Remove(Space::Items, bytes.clone())),
        }
        for (at, index) in table.spec.indexes.iter().enumerate() {
            let number = index_number(at)?;
            let entry = |item: &Option<Item>| {
                let index_key = item.as_ref().and_then(|item| index.key_of(item))?;
                Some(layout::index_entry(table.id, number, &index_key, key))
            };
            let (before, after) = (entry(stored), entry(new));
            if let Some(before) = before.filter(|before| after.as_ref() != Some(before)) {
                ops.push(Op::Remove(Space::Index, before));
            }
            if let (Some(after), Some(encoded)) = (after, &encoded) {
                ops.push(Op::Put(Space::Index, after, encoded.clone()));
            }
        }
        let expiry = |item: &Option<Item>| item.as_ref().and_then(|item| table.spec.expiry_of(item));
        let (before, after) = (expiry(stored), expiry(new));
        if before != after {
            ops.extend(before.map(|second| Op::Remove(Space::Expiry, layout::expiry(second, bytes))));
            ops.extend(after.map(|second| Op::Put(Space::Expiry, layout::expiry(second, bytes), Slice::empty())));
        }
        self.sequence += 1;
        let at = self.shared.options.clock.millis();
        let change = NewChange { key, old: stored.as_ref(), new: new.as_ref(), cause, at };
        ops.push(Op::Put(Space::Changes, layout::change(table.id, self.sequence), record::encode(&change)?.into()));
        Ok(())
    }

    /// Creates tables and indexes that are missing, if none of them contradicts what is there.
    fn ensure(&mut self, specs: &[TableSpec]) -> Result<(), Error> {
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
        for spec in specs {
            let table = match self.shared.table(&spec.name) {
                Err(_) => {
                    let tables = self.shared.tables.read().unwrap_or_else(PoisonError::into_inner);
                    let id = tables.values().map(|table| table.id).max().map_or(Some(0), |id| id.checked_add(1));
                    let id = id.ok_or_else(|| Error::limit("a directory has at most 65536 tables"))?;
                    Table { id, spec: spec.clone() }
                }
                Ok(known) => self.grown(&known, spec)?,
            };
            let described = record::encode(&table)?;
            self.shared.backing.commit(vec![Op::Put(Space::Meta, record::table_key(&spec.name), described.into())])?;
            let mut tables = self.shared.tables.write().unwrap_or_else(PoisonError::into_inner);
            tables.insert(spec.name.clone(), Arc::new(table));
        }
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
            let item: Item = record::decode(value)?;
            let Some(key) = table.spec.key.key_of(&item) else { return Ok(ControlFlow::Continue(())) };
            for (at, index) in table.spec.indexes.iter().enumerate().skip(first) {
                if let Some(index_key) = index.key_of(&item) {
                    let entry = layout::index_entry(table.id, index_number(at)?, &index_key, &key);
                    ops.push(Op::Put(Space::Index, entry, value.into()));
                }
            }
            if let Some(second) = table.spec.expiry_of(&item).filter(|_| expires) {
                ops.push(Op::Put(Space::Expiry, layout::expiry(second, bytes), Slice::empty()));
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

    /// Takes expired items and old changes away; whether more are left.
    fn sweep(&mut self) -> Result<bool, Error> {
        let expired = self.sweep_expired()?;
        let old = self.sweep_changes()?;
        Ok(expired || old)
    }

    fn sweep_expired(&mut self) -> Result<bool, Error> {
        let now = self.shared.options.clock.seconds();
        let mut due = Vec::new();
        let end = Some(layout::expired_before(now.saturating_add(1)));
        self.shared.backing.view().range(Space::Expiry, Bound::Unbounded, end, false, |key, _| {
            due.push(key.to_vec());
            Ok(if due.len() >= SWEEP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let tables = self.shared.tables.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut ops = Vec::new();
        for expiry in &due {
            let bytes = expiry.get(8..).unwrap_or_default();
            let table = tables.values().find(|table| bytes.starts_with(&layout::table(table.id)));
            let stored = self.shared.backing.get(Space::Items, bytes, record::decode::<Item>)?.transpose()?;
            let found = table.zip(stored).and_then(|(table, item)| Some((table, table.spec.key.key_of(&item)?, item)));
            match found {
                Some((table, key, item)) if table.spec.is_expired(&item, now) => {
                    let (table, bytes) = (Arc::clone(table), bytes.to_vec());
                    let plan = Planned { table, key, bytes, stored: Some(item), new: None, writes: true };
                    self.record(&plan, Cause::Expiry, &mut ops)?;
                }
                _ => ops.push(Op::Remove(Space::Expiry, expiry.clone())),
            }
        }
        if !ops.is_empty() {
            self.shared.backing.commit(ops)?;
        }
        Ok(due.len() >= SWEEP)
    }

    fn sweep_changes(&mut self) -> Result<bool, Error> {
        let retention = i64::try_from(self.shared.options.retention.as_millis()).unwrap_or(i64::MAX);
        let oldest = self.shared.options.clock.millis().saturating_sub(retention);
        let tables = self.shared.tables.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut more = false;
        let mut ops = Vec::new();
        for table in tables.values() {
            let mut trimmed = None;
            let prefix = layout::table(table.id);
            let end = layout::after_prefix(&prefix);
            let mut count = 0;
            self.shared.backing.view().range(Space::Changes, Bound::Included(prefix), end, false, |key, value| {
                let change: record::Change = record::decode(value)?;
                if change.at >= oldest || count >= SWEEP {
                    more |= change.at < oldest;
                    return Ok(ControlFlow::Break(()));
                }
                count += 1;
                trimmed = layout::sequence(key).map(|sequence| Trimmed { sequence, at: change.at });
                ops.push(Op::Remove(Space::Changes, key.to_vec()));
                Ok(ControlFlow::Continue(()))
            })?;
            if let Some(trimmed) = trimmed {
                ops.push(Op::Put(Space::Meta, record::trimmed_key(table.id), record::encode(&trimmed)?.into()));
            }
        }
        if !ops.is_empty() {
            // Sequences go on from here even when no change is left to tell how far they were.
            ops.push(Op::Put(Space::Meta, SEQUENCE_KEY.to_vec(), record::encode(&self.sequence)?.into()));
            self.shared.backing.commit(ops)?;
        }
        Ok(more)
    }
}

/// An action whose condition holds.
struct Planned {
    table: Arc<Table>,
    key: Key,
    bytes: Vec<u8>,
    /// What is stored, expired or not: its index entries have to go.
    stored: Option<Item>,
    new: Option<Item>,
    writes: bool,
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

fn key_of(table: &Table, write: &Write) -> Result<Key, Error> {
    match &write.action {
        Action::Put { item } => limits::check_item(&table.spec, item),
        Action::Update { key, update } => {
            limits::check_key(&table.spec.key, key)?;
            let changed = update.changes().iter().map(Change::path).find(|path| table.spec.key.has(path.root()));
            match changed {
                Some(path) => {
                    Err(Error::invalid(format!("`{path}` is part of the key, which an update cannot change")))
                }
                None => Ok(key.clone()),
            }
        }
        Action::Delete { key } | Action::Check { key } => {
            limits::check_key(&table.spec.key, key)?;
            Ok(key.clone())
        }
    }
}

/// The item after an action.
fn after(table: &Table, action: Action, key: &Key, found: Option<&Item>) -> Result<Option<Item>, Error> {
    match action {
        Action::Put { item } => Ok(Some(item)),
        Action::Delete { .. } | Action::Check { .. } => Ok(None),
        Action::Update { update, .. } => {
            let schema = &table.spec.key;
            let item = match found {
                Some(item) => update.apply(item)?,
                None => {
                    let made = Item::new().with(&schema.partition.0, key.partition.clone());
                    update.apply(&made.with(&schema.sort.0, key.sort.clone()))?
                }
            };
            limits::check_item(&table.spec, &item)?;
            Ok(Some(item))
        }
    }
}
