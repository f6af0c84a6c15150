//! Runs the tests on each mutant.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};

use super::{
    instrument::Mutant,
    tree::{Executable, folder},
};
use crate::run::root;

/// The least time that a test has for a mutant.
const MIN_TIME: Duration = Duration::from_secs(20);
/// About how long a process takes to start.
const START: Duration = Duration::from_millis(200);
/// How many of the tests that noticed mutants of a file are tried first on the next ones.
const RECENT: usize = 20;
/// How many tests are likely to notice a mutant.
const LIKELY: usize = 20;
/// The time from which on a test of another package is tried last.
const SLOW: Duration = Duration::from_secs(4);
/// How many tests are tried one by one.
const ONE_BY_ONE: usize = 8;
/// How many tests run together after these: a mutant for which they never end costs their time.
const TOGETHER: usize = 16;

/// A test, with what it does without an active mutant.
#[derive(Debug)]
pub(crate) struct Test {
    executable: Executable,
    name: String,
    time: Duration,
    reached: Vec<usize>,
}

impl Test {
    /// Whether it has to notice the mutants of a file.
    fn guards(&self, file: &str) -> bool {
        self.executable.guards.iter().any(|folder| file.starts_with(folder))
    }
}

/// How a run of a test ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
}

/// Runs every test once without an active mutant, to see which mutants it reaches.
pub(crate) fn observe(executables: &[Executable], jobs: usize) -> anyhow::Result<Vec<Test>> {
    let mut names = Vec::new();
    for executable in executables {
        let mut list = Command::new(&executable.path);
        let listed = list.args(["--list", "--format", "terse"]).current_dir(&executable.folder).output()?;
        let listed = String::from_utf8(listed.stdout)?;
        // Tests on servers of DynamoDB do not notice more than the same ones on the embedded store.
        let found = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        let found = found.filter(|name| !name.contains("dynamodb"));
        names.extend(found.map(|name| (executable.clone(), name.to_owned())));
    }
    ensure!(!names.is_empty(), "there are no tests");
    let (tests, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    for_each(&names, jobs, |at, (executable, name)| {
        let notes = root().join(format!("target/mutants/reached-{at}"));
        File::create(&notes)?;
        let start = Instant::now();
        let outcome = run(
            executable,
            &[name],
            Duration::from_secs(600),
            ("NAGAYA_MUTANTS_REACHED", &notes.display().to_string()),
        )?;
        let reached = fs::read_to_string(&notes)?.lines().filter_map(|line| line.parse().ok()).collect();
        fs::remove_file(&notes)?;
        match outcome {
            Outcome::Failed => lock(&failed).push(name.clone()),
            Outcome::Passed => lock(&tests).push(Test {
                executable: executable.clone(),
                name: name.clone(),
                time: start.elapsed(),
                reached,
            }),
        }
        Ok(())
    })?;
    let failed = failed.into_inner().unwrap_or_default();
    ensure!(failed.is_empty(), "these tests fail without any mutant: {}", failed.join(", "));
    let mut tests = tests.into_inner().unwrap_or_default();
    tests.sort_by_key(|test: &Test| test.time);
    Ok(tests)
}

/// The mutants that no test notices. They are written to a file after each pass, so that an interrupted run can be continued.
///
/// First each mutant runs with the tests that are likely to notice it, what is left with all that have to notice it, and what is left then
/// with all that reach it.
pub(crate) fn survivors<'m>(
    mutants: &[&'m Mutant],
    tests: &[Test],
    jobs: usize,
    list: &Path,
) -> anyhow::Result<Vec<&'m Mutant>> {
    let attempts = Attempts { reaching: reaching(mutants, tests), noticed: Mutex::default(), jobs };
    let mut left = mutants.to_vec();
    for (which, result) in [(Which::Likely, "left"), (Which::Guards, "left by its guards"), (Which::Others, "survived")]
    {
        left = attempts.run(&left, which, result)?;
        left.sort_by_key(|mutant| mutant.id);
        write(&left, list)?;
    }
    Ok(left)
}

/// The tests that reach each mutant: first those that have to notice it, and of these those that reach the most of its file, and the least
/// else, in the least time.
fn reaching<'t>(mutants: &[&Mutant], tests: &'t [Test]) -> BTreeMap<usize, Vec<&'t Test>> {
    let files: BTreeMap<usize, &str> = mutants.iter().map(|mutant| (mutant.id, mutant.file())).collect();
    let mut promising: BTreeMap<usize, Vec<(bool, f64, &Test)>> = BTreeMap::new();
    for test in tests {
        let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
        for file in test.reached.iter().filter_map(|mutant| files.get(mutant)) {
            *counts.entry(file).or_default() += 1.0;
        }
        for (mutant, file) in test.reached.iter().filter_map(|mutant| Some((*mutant, files.get(mutant)?))) {
            // A test of little else than this file asserts what the file does.
            let count = counts.get(file).copied().unwrap_or_default();
            let promise = count * count / test.reached.len() as f64 / (START + test.time).as_secs_f64();
            // Tests of other packages reach many mutants of a layer below them, and notice few.
            promising.entry(mutant).or_default().push((test.guards(file), promise, test));
        }
    }
    let in_order = |mut tests: Vec<(bool, f64, &'t Test)>| {
        tests.sort_by(|one, other| other.0.cmp(&one.0).then(other.1.total_cmp(&one.1)));
        tests.into_iter().map(|(_, _, test)| test).collect()
    };
    promising.into_iter().map(|(mutant, tests)| (mutant, in_order(tests))).collect()
}

/// The tests that are tried.
#[derive(Clone, Copy)]
enum Which {
    /// At most [`LIKELY`] that are fast or of the package itself.
    Likely,
    /// The others that have to notice the mutant.
    Guards,
    /// All others that reach it.
    Others,
}

/// What is known about the tests.
struct Attempts<'m, 't> {
    /// The tests that reach each mutant, the most promising first.
    reaching: BTreeMap<usize, Vec<&'t Test>>,
    /// The tests that noticed mutants of each file, the last one first.
    noticed: Mutex<BTreeMap<&'m str, VecDeque<&'t Test>>>,
    jobs: usize,
}

impl<'m, 't> Attempts<'m, 't> {
    /// Runs tests on each mutant. What none notices is left.
    fn run(&self, mutants: &[&'m Mutant], which: Which, result: &str) -> anyhow::Result<Vec<&'m Mutant>> {
        let (left, done) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        for_each(mutants, self.jobs, |_, mutant| {
            let tests = self.tests(mutant, which);
            match notice(mutant, &tests)? {
                Noticed::By(test) => self.remember(mutant, test),
                Noticed::Together => {}
                Noticed::No => {
                    eprintln!("{result} ({} tests): line {} of {}", tests.len(), mutant.line, mutant.name);
                    lock(&left).push(*mutant);
                }
            }
            let done = 1 + done.fetch_add(1, Ordering::Relaxed);
            if done.is_multiple_of(50) || done == mutants.len() {
                eprintln!("{done} of {} mutants, {} {result}", mutants.len(), lock(&left).len());
            }
            Ok(())
        })?;
        Ok(left.into_inner().unwrap_or_default())
    }

    fn tests(&self, mutant: &Mutant, which: Which) -> Vec<&'t Test> {
        let all = self.reaching.get(&mutant.id).into_iter().flatten().copied();
        // A slow test of the package itself still notices more than fast ones of others.
        let may_be_likely = |test: &&Test| test.time < SLOW || test.guards(mutant.file());
        let (mut likely, slow): (Vec<&Test>, Vec<&Test>) = all.partition(may_be_likely);
        let noticed = lock(&self.noticed).get(mutant.file()).cloned().unwrap_or_default();
        match which {
            Which::Likely => {
                likely.truncate(LIKELY);
                let recent = |test: &&Test| noticed.iter().position(|one| std::ptr::eq(*one, *test));
                likely.sort_by_key(|test| recent(test).unwrap_or(noticed.len()));
                likely
            }
            Which::Guards => likely.into_iter().skip(LIKELY).filter(|test| test.guards(mutant.file())).collect(),
            Which::Others => {
                let others = likely.into_iter().skip(LIKELY).filter(|test| !test.guards(mutant.file()));
                others.chain(slow).collect()
            }
        }
    }

    fn remember(&self, mutant: &'m Mutant, test: &'t Test) {
        let mut noticed = lock(&self.noticed);
        let recent = noticed.entry(mutant.file()).or_default();
        recent.retain(|one| !std::ptr::eq(*one, test));
        recent.push_front(test);
        recent.truncate(RECENT);
    }
}

/// Whether tests noticed a mutant: one of them failed.
enum Noticed<'t> {
    No,
    By(&'t Test),
    /// By one of several tests that ran together.
    Together,
}

/// Runs tests on a mutant until one fails.
fn notice<'t>(mutant: &Mutant, tests: &[&'t Test]) -> anyhow::Result<Noticed<'t>> {
    let id = mutant.id.to_string();
    let (first, others) = tests.split_at(tests.len().min(ONE_BY_ONE));
    for test in first {
        let time = MIN_TIME.max(test.time * 10);
        if run(&test.executable, &[&test.name], time, ("NAGAYA_MUTANT", &id))? == Outcome::Failed {
            return Ok(Noticed::By(test));
        }
    }
    let mut of_executables: BTreeMap<&Path, Vec<&Test>> = BTreeMap::new();
    for test in others {
        of_executables.entry(&test.executable.path).or_default().push(test);
    }
    for together in of_executables.values().flat_map(|tests| tests.chunks(TOGETHER)) {
        let names: Vec<_> = together.iter().map(|test| test.name.as_str()).collect();
        let time = MIN_TIME + together.iter().map(|test| test.time).sum::<Duration>() * 3;
        if run(&together[0].executable, &names, time, ("NAGAYA_MUTANT", &id))? == Outcome::Failed {
            return Ok(Noticed::Together);
        }
    }
    Ok(Noticed::No)
}

/// Runs tests; those that take too long have failed.
fn run(executable: &Executable, names: &[&str], time: Duration, variable: (&str, &str)) -> anyhow::Result<Outcome> {
    let mut command = Command::new(&executable.path);
    command.arg("--exact").args(names).args(["--test-threads", "2"]).current_dir(&executable.folder);
    command.env(variable.0, variable.1).env("INSTA_UPDATE", "no").env("INSTA_WORKSPACE_ROOT", folder());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The processes that it starts are in its group, and end with it.
    command.process_group(0);
    let mut child = command.spawn().with_context(|| format!("{} does not start", executable.path.display()))?;
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let outcome = loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(Outcome::Passed),
            Some(_) => break Outcome::Failed,
            None if start.elapsed() > time => break Outcome::Failed,
            None => {}
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let group = format!("-{}", child.id());
    // There may be none left.
    Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status()?;
    child.wait()?;
    Ok(outcome)
}

/// Calls a function for each item, several at a time. After the first error no further call begins.
fn for_each<T: Sync>(
    items: &[T],
    jobs: usize,
    act: impl Fn(usize, &T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let work = || {
            while !has_failed.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else { break };
                act(at, item).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Writes the names of the survivors.
fn write(survivors: &[&Mutant], to: &Path) -> anyhow::Result<()> {
    let lines: String = survivors.iter().map(|mutant| format!("{}\t{}\n", mutant.line, mutant.name)).collect();
    fs::write(to, lines).with_context(|| format!("{} cannot be written", to.display()))
}

/// The names of the survivors of an earlier run.
pub(crate) fn read(from: &Path) -> anyhow::Result<BTreeSet<String>> {
    let text = fs::read_to_string(from).with_context(|| format!("{} cannot be read", from.display()))?;
    Ok(text.lines().filter_map(|line| Some(line.split_once('\t')?.1.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_begins_after_an_error() {
        let (items, calls) = ([(); 2_000], AtomicUsize::new(0));
        let failed = for_each(&items, 2, |at, ()| {
            calls.fetch_add(1, Ordering::Relaxed);
            // The other worker goes on until it sees the error.
            thread::sleep(Duration::from_millis(1));
            ensure!(at > 0, "the first one");
            Ok(())
        });
        assert_eq!(failed.expect_err("an error").to_string(), "the first one");
        let calls = calls.into_inner();
        assert!((1..items.len()).contains(&calls), "{calls} calls");
    }
}
