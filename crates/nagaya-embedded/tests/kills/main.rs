//! `kill -9` during writes, an index build, a flush, a compaction, a backup, a change of the key or a restore: no acknowledged write is lost, no
//! write set is applied partially, and no unfinished copy can be opened.
//!
//! `NAGAYA_KILLS` is the number of kills during the activities beside writes.

mod child;
mod load;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

use child::Activity;
use load::Acknowledged;
use nagaya_embedded::{EmbeddedStore, Options, is_in_use, restore_backup};
use nagaya_store::{Query, Store as _};

const ACTIVITY: &str = "NAGAYA_KILLS_ACTIVITY";
const ROUND: &str = "NAGAYA_KILLS_ROUND";
const DIRECTORY: &str = "NAGAYA_KILLS_DIRECTORY";

/// The number of kills during the activities beside writes, unless the environment sets it.
const DEFAULT_KILLS: u32 = 40;
/// The number of kills before a new directory is used.
const SAME_DIRECTORY: u32 = 8;

/// Not a test: the process that the tests start and kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_that_is_killed() {
    let Some(activity) = std::env::var(ACTIVITY).ok().as_deref().and_then(Activity::named) else { return };
    let variable = |name| std::env::var(name).expect("the parent says what to do");
    child::run(activity, variable(ROUND).parse().expect("a number"), Path::new(&variable(DIRECTORY))).await;
}

/// Kills a process at a different time in each round.
///
/// Proves the engine's part of N9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_write_survives_being_killed() {
    let base = tempfile::tempdir().expect("a directory");
    let mut acknowledged = Acknowledged::new();
    for round in 0..50 {
        // All phases of a process: opening, the first writes, many writes.
        let spread = (round * 37) % 160;
        let writes = if round % 3 == 0 { 0 } else { spread };
        kill_after(Duration::from_millis(5 + spread), writes, base.path(), &mut acknowledged);
        let store = check_writes(base.path(), &acknowledged).await;
        if round % 5 == 4 {
            assert_eq!(store.verify(&mut |_| {}).expect("it can be verified"), [], "round {round}");
        }
    }
    let total: i64 = acknowledged.values().sum();
    assert!(total > 1_000, "only {total} writes were acknowledged in all rounds: the test tests nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_opens_after_a_kill_during_its_creation() {
    for millis in 0..40 {
        let base = tempfile::tempdir().expect("a directory");
        let mut acknowledged = Acknowledged::new();
        kill_after(Duration::from_millis(millis / 2), 0, base.path(), &mut acknowledged);
        check_writes(base.path(), &acknowledged).await;
    }
}

/// Proves the engine's part of N9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn being_killed_during_an_index_build_loses_nothing() {
    kills(Activity::Index).await;
}

/// Proves the engine's part of N9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn being_killed_during_a_flush_loses_nothing() {
    kills(Activity::Flush).await;
}

/// Proves the engine's part of N9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn being_killed_during_a_compaction_loses_nothing() {
    kills(Activity::Compaction).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn being_killed_during_a_backup_leaves_no_partial_backup() {
    kills(Activity::Backup).await;
}

/// Proves the engine's part of N9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn being_killed_during_a_change_of_the_key_loses_nothing() {
    kills(Activity::KeyChange).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_restore_is_never_opened_as_a_store() {
    for round in 0..rounds() {
        let base = tempfile::tempdir().expect("a directory");
        let store = filled(base.path()).await;
        store.backup(&base.path().join("whole.nagaya"), &mut |_| {}).expect("a backup");
        let whole = store.stats().expect("it can be counted").content_hash;
        drop(store);
        let output = kill(Activity::Restore, 0, delay(round, 60), base.path());
        let restored = base.path().join("restored");
        if round % 2 == 1 {
            // It may be refused or repeated; the checks below must hold in both cases.
            let _ = restore_backup(&base.path().join("whole.nagaya"), &restored, &mut |_| {});
        }
        if restored.exists() {
            match EmbeddedStore::open(&restored, Options::default()) {
                Ok(store) => {
                    let found = store.stats().expect("it can be counted").content_hash;
                    assert_eq!(found, whole, "round {round}: an unfinished restore can be opened");
                }
                // Refused, which is right unless the process had reported success.
                Err(error) => {
                    assert!(!output.iter().any(|line| line == "restored"), "round {round}: {error}");
                }
            }
        }
        // A restore into a new directory always works.
        let again = base.path().join("again");
        let back = restore_backup(&base.path().join("whole.nagaya"), &again, &mut |_| {}).expect("it can be restored");
        assert_eq!(back.content_hash, whole);
    }
}

fn rounds() -> u32 {
    let kills = std::env::var("NAGAYA_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(DEFAULT_KILLS);
    // Writes are killed by a test of their own.
    kills.div_ceil(Activity::ALL.len() as u32 - 1)
}

/// A different delay in each round, up to a maximum in milliseconds.
fn delay(round: u32, most: u64) -> Duration {
    // Multiples of the golden ratio are evenly distributed.
    let part = u64::from(round.wrapping_mul(2_654_435_769) >> 16);
    Duration::from_micros(most * 1_000 * part / 65_536)
}

/// Opens a directory that no other process uses. A process that another test is just starting may hold the lock for a
/// moment: it inherits all open files of this process until it executes its program.
fn open(directory: &Path) -> EmbeddedStore {
    loop {
        match open_with_any_key(directory) {
            Err(error) if is_in_use(&error) => std::thread::sleep(Duration::from_millis(1)),
            opened => return opened.expect("the directory opens"),
        }
    }
}

/// A process that changes keys may be killed before or after a key has taken effect.
fn open_with_any_key(directory: &Path) -> Result<EmbeddedStore, nagaya_store::Error> {
    let with = |encryption_key| EmbeddedStore::open(directory, Options { encryption_key, ..Options::default() });
    match with(None) {
        Err(error) if error.to_string().contains("no key was given") => {
            let [first, second] = child::keys();
            with(Some(first)).or_else(|_| with(Some(second)))
        }
        opened => opened,
    }
}

async fn filled(base: &Path) -> EmbeddedStore {
    let store = open(&base.join("store"));
    store.ensure_tables(&load::specs(0)).await.expect("the tables are made");
    load::fill(&store).await;
    store
}

/// Kills a process under load during an activity, many times.
async fn kills(activity: Activity) {
    let mut total = 0;
    let mut left = rounds();
    while left > 0 {
        let base = tempfile::tempdir().expect("a directory");
        drop(filled(base.path()).await);
        let mut acknowledged = Acknowledged::new();
        for round in 0..left.min(SAME_DIRECTORY) {
            let output = kill(activity, round, delay(left - round, 120), base.path());
            acknowledge(&output, &mut acknowledged);
            let indexed = output.iter().any(|line| *line == format!("indexed {}", round + 1));
            check(base.path(), round, indexed, &acknowledged).await;
            if activity == Activity::Backup {
                check_backup(base.path(), round, output.contains(&"backed up".to_owned()));
            }
        }
        left -= left.min(SAME_DIRECTORY);
        total += acknowledged.values().sum::<i64>();
    }
    assert!(total > 0, "nothing was acknowledged in all rounds: the test tests nothing");
}

/// Opens the store and checks that all acknowledged writes are there.
async fn check_writes(base: &Path, acknowledged: &Acknowledged) -> EmbeddedStore {
    let store = open(&base.join("store"));
    store.ensure_tables(&load::specs(0)).await.expect("the tables are made");
    load::check(&store, acknowledged).await;
    store
}

async fn check(base: &Path, round: u32, indexed: bool, acknowledged: &Acknowledged) {
    let store = open(&base.join("store"));
    load::check(&store, acknowledged).await;
    let findings = store.verify(&mut |_| {}).expect("it can be verified");
    assert!(findings.is_empty(), "round {round}: {} findings, the first: {:?}", findings.len(), findings[0]);
    // An existing index has all items, and an acknowledged one exists.
    let index = format!("I{round}");
    let mut found = 0;
    for partition in 0..5 {
        let mut query = Query::index(load::BALLAST, &index, partition.to_string());
        loop {
            match store.query(query.clone()).await {
                Ok(page) => {
                    found += page.items.len();
                    query.after = page.next;
                }
                Err(error) if error.code() == "no_index" && !indexed => return,
                Err(error) => panic!("round {round}: {error}"),
            }
            if query.after.is_none() {
                break;
            }
        }
    }
    let expected = if round < 4 { load::BALLAST_ITEMS as usize } else { 0 };
    assert_eq!(found, expected, "round {round}: the index is incomplete");
}

/// A backup with its final name is complete.
fn check_backup(base: &Path, round: u32, made: bool) {
    let (file, target) = (base.join("backup.nagaya"), base.join(format!("restored-{round}")));
    if !file.exists() {
        assert!(!made, "round {round}: a finished backup is missing");
        return;
    }
    let back = restore_backup(&file, &target, &mut |_| {});
    let back = back.unwrap_or_else(|error| panic!("round {round}: {error}"));
    assert!(back.items >= load::BALLAST_ITEMS as u64, "round {round}: {back:?}");
}

fn acknowledge(output: &[String], acknowledged: &mut Acknowledged) {
    for line in output.iter().filter_map(|line| line.strip_prefix("ack ")) {
        let mut words = line.split(' ').map(str::parse::<i64>);
        // The kill may have cut the last line; a cut number can only be smaller.
        if let (Some(Ok(writer)), Some(Ok(n))) = (words.next(), words.next()) {
            let highest = acknowledged.entry(writer).or_default();
            *highest = n.max(*highest);
        }
    }
}

/// Kills a process some time after it has begun, and returns its output.
fn kill(activity: Activity, round: u32, delay: Duration, base: &Path) -> Vec<String> {
    let process = Process::start(activity, round, base);
    // A process that ends before it has begun closes the channel.
    let _ = process.lines.iter().find(|line| line == "begun");
    std::thread::sleep(delay);
    let output = process.kill();
    assert!(output.contains(&"begun".to_owned()), "{activity:?}: the process ended before it had begun: {output:?}");
    output
}

/// Kills a process some time after its start, and after some writes; records what was acknowledged.
fn kill_after(delay: Duration, writes: u64, base: &Path, acknowledged: &mut Acknowledged) {
    let process = Process::start(Activity::Write, 0, base);
    std::thread::sleep(delay);
    let mut written = 0;
    while written < writes
        && let Ok(line) = process.lines.recv()
    {
        written += u64::from(line.starts_with("ack "));
    }
    acknowledge(&process.kill(), acknowledged);
}

/// A running process and its output.
struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    reader: JoinHandle<Vec<String>>,
}

impl Process {
    fn start(activity: Activity, round: u32, base: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this test has a path"))
            .args(["--exact", "the_process_that_is_killed", "--nocapture", "--test-threads=1"])
            .env(ACTIVITY, format!("{activity:?}"))
            .env(ROUND, round.to_string())
            .env(DIRECTORY, base)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the process starts");
        let output = child.stdout.take().expect("its output is piped");
        let (sender, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.inspect(|line| drop(sender.send(line.clone()))).collect()
        });
        Process { child, lines, reader }
    }

    fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process ends");
        self.reader.join().expect("the output is read")
    }
}
