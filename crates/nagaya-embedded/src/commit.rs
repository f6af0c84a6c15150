//! The committing thread: it alone writes, one request after another, many to a sync.

use std::{
    collections::HashMap,
    ops::{Bound, ControlFlow},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use fjall::Slice;
use nagaya_store::{Cause, Error, ErrorKind, Failed, Item, Key, TableSpec, Written, limits};
use tokio::sync::oneshot;

use crate::{
    backing::Op,
    engine::Shared,
    layout::{self, Space},
    plan::{self, Deed, Image, Prepared},
    read,
    record::{self, SEQUENCE_KEY, Table},
};

/// What the thread is asked for.
pub(crate) enum Request {
    Write(Vec<Prepared>, Answer<Written>),
    Ensure(Vec<TableSpec>, Answer<()>),
    Sweep(Answer<bool>),
}

/// Where an answer goes; whoever has stopped waiting for it does not get one.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Error>>;

/// Write sets that share one sync.
const GROUP: usize = 512;
/// Bytes of new items after which a group is closed, so that large writes do not pile up in memory.
const GROUP_BYTES: usize = 16 * 1024 * 1024;

pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    /// The highest sequence given out.
    pub(crate) sequence: u64,
}

/// Items as they will be after the group that is being put together.
type Pending = HashMap<Slice, Option<Slice>>;

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self, Error> {
        let view = shared.backing.view();
        let mut sequence =
            view.get(Space::Meta, SEQUENCE_KEY)?.map(|value| record::decode(&value)).transpose()?.unwrap_or(0);
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
                    Request::Write(actions, answer) => {
                        bytes += actions.iter().map(Prepared::bytes).sum::<usize>();
                        writes.push((actions, answer));
                    }
                    Request::Ensure(tables, answer) => {
                        self.group(std::mem::take(&mut writes));
                        let _ = answer.send(self.ensure(&tables));
                    }
                    Request::Sweep(answer) => {
                        self.group(std::mem::take(&mut writes));
                        let _ = answer.send(self.sweep());
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

    /// Commits write sets with one sync, then answers each.
    fn group(&mut self, writes: Vec<(Vec<Prepared>, Answer<Written>)>) {
        if writes.is_empty() {
            return;
        }
        let mut pending = Pending::with_capacity(writes.len());
        let mut ops = Vec::with_capacity(writes.len() * 4);
        let mut outcomes = Vec::with_capacity(writes.len());
        for (actions, answer) in writes {
            outcomes.push((answer, self.write_set(actions, &mut pending, &mut ops)));
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
    fn write_set(
        &mut self,
        actions: Vec<Prepared>,
        pending: &mut Pending,
        ops: &mut Vec<Op>,
    ) -> Result<Written, Error> {
        let millis = self.shared.options.clock.millis();
        let mut planned = Vec::with_capacity(actions.len());
        let mut failed = Vec::new();
        let mut written = 0;
        for (at, action) in actions.into_iter().enumerate() {
            let mut action = action.renewed(&self.shared)?;
            let Prepared { table, key, place, condition, deed } = &action;
            let stored = match pending.get(place) {
                Some(bytes) => bytes.clone(),
                None => self.shared.backing.get(Space::Items, place)?,
            };
            let stored = stored.map(|bytes| Image::stored(table, key, place, bytes)).transpose()?;
            let alive = |image: &&Image| !table.spec.is_expired(&image.item, millis.div_euclid(1000));
            let found = stored.as_ref().filter(alive).map(|image| &image.item);
            let holds = condition.as_ref().is_none_or(|condition| match found {
                Some(item) => condition.holds(item),
                None => condition.holds(&Item::new()),
            });
            if !holds {
                failed.push(Failed { action: at, found: found.cloned() });
            } else if !matches!(deed, Deed::Check) {
                let new = action.after(found)?;
                written += new.as_ref().map_or(0, |image| image.item.size());
                planned.push((action, stored, new));
            }
        }
        if !failed.is_empty() {
            return Err(ErrorKind::ConditionFailed(failed).into());
        }
        if written > limits::MAX_WRITE_SET_BYTES {
            return Err(Error::limit(format!(
                "the write set writes {written} bytes, {} are possible",
                limits::MAX_WRITE_SET_BYTES
            )));
        }
        let single = planned.len() == 1;
        let mut item = None;
        for (action, stored, new) in planned {
            let item_at = (&*action.table, &action.key, &action.place);
            self.record(item_at, [stored.as_ref(), new.as_ref()], (Cause::Write, millis), ops)?;
            pending.insert(action.place, new.as_ref().map(|image| image.bytes.clone()));
            item = new.map(|image| image.item).filter(|_| single);
        }
        Ok(Written { item })
    }

    /// The change of one item from one image to another, and the record of it.
    pub(crate) fn record(
        &mut self,
        (table, key, place): (&Table, &Key, &Slice),
        [old, new]: [Option<&Image>; 2],
        (cause, millis): (Cause, i64),
        ops: &mut Vec<Op>,
    ) -> Result<(), Error> {
        // What changes nothing is no change, as in DynamoDB.
        if old.map(|image| &image.bytes) == new.map(|image| &image.bytes) {
            return Ok(());
        }
        plan::replace(place, old, new, ops);
        self.sequence += 1;
        let bytes = |image: Option<&'_ Image>| image.map(|image| image.bytes.clone());
        let change = record::change(key, [bytes(old), bytes(new)], cause, millis)?;
        ops.push(Op::Put(Space::Changes, layout::change(table.id, self.sequence).into(), change.into()));
        Ok(())
    }
}
