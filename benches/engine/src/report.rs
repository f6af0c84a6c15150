//! The report: results, ratios, and which targets are met.

use std::fmt;

use bench_common::{
    callers::{CALLERS, Pace},
    machine::Machine,
    rounds::{self, Needed, Rounds, figure, grouped},
};
use serde::{Deserialize, Serialize};

use crate::{
    engines::Name,
    measure::{Figures, Size},
    settings::Settings,
    workload::Bytes,
};

/// The size at which the targets for large directories apply.
const LARGE: u64 = 2_000_000;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Microseconds; a large difference from the one before the run means that another process used the disk.
    pub(crate) sync_after: f64,
    pub(crate) seconds: f64,
    pub(crate) bytes: Bytes,
    pub(crate) sizes: Vec<Size>,
}

/// A value that is measured for every engine.
struct Measure {
    title: &'static str,
    of: fn(&Figures) -> Rounds,
    decimals: usize,
    /// Whether the mean counts instead of the median: periodic work is not noise.
    waves: bool,
}

impl Measure {
    const fn new(title: &'static str, of: fn(&Figures) -> Rounds, decimals: usize) -> Self {
        Measure { title, of, decimals, waves: false }
    }

    fn figure(&self, rounds: &Rounds) -> f64 {
        if self.waves { rounds.mean() } else { rounds.median() }
    }

    /// The ratio of two engines, and the range of the rounds.
    fn ratio(&self, mine: &Rounds, theirs: &Rounds) -> (f64, Rounds) {
        let each = mine.over(theirs);
        let figure = if self.waves { mine.mean() / theirs.mean() } else { each.median() };
        (figure, each)
    }
}

fn each(paces: &[Pace], of: impl Fn(&Pace) -> f64) -> Rounds {
    Rounds(paces.iter().map(of).collect())
}

const WRITES: Measure = Measure::new("durable writes/s, empty directory", |f| each(&f.writes, |p| p.per_second), 0);
const SUSTAINED: Measure = Measure {
    waves: true,
    ..Measure::new("durable writes/s, loaded directory", |f| each(&f.sustained, |p| p.per_second), 0)
};
const READS: Measure = Measure::new("point reads/s", |f| each(&f.reads, |p| p.per_second), 0);
const READ_P99: Measure = Measure::new("– p99, µs", |f| each(&f.reads, |p| p.p99), 1);
const QUERIES: Measure = Measure::new("queries of 20/s", |f| each(&f.queries, |p| p.per_second), 0);
const QUERY_P99: Measure = Measure::new("– p99, µs", |f| each(&f.queries, |p| p.p99), 1);
const OPEN: Measure = Measure::new("open, ms", |f| Rounds(f.open.clone()), 1);
const READING: Measure = Measure::new(
    "resident peak, reads and queries, MiB",
    |f| Rounds(f.reading.iter().map(|memory| memory.peak).collect()),
    0,
);
const WRITING: Measure = Measure::new(
    "resident peak, sustained writes too, MiB",
    |f| Rounds(f.writing.iter().map(|memory| memory.peak).collect()),
    0,
);

const MEASURES: [Measure; 18] = [
    WRITES,
    Measure::new("– p50, µs", |f| each(&f.writes, |p| p.p50), 0),
    Measure::new("– p99, µs", |f| each(&f.writes, |p| p.p99), 0),
    Measure::new("– processor time of each, µs", |f| each(&f.writes, |p| p.cpu), 1),
    Measure::new("one caller committing 64 at a time, writes/s", |f| each(&f.straight, |p| p.per_second), 0),
    SUSTAINED,
    Measure::new("– p99, µs", |f| each(&f.sustained, |p| p.p99), 0),
    Measure::new("– processor time of each, µs", |f| each(&f.sustained, |p| p.cpu), 1),
    READS,
    Measure::new("– p50, µs", |f| each(&f.reads, |p| p.p50), 1),
    READ_P99,
    QUERIES,
    Measure::new("– p50, µs", |f| each(&f.queries, |p| p.p50), 1),
    QUERY_P99,
    OPEN,
    READING,
    WRITING,
    Measure::new("on disk, MiB", |f| Rounds(vec![f.disk_mib]), 0),
];

/// A target of the engine.
struct Bar {
    bar: rounds::Bar,
    measure: Measure,
    /// The other engine; `None`: the value itself counts.
    beside: Option<Name>,
    /// Whether it applies to large directories only.
    large: bool,
}

const fn at_least(title: &'static str, measure: Measure, beside: Name, limit: f64) -> Bar {
    Bar { bar: rounds::Bar::at_least(title, limit), measure, beside: Some(beside), large: false }
}

const fn at_most(title: &'static str, measure: Measure, beside: Option<Name>, limit: f64) -> Bar {
    let decimals = if beside.is_some() { 2 } else { 0 };
    let bar = rounds::Bar { needed: Needed::AtMost, decimals, ..rounds::Bar::below(title, limit) };
    Bar { bar, measure, beside, large: true }
}

const BARS: [Bar; 11] = [
    at_least("durable conditional writes beside bare fjall", WRITES, Name::Fjall, 0.6),
    at_least("point reads beside bare fjall", READS, Name::Fjall, 0.6),
    at_least("queries of 20 beside a bare prefix read", QUERIES, Name::Fjall, 0.5),
    at_least("durable writes beside SQLite", WRITES, Name::Sqlite, 1.0),
    at_least("durable writes beside redb", WRITES, Name::Redb, 1.0),
    at_most("p99 of reads beside bare fjall", READ_P99, Some(Name::Fjall), 1.5),
    at_most("p99 of queries beside bare fjall", QUERY_P99, Some(Name::Fjall), 1.5),
    at_most("opening the directory beside bare fjall", OPEN, Some(Name::Fjall), 1.2),
    Bar { large: true, ..at_least("sustained durable writes beside bare fjall", SUSTAINED, Name::Fjall, 0.6) },
    at_most("resident memory while reading, MiB", READING, None, 256.0),
    at_most("resident memory while writing too, MiB", WRITING, None, 256.0),
];

impl Bar {
    fn row(&self, size: &Size) -> Option<String> {
        let mine = (self.measure.of)(size.engines.get(&Name::Nagaya)?);
        let (figure, rounds) = match self.beside {
            Some(name) => self.measure.ratio(&mine, &(self.measure.of)(size.engines.get(&name)?)),
            None => (self.measure.figure(&mine), mine),
        };
        let verdict = self.bar.verdict(figure, &rounds);
        let verdict = if self.large && size.items < LARGE { format!("({verdict})") } else { verdict };
        Some(self.bar.row_of(figure, &rounds, &verdict))
    }
}

impl fmt::Display for Report {
    /// Writes the section of the page.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self, out)
    }
}

fn write(report: &Report, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Report { machine, sync_after, seconds, bytes, sizes } = report;
    let listed = |of: fn(&Size) -> u64| {
        let mut each: Vec<_> = sizes.iter().map(of).collect();
        each.sort_unstable();
        each.dedup();
        each.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
    };
    let (items, buffers) = (listed(|size| size.items), listed(|size| size.settings.write_buffer));
    writeln!(
        out,
        "## The embedded engine\n\n\
         Written by `cargo xtask bench engine --items {items} --seconds {seconds} --write-buffer {buffers} --write`; do not edit.\n\n\
         The embedded engine through its port, beside bare fjall (the library below it), redb and SQLite: in the same\n\
         run, on the same workload, with the same bytes, the same cache size and the same durability; fjall also with the engine's write buffers\n\
         and journals. An item has 300\n\
         bytes and is in one of 1,000 partitions; a write is the item, two index entries with a copy of it, and a\n\
         change record. {CALLERS} writers at once each wait until their item is synced; the engine creates on absence, the\n\
         others write unconditionally. One thread commits what is queued, up to 64 writes to a sync: fjall with\n\
         `SyncData`, redb with `Durability::Immediate`, SQLite with WAL and `synchronous=FULL`. Reads and queries come\n\
         from one thread, choose random existing items with a fixed seed. A query reads 20\n\
         items by the beginning of their sort key.\n\n\
         Each engine runs in a process of its own. Every measurement is taken in {} rounds, all engines in turn, after a\n\
         quarter of its time as warm-up; a figure is the median, a ratio is taken round by round, and the range is that\n\
         of the rounds. Before reads are measured, the files of all engines are read through once, so that all have their files\n\
         in the system's cache. Writes into the loaded directory come in waves of compaction: there the mean is used. Memory is that\n\
         of a process with only the engine open, at its peak.\n",
        sizes.first().and_then(|size| size.engines.values().next()).map_or(0, |figures| figures.writes.len()),
    )?;
    out.write_str(&machine.rows(*sync_after))?;
    let same = if bytes.same { ", byte for byte the same" } else { "" };
    writeln!(out, "| bytes of a write, engine and others | {} and {}{same} |\n", bytes.engine, bytes.references)?;
    for size in sizes {
        let Settings { write_buffer, journals } = size.settings;
        let items = grouped(size.items);
        writeln!(out, "### {items} items, write buffers of {write_buffer} MiB, journals of {journals} MiB\n")?;
        writeln!(out, "| bar | needed | measured | range | |\n|---|---|---|---|---|")?;
        BARS.iter().filter_map(|bar| bar.row(size)).try_for_each(|row| writeln!(out, "{row}"))?;
        if size.items < LARGE {
            writeln!(out, "\nVerdicts in brackets are of bars set at {} items.", grouped(LARGE))?;
        }
        writeln!(out, "\n| | nagaya | fjall | redb | SQLite | nagaya : fjall |\n|---|--:|--:|--:|--:|--:|")?;
        for measure in &MEASURES {
            writeln!(out, "{}", row(measure, size))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn row(measure: &Measure, size: &Size) -> String {
    let rounds = |name| size.engines.get(&name).map_or(Rounds(Vec::new()), measure.of);
    let mut row = format!("| {} |", measure.title);
    for name in Name::ALL {
        row.push_str(&format!(" {} |", figure(measure.figure(&rounds(name)), measure.decimals)));
    }
    let (ratio, each) = measure.ratio(&rounds(Name::Nagaya), &rounds(Name::Fjall));
    row.push_str(&format!(" {} |", each.ratio_of(ratio)));
    row
}
