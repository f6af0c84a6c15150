//! `cargo xtask soak`: the long versions of the embedded engine's fault simulation and kill tests, and of the test of event sourcing under
//! faults, in release mode.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

use crate::run::{cargo, step};

/// Arguments of the task.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is tried
    #[arg(value_enum, default_value_t = Part::Engine)]
    part: Part,
    /// Number of seeds of the simulation
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// Number of processes to kill
    #[arg(long, default_value_t = 1_000)]
    kills: u64,
    /// Continue until this many minutes have passed; 60 for `events`
    #[arg(long)]
    minutes: Option<u64>,
    /// The first seed of each test; of `events` the seed, which is random otherwise
    #[arg(long)]
    first: Option<u64>,
}

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The embedded engine: simulated faults and killed processes
    Engine,
    /// Event sourcing: writers, unknown events, kills, rebuilds and dropped events at the same time
    Events,
}

/// Seeds and kills of one run of the tests; progress is printed after each run.
const SEEDS_PER_RUN: u64 = 600;
const KILLS_PER_RUN: u64 = 100;

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args.part {
        Part::Engine => engine(args),
        Part::Events => events(args),
    }
}

fn events(args: &Args) -> anyhow::Result<()> {
    let mut test = cargo(["test", "--release", "--quiet", "--package", "nagaya-cli", "--test", "soak"]);
    test.args(["--", "--nocapture"]).env("NAGAYA_SOAK_MINUTES", args.minutes.unwrap_or(60).to_string());
    if let Some(seed) = args.first {
        test.env("NAGAYA_SOAK_SEED", seed.to_string());
    }
    step("soak of event sourcing", test)
}

fn engine(args: &Args) -> anyhow::Result<()> {
    let mut build = cargo(TESTS);
    build.args(["--test", "simulation", "--test", "kills", "--no-run"]);
    step("build", build)?;
    let begun = Instant::now();
    let end = args.minutes.map(|minutes| begun + Duration::from_secs(minutes * 60));
    let is_over = || end.is_some_and(|end| Instant::now() >= end);
    let mut soak = Soak::default();
    let mut first = args.first.unwrap_or(0);
    loop {
        let (mut seeds, mut kills) = (args.seeds, args.kills);
        while (seeds > 0 || kills > 0) && !is_over() {
            let now = seeds.min(SEEDS_PER_RUN);
            if now > 0 {
                soak.simulate(first, now)?;
                (first, seeds) = (first + now, seeds - now);
            }
            // Kills and seeds progress together, so that an interrupted soak has tried both.
            let due = if seeds == 0 { kills } else { kills.saturating_sub(args.kills * seeds / args.seeds.max(1)) };
            let now = due.min(KILLS_PER_RUN).min(kills);
            if now > 0 && !is_over() {
                soak.kill(now)?;
                kills -= now;
            }
            eprintln!("{:>5} s: {}", begun.elapsed().as_secs(), soak.summary());
        }
        if end.is_none() || is_over() {
            break;
        }
    }
    println!("{}", soak.summary());
    for failure in &soak.failures {
        println!("{failure}");
    }
    if !soak.failures.is_empty() {
        bail!("the soak found {} failures", soak.failures.len());
    }
    Ok(())
}

const TESTS: [&str; 5] = ["test", "--release", "--quiet", "--package", "nagaya-embedded"];

/// The results so far.
#[derive(Debug, Default)]
struct Soak {
    seeds: u64,
    kills: u64,
    failures: Vec<String>,
}

impl Soak {
    fn simulate(&mut self, first: u64, seeds: u64) -> anyhow::Result<()> {
        let mut command = cargo(TESTS);
        command.args(["--test", "simulation", "--", "--nocapture"]);
        command.env("NAGAYA_SIM_FIRST", first.to_string()).env("NAGAYA_SIM_SEEDS", seeds.to_string());
        let (fine, output) = outputs(command)?;
        let found = failures(&output);
        if !fine && found.is_empty() {
            self.failures.push(format!("the simulation failed without naming a seed:\n{}", last_lines(&output)));
        }
        self.failures.extend(found);
        self.seeds += seeds;
        Ok(())
    }

    fn kill(&mut self, kills: u64) -> anyhow::Result<()> {
        let mut command = cargo(TESTS);
        command.args(["--test", "kills"]).env("NAGAYA_KILLS", kills.to_string());
        let (fine, output) = outputs(command)?;
        if !fine {
            let repeat = format!("NAGAYA_KILLS={kills} cargo test --release -p nagaya-embedded --test kills");
            let failure = format!("{}\n  repeat: {repeat}", last_lines(&output));
            eprintln!("{FAILED}{failure}");
            self.failures.push(failure);
        }
        self.kills += kills;
        Ok(())
    }

    fn summary(&self) -> String {
        format!("{} seeds, {} kills, {} failures", self.seeds, self.kills, self.failures.len())
    }
}

/// Whether a command succeeded, and the lines of its output; failures are printed as they come.
fn outputs(mut command: Command) -> anyhow::Result<(bool, Vec<String>)> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cargo does not start")?;
    let reader = |output: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines().map_while(Result::ok));
            let show = |line: &String| {
                if line.starts_with(FAILED) {
                    eprintln!("{line}");
                }
            };
            lines.inspect(show).collect::<Vec<_>>()
        })
    };
    let out = reader(child.stdout.take().map(|output| Box::new(output) as Box<dyn Read + Send>));
    let err = reader(child.stderr.take().map(|output| Box::new(output) as Box<dyn Read + Send>));
    let status = child.wait().context("cargo cannot be waited for")?;
    let mut lines = out.join().unwrap_or_default();
    lines.extend(err.join().unwrap_or_default());
    Ok((status.success(), lines))
}

/// What the simulation prints before a failed seed.
const FAILED: &str = "failed: ";

/// The failures in the output of the simulation, each up to the line with the command that repeats it.
fn failures(lines: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for line in lines {
        if let Some(failure) = line.strip_prefix(FAILED) {
            found.push(failure.to_owned());
            open = true;
        } else if let Some(last) = found.last_mut().filter(|_| open) {
            last.push('\n');
            last.push_str(line);
            open = !line.trim_start().starts_with("repeat: ");
        }
    }
    found
}

fn last_lines(lines: &[String]) -> String {
    let failed: Vec<_> =
        lines.iter().filter(|line| line.contains("FAILED") || line.contains("panicked")).cloned().collect();
    let shown = if failed.is_empty() { &lines[lines.len().saturating_sub(10)..] } else { &failed };
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_ends_with_the_line_that_repeats_it() {
        let text = "running 1 test\nfailed: seed 7: lost\n  faults: []\n  repeat: X=7 cargo test\nnoise\nfailed: seed 9: torn\n  repeat: X=9 cargo test\n";
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert_eq!(
            failures(&lines),
            ["seed 7: lost\n  faults: []\n  repeat: X=7 cargo test", "seed 9: torn\n  repeat: X=9 cargo test"]
        );
    }
}
