//! The process whose disk is simulated: one client that works through its steps and logs what it is told.

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

use nagaya_embedded::{Embedded, Options};
use nagaya_store::{Clock, Error, ErrorKind, Store as _, Value};

use crate::{
    log::Log,
    symbols::with_disk,
    workload::{Change, Expected, Place, START, Step, Stored, TABLES, Workload, grown, specs, write_set},
};

/// Settings by which as much as possible happens in a small directory.
pub(crate) fn options(now: Arc<AtomicI64>) -> Options {
    let clock = Clock::new(move || now.load(Ordering::SeqCst) * 1000);
    // Small enough that memory goes to files in the course of a run.
    let write_buffer_bytes = 64 * 1024;
    Options { clock, cache_bytes: 1024 * 1024, write_buffer_bytes, sweep_every: None, ..Options::default() }
}

/// Writes that may fail in a row before the client opens the directory anew.
const MOST_FAILURES: u32 = 3;
/// How often it does so before it gives up.
const MOST_OPENINGS: u32 = 3;
/// After this compacting hangs. It takes a few milliseconds, and seconds on a machine that is busy with other things.
const HANGS: Duration = Duration::from_secs(12);
/// How often a store may refuse a write after its faults have gone.
const HEALING: u32 = 200;

pub(crate) struct Client {
    workload: Workload,
    log: Log,
    now: Arc<AtomicI64>,
    failures: u32,
    openings: u32,
    /// The step at which all faults go, if they do.
    heals: Option<u64>,
}

impl Client {
    pub(crate) fn new(seed: u64, log: Log, heals: bool) -> Self {
        let workload = Workload::new(seed);
        let heals = heals.then_some(workload.steps * 2 / 3);
        Client { workload, log, now: Arc::new(AtomicI64::new(START)), failures: 0, openings: 0, heals }
    }

    /// Works through all steps; the store as it is then, if it is open.
    pub(crate) async fn run(mut self, directory: &Path) -> Option<Arc<Embedded>> {
        let mut store = self.open(directory).await?;
        for number in 1..=self.workload.steps {
            let now = self.now.fetch_add(10, Ordering::SeqCst) + 10;
            self.log.line(&format!("time {now}"));
            if self.heals == Some(number) {
                with_disk(|disk| disk.faults.heal());
                return self.heal(number, store, now).await;
            }
            match self.workload.step(number, now) {
                // A store that has failed is left alone until it heals: each lost answer doubles what may be there.
                Step::Write(_) if self.failures >= MOST_FAILURES => {}
                Step::Write(changes) => self.write(&store, number, now, &changes).await,
                Step::Get(place) => self.read(&store, now, place).await,
                Step::Compact => self.compact(&store)?,
                Step::Maintain => drop(store.sweep().await),
                Step::Index => {
                    if store.ensure(&grown()).await.is_ok() {
                        self.log.line("index");
                    }
                }
                Step::Reopen if self.heals.is_some() => {}
                Step::Reopen => self.failures = MOST_FAILURES,
            }
            // One that heals has to do so by itself.
            if self.failures >= MOST_FAILURES && self.heals.is_none() {
                drop(store);
                store = self.open(directory).await?;
            }
        }
        Some(store)
    }

    /// Compacts, beside this thread: a store whose disk fails may never come to an end of it.
    fn compact(&self, store: &Arc<Embedded>) -> Option<()> {
        let (done, ended) = mpsc::channel();
        let compacted = Arc::clone(store);
        thread::spawn(move || {
            let outcome = compacted.compact();
            // The store is closed by whoever lets go of it last, which has to be the client.
            drop(compacted);
            let _ = done.send(outcome);
        });
        match ended.recv_timeout(HANGS) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.log.line(&format!("compact failed: {error}")),
            Err(_) => {
                self.log.line("compact hangs");
                return None;
            }
        }
        Some(())
    }

    async fn open(&mut self, directory: &Path) -> Option<Arc<Embedded>> {
        while self.openings < MOST_OPENINGS {
            self.openings += 1;
            self.failures = 0;
            match Embedded::open(directory, options(Arc::clone(&self.now))) {
                Ok(store) => match store.ensure(&specs()).await {
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

    async fn write(&mut self, store: &Embedded, number: u64, now: i64, changes: &[Change]) {
        let text: Vec<_> = changes.iter().map(Change::to_string).collect();
        self.log.line(&format!("write {number} {now} {}", text.join(",")));
        match store.write(write_set(changes)).await {
            Ok(_) => {
                self.log.line(&format!("done {number}"));
                self.failures = 0;
                for Change { place, new, .. } in changes {
                    match new {
                        Some(stored) => self.workload.known.insert(*place, stored.stamp),
                        None => self.workload.known.remove(place),
                    };
                }
            }
            Err(error) => {
                self.log.line(&format!("{} {number} {error}", answer(&error)));
                self.failures += u32::from(error.failed_conditions().is_none());
                for change in changes {
                    self.read(store, now, change.place).await;
                }
            }
        }
    }

    async fn read(&mut self, store: &Embedded, now: i64, place: Place) {
        match store.get(TABLES[place.table], &place.key()).await {
            Ok(found) => {
                let stamp =
                    found.as_ref().and_then(|item| item.get("stamp")?.as_number()).map(|stamp| stamp.to_string());
                self.log.line(&format!("read {now} {place} {}", stamp.as_deref().unwrap_or("none")));
                match stamp.and_then(|stamp| stamp.parse().ok()) {
                    Some(stamp) => self.workload.known.insert(place, stamp),
                    None => self.workload.known.remove(&place),
                };
            }
            Err(error) => self.log.line(&format!("read failed: {error}")),
        }
    }

    /// A store whose faults have gone takes writes again, without being opened anew by its user.
    async fn heal(self, number: u64, store: Arc<Embedded>, now: i64) -> Option<Arc<Embedded>> {
        // The same again and again, so that it does not matter which of them was the one.
        let new = Some(Stored { stamp: number, large: false, expiry: None });
        let change = Change { place: Place { table: 0, slot: 0 }, expected: Expected::Anything, new };
        self.log.line(&format!("write {number} {now} {change}"));
        let mut refusal = String::new();
        for _ in 0..HEALING {
            match store.write(change.write().into()).await {
                Ok(_) => {
                    self.log.line(&format!("done {number}"));
                    return Some(store);
                }
                Err(error) => refusal = error.to_string(),
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.log.line(&format!("unhealed the store refuses writes though its faults have gone: {refusal}"));
        Some(store)
    }
}

/// What an error says about the write.
fn answer(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::ConditionFailed(_) => "refused",
        ErrorKind::Unavailable(_) | ErrorKind::OutOfSpace(_) | ErrorKind::Busy => "nothing",
        _ => "unknown",
    }
}

/// The stamp of an item.
pub(crate) fn stamp(item: &nagaya_store::Item) -> Option<u64> {
    item.get("stamp").and_then(Value::as_number)?.to_string().parse().ok()
}
