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
    build::Builds,
    engine::Shared,
    layout::{self, Space},
    plan::{self, Deed, Image, Prepared},
    read,
    record::{self, SEQUENCE_KEY, Table},
    sweep::Trim,
};

/// What the thread is asked for.
pub(crate) enum Request {
    Write(Vec<Prepared>, Reply<Written>),
    Ensure(Vec<TableSpec>, Reply<()>),
    /// Builds indexes of a table anew: all, or the one with this name.
    Reindex(String, Option<String>, Reply<()>),
    /// Removes items that have expired, by the keys of their expiries.
    Expire(Vec<Vec<u8>>, Reply<()>),
    /// Removes changes.
    Trim(Trim, Reply<()>),
}

/// Where an answer goes; whoever has stopped waiting for it does not get one.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// Write sets that share one sync.
const GROUP: usize = 512;
/// Bytes after which a group is closed, so that large writes do not pile up in memory.
const GROUP_BYTES: usize = 16 * 1024 * 1024;
/// How long a failed store waits before it tries to open its directory again: at first, and at most.
const REOPEN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A stamp of the last change that lies further ahead than this is taken for a mistake of the clock.
const MAX_AHEAD: i64 = 24 * 3600 * 1000;

pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    /// The highest sequence given out.
    pub(crate) sequence: u64,
    /// The stamp of the last change: stamps never go back, whatever the clock does.
    stamp: i64,
    pub(crate) builds: Builds,
    /// When to try to open the directory again, and how long to wait the next time.
    reopen: Option<(Instant, Duration)>,
}

/// Items as they will be after the group that is being put together.
type Pending = HashMap<Slice, Option<Slice>>;

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self, Error> {
        let view = shared.backing.view()?;
        let mut sequence =
            view.get(Space::Meta, SEQUENCE_KEY)?.map(|value| record::decode(&value)).transpose()?.unwrap_or(0);
        let mut stamp = i64::MIN;
        let tables = read::tables(&view)?;
        for table in tables.values() {
            let prefix = layout::table(table.id);
            let end = layout::after_prefix(&prefix);
            view.range(Space::Changes, Bound::Included(prefix), end, true, |key, value| {
                sequence = sequence.max(layout::sequence(key).unwrap_or(0));
                stamp = stamp.max(record::decode_change(value)?.at);
                Ok(ControlFlow::Break(()))
            })?;
        }
        drop(view);
        let now = shared.options.clock.millis();
        if stamp > now.saturating_add(MAX_AHEAD) {
            tracing::warn!(stamp, now, "the last change is stamped ahead of the clock; was the clock wrong?");
            stamp = now;
        }
        let builds = Builds::of(tables.values());
        Ok(Committer { shared, sequence, stamp, builds, reopen: None })
    }

    /// Serves requests until nobody can send any more.
    pub(crate) fn run(mut self, requests: &Receiver<Request>) {
        let mut looked = Instant::now();
        loop {
            let first = match self.wait() {
                Some(Duration::ZERO) => requests.try_recv().map_err(|error| match error {
                    std::sync::mpsc::TryRecvError::Empty => RecvTimeoutError::Timeout,
                    std::sync::mpsc::TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
                Some(time) => requests.recv_timeout(time),
                None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match first {
                Ok(request) => self.serve(request, requests),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.build();
            let every = self.shared.options.sweep_every;
            if every.is_some_and(|every| looked.elapsed() >= every) || self.has_failed() {
                self.look_after();
                looked = Instant::now();
            }
        }
    }

    /// How long to wait for a request: not at all while there is something to build.
    fn wait(&self) -> Option<Duration> {
        if self.has_failed() {
            return Some(self.reopen.map_or(REOPEN.0, |(at, _)| at.saturating_duration_since(Instant::now())));
        }
        if self.builds.is_empty() { self.shared.options.sweep_every } else { Some(Duration::ZERO) }
    }

    fn has_failed(&self) -> bool {
        self.shared.backing.disk().is_some_and(|disk| disk.failure().is_some())
    }

    /// Notices faults, and opens the directory again after one.
    fn look_after(&mut self) {
        let Some(disk) = self.shared.backing.disk() else { return };
        disk.check();
        if disk.failure().is_none() {
            disk.republish();
            return;
        }
        let now = Instant::now();
        let (at, pause) = *self.reopen.get_or_insert((now + REOPEN.0, REOPEN.0));
        if now < at {
            return;
        }
        match disk.reopen() {
            Ok(()) => self.reopen = None,
            Err(error) => {
                tracing::warn!(%error, "the store cannot be opened again yet");
                let pause = (pause * 2).min(REOPEN.1);
                self.reopen = Some((Instant::now() + pause, pause));
            }
        }
    }

    /// Serves a request, together with the writes that have come meanwhile: nobody waits for more to come.
    fn serve(&mut self, first: Request, requests: &Receiver<Request>) {
        let mut next = Some(first);
        let mut writes = Vec::new();
        let mut bytes = 0;
        while let Some(request) = next.take() {
            match request {
                Request::Write(actions, reply) => {
                    bytes += actions.iter().map(Prepared::bytes).sum::<usize>();
                    writes.push((actions, reply));
                }
                other => {
                    self.group(std::mem::take(&mut writes));
                    bytes = 0;
                    self.serve_other(other);
                }
            }
            if writes.len() < GROUP && bytes < GROUP_BYTES {
                next = requests.try_recv().ok();
            }
        }
        self.group(writes);
    }

    fn serve_other(&mut self, request: Request) {
        match request {
            Request::Write(actions, reply) => self.group(vec![(actions, reply)]),
            Request::Ensure(tables, reply) => match self.ensure(&tables) {
                Ok(()) => self.builds.await_built(tables.into_iter().map(|table| table.name).collect(), reply),
                Err(error) => drop(reply.send(Err(error))),
            },
            Request::Reindex(table, index, reply) => match self.reindex(&table, index.as_deref()) {
                Ok(()) => self.builds.await_built(vec![table], reply),
                Err(error) => drop(reply.send(Err(error))),
            },
            Request::Expire(due, reply) => drop(reply.send(self.expire(&due))),
            Request::Trim(trim, reply) => drop(reply.send(self.trim(trim))),
        }
    }

    /// Commits changes, and takes back what was counted for them if that fails.
    pub(crate) fn commit(&mut self, ops: Vec<Op>, sequence_before: u64) -> Result<(), Error> {
        if ops.is_empty() {
            return Ok(());
        }
        self.shared.backing.commit(ops).inspect_err(|_| self.sequence = sequence_before)
    }

    /// Commits write sets, with one sync if they are not too large together.
    fn group(&mut self, writes: Vec<(Vec<Prepared>, Reply<Written>)>) {
        let mut writes = writes.into_iter();
        while writes.len() > 0 {
            self.commit_next(&mut writes);
        }
    }

    /// Commits the next write sets with one sync, then answers each.
    fn commit_next(&mut self, writes: &mut impl ExactSizeIterator<Item = (Vec<Prepared>, Reply<Written>)>) {
        let before = self.sequence;
        let mut pending = Pending::with_capacity(writes.len());
        let mut ops = Vec::with_capacity(writes.len() * 4);
        let mut outcomes = Vec::with_capacity(writes.len());
        let mut bytes = 0;
        // Deletes and updates bring what was there before, which only shows now.
        while bytes < GROUP_BYTES
            && let Some((actions, reply)) = writes.next()
        {
            let counted = ops.len();
            outcomes.push((reply, self.write_set(actions, &mut pending, &mut ops)));
            bytes += ops[counted..].iter().map(Op::bytes).sum::<usize>();
        }
        let committed = self.commit(ops, before);
        // Even a failed condition is only told once the writes that it failed against are on disk.
        for (reply, outcome) in outcomes {
            let _ = reply.send(match &committed {
                Err(error) => Err(again(error)),
                Ok(()) => outcome,
            });
        }
    }

    /// The stamp of a change that happens now.
    pub(crate) fn stamp(&mut self) -> i64 {
        self.stamp = self.stamp.max(self.shared.options.clock.millis());
        self.stamp
    }

    /// Adds a write set to the group, if all of its conditions hold.
    fn write_set(
        &mut self,
        actions: Vec<Prepared>,
        pending: &mut Pending,
        ops: &mut Vec<Op>,
    ) -> Result<Written, Error> {
        let seconds = self.shared.options.clock.seconds();
        let mut planned = Vec::with_capacity(actions.len());
        let mut failed = Vec::new();
        let mut written = 0;
        for (at, action) in actions.into_iter().enumerate() {
            let mut action = action.renewed(&self.shared)?;
            let Prepared { table, key, place, condition, deed } = &action;
            let stored = match pending.get(place) {
                Some(bytes) => bytes.clone(),
                None => self.shared.backing.latest(Space::Items, place)?,
            };
            let stored = stored.map(|bytes| Image::stored(table, key, place, bytes)).transpose()?;
            let alive = |image: &&Image| !table.spec.is_expired(&image.item, seconds);
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
            self.record(item_at, [stored.as_ref(), new.as_ref()], Cause::Write, ops)?;
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
        cause: Cause,
        ops: &mut Vec<Op>,
    ) -> Result<(), Error> {
        // What changes nothing is no change, as in DynamoDB.
        if old.map(|image| &image.bytes) == new.map(|image| &image.bytes) {
            return Ok(());
        }
        plan::replace(place, old, new, ops);
        self.sequence += 1;
        let bytes = |image: Option<&'_ Image>| image.map(|image| image.bytes.clone());
        let change = record::change(key, [bytes(old), bytes(new)], cause, self.stamp())?;
        ops.push(Op::Put(Space::Changes, layout::change(table.id, self.sequence).into(), change.into()));
        Ok(())
    }
}

/// The same failure for each write of a group.
fn again(error: &Error) -> Error {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Unavailable(cause) => Error::unavailable(cause.to_string()),
        ErrorKind::Unanswered(cause) => Error::unanswered(cause.to_string()),
        _ => Error::engine(text),
    }
}
