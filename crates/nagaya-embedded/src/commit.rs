//! The committing thread: the only one that writes. It commits many write sets with one sync.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::{Duration, Instant},
};

use fjall::Slice;
use nagaya_store::{ChangeCause, Error, ErrorKind, FailedCondition, Item, Key, TableSpec, WriteOutcome, limits};
use tokio::sync::oneshot;

use crate::{
    encryption::{EncryptionKey, Reencryption},
    engine::Shared,
    index_build::IndexBuilds,
    layout::{self, Keyspace},
    prepare::{Image, PreparedAction, PreparedWrite},
    read,
    record::{self, SEQUENCE_KEY, Table},
    storage::Op,
    sweep::Trim,
};

/// A request to the committing thread.
pub(crate) enum Request {
    Write(WriteRequest),
    Maintenance(MaintenanceRequest),
}

/// A write set. Several of them share one sync.
pub(crate) struct WriteRequest {
    pub(crate) actions: Vec<PreparedWrite>,
    pub(crate) reply: Reply<WriteOutcome>,
}

/// A request that is served alone.
pub(crate) enum MaintenanceRequest {
    /// Creates missing tables and indexes.
    Ensure(Vec<TableSpec>, Reply<()>),
    /// Rebuilds all indexes of a table, or the one with this name.
    Reindex(String, Option<String>, Reply<()>),
    /// Removes expired items, by the keys of their expiries.
    Expire(Vec<Vec<u8>>, Reply<()>),
    /// Removes old changes.
    Trim(Trim, Reply<()>),
    /// Encrypts with this key from now on.
    ChangeKey(EncryptionKey, Reply<()>),
    /// Records that a file exists beside the store.
    RememberFile(String, Reply<()>),
}

/// Where the result of a request goes. Sending fails if the caller has stopped waiting, which is not an error.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// The maximum number of write sets that share one sync.
const MAX_GROUP_WRITES: usize = 512;
/// The size at which a group is closed, so that large writes do not fill the memory.
const MAX_GROUP_BYTES: usize = 16 * 1024 * 1024;
/// How long a failed store waits before it reopens its directory: at first, and at most.
const REOPEN_DELAY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// If the timestamp of the last change is further in the future than this, the clock was wrong.
const MAX_CLOCK_ERROR: i64 = 24 * 3600 * 1000;

pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    /// The highest sequence number used so far.
    pub(crate) sequence: u64,
    /// The timestamp of the last change. Timestamps never go back, whatever the clock does.
    last_timestamp: i64,
    pub(crate) builds: IndexBuilds,
    pub(crate) reencryption: Reencryption,
    /// When to reopen the directory, and the delay before the attempt after that.
    reopen: Option<(Instant, Duration)>,
}

/// Items as they will be after the current group.
type PendingItems = HashMap<Slice, Option<Slice>>;

impl Committer {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Self, Error> {
        let view = shared.storage.view()?;
        let mut sequence = view.get_decoded(Keyspace::Meta, SEQUENCE_KEY)?.unwrap_or(0);
        let mut last_timestamp = i64::MIN;
        let tables = read::tables(&view)?;
        for table in tables.values() {
            if let Some((key, value)) = view.last_with_prefix(Keyspace::Changes, layout::table_prefix(table.id))? {
                sequence = sequence.max(layout::change_sequence(&key).unwrap_or(0));
                last_timestamp = last_timestamp.max(record::decode_change(&value)?.at);
            }
        }
        drop(view);
        let now = shared.options.clock.millis();
        if last_timestamp > now.saturating_add(MAX_CLOCK_ERROR) {
            tracing::warn!(last_timestamp, now, "the last change has a timestamp in the future; was the clock wrong?");
            last_timestamp = now;
        }
        let builds = IndexBuilds::from_tables(tables.values());
        let reencryption = Reencryption::interrupted(&shared.storage)?;
        Ok(Committer { shared, sequence, last_timestamp, builds, reencryption, reopen: None })
    }

    /// Serves requests until all senders are dropped.
    pub(crate) fn run(mut self, requests: &Receiver<Request>) {
        let mut last_check = Instant::now();
        loop {
            let first = match self.wait_time() {
                Some(Duration::ZERO) => requests.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
                Some(time) => requests.recv_timeout(time),
                None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match first {
                Ok(request) => self.serve(request, requests),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.build_step();
            if !self.has_failed() {
                self.reencrypt_step();
            }
            let interval = self.shared.options.sweep_interval;
            if interval.is_some_and(|interval| last_check.elapsed() >= interval) || self.has_failed() {
                self.check_disk();
                last_check = Instant::now();
            }
        }
    }

    /// How long to wait for a request: not at all while an index is being built or values are encrypted again, without limit if nothing is due.
    fn wait_time(&self) -> Option<Duration> {
        if self.has_failed() {
            return Some(self.reopen.map_or(REOPEN_DELAY.0, |(at, _)| at.saturating_duration_since(Instant::now())));
        }
        let is_idle = self.builds.is_empty() && !self.reencryption.is_running();
        if is_idle { self.shared.options.sweep_interval } else { Some(Duration::ZERO) }
    }

    fn has_failed(&self) -> bool {
        self.shared.storage.disk().is_some_and(|disk| disk.failure().is_some())
    }

    /// Detects faults, and reopens the directory after one.
    fn check_disk(&mut self) {
        let Some(disk) = self.shared.storage.disk() else { return };
        disk.check_background();
        if disk.failure().is_none() {
            disk.republish();
            return;
        }
        let now = Instant::now();
        let (at, delay) = *self.reopen.get_or_insert((now + REOPEN_DELAY.0, REOPEN_DELAY.0));
        if now < at {
            return;
        }
        match disk.reopen() {
            Ok(()) => self.reopen = None,
            Err(error) => {
                tracing::warn!(%error, "the store cannot be reopened yet");
                let delay = (delay * 2).min(REOPEN_DELAY.1);
                self.reopen = Some((Instant::now() + delay, delay));
            }
        }
    }

    /// Serves a request together with the writes that have arrived meanwhile. It does not wait for more of them.
    fn serve(&mut self, first: Request, requests: &Receiver<Request>) {
        let mut next = Some(first);
        let mut writes = Vec::new();
        let mut bytes = 0;
        while let Some(request) = next.take() {
            match request {
                Request::Write(write) => {
                    bytes += write.actions.iter().map(PreparedWrite::bytes).sum::<usize>();
                    writes.push(write);
                }
                Request::Maintenance(request) => {
                    self.commit_writes(std::mem::take(&mut writes));
                    bytes = 0;
                    self.serve_maintenance(request);
                }
            }
            if writes.len() < MAX_GROUP_WRITES && bytes < MAX_GROUP_BYTES {
                next = requests.try_recv().ok();
            }
        }
        self.commit_writes(writes);
    }

    fn serve_maintenance(&mut self, request: MaintenanceRequest) {
        match request {
            MaintenanceRequest::Ensure(tables, reply) => {
                let ensured = self.ensure(&tables);
                let names = tables.into_iter().map(|table| table.name).collect();
                self.builds.reply_when_built(ensured, names, reply);
            }
            MaintenanceRequest::Reindex(table, index, reply) => {
                let started = self.reindex(&table, index.as_deref());
                self.builds.reply_when_built(started, vec![table], reply);
            }
            MaintenanceRequest::Expire(due, reply) => drop(reply.send(self.expire(&due))),
            MaintenanceRequest::Trim(trim, reply) => drop(reply.send(self.trim(trim))),
            MaintenanceRequest::RememberFile(name, reply) => {
                let op = Op::Put(Keyspace::Meta, record::file_key(&name).into(), Slice::empty());
                let _ = reply.send(self.commit(vec![op], self.sequence));
            }
            MaintenanceRequest::ChangeKey(key, reply) => drop(reply.send(self.change_key(&key))),
        }
    }

    /// Commits operations. If that fails, resets the sequence number to the one before them.
    pub(crate) fn commit(&mut self, ops: Vec<Op>, sequence_before: u64) -> Result<(), Error> {
        if ops.is_empty() {
            return Ok(());
        }
        self.shared.storage.commit(ops).inspect_err(|_| self.sequence = sequence_before)
    }

    /// Commits write sets, in as few groups as the size limit allows.
    fn commit_writes(&mut self, writes: Vec<WriteRequest>) {
        let mut writes = writes.into_iter();
        while writes.len() > 0 {
            self.commit_group(&mut writes);
        }
    }

    /// Commits the next write sets with one sync, then replies to each.
    fn commit_group(&mut self, writes: &mut impl ExactSizeIterator<Item = WriteRequest>) {
        let before = self.sequence;
        let mut pending = PendingItems::with_capacity(writes.len());
        let mut ops = Vec::with_capacity(writes.len() * 4);
        let mut outcomes = Vec::with_capacity(writes.len());
        let mut bytes = 0;
        // Changes contain the former items too, whose size is known only now.
        while bytes < MAX_GROUP_BYTES
            && let Some(WriteRequest { actions, reply }) = writes.next()
        {
            let counted = ops.len();
            outcomes.push((reply, self.apply_write_set(actions, &mut pending, &mut ops)));
            bytes += ops[counted..].iter().map(Op::bytes).sum::<usize>();
        }
        let committed = self.commit(ops, before);
        // A failed condition, too, is reported only after the writes that it failed against are durable.
        for (reply, outcome) in outcomes {
            let _ = reply.send(match &committed {
                Err(error) => Err(duplicate_error(error)),
                Ok(()) => outcome,
            });
        }
    }

    /// The timestamp of a change that happens now.
    fn next_timestamp(&mut self) -> i64 {
        self.last_timestamp = self.last_timestamp.max(self.shared.options.clock.millis());
        self.last_timestamp
    }

    /// Adds a write set to the group, if all of its conditions hold.
    fn apply_write_set(
        &mut self,
        writes: Vec<PreparedWrite>,
        pending: &mut PendingItems,
        ops: &mut Vec<Op>,
    ) -> Result<WriteOutcome, Error> {
        let seconds = self.shared.options.clock.seconds();
        let mut planned = Vec::with_capacity(writes.len());
        let mut failed = Vec::new();
        let mut written_bytes = 0;
        for (at, write) in writes.into_iter().enumerate() {
            let mut write = write.with_current_table(&self.shared)?;
            let PreparedWrite { table, key, item_key, condition, action } = &write;
            let stored = match pending.get(item_key) {
                Some(bytes) => bytes.clone(),
                None => self.shared.storage.latest(Keyspace::Items, item_key)?,
            };
            let stored = stored.map(|bytes| Image::decode(table, key, item_key, bytes)).transpose()?;
            let is_live = |image: &&Image| !table.spec.is_expired(&image.item, seconds);
            let found = stored.as_ref().filter(is_live).map(|image| &image.item);
            let holds = condition.as_ref().is_none_or(|condition| match found {
                Some(item) => condition.is_satisfied_by(item),
                None => condition.is_satisfied_by(&Item::new()),
            });
            if !holds {
                failed.push(FailedCondition { action: at, current: found.cloned() });
            } else if !matches!(action, PreparedAction::Check) {
                let new = write.new_image(found)?;
                written_bytes += new.as_ref().map_or(0, |image| image.item.size());
                planned.push((write, stored, new));
            }
        }
        if !failed.is_empty() {
            return Err(ErrorKind::ConditionFailed(failed).into());
        }
        if written_bytes > limits::MAX_WRITE_SET_BYTES {
            return Err(Error::limit_exceeded(format!(
                "the write set writes {written_bytes} bytes; the limit is {}",
                limits::MAX_WRITE_SET_BYTES
            )));
        }
        let is_single = planned.len() == 1;
        let mut item = None;
        for (write, stored, new) in planned {
            let target = (&*write.table, &write.key, &write.item_key);
            self.record_change(target, [stored.as_ref(), new.as_ref()], ChangeCause::Write, ops)?;
            pending.insert(write.item_key, new.as_ref().map(|image| image.bytes.clone()));
            item = new.map(|image| image.item).filter(|_| is_single);
        }
        Ok(WriteOutcome { item })
    }

    /// Adds the operations that replace one image of an item by another, and the record of that change.
    pub(crate) fn record_change(
        &mut self,
        (table, key, item_key): (&Table, &Key, &Slice),
        [old, new]: [Option<&Image>; 2],
        cause: ChangeCause,
        ops: &mut Vec<Op>,
    ) -> Result<(), Error> {
        // As in DynamoDB, a write that changes nothing is not a change.
        if old.map(|image| &image.bytes) == new.map(|image| &image.bytes) {
            return Ok(());
        }
        Image::replace(item_key, old, new, ops);
        self.sequence += 1;
        let bytes = |image: Option<&'_ Image>| image.map(|image| image.bytes.clone());
        let change = record::encode_change(key, [bytes(old), bytes(new)], cause, self.next_timestamp())?;
        ops.push(Op::Put(Keyspace::Changes, layout::change_key(table.id, self.sequence).into(), change.into()));
        Ok(())
    }
}

/// A copy of the error of a group, for each of its writes.
fn duplicate_error(error: &Error) -> Error {
    match error.kind() {
        ErrorKind::Unavailable(cause) => Error::unavailable(cause.to_string()),
        ErrorKind::OutcomeUnknown(cause) => Error::outcome_unknown(cause.to_string()),
        _ => Error::engine(error.to_string()),
    }
}
