//! The report: results, ratios, and which targets are met.

use std::fmt::{self, Formatter};

use bench_common::{
    callers::{CALLERS, Pace},
    machine::Machine,
    rounds::{Bar, Rounds, figure, grouped},
};
use serde::{Deserialize, Serialize};

use crate::{
    api::{FAMILIES, Loaded, PART, TODOS},
    appends::Appends,
    lag::Lag,
    many::EACH,
    rebuild::Rebuild,
    replay::Sizes,
    unknown::UNKNOWN,
};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Microseconds; a large difference from the one before the run means that another process used the disk.
    pub(crate) sync_after: f64,
    pub(crate) seconds: f64,
    pub(crate) rounds: u64,
    pub(crate) sizes: Sizes,
    /// Write sets on the bare engine, commands through the events layer, and commands on `cqrs-es`, round by round.
    pub(crate) engine: Vec<Appends>,
    pub(crate) events: Vec<Appends>,
    pub(crate) others: Vec<Appends>,
    pub(crate) lags: Vec<Lag>,
    /// The same while events of one family cannot be applied.
    pub(crate) beside_unknown: Vec<Lag>,
    /// Events per second while those for the rebuild were created, many per command.
    pub(crate) filled: f64,
    pub(crate) rebuilds: Vec<Rebuild>,
    pub(crate) reads: Vec<Loaded>,
    pub(crate) writes: Vec<Loaded>,
}

/// A value, round by round.
fn each<T>(rounds: &[T], of: impl Fn(&T) -> f64) -> Rounds {
    Rounds(rounds.iter().map(of).collect())
}

fn new(rounds: &[Appends]) -> Rounds {
    each(rounds, |round| round.new.per_second)
}

fn next(rounds: &[Appends]) -> Rounds {
    each(rounds, |round| round.next.per_second)
}

impl Report {
    /// The speed of a rebuild as a multiple of the append rate. Its rounds are compared with the median rate.
    fn rebuilt(&self, of: fn(&Rebuild) -> f64) -> Rounds {
        let appended = new(&self.events).median();
        each(&self.rebuilds, |round| of(round) / appended)
    }
}

/// A target, and the value that is compared with it.
type BarCheck = (Bar, fn(&Report) -> Rounds);

const BARS: [BarCheck; 9] = [
    (Bar::at_least("first events of new aggregates beside the engine's write sets", 0.5), |report| {
        new(&report.events).over(&new(&report.engine))
    }),
    (Bar::at_least("next events of existing aggregates beside the engine's write sets", 0.5), |report| {
        next(&report.events).over(&next(&report.engine))
    }),
    (
        Bar { decimals: 1, ..Bar::below("the list behind the events at half of the append rate, p99, ms", 100.0) },
        |report| each(&report.lags, |round| round.p99),
    ),
    (
        Bar {
            decimals: 1,
            ..Bar::below("the list behind the events beside unknown ones of a family, the most, ms", 1_000.0)
        },
        |report| each(&report.beside_unknown, |round| round.most),
    ),
    (Bar::at_least("rebuild of the list with checking, compared with the append rate", 5.0), |report| {
        report.rebuilt(Rebuild::per_second)
    }),
    (Bar { decimals: 1, ..Bar::below("reads over HTTP at 80 % of the most, p95, ms", 200.0) }, |report| {
        each(&report.reads, |round| round.all.p95)
    }),
    (Bar { decimals: 1, ..Bar::below("writes over HTTP at 80 % of the most, p95, ms", 350.0) }, |report| {
        each(&report.writes, |round| round.all.p95)
    }),
    (Bar::at_least("commands on new aggregates beside cqrs-es on PostgreSQL", 1.0), |report| {
        new(&report.events).over(&new(&report.others))
    }),
    (Bar::at_least("commands on existing aggregates beside cqrs-es on PostgreSQL", 1.0), |report| {
        next(&report.events).over(&next(&report.others))
    }),
];

impl fmt::Display for Report {
    /// Writes the section of the page.
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        introduce(self, out)?;
        writeln!(out, "{}", self.machine.rows(self.sync_after))?;
        writeln!(out, "| bar | needed | measured | range | |\n|---|---|---|---|---|")?;
        BARS.iter().filter_map(|(bar, of)| bar.row(&of(self))).try_for_each(|row| writeln!(out, "{row}"))?;
        appends(self, out)?;
        list(self, out)?;
        http(self, out)
    }
}

fn introduce(report: &Report, out: &mut Formatter<'_>) -> fmt::Result {
    let Report { seconds, rounds, sizes, .. } = report;
    let events = report.rebuilds.first().map_or(0, |round| round.events);
    let beside = if report.others.is_empty() { " --beside none" } else { "" };
    writeln!(
        out,
        "## Events\n\n\
         Written by `cargo xtask bench events --seconds {seconds} --rounds {rounds} --events {events}{beside} --write`;\n\
         do not edit.\n\n\
         The todos of `systems/todo` on the embedded engine, in a directory on disk, durable as `nagaya serve` has it: an\n\
         append is acknowledged once it is synced. {CALLERS} callers at once give one command after the other, each on an\n\
         aggregate of its own, through `Events::execute`: it loads the state, decides, and appends one event with the head in\n\
         one write set. First comes an event of a new aggregate, then the second one of each. Beside it, the engine alone\n\
         gets the same write sets through the port from as many callers: taken from what the layer writes ({} actions and {}\n\
         bytes of put items for a first event, {} and {} for a next one), with the same attributes, indexes and conditions,\n\
         and ids of their own. Both begin in an empty directory.\n\n\
         `cqrs-es` does the same commands of the same todos (the very code that decides) with `postgres-es` on PostgreSQL\n\
         (`fsync` and `synchronous_commit` on, the rest as by default), {CALLERS} connections by a socket of the machine, the\n\
         same facts in its metadata, and no queries. Every acknowledged event is counted afterwards. It keeps no head, no\n\
         chain of hashes and no index of a family's events; nagaya does.\n\n\
         The delay of the list: with the event processor, the feed and the look at generations running as in `nagaya serve`,\n\
         first events are appended at a constant rate, half of the highest median rate above; some 200 a second are watched,\n\
         from their acknowledgement until their todo is read from the list, looked for every millisecond. Then the same while\n\
         each second {UNKNOWN} todos of one family are created at once by a later program, whose events the list does not know: each is\n\
         parked, and tried three more times.\n\n\
         Rebuild: {} events, {EACH} an aggregate, made by a domain that decides {EACH} events at once; then\n\
         `Processor::rebuild` in a process of its own, which builds the list beside the one that is read, checks it against\n\
         its events, and switches. Its rounds follow each other in one directory, and are compared with the median of\n\
         first appends. Memory is what is resident with the directory open, and the most until the end.\n\n\
         Over HTTP: `nagaya serve todo`, as released, with {} todos of {FAMILIES} families, and a client beside it with\n\
         {CALLERS} connections. Reads are `GET /todos?limit=20` and `GET /todos/{{id}}` in turn, writes `POST /todos` and\n\
         `PATCH /todos/{{id}}` in turn. First as many as are answered; then {:.0} % of that at a constant rate, whether answers\n\
         come or not: a time counts from the moment at which its request was due, so waiting for a connection counts, and\n\
         so does a late timer of the client. The list has caught up before the next measurement.\n\n\
         Everything is measured in {rounds} rounds of {seconds} s ({} s for the list) after a quarter more that does not count,\n\
         the sides in turn. A figure is the median, a ratio is taken round by round, and the range is that of the rounds.\n",
        sizes.actions[0],
        sizes.bytes[0],
        sizes.actions[1],
        sizes.bytes[1],
        grouped(events),
        grouped(TODOS),
        PART * 100.0,
        seconds * 2.0,
    )
}

/// A kind of append.
type Appended = (&'static str, fn(&Appends) -> Pace);
/// A value that is reported for it.
type Figure = (&'static str, fn(&Pace) -> f64, usize);

const FIGURES: [Figure; 3] = [
    ("– p50, µs", |pace| pace.p50, 0),
    ("– p99, µs", |pace| pace.p99, 0),
    // For PostgreSQL it is another process.
    ("– processor time of the process for each, µs", |pace| pace.cpu, 1),
];

fn appends(report: &Report, out: &mut Formatter<'_>) -> fmt::Result {
    writeln!(
        out,
        "\n| | nagaya | the engine alone | cqrs-es | nagaya : engine | nagaya : cqrs-es |\n|---|--:|--:|--:|--:|--:|"
    )?;
    let kinds: [Appended; 2] = [
        ("durable first events of new aggregates/s", |appends| appends.new),
        ("durable next events of existing aggregates/s", |appends| appends.next),
    ];
    for (title, kind) in kinds {
        let per_second: Figure = (title, |pace| pace.per_second, 0);
        for (title, of, decimals) in [per_second].into_iter().chain(FIGURES) {
            let side = |rounds: &[Appends]| each(rounds, |round| of(&kind(round)));
            let [mine, engine, others] = [&report.events, &report.engine, &report.others].map(|rounds| side(rounds));
            write!(out, "| {title} |")?;
            for rounds in [&mine, &engine, &others] {
                write!(out, " {} |", rounds.figure(decimals))?;
            }
            for other in [&engine, &others] {
                write!(out, " {} |", mine.over(other).ratio())?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// A row with a median and its range.
fn row(title: &str, rounds: &Rounds, decimals: usize, out: &mut Formatter<'_>) -> fmt::Result {
    let shown = |number: f64| figure(number, decimals);
    writeln!(out, "| {title} | {} | {} – {} |", shown(rounds.median()), shown(rounds.least()), shown(rounds.most()))
}

fn list(report: &Report, out: &mut Formatter<'_>) -> fmt::Result {
    let Report { lags, rebuilds, .. } = report;
    writeln!(out, "\n| the list | median | range |\n|---|--:|--:|")?;
    row("appends/s while it is looked at", &each(lags, |round| round.appended), 0, out)?;
    row("behind, p50, ms", &each(lags, |round| round.p50), 1, out)?;
    row("behind, p99, ms", &each(lags, |round| round.p99), 1, out)?;
    row("behind, most, ms", &each(lags, |round| round.most), 1, out)?;
    row("behind beside unknown events, p50, ms", &each(&report.beside_unknown, |round| round.p50), 1, out)?;
    row("– p99, ms", &each(&report.beside_unknown, |round| round.p99), 1, out)?;
    row("– most, ms", &each(&report.beside_unknown, |round| round.most), 1, out)?;
    row("rebuild with checking, events/s", &each(rebuilds, Rebuild::per_second), 0, out)?;
    row("– beside first appends", &report.rebuilt(Rebuild::per_second), 2, out)?;
    row("rebuild without checking, events/s", &each(rebuilds, Rebuild::built_per_second), 0, out)?;
    row("– beside first appends", &report.rebuilt(Rebuild::built_per_second), 2, out)?;
    row("resident before, MB", &each(rebuilds, |round| round.before), 0, out)?;
    row("most resident while building and checking, MB", &each(rebuilds, |round| round.peak), 0, out)?;
    row(&format!("making the events, {EACH} to a command, events/s"), &Rounds(vec![report.filled]), 0, out)
}

fn http(report: &Report, out: &mut Formatter<'_>) -> fmt::Result {
    writeln!(out, "\n| over HTTP | median | range |\n|---|--:|--:|")?;
    let kinds = [
        ("reads", ["`GET /todos?limit=20`", "`GET /todos/{id}`"], &report.reads),
        ("writes", ["`POST /todos`", "`PATCH /todos/{id}`"], &report.writes),
    ];
    for (name, calls, rounds) in kinds {
        row(&format!("{name}/s, the most"), &each(rounds, |round| round.most), 0, out)?;
        row(&format!("{name}/s, at a constant rate"), &each(rounds, |round| round.rate), 0, out)?;
        row("– p50, ms", &each(rounds, |round| round.all.p50), 1, out)?;
        row("– p95, ms", &each(rounds, |round| round.all.p95), 1, out)?;
        row("– p99, ms", &each(rounds, |round| round.all.p99), 1, out)?;
        for (at, call) in calls.into_iter().enumerate() {
            row(&format!("– {call}, p95, ms"), &each(rounds, |round| round.kinds[at].p95), 1, out)?;
        }
    }
    row("the list caught up after the most writes, s", &each(&report.writes, |round| round.behind[0]), 1, out)?;
    row("– after writes at a constant rate, s", &each(&report.writes, |round| round.behind[1]), 1, out)
}
