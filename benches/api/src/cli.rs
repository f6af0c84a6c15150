//! The command line, and the order of a run.

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt as _, path::PathBuf};

use anyhow::{Context as _, ensure};
use clap::{Parser, Subcommand};

use crate::{
    machine::{self, Machine},
    measure::{self, Load},
    report::{Report, page},
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
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Also write the report to this page
    #[arg(long)]
    page: Option<PathBuf>,
    /// The release binary
    #[arg(long, default_value = "target/bench/release/nagaya")]
    nagaya: PathBuf,
    /// The folder of installed tools
    #[arg(long, default_value = "target/tools")]
    tools: PathBuf,
    /// The folder for temporary directories
    #[arg(long, default_value = "target")]
    scratch: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.seconds > 0 && args.rounds > 0, "--seconds and --rounds have to be more than nothing");
    ensure!(args.connections >= THREADS, "--connections has to be {THREADS} or more");
    let nagaya = fs::canonicalize(&args.nagaya)
        .with_context(|| format!("{} is not there; `cargo xtask bench api` builds it", args.nagaya.display()))?;
    let tools = Tools::ready(&args.tools, &args.beside)?;
    fs::create_dir_all(&args.scratch).with_context(|| format!("{} cannot be made", args.scratch.display()))?;
    // Removed when it goes out of scope, also after an error. PostgreSQL does not run as root, and needs access to it.
    let scratch = tempfile::Builder::new()
        .prefix("bench-api-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(fs::canonicalize(&args.scratch)?)?;
    let machine = Machine::here(scratch.path(), &tools.versions()?)?;

    eprintln!("start and rest");
    let start = start::measure(&nagaya, scratch.path())?;
    let load = Load { seconds: args.seconds, rounds: args.rounds, connections: args.connections };
    let servers = servers::start(&nagaya, &tools, scratch.path(), &args.beside, &load)?;
    let servers = measure::all(servers, &load)?;

    let sync_after = machine::sync(scratch.path())?;
    let report = Report { machine, sync_after, load, start, servers };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{}", page(&report));
    }
    if let Some(path) = &args.page {
        fs::write(path, page(&report)).with_context(|| format!("{} cannot be written", path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
