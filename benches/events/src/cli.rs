//! The command line, and the order of a run.

use std::{fs, path::PathBuf, sync::Arc};

use anyhow::ensure;
use bench_common::{
    cli::ReportArgs,
    machine::{self, Machine},
    release::ReleaseArgs,
    rounds::Rounds,
};
use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    api::{Kind, Site},
    appends,
    cqrs::Cqrs,
    lag,
    many::EACH,
    rebuild,
    replay::Templates,
    report::Report,
};

/// Compares event sourcing on the embedded engine with the bare engine and with cqrs-es
#[derive(Debug, Parser)]
#[command(name = "bench-events")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Measure, and print the report
    Run(Args),
    /// Rebuild the projection of a directory, and print the results
    #[command(hide = true)]
    Rebuild { directory: PathBuf, rounds: u64 },
}

/// What commands are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Beside {
    CqrsEs,
    /// Only the engine
    None,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Rounds; each measures everything once
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Events from which the projection is rebuilt, a multiple of 10
    #[arg(long, default_value_t = 1_000_000)]
    events: u64,
    /// What to compare commands with
    #[arg(long, default_value = "cqrs-es")]
    beside: Beside,
    #[command(flatten)]
    release: ReleaseArgs,
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.seconds > 0.0 && args.rounds > 0, "--seconds and --rounds have to be more than nothing");
    ensure!(args.events > 0 && args.events.is_multiple_of(EACH), "--events has to be a multiple of {EACH}");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    args.report.print(&runtime.block_on(measure(args))?)
}

async fn measure(args: &Args) -> anyhow::Result<Report> {
    let nagaya = args.release.binary("events")?;
    let scratch = args.report.scratch("bench-events-")?;
    let at = |name: &str| scratch.path().join(name);
    let (seconds, rounds) = (args.seconds, args.rounds);
    // Measured while nothing else runs.
    let mut machine = Machine::here(scratch.path(), "the engine alone")?;
    let cqrs = match args.beside {
        Beside::CqrsEs => Some(Cqrs::start(&at("postgresql")).await?),
        Beside::None => None,
    };
    if let Some(cqrs) = &cqrs {
        machine.versions = cqrs.versions.clone();
    }

    let templates = Arc::new(Templates::make().await?);
    let (mut engine, mut events, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=rounds {
        let measured = appends::engine(&at("engine"), &templates, seconds).await?;
        eprintln!("  round {round}: the engine alone  {}", measured.summary());
        engine.push(measured);
        let measured = appends::events(&at("events"), seconds).await?;
        eprintln!("  round {round}: nagaya            {}", measured.summary());
        events.push(measured);
        if let Some(cqrs) = &cqrs {
            let measured = cqrs.measure(seconds).await?;
            eprintln!("  round {round}: cqrs-es           {}", measured.summary());
            others.push(measured);
        }
    }
    drop(cqrs);

    let most = Rounds(events.iter().map(|round| round.new.per_second).collect()).median();
    let (mut lags, mut beside_unknown) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        for (about, unknown, all) in [("", false, &mut lags), (" beside unknown events", true, &mut beside_unknown)] {
            let lag = lag::measure(&at("lag"), most / 2.0, 2.0 * seconds, unknown).await?;
            eprintln!(
                "  round {round}: the list{about} is {:.1} ms behind, p99 {:.1} ms, most {:.1} ms, at {:.0} appends/s",
                lag.p50, lag.p99, lag.most, lag.appended
            );
            all.push(lag);
        }
    }

    let folder = at("rebuild");
    let filled = rebuild::fill(&folder, args.events).await?;
    eprintln!("  {} events to build the list from, {filled:.0}/s", args.events);
    let rebuilds = rebuild::measure(&folder, rounds)?;
    fs::remove_dir_all(&folder)?;

    let mut site = Site::start(&nagaya, &at("site")).await?;
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        for (kind, all) in [(Kind::Reads, &mut reads), (Kind::Writes, &mut writes)] {
            let loaded = site.measure(kind, seconds).await?;
            eprintln!(
                "  round {round}: {kind:?} at most {:.0}/s, at {:.0}/s p95 {:.1} ms",
                loaded.most, loaded.rate, loaded.all.p95
            );
            all.push(loaded);
        }
    }
    drop(site);

    let sync_after = machine::sync(scratch.path())?;
    let sizes = templates.sizes;
    Ok(Report {
        machine,
        sync_after,
        seconds,
        rounds,
        sizes,
        engine,
        events,
        others,
        lags,
        beside_unknown,
        filled,
        rebuilds,
        reads,
        writes,
    })
}
