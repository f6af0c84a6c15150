//! Runs seeds: a process with faults, perhaps one with faults during recovery, and one that checks the result.

use std::{
    fs,
    io::Write as _,
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    client::Client,
    disk::{Disk, POWER_LOST},
    faults::{self, Fault, Faults},
    log::Log,
    model::{History, UndetectableFault},
    random::Random,
    symbols::{self, with_disk},
    verdict::{self, Problem},
};

/// The kind of faults of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    PowerLoss,
    Errors,
    LyingDisk,
    Healing,
    /// Journals are never synced, but the oracle does not know that: it has to find failures.
    Broken,
}

impl Family {
    const ALL: [Family; 5] = [Family::PowerLoss, Family::Errors, Family::LyingDisk, Family::Healing, Family::Broken];

    /// The test that runs it.
    fn test(self) -> &'static str {
        match self {
            Family::PowerLoss => "acknowledged_writes_survive_a_power_loss",
            Family::Errors => "io_errors_lose_no_acknowledged_write",
            Family::LyingDisk => "a_lying_disk_is_detected",
            Family::Healing => "a_store_recovers_by_itself_when_its_faults_are_gone",
            Family::Broken => "the_oracle_finds_writes_that_were_never_synced",
        }
    }

    /// Its share of a number of seeds.
    fn share(self, seeds: u64) -> u64 {
        let tenths = match self {
            Family::PowerLoss => 4,
            Family::Errors | Family::LyingDisk => 5,
            Family::Healing | Family::Broken => 1,
        };
        // Fifteenths, rounded up.
        (seeds * tenths).div_ceil(15)
    }
}

/// The faults of a seed.
struct Scenario {
    faults: Vec<Fault>,
    /// Whether the power fails at the end; otherwise the store is closed.
    power_loss: bool,
    /// Faults while the directory is opened for the first time after that.
    recovery: Option<Vec<Fault>>,
    /// Whether bytes change while the directory is closed.
    rot: bool,
    /// A fault that the content of the disk does not show.
    undetectable: Option<UndetectableFault>,
}

impl Scenario {
    fn random(family: Family, seed: u64) -> Self {
        let mut random = Random::for_purpose(seed, "scenario");
        let plain = Scenario { faults: Vec::new(), power_loss: true, recovery: None, rot: false, undetectable: None };
        match family {
            Family::PowerLoss => {
                let recovery = random.once_in(2).then(|| faults::power_loss_in_recovery(seed));
                Scenario { faults: faults::power_loss(seed), recovery, ..plain }
            }
            Family::Errors => Scenario { faults: faults::errors(seed), power_loss: random.once_in(2), ..plain },
            Family::Broken => Scenario { faults: faults::no_syncs(), ..plain },
            Family::Healing => Scenario { faults: faults::fatal(seed), power_loss: random.once_in(2), ..plain },
            Family::LyingDisk => match random.below(5) {
                0..=1 => Scenario {
                    faults: faults::lost_syncs(seed),
                    undetectable: Some(UndetectableFault::LostSyncs),
                    ..plain
                },
                2 => {
                    let power_loss = random.once_in(2);
                    let undetectable = power_loss.then_some(UndetectableFault::MisdirectedBeforePowerLoss);
                    Scenario { faults: faults::misdirected_writes(seed), power_loss, undetectable, ..plain }
                }
                _ => Scenario { rot: true, power_loss: false, ..plain },
            },
        }
    }

    /// Whether the disk reports its faults, so that nothing may be lost.
    fn is_honest(&self, family: Family) -> bool {
        family != Family::LyingDisk
    }
}

const PHASE: &str = "NAGAYA_SIM_PHASE";
const FAMILY: &str = "NAGAYA_SIM_FAMILY";
const SEED: &str = "NAGAYA_SIM_SEED";
const SEEDS: &str = "NAGAYA_SIM_SEEDS";
const FIRST: &str = "NAGAYA_SIM_FIRST";
const DIRECTORY: &str = "NAGAYA_SIM_DIRECTORY";

/// The number of seeds of all tests together, unless the environment sets it.
const DEFAULT_SEEDS: u64 = 200;

/// The time after which a process counts as hanging; it needs far less than a second.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Runs the seeds of a family, and fails with one line per failed seed.
pub(crate) fn seeds(family: Family) {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse::<u64>().ok());
    let seeds = match number(SEED) {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number(FIRST).unwrap_or(0);
            first..first + family.share(number(SEEDS).unwrap_or(DEFAULT_SEEDS))
        }
    };
    let count = seeds.end - seeds.start;
    let results = Mutex::new(Vec::new());
    let next = AtomicU64::new(seeds.start);
    // A seed mostly waits for processes to start and end.
    let workers = thread::available_parallelism().map_or(1, NonZero::get) + 1;
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run(family, seed).map_err(|failure| repeatable(family, seed, &failure));
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
                }
            });
        }
    });
    let (mut failures, mut struck, mut writes, mut reported) = (Vec::new(), 0, 0, 0);
    for result in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match result {
            Ok(outcome) => {
                struck += u64::from(outcome.struck);
                writes += outcome.writes;
                reported += u64::from(outcome.reported.is_some());
                if count == 1 {
                    eprintln!("{outcome:?}");
                }
            }
            Err(failure) => failures.push(failure),
        }
    }
    eprintln!(
        "{family:?}: {count} seeds, {} failed, {struck} with faults, {reported} reported by the engine, {writes} writes acknowledged",
        failures.len()
    );
    assert!(failures.is_empty(), "{} of {count} seeds failed:\n{}", failures.len(), failures.join("\n"));
    assert!(count < 20 || struck > count / 3, "only {struck} of {count} seeds had faults: the test tests nothing");
}

/// A failure with the command that repeats it. It is printed at once, so that a long run shows its failures early.
fn repeatable(family: Family, seed: u64, failure: &str) -> String {
    let test = family.test();
    let failure = format!("{failure}\n  repeat: {SEED}={seed} cargo test -p nagaya-embedded --test simulation {test}");
    // One call, so that the output of several threads does not mix.
    let _ = std::io::stderr().write_all(format!("failed: {failure}\n").as_bytes());
    failure
}

/// Checks that the oracle finds failures in some of these seeds.
pub(crate) fn expect_failures(family: Family) {
    let failed = (0..8).filter(|seed| run(family, *seed).is_err()).count();
    assert!(failed > 0, "the oracle finds no failure");
}

/// The result of a seed that did not fail.
#[derive(Debug)]
struct Outcome {
    struck: bool,
    writes: usize,
    /// What the engine reported about a lying disk.
    reported: Option<String>,
}

fn run(family: Family, seed: u64) -> Result<Outcome, String> {
    let base = tempfile::tempdir().map_err(|error| error.to_string())?;
    for directory in ["store", "kept"] {
        fs::create_dir(base.path().join(directory)).map_err(|error| error.to_string())?;
    }
    let scenario = Scenario::random(family, seed);
    let finished = start("faults", family, seed, base.path());
    let mut rotten = String::new();
    if finished.is_ok() && scenario.recovery.is_some() {
        start("recover", family, seed, base.path()).map_err(|failure| format!("seed {seed}, recovering: {failure}"))?;
    }
    if scenario.rot {
        rotten = rot(&base.path().join("store"), seed).map_err(|error| error.to_string())?;
    }
    let log = fs::read_to_string(base.path().join("log")).unwrap_or_default();
    let history = History::read(&log);
    let context = |failure: String| {
        let faults: Vec<_> = scenario.faults.iter().chain(scenario.recovery.iter().flatten()).collect();
        let shown = if std::env::var_os(SEED).is_some() { format!("\n{log}") } else { String::new() };
        format!("seed {seed}: {failure}\n  faults: {faults:?} {rotten}{shown}")
    };
    finished.map_err(&context)?;
    if let Some(broken) = &history.broken {
        return Err(context(broken.clone()));
    }
    if let Some(unhealed) = &history.not_healed {
        return Err(context(unhealed.clone()));
    }
    let checked = start("check", family, seed, base.path());
    let verdict = fs::read_to_string(base.path().join("verdict")).unwrap_or_default();
    checked.map_err(&context)?;
    let (kind, what) = verdict.split_once(' ').unwrap_or((&verdict, ""));
    if history.hangs && kind != "silent" {
        return Err(context("a compaction on a failing disk never ends".to_owned()));
    }
    let struck = history.struck > 0 || scenario.rot || !history.ended;
    match kind {
        "fine" => Ok(Outcome { struck, writes: history.writes(), reported: None }),
        "reported" if !scenario.is_honest(family) => {
            Ok(Outcome { struck, writes: history.writes(), reported: Some(what.to_owned()) })
        }
        _ => Err(context(verdict)),
    }
}

/// Starts a process of a seed, and waits for its end.
fn start(phase: &str, family: Family, seed: u64, base: &Path) -> Result<(), String> {
    let output = fs::File::create(base.join("output")).map_err(|error| error.to_string())?;
    let mut child = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
        .args(["--exact", "the_simulated_process", "--nocapture", "--test-threads=1"])
        .env(PHASE, phase)
        .env(FAMILY, format!("{family:?}"))
        .env(SEED, seed.to_string())
        .env(DIRECTORY, base)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .stderr(output)
        .spawn()
        .map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if begun.elapsed() > TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("the process hangs in the phase `{phase}`"));
        }
        thread::sleep(Duration::from_millis(1));
    };
    if status.success() || status.code() == Some(POWER_LOST) {
        return Ok(());
    }
    let output = fs::read_to_string(base.join("output")).unwrap_or_default();
    let panic: Vec<_> = output.lines().skip_while(|line| !line.contains("panicked")).take(3).collect();
    Err(format!("the process ended with {status} in the phase `{phase}`: {}", panic.join(" ")))
}

/// The process of a seed.
pub(crate) fn child() {
    let Ok(phase) = std::env::var(PHASE) else { return };
    let variable = |name| std::env::var(name).expect("the parent says what to do");
    let seed: u64 = variable(SEED).parse().expect("a number");
    let family = variable(FAMILY);
    let family = Family::ALL.into_iter().find(|each| format!("{each:?}") == family).expect("a family");
    let base = PathBuf::from(variable(DIRECTORY));
    let scenario = Scenario::random(family, seed);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    match phase.as_str() {
        "faults" => runtime.block_on(run_with_faults(family, seed, &base, &scenario)),
        "recover" => runtime.block_on(recover(seed, &base, scenario)),
        "check" => runtime.block_on(check(&base, &scenario)),
        other => panic!("there is no phase {other}"),
    }
}

async fn run_with_faults(family: Family, seed: u64, base: &Path, scenario: &Scenario) {
    let log = Log::append(&base.join("log")).expect("a log");
    mount(seed, base, Faults::new(scenario.faults.clone()), &log);
    let client = Client::new(seed, log.clone(), family == Family::Healing);
    let store = client.run(&base.join("store")).await;
    let struck = with_disk(|disk| disk.faults.struck).unwrap_or(0);
    log.line(&format!("struck {struck}"));
    if scenario.power_loss {
        with_disk(|disk| disk.power_loss());
    }
    drop(store);
}

async fn recover(seed: u64, base: &Path, scenario: Scenario) {
    let log = Log::append(&base.join("log")).expect("a log");
    // Other changes are lost than the first time.
    mount(seed ^ 0x5555, base, Faults::new(scenario.recovery.unwrap_or_default()), &log);
    let store = crate::client::open_store(&base.join("store"), &std::sync::Arc::default());
    if let Err(error) = &store {
        log.line(&format!("open failed: {error}"));
    }
    with_disk(|disk| disk.power_loss());
}

fn mount(seed: u64, base: &Path, faults: Faults, log: &Log) {
    let disk = Disk::new(seed, &base.join("store"), &base.join("kept"), faults, log.clone());
    symbols::mount(disk.expect("the directory can be listed"));
}

async fn check(base: &Path, scenario: &Scenario) {
    let log = fs::read_to_string(base.join("log")).expect("the log can be read");
    let verdict = match verdict::check(&base.join("store"), &History::read(&log), scenario.undetectable).await {
        Ok(()) => "fine".to_owned(),
        Err(Problem::Reported(what)) => format!("reported {what}"),
        Err(Problem::Silent(what)) => format!("silent {what}"),
    };
    fs::write(base.join("verdict"), verdict).expect("the verdict can be written");
}

/// Changes bytes of a closed store.
fn rot(store: &Path, seed: u64) -> std::io::Result<String> {
    let mut random = Random::for_purpose(seed, "rot");
    let mut files = Vec::new();
    let mut below = vec![store.join("data")];
    while let Some(directory) = below.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() { below.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    // Half of the time in a journal.
    let is_journal = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "jnl");
    let journals: Vec<_> = files.iter().filter(is_journal).cloned().collect();
    let path = if random.once_in(2) && !journals.is_empty() { random.pick(&journals) } else { random.pick(&files) };
    let mut bytes = fs::read(path)?;
    let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else {
        return Ok(format!("{} is empty", path.display()));
    };
    let at = random.below(last as u64 + 1) as usize;
    let how = random.below(3);
    match how {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => {
            let end = bytes.len().min((at / 512 + 1) * 512);
            bytes[at / 512 * 512..end].fill(0);
        }
        _ => {
            let end = bytes.len().min((at / 4096 + 1) * 4096);
            bytes[at / 4096 * 4096..end].fill(0);
        }
    }
    fs::write(path, bytes)?;
    let name = path.strip_prefix(store).unwrap_or(path).display();
    Ok(format!("rot at {at} of {name} (up to {last}): {}", ["a bit", "a sector", "a page"][how as usize]))
}
