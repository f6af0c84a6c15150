//! The process with the simulated disk: one client that performs its steps and logs the results.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use nagaya_embedded::{EmbeddedStore, EncryptionKey, Options};
use nagaya_store::{Clock, Error, ErrorKind, Store as _, Value};

use crate::{
    log::Log,
    symbols::with_disk,
    workload::{
        Change, Expected, ItemId, START, Step, Stored, TABLES, Workload, specs, specs_with_second_index, write_set,
    },
};

/// Options with which flushes and compactions happen in a small directory.
pub(crate) fn options(now: Arc<AtomicI64>) -> Options {
    let clock = Clock::new(move || now.load(Ordering::SeqCst) * 1000);
    // Small enough for flushes during a run.
    let write_buffer_bytes = 64 * 1024;
    Options { clock, cache_bytes: 1024 * 1024, write_buffer_bytes, sweep_interval: None, ..Options::default() }
}

/// The keys of a store with an odd seed: the first one, and the one that it is changed to. `None` for an even seed.
pub(crate) fn keys() -> Option<[EncryptionKey; 2]> {
    let seed: u64 = std::env::var("NAGAYA_SIM_SEED").ok()?.parse().ok()?;
    let key = |byte: u8| EncryptionKey::parse(&[byte; 32]);
    if seed % 2 == 1 { Some([key(1)?, key(2)?]) } else { None }
}

/// Opens a store with the key that it has.
pub(crate) fn open_store(directory: &Path, now: &Arc<AtomicI64>) -> Result<EmbeddedStore, Error> {
    let with = |key| EmbeddedStore::open(directory, Options { encryption_key: key, ..options(Arc::clone(now)) });
    let Some([first, second]) = keys() else { return with(None) };
    match with(Some(first)) {
        Err(error) if error.to_string().contains("and the given one is") => with(Some(second)),
        opened => opened,
    }
}

/// The number of failed writes in a row after which the client reopens the directory.
const MAX_FAILURES: u32 = 3;
/// The number of times that it opens the directory.
const MAX_OPENINGS: u32 = 3;
/// The time after which a compaction counts as hanging. It takes milliseconds, or seconds on a busy machine.
const COMPACTION_TIMEOUT: Duration = Duration::from_secs(12);
/// The number of writes that a store may refuse after its faults are gone.
const MAX_REFUSALS: u32 = 200;

pub(crate) struct Client {
    workload: Workload,
    log: Log,
    now: Arc<AtomicI64>,
    failures: u32,
    openings: u32,
    /// The step at which all faults end, if they do.
    heals: Option<u64>,
}

impl Client {
    pub(crate) fn new(seed: u64, log: Log, heals: bool) -> Self {
        let workload = Workload::new(seed);
        let heals = heals.then_some(workload.steps * 2 / 3);
        Client { workload, log, now: Arc::new(AtomicI64::new(START)), failures: 0, openings: 0, heals }
    }

    /// Performs all steps; returns the store if it is open.
    pub(crate) async fn run(mut self, directory: &Path) -> Option<Arc<EmbeddedStore>> {
        let mut store = self.open(directory).await?;
        for number in 1..=self.workload.steps {
            let now = self.now.fetch_add(10, Ordering::SeqCst) + 10;
            self.log.line(&format!("time {now}"));
            if self.heals == Some(number) {
                with_disk(|disk| disk.faults.heal());
                return self.heal(number, store, now).await;
            }
            match self.workload.step(number, now) {
                // No writes to a failed store: each unknown outcome doubles the number of possible states.
                Step::Write(_) if self.failures >= MAX_FAILURES => {}
                Step::Write(changes) => self.write(&store, number, now, &changes).await,
                Step::Get(id) => self.read(&store, now, id).await,
                Step::Compact => self.compact(&store)?,
                Step::Maintain => {
                    let _ = store.sweep().await;
                    change_key(&store).await;
                }
                Step::Index => {
                    if store.ensure_tables(&specs_with_second_index()).await.is_ok() {
                        self.log.line("index");
                    }
                }
                Step::Reopen if self.heals.is_some() => {}
                Step::Reopen => self.failures = MAX_FAILURES,
            }
            // In a recovery test the store must recover by itself.
            if self.failures >= MAX_FAILURES && self.heals.is_none() {
                drop(store);
                store = self.open(directory).await?;
            }
        }
        Some(store)
    }

    /// Compacts in another thread, because a compaction on a failing disk may hang.
    fn compact(&self, store: &Arc<EmbeddedStore>) -> Option<()> {
        let (done, ended) = mpsc::channel();
        let compacted = Arc::clone(store);
        thread::spawn(move || {
            let outcome = compacted.compact();
            // The client must drop the store last, because that closes it.
            drop(compacted);
            let _ = done.send(outcome);
        });
        match ended.recv_timeout(COMPACTION_TIMEOUT) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.log.line(&format!("compact failed: {error}")),
            Err(_) => {
                self.log.line("compact hangs");
                return None;
            }
        }
        Some(())
    }

    async fn open(&mut self, directory: &Path) -> Option<Arc<EmbeddedStore>> {
        while self.openings < MAX_OPENINGS {
            self.openings += 1;
            self.failures = 0;
            match open_store(directory, &self.now) {
                Ok(store) => match store.ensure_tables(&specs()).await {
                    Ok(()) => {
                        self.log.line("opened");
                        return Some(Arc::new(store));
                    }
                    Err(error) => self.log.line(&format!("ensure failed: {error}")),
                },
                Err(error) => self.log.line(&format!("open failed: {error}")),
            }
        }
        None
    }

    async fn write(&mut self, store: &EmbeddedStore, number: u64, now: i64, changes: &[Change]) {
        let text: Vec<_> = changes.iter().map(Change::to_string).collect();
        self.log.line(&format!("write {number} {now} {}", text.join(",")));
        match store.write(write_set(changes)).await {
            Ok(_) => {
                self.log.line(&format!("done {number}"));
                self.failures = 0;
                for Change { id, new, .. } in changes {
                    match new {
                        Some(stored) => self.workload.known.insert(*id, stored.version),
                        None => self.workload.known.remove(id),
                    };
                }
            }
            Err(error) => {
                self.log.line(&format!("{} {number} {error}", outcome(&error)));
                self.failures += u32::from(error.failed_conditions().is_none());
                for change in changes {
                    self.read(store, now, change.id).await;
                }
            }
        }
    }

    async fn read(&mut self, store: &EmbeddedStore, now: i64, id: ItemId) {
        match store.get(TABLES[id.table], &id.key()).await {
            Ok(found) => {
                let version =
                    found.as_ref().and_then(|item| item.get("version")?.as_number()).map(|version| version.to_string());
                self.log.line(&format!("read {now} {id} {}", version.as_deref().unwrap_or("none")));
                match version.and_then(|version| version.parse().ok()) {
                    Some(version) => self.workload.known.insert(id, version),
                    None => self.workload.known.remove(&id),
                };
            }
            Err(error) => self.log.line(&format!("read failed: {error}")),
        }
    }

    /// Checks that a store accepts writes after its faults are gone, without being reopened.
    async fn heal(self, number: u64, store: Arc<EmbeddedStore>, now: i64) -> Option<Arc<EmbeddedStore>> {
        // Always the same write, so that it does not matter which attempt was successful.
        let new = Some(Stored { version: number, large: false, expiry: None });
        let change = Change { id: ItemId { table: 0, slot: 0 }, expected: Expected::Anything, new };
        self.log.line(&format!("write {number} {now} {change}"));
        let mut refusal = String::new();
        for _ in 0..MAX_REFUSALS {
            match store.write(change.write().into()).await {
                Ok(_) => {
                    self.log.line(&format!("done {number}"));
                    return Some(store);
                }
                Err(error) => refusal = error.to_string(),
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.log.line(&format!("unhealed the store refuses writes although its faults are gone: {refusal}"));
        Some(store)
    }
}

/// The log word for what an error says about the write.
fn outcome(error: &Error) -> &'static str {
    match error.kind() {
        _ if error.is_conflict() => "refused",
        _ if error.is_retryable() => "nothing",
        ErrorKind::OutOfSpace(_) => "nothing",
        _ => "unknown",
    }
}

/// The version of an item.
pub(crate) fn version(item: &nagaya_store::Item) -> Option<u64> {
    item.get("version").and_then(Value::as_number)?.to_string().parse().ok()
}

/// Changes the key of an encrypted store, and waits until everything is encrypted with it, so that a seed always gives the
/// same order of operations. A failure is the fault of the disk.
async fn change_key(store: &EmbeddedStore) {
    let Some([_, second]) = keys() else { return };
    if store.change_key(second).await.is_ok() {
        for _ in 0..2_000 {
            match store.encryption() {
                Ok(Some(state)) if state.progress.is_some() => thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
    }
}
