//! The report: results, ratios, and which targets are met.

use std::{collections::BTreeMap, fmt};

use bench_common::{
    machine::Machine,
    rounds::{Bar, Rounds, grouped},
};
use serde::{Deserialize, Serialize};

use crate::{
    measure::{Figures, Load, Pace},
    servers::{Call, Name},
    start::Start,
    task::{ITEMS, USERS},
    wrk::THREADS,
};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Microseconds; a large difference from the one before the run means that another process used the disk.
    pub(crate) sync_after: f64,
    pub(crate) load: Load,
    pub(crate) start: Start,
    pub(crate) servers: BTreeMap<Name, Figures>,
}

impl Report {
    /// A value of a server, round by round; empty where it was not measured.
    fn rounds(&self, name: Name, call: Call, of: impl Fn(&Pace) -> Option<f64>) -> Rounds {
        let paces = self.servers.get(&name).and_then(|figures| figures.get(&call));
        Rounds(paces.into_iter().flatten().filter_map(of).collect())
    }

    /// The servers of the tables: an earlier build is there only if it was measured.
    fn names(&self) -> Vec<Name> {
        let is_shown = |name: &Name| *name != Name::Earlier || self.servers.contains_key(name);
        Name::ALL.into_iter().filter(is_shown).collect()
    }

    /// The calls per second of a server.
    fn paces(&self, name: Name, call: Call) -> Rounds {
        self.rounds(name, call, |pace| Some(pace.per_second))
    }
}

/// A target, and the value that is compared with it.
type BarCheck = (Bar, fn(&Report) -> Rounds);

fn ratio(report: &Report, call: Call, other: Name) -> Rounds {
    report.paces(Name::Nagaya, call).over(&report.paces(other, call))
}

const BARS: [BarCheck; 9] = [
    (Bar::at_least("authenticated read by key beside bare axum", 0.5), |report| ratio(report, Call::Read, Name::Axum)),
    (Bar::at_least("authenticated list of 20 beside PocketBase", 8.0), |report| {
        ratio(report, Call::List, Name::Pocketbase)
    }),
    (Bar::at_least("durable create with two indexes beside PocketBase", 6.0), |report| {
        ratio(report, Call::Create, Name::Pocketbase)
    }),
    (Bar { goal: true, ..Bar::at_least("– the goal", 10.0) }, |report| ratio(report, Call::Create, Name::Pocketbase)),
    (Bar::at_least("durable create with two indexes beside PostgreSQL with RLS", 1.5), |report| {
        ratio(report, Call::Create, Name::Postgresql)
    }),
    (Bar::at_least("read beside the earlier build", 0.95), |report| ratio(report, Call::Read, Name::Earlier)),
    (Bar::at_least("list beside the earlier build", 0.95), |report| ratio(report, Call::List, Name::Earlier)),
    (Bar::below("started and ready on an empty directory, ms", 50.0), |report| Rounds(report.start.ready.clone())),
    (Bar::below("resident at rest with all systems, MB", 64.0), |report| Rounds(report.start.rest.clone())),
];

/// A value that is reported for every server.
type Figure = (&'static str, fn(&Pace) -> Option<f64>, usize);

const FIGURES: [Figure; 4] = [
    ("– p50, µs", |pace| Some(pace.p50), 0),
    ("– p99, µs", |pace| Some(pace.p99), 0),
    ("– processor time of the server for each, µs", |pace| Some(pace.cpu), 1),
    ("– bytes of an answer with its head", |pace| pace.bytes, 0),
];

impl fmt::Display for Report {
    /// Writes the section of the page.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, out)
    }
}

fn write(report: &Report, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Report { machine, sync_after, load, .. } = report;
    let Load { seconds, rounds, connections } = load;
    let is_other = |name: &&Name| !matches!(name, Name::Nagaya | Name::Earlier);
    let beside: Vec<_> = report.servers.keys().filter(is_other).collect();
    let beside = if beside.len() == Name::ALL.iter().filter(is_other).count() {
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
         are compared byte by byte (`C`). PocketBase's indexes do not start with the tenant: the query that it derives from a\n\
         rule could not use them. Lists come without the count of all that is there, from nagaya as from PocketBase.\n\n\
         Creates are on disk when nagaya (embedded store, group commit) and PostgreSQL (`fsync` and `synchronous_commit`\n\
         on, the rest as by default) answer, and each that was acknowledged is counted afterwards. PocketBase has SQLite in\n\
         WAL mode with `synchronous=NORMAL`: what it has acknowledged survives the end of its process, but not that of the\n\
         machine. This default was not changed. Nobody writes an access log: nagaya runs with `--log warn`, PocketBase with its logs off.\n\
         nagaya also runs with `--tenant-rate 0`, as all calls are of one tenant.\n\n\
         Every measurement is taken in {rounds} rounds of {seconds} s, all servers in turn, after {} s that do not count;\n\
         reads and lists come before any creates. A figure is the median, a ratio is taken round by round, and the range is\n\
         that of the rounds. Ready is when `/readyz` first says so, asked every millisecond from the start of the process\n\
         with all systems; memory is measured 3 s later.\n",
        grouped(ITEMS),
        load.warm(),
    )?;
    writeln!(out, "{}", machine.rows(*sync_after))?;
    writeln!(out, "| bar | needed | measured | range | |\n|---|---|---|---|---|")?;
    BARS.iter().filter_map(|(bar, of)| bar.row(&of(report))).try_for_each(|row| writeln!(out, "{row}"))?;
    let names = report.names();
    let others = &names[1..];
    writeln!(out)?;
    write!(out, "| |")?;
    names.iter().try_for_each(|name| write!(out, " {name} |"))?;
    others.iter().try_for_each(|name| write!(out, " nagaya : {name} |"))?;
    writeln!(out, "\n|---|{}", "--:|".repeat(names.len() + others.len()))?;
    for (call, title) in [(Call::Read, "reads/s"), (Call::List, "lists of 20/s"), (Call::Create, "durable creates/s")] {
        row(report, call, &(title, |pace| Some(pace.per_second), 0), out)?;
        FIGURES.iter().try_for_each(|figure| row(report, call, figure, out))?;
    }
    Ok(())
}

fn row(report: &Report, call: Call, (title, of, decimals): &Figure, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let rounds = |name| report.rounds(name, call, of);
    let names = report.names();
    write!(out, "| {title} |")?;
    names.iter().try_for_each(|name| write!(out, " {} |", rounds(*name).figure(*decimals)))?;
    let mine = rounds(Name::Nagaya);
    names[1..].iter().try_for_each(|name| write!(out, " {} |", mine.over(&rounds(*name)).ratio()))?;
    writeln!(out)
}
