//! The command line, and the order of a run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::ensure;
use bench_common::{
    cli::ReportArgs,
    machine::{self, Machine, version},
};
use clap::{Parser, Subcommand};

use crate::{
    engines::Name,
    measure::{self, Size},
    report::Report,
    settings::{ENGINE, Settings},
    workload,
};

/// Compares the embedded engine with fjall, redb and SQLite
#[derive(Debug, Parser)]
#[command(name = "bench-engine")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Measure, and print the report
    Run(Args),
    /// Open one engine and execute the commands on standard input
    #[command(hide = true)]
    Child {
        engine: Name,
        directory: PathBuf,
        #[command(flatten)]
        settings: Settings,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Items in the directory; several sizes separated by commas
    #[arg(long, value_delimiter = ',', default_value = "200000")]
    items: Vec<u64>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// MiB of the write buffers of the engine and of bare fjall; several sizes separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [ENGINE.write_buffer])]
    write_buffer: Vec<u64>,
    /// MiB of the journals of both
    #[arg(long, default_value_t = ENGINE.journals)]
    journals: u64,
    #[command(flatten)]
    report: ReportArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    for items in &args.items {
        let step = workload::PARTITIONS * workload::ITEMS_PER_DAY;
        ensure!(
            *items >= step && items % step == 0,
            "--items has to be a multiple of {step}, so that all days are full"
        );
    }
    ensure!(args.seconds > 0.0, "--seconds has to be more than nothing");
    let scratch = args.report.scratch("bench-engine-")?;
    let versions = ["fjall", "redb", "rusqlite"].map(|name| format!("{name} {}", version(name)));
    let versions = format!("{}, SQLite {}", versions.join(", "), rusqlite::version());
    let machine = Machine::here(scratch.path(), &versions)?;
    let bytes = workload::probe(&scratch.path().join("probe"))?;
    let mut sizes = Vec::new();
    for items in &args.items {
        for write_buffer in &args.write_buffer {
            let settings = Settings { write_buffer: *write_buffer, journals: args.journals };
            sizes.push(size(scratch.path(), *items, args.seconds, settings)?);
        }
    }
    let sync_after = machine::sync(scratch.path())?;
    args.report.print(&Report { machine, sync_after, seconds: args.seconds, bytes, sizes })
}

fn size(scratch: &Path, items: u64, seconds: f64, settings: Settings) -> anyhow::Result<Size> {
    let directory = scratch.join(items.to_string());
    let measured = measure::size(&directory, items, seconds, settings)?;
    fs::remove_dir_all(&directory)?;
    Ok(measured)
}
