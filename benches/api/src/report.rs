//! The page: figures, ratios, and which bars are met.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, Serialize};

use crate::{
    machine::Machine,
    measure::{Figures, Load, Pace},
    servers::{Call, Name},
    start::Start,
    task::{ITEMS, USERS},
    wrk::THREADS,
};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Microseconds: when it is far from the one before, somebody else was using the disk.
    pub(crate) sync_after: f64,
    pub(crate) load: Load,
    pub(crate) start: Start,
    pub(crate) servers: BTreeMap<Name, Figures>,
}

impl Report {
    /// A figure of a server, round by round; nothing where it was not measured.
    fn rounds(&self, name: Name, call: Call, of: impl Fn(&Pace) -> Option<f64>) -> Rounds {
        let paces = self.servers.get(&name).and_then(|figures| figures.get(&call));
        Rounds(paces.into_iter().flatten().filter_map(of).collect())
    }

    /// The calls per second of a server.
    fn paces(&self, name: Name, call: Call) -> Rounds {
        self.rounds(name, call, |pace| Some(pace.per_second))
    }
}

/// A figure of each round; what counts is the median.
struct Rounds(Vec<f64>);

impl Rounds {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(middle) = sorted.len().checked_sub(1) else { return f64::NAN };
        (sorted[middle / 2] + sorted[middle.div_ceil(2)]) / 2.0
    }

    fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn most(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// Round by round, so that a slow minute of the machine is in both.
    fn over(&self, other: &Rounds) -> Rounds {
        Rounds(self.0.iter().zip(&other.0).map(|(mine, theirs)| mine / theirs).collect())
    }
}

/// What has to be reached.
struct Bar {
    title: &'static str,
    limit: f64,
    /// Whether more is better.
    least: bool,
    /// Whether it is only hoped for.
    goal: bool,
    decimals: usize,
    of: fn(&Report) -> Rounds,
}

const fn beside(title: &'static str, limit: f64, of: fn(&Report) -> Rounds) -> Bar {
    Bar { title, limit, least: true, goal: false, decimals: 2, of }
}

const fn at_most(title: &'static str, limit: f64, of: fn(&Report) -> Rounds) -> Bar {
    Bar { title, limit, least: false, goal: false, decimals: 0, of }
}

fn ratio(report: &Report, call: Call, other: Name) -> Rounds {
    report.paces(Name::Nagaya, call).over(&report.paces(other, call))
}

const BARS: [Bar; 7] = [
    beside("authenticated read by key beside bare axum", 0.5, |report| ratio(report, Call::Read, Name::Axum)),
    beside("authenticated list of 20 beside PocketBase", 8.0, |report| ratio(report, Call::List, Name::Pocketbase)),
    beside("durable create with two indexes beside PocketBase", 6.0, |report| {
        ratio(report, Call::Create, Name::Pocketbase)
    }),
    Bar { goal: true, ..beside("– the goal", 10.0, |report| ratio(report, Call::Create, Name::Pocketbase)) },
    beside("durable create with two indexes beside PostgreSQL with RLS", 1.5, |report| {
        ratio(report, Call::Create, Name::Postgresql)
    }),
    at_most("started and ready on an empty directory, ms", 50.0, |report| Rounds(report.start.ready.clone())),
    at_most("resident at rest with all systems, MB", 64.0, |report| Rounds(report.start.rest.clone())),
];

impl Bar {
    /// `None` when what it is about was not measured.
    fn row(&self, report: &Report) -> Option<String> {
        let Bar { title, limit, least, decimals, .. } = *self;
        let rounds = (self.of)(report);
        if rounds.is_empty() {
            return None;
        }
        let meets = |figure: f64| if least { figure >= limit } else { figure < limit };
        let figure = rounds.median();
        let by = if least { figure / limit } else { limit / figure };
        let verdict = match (meets(figure), self.goal) {
            (true, _) => format!("met, {:.0} % to spare", (by - 1.0) * 100.0),
            (false, true) => format!("not reached, {:.0} % short", (1.0 - by) * 100.0),
            (false, false) => format!("**not met, {:.0} % short**", (1.0 - by) * 100.0),
        };
        let apart = meets(rounds.least()) != meets(rounds.most());
        let verdict = if apart { format!("{verdict}; rounds lie on both sides") } else { verdict };
        let sign = if least { "≥" } else { "<" };
        Some(format!(
            "| {title} | {sign} {limit} | {figure:.decimals$} | {:.decimals$} – {:.decimals$} | {verdict} |",
            rounds.least(),
            rounds.most(),
        ))
    }
}

/// Something that is told of every server.
type Figure = (&'static str, fn(&Pace) -> Option<f64>, usize);

const FIGURES: [Figure; 4] = [
    ("– p50, µs", |pace| Some(pace.p50), 0),
    ("– p99, µs", |pace| Some(pace.p99), 0),
    ("– processor time of the server for each, µs", |pace| Some(pace.cpu), 1),
    ("– bytes of an answer with its head", |pace| pace.bytes, 0),
];

/// The section of the page.
pub(crate) fn page(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a text does not fail.
    let _ = write(report, &mut out);
    out
}

fn write(report: &Report, out: &mut String) -> std::fmt::Result {
    let Report { machine, sync_after, load, .. } = report;
    let Load { seconds, rounds, connections } = load;
    let beside: Vec<_> = report.servers.keys().filter(|name| **name != Name::Nagaya).collect();
    let beside = if beside.len() == Name::ALL.len() - 1 {
        String::new()
    } else {
        let names: Vec<_> = beside.iter().map(|name| format!("{name:?}").to_lowercase()).collect();
        format!(" --beside {}", names.join(","))
    };
    writeln!(
        out,
        "## The API\n\n\
         Written by `cargo xtask bench api --seconds {seconds} --rounds {rounds} --connections {connections}{beside} --write`;\n\
         do not edit.\n\n\
         The released binary with a design and no code, beside a bare axum handler (the limit: `axum::serve`, no token, no\n\
         store, the bytes of nagaya's own answer), PocketBase with a rule for tenants, and PostgreSQL with row-level\n\
         security: in one run, on one machine, with the load beside the server. A tenant has {} tasks of {USERS} users: the\n\
         `task` of `aiagent` with eleven fields, validation and two indexes. A read is by key, a list is the newest 20 of a\n\
         user by an index, a create gets a new id, is validated and answered with the item. Before anything is measured,\n\
         each server has answered each call as it should, and has given another tenant nothing.\n\n\
         {connections} connections from {THREADS} threads are busy all the time. All HTTP servers get the same requests from\n\
         the same `wrk`; an answer of 400 or more, or none, fails the run. PostgreSQL is asked in its own protocol by\n\
         `pgbench` with prepared statements, a statement a transaction, the tenant set once for each connection; its texts\n\
         are compared byte by byte (`C`). PocketBase's indexes do not start with the tenant: the query that it makes of a\n\
         rule could not use them. Lists come without the count of all that is there, from nagaya as from PocketBase.\n\n\
         Creates are on disk when nagaya (embedded store, group commit) and PostgreSQL (`fsync` and `synchronous_commit`\n\
         on, the rest as by default) answer, and each that was acknowledged is counted afterwards. PocketBase has SQLite in\n\
         WAL mode with `synchronous=NORMAL`: what it has acknowledged survives the end of its process, but not that of the\n\
         machine. It is left so. Nobody writes an access log: nagaya runs with `--log warn`, PocketBase with its logs off.\n\
         nagaya also runs with `--tenant-rate 0`, as all calls are of one tenant.\n\n\
         Every measurement is taken in {rounds} rounds of {seconds} s, all servers in turn, after {} s that do not count;\n\
         reads and lists come before any creates. A figure is the median, a ratio is taken round by round, and the range is\n\
         that of the rounds. Ready is when `/readyz` first says so, asked every millisecond from the start of the process\n\
         with all systems; resident is what is so 3 s later.\n",
        grouped(ITEMS),
        load.warm(),
    )?;
    writeln!(
        out,
        "| | |\n|---|---|\n| date | {} |\n| revision | {} |\n| processor | {}, {} cores |\n| memory | {} MiB |\n\
         | kernel, file system | Linux {}, {} |\n| sync of 80 kB before and after | {:.0} and {:.0} µs |\n\
         | load before | {} |\n| beside | {} |\n",
        machine.date,
        machine.revision,
        machine.processor,
        machine.cores,
        machine.memory_mib,
        machine.kernel,
        machine.filesystem,
        machine.sync,
        sync_after,
        machine.load,
        machine.versions,
    )?;
    writeln!(out, "| bar | needed | measured | range | |\n|---|---|---|---|---|")?;
    BARS.iter().filter_map(|bar| bar.row(report)).try_for_each(|row| writeln!(out, "{row}"))?;
    let others = &Name::ALL[1..];
    writeln!(out)?;
    write!(out, "| |")?;
    Name::ALL.iter().try_for_each(|name| write!(out, " {name} |"))?;
    others.iter().try_for_each(|name| write!(out, " nagaya : {name} |"))?;
    writeln!(out, "\n|---|{}", "--:|".repeat(Name::ALL.len() + others.len()))?;
    for (call, title) in [(Call::Read, "reads/s"), (Call::List, "lists of 20/s"), (Call::Create, "durable creates/s")] {
        row(report, call, &(title, |pace| Some(pace.per_second), 0), out)?;
        FIGURES.iter().try_for_each(|figure| row(report, call, figure, out))?;
    }
    Ok(())
}

fn row(report: &Report, call: Call, (title, of, decimals): &Figure, out: &mut String) -> std::fmt::Result {
    write!(out, "| {title} |")?;
    for name in Name::ALL {
        let rounds = report.rounds(name, call, of);
        match (rounds.is_empty(), decimals) {
            (true, _) => write!(out, " |")?,
            (false, 0) => write!(out, " {} |", grouped(rounds.median().round() as u64))?,
            (false, _) => write!(out, " {:.decimals$} |", rounds.median())?,
        }
    }
    for name in &Name::ALL[1..] {
        let each = report.rounds(Name::Nagaya, call, of).over(&report.rounds(*name, call, of));
        if each.is_empty() {
            write!(out, " |")?;
        } else {
            write!(out, " {:.2} ({:.2} – {:.2}) |", each.median(), each.least(), each.most())?;
        }
    }
    writeln!(out)
}

/// A number with commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
