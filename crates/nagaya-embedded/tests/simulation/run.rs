//! Runs seeds: a process that suffers, perhaps one that suffers while it recovers, and one that checks.

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
    model::{History, Lie},
    random::Random,
    symbols::{self, with_disk},
    verdict::{self, Wrong},
};

/// What kind of faults a test is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    PowerLoss,
    Errors,
    Lies,
    Healing,
    /// Journals that are never synced, though the oracle believes that they are: it has to find something.
    Broken,
}

impl Family {
    const ALL: [Family; 5] = [Family::PowerLoss, Family::Errors, Family::Lies, Family::Healing, Family::Broken];

    /// The test that runs it.
    fn test(self) -> &'static str {
        match self {
            Family::PowerLoss => "what_was_acknowledged_survives_the_loss_of_power",
            Family::Errors => "errors_of_the_system_lose_nothing_that_was_acknowledged",
            Family::Lies => "a_disk_that_lies_is_found_out",
            Family::Healing => "a_store_takes_writes_again_by_itself_once_its_faults_have_gone",
            Family::Broken => "the_oracle_finds_writes_that_were_never_synced",
        }
    }

    /// Its part of a number of seeds.
    fn share(self, seeds: u64) -> u64 {
        let tenths = match self {
            Family::PowerLoss => 4,
            Family::Errors | Family::Lies => 5,
            Family::Healing | Family::Broken => 1,
        };
        // Fifteenths, rounded up.
        (seeds * tenths).div_ceil(15)
    }
}

/// What happens to the directory of a seed.
struct Scenario {
    faults: Vec<Fault>,
    /// Whether the power goes at the end; otherwise the store is closed.
    power_loss: bool,
    /// What strikes while the directory is opened the first time after that.
    recovery: Option<Vec<Fault>>,
    /// Whether bytes change while nobody has it open.
    rot: bool,
    /// What the disk does that its contents do not show.
    lie: Option<Lie>,
}

impl Scenario {
    fn of(family: Family, seed: u64) -> Self {
        let mut random = Random::of(seed, "scenario");
        let plain = Scenario { faults: Vec::new(), power_loss: true, recovery: None, rot: false, lie: None };
        match family {
            Family::PowerLoss => {
                let recovery = random.once_in(2).then(|| faults::power_loss_in_recovery(seed));
                Scenario { faults: faults::power_loss(seed), recovery, ..plain }
            }
            Family::Errors => Scenario { faults: faults::errors(seed), power_loss: random.once_in(2), ..plain },
            Family::Broken => Scenario { faults: faults::no_syncs(), ..plain },
            Family::Healing => Scenario { faults: faults::fatal(seed), power_loss: random.once_in(2), ..plain },
            Family::Lies => match random.below(5) {
                0..=1 => Scenario { faults: faults::lost_syncs(seed), lie: Some(Lie::LostSyncs), ..plain },
                2 => {
                    let power_loss = random.once_in(2);
                    let lie = power_loss.then_some(Lie::MisdirectedBeforePowerLoss);
                    Scenario { faults: faults::misdirected_writes(seed), power_loss, lie, ..plain }
                }
                _ => Scenario { rot: true, power_loss: false, ..plain },
            },
        }
    }

    /// Whether the disk told the truth, so that nothing may be lost.
    fn is_honest(&self, family: Family) -> bool {
        family != Family::Lies
    }
}

const PHASE: &str = "NAGAYA_SIM_PHASE";
const FAMILY: &str = "NAGAYA_SIM_FAMILY";
const SEED: &str = "NAGAYA_SIM_SEED";
const SEEDS: &str = "NAGAYA_SIM_SEEDS";
const FIRST: &str = "NAGAYA_SIM_FIRST";
const DIRECTORY: &str = "NAGAYA_SIM_DIRECTORY";

/// Seeds of all tests together, unless the environment says otherwise.
const DEFAULT_SEEDS: u64 = 200;

/// After this a process hangs; it takes far less than a second.
const HANGS: Duration = Duration::from_secs(40);

/// Runs the seeds of a family, and fails with a line for each that fails.
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
    // Most of a seed is waiting for processes to start and end.
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
    let (mut failures, mut struck, mut writes, mut told) = (Vec::new(), 0, 0, 0);
    for result in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match result {
            Ok(outcome) => {
                struck += u64::from(outcome.struck);
                writes += outcome.writes;
                told += u64::from(outcome.told.is_some());
                if count == 1 {
                    eprintln!("{outcome:?}");
                }
            }
            Err(failure) => failures.push(failure),
        }
    }
    eprintln!(
        "{family:?}: {count} seeds, {} failed, {struck} with faults, {told} told by the engine, {writes} writes acknowledged",
        failures.len()
    );
    assert!(failures.is_empty(), "{} of {count} seeds failed:\n{}", failures.len(), failures.join("\n"));
    assert!(count < 20 || struck > count / 3, "only {struck} of {count} seeds had faults: the test tests nothing");
}

/// A failure with the line that repeats it, told at once so that a long run shows what it has found.
fn repeatable(family: Family, seed: u64, failure: &str) -> String {
    let test = family.test();
    let failure = format!("{failure}\n  repeat: {SEED}={seed} cargo test -p nagaya-embedded --test simulation {test}");
    // By one call, so that failures of two threads do not mix.
    let _ = std::io::stderr().write_all(format!("failed: {failure}\n").as_bytes());
    failure
}

/// Some of these seeds fail: otherwise the oracle believes everything.
pub(crate) fn notices(family: Family) {
    let noticed = (0..8).filter(|seed| run(family, *seed).is_err()).count();
    assert!(noticed > 0, "the oracle notices nothing");
}

/// What came of a seed that did not fail.
#[derive(Debug)]
struct Outcome {
    struck: bool,
    writes: usize,
    /// What the engine said about a disk that lied.
    told: Option<String>,
}

fn run(family: Family, seed: u64) -> Result<Outcome, String> {
    let base = tempfile::tempdir().map_err(|error| error.to_string())?;
    for directory in ["store", "kept"] {
        fs::create_dir(base.path().join(directory)).map_err(|error| error.to_string())?;
    }
    let scenario = Scenario::of(family, seed);
    let suffered = start("suffer", family, seed, base.path());
    let mut rotten = String::new();
    if suffered.is_ok() && scenario.recovery.is_some() {
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
    suffered.map_err(&context)?;
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
        return Err(context("compacting a store whose disk fails never ends".to_owned()));
    }
    let struck = history.struck > 0 || scenario.rot || !history.ended;
    match kind {
        "fine" => Ok(Outcome { struck, writes: history.writes(), told: None }),
        "told" if !scenario.is_honest(family) => {
            Ok(Outcome { struck, writes: history.writes(), told: Some(what.to_owned()) })
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
        if begun.elapsed() > HANGS {
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

/// What a process of a seed does.
pub(crate) fn child() {
    let Ok(phase) = std::env::var(PHASE) else { return };
    let variable = |name| std::env::var(name).expect("the parent says what to do");
    let seed: u64 = variable(SEED).parse().expect("a number");
    let family = variable(FAMILY);
    let family = Family::ALL.into_iter().find(|each| format!("{each:?}") == family).expect("a family");
    let base = PathBuf::from(variable(DIRECTORY));
    let scenario = Scenario::of(family, seed);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    match phase.as_str() {
        "suffer" => runtime.block_on(suffer(family, seed, &base, &scenario)),
        "recover" => runtime.block_on(recover(seed, &base, scenario)),
        "check" => runtime.block_on(check(&base, &scenario)),
        other => panic!("there is no phase {other}"),
    }
}

async fn suffer(family: Family, seed: u64, base: &Path, scenario: &Scenario) {
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
    // Another fate for what is lost than the first time.
    mount(seed ^ 0x5555, base, Faults::new(scenario.recovery.unwrap_or_default()), &log);
    let options = crate::client::options(std::sync::Arc::default());
    let store = nagaya_embedded::Embedded::open(base.join("store"), options);
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
    let verdict = match verdict::check(&base.join("store"), &History::read(&log), scenario.lie).await {
        Ok(()) => "fine".to_owned(),
        Err(Wrong::Told(what)) => format!("told {what}"),
        Err(Wrong::Silent(what)) => format!("silent {what}"),
    };
    fs::write(base.join("verdict"), verdict).expect("the verdict can be written");
}

/// Changes bytes of a closed store, where there are any.
fn rot(store: &Path, seed: u64) -> std::io::Result<String> {
    let mut random = Random::of(seed, "rot");
    let mut files = Vec::new();
    let mut below = vec![store.join("data")];
    while let Some(directory) = below.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() { below.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    // As often in journals as everywhere else together.
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
