//! The section of the report: medians, ratios, and whether the target is met.

use std::{fmt::Write as _, fs, process::Command};

use serde_json::json;

use crate::{Call, Times};

/// The target: the engine may take this many times the time of the bare SDK.
const BAR: f64 = 1.1;

/// The measurements, and the machine.
pub(crate) struct Report {
    rounds: usize,
    calls: usize,
    load: String,
    measured: Vec<Vec<Median>>,
}

/// Microseconds of the median call of a round.
struct Median {
    call: Call,
    engine: f64,
    bare: f64,
}

/// One row: medians over all rounds, and the ratio of each round.
struct Row {
    call: Call,
    engine: f64,
    bare: f64,
    ratio: f64,
    least: f64,
    most: f64,
}

impl Report {
    pub(crate) fn here(rounds: usize, calls: usize) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default().to_owned();
        Report { rounds, calls, load, measured: Vec::new() }
    }

    pub(crate) fn add(&mut self, round: Vec<Times>) {
        let medians = |(call, engine, bare)| Median { call, engine: median(engine), bare: median(bare) };
        self.measured.push(round.into_iter().map(medians).collect());
    }

    fn rows(&self) -> Vec<Row> {
        let row = |call: Call| {
            let rounds: Vec<&Median> = self.measured.iter().flatten().filter(|median| median.call == call).collect();
            let ratios: Vec<f64> = rounds.iter().map(|round| round.engine / round.bare).collect();
            Row {
                call,
                engine: median(rounds.iter().map(|round| round.engine).collect()),
                bare: median(rounds.iter().map(|round| round.bare).collect()),
                least: ratios.iter().copied().fold(f64::INFINITY, f64::min),
                most: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                ratio: median(ratios),
            }
        };
        Call::ALL.into_iter().map(row).collect()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let row = |row: Row| {
            json!({
                "call": row.call.name(), "engineMicros": row.engine, "bareMicros": row.bare,
                "ratio": row.ratio, "least": row.least, "most": row.most,
            })
        };
        json!({ "bar": BAR, "calls": self.rows().into_iter().map(row).collect::<Vec<_>>() })
    }

    pub(crate) fn section(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let Report { rounds, calls, load, .. } = self;
        writeln!(
            out,
            "## The DynamoDB engine\n\n\
             Written by `cargo xtask bench dynamodb --rounds {rounds} --calls {calls} --write`; do not edit.\n\n\
             Calls through the engine, beside the same calls through the bare SDK with the same client settings and\n\
             expressions written by hand: on the same DynamoDB Local 3.3.0 in memory, on the same table with an index and\n\
             an expiry attribute, one after the other, taking turns call by call. Items have ten attributes and 300 bytes.\n\
             Both let the server report what each call consumed and which item a condition failed on. The engine also checks\n\
             the limits and keeps expired items out; by hand, that is not done. A time is the median of {rounds} rounds with {calls} calls of each kind and\n\
             side; a ratio is taken round by round.\n"
        )?;
        let dirty = if output("git", &["status", "--porcelain", "--", "."]).is_empty() { "" } else { " with changes" };
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = processor.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
        writeln!(
            out,
            "| | |\n|---|---|\n| date | {} |\n| revision | {}{dirty} |\n| processor | {}, {} cores |\n| load before | {load} |\n",
            output("date", &["-u", "+%F"]),
            output("git", &["rev-parse", "--short", "HEAD"]),
            processor.trim_start_matches([' ', '\t', ':']),
            std::thread::available_parallelism().map_or(0, usize::from),
        )?;
        writeln!(
            out,
            "| call | engine, µs | bare SDK, µs | engine : bare | range | at most {BAR} |\n|---|--:|--:|--:|--:|---|"
        )?;
        for Row { call, engine, bare, ratio, least, most } in self.rows() {
            let verdict = if ratio <= BAR { "met" } else { "**not met**" };
            let sides = if (least <= BAR) == (most <= BAR) { "" } else { "; rounds are on both sides" };
            let name = call.name();
            writeln!(
                out,
                "| {name} | {engine:.0} | {bare:.0} | {ratio:.2} | {least:.2} – {most:.2} | {verdict}{sides} |"
            )?;
        }
        Ok(())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    (values[last / 2] + values[last.div_ceil(2)]) / 2.0
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
