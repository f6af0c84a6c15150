//! The command line, and the order of a run.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::ensure;
use bench_common::{cli::ReportArgs, release::ReleaseArgs};
use clap::{Parser, Subcommand};

use crate::{
    machine::{self, Machine},
    measure::{self, Load},
    overload,
    report::Report,
    servers::{self, Name},
    start,
    tools::Tools,
    wrk::THREADS,
};

/// Compares the API with a bare handler, PocketBase and PostgreSQL
#[derive(Debug, Parser)]
#[command(name = "bench-api")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Measure, and print the report
    Run(Args),
    /// Measure memory and latency while clients misbehave, and print the report
    Overload(overload::Args),
    /// Serve the content of a file for every read
    #[command(hide = true)]
    Axum { listen: SocketAddr, answer: PathBuf },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds; each measures every server
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Concurrent connections
    #[arg(long, default_value_t = 64)]
    connections: u64,
    /// The servers to compare with
    #[arg(long, value_delimiter = ',', default_value = "axum,pocketbase,postgresql")]
    beside: Vec<Name>,
    #[command(flatten)]
    release: ReleaseArgs,
    /// An earlier build of the release binary, to compare with
    #[arg(long, value_name = "FILE")]
    earlier: Option<PathBuf>,
    /// The folder of installed tools
    #[arg(long, default_value = "target/tools")]
    tools: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.seconds > 0 && args.rounds > 0, "--seconds and --rounds have to be more than nothing");
    ensure!(args.connections >= THREADS, "--connections has to be {THREADS} or more");
    let nagaya = args.release.binary("api")?;
    let tools = Tools::ready(&args.tools, &args.beside)?;
    let scratch = args.report.scratch("bench-api-")?;
    let machine = Machine::here(scratch.path(), &tools.versions()?)?;

    eprintln!("start and rest");
    let start = start::measure(&nagaya, scratch.path())?;
    let load = Load { seconds: args.seconds, rounds: args.rounds, connections: args.connections };
    let servers = servers::start(&nagaya, args.earlier.as_deref(), &tools, scratch.path(), &args.beside, &load)?;
    let servers = measure::all(servers, &load)?;

    let sync_after = machine::sync(scratch.path())?;
    args.report.print(&Report { machine, sync_after, load, start, servers })
}
