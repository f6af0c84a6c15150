//! `nagaya events run`.

use std::io::Write as _;

use anyhow::Context as _;
use futures_util::future::join_all;
use nagaya_events::Processor;
use nagaya_server::StopSignal;
use serde_json::json;

use super::{SystemArgs, opened};
use crate::{
    Outcome,
    serve::{self, KeyFiles, StoreKind, Tables},
};

/// Keep projections up to date with the events, until stopped
///
/// The same work that `nagaya serve` does in the background, as a process of its own.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  nagaya events run todo --store dynamodb\n\nOn DynamoDB several may run side by side, and beside \
                  servers: each event is applied once. A directory has one process at a time, and `nagaya serve` does \
                  this itself.\n\nCtrl-C or SIGTERM stops it after the current batch."
)]
pub(super) struct Args {
    #[command(flatten)]
    at: SystemArgs,
    #[command(flatten)]
    logs: serve::LogArgs,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let at = &args.at;
    let Some(system) = opened::read_system(at)? else { return Ok(Outcome::FoundProblem) };
    let projections = opened::required_projections(&system)?;
    let _logs = args.logs.init()?;
    at.store.require_existing()?;
    // A server that has the directory open does this work already, and is not asked.
    let store = at.store.open().await.with_context(|| match at.store.kind {
        StoreKind::Embedded => {
            "a directory has one process at a time, and `nagaya serve` processes its events itself".to_owned()
        }
        _ => format!("{} cannot be opened", at.store.describe()),
    })?;
    let nagaya = at.store.open_system(&system, store, &Tables::Require { creates: false }, KeyFiles::Read).await?;
    let opened = opened::Opened { name: system.name, nagaya, projections };
    let processors = opened.projections.iter().map(|each| opened.processor(each)).collect::<Result<Vec<_>, _>>()?;
    announce(at, &opened)?;
    process(&processors).await;
    Ok(Outcome::Fine)
}

/// Says what is processed.
fn announce(at: &SystemArgs, opened: &opened::Opened) -> anyhow::Result<()> {
    let names: Vec<_> = opened.projections.iter().map(|each| each.entity()).collect();
    if at.json {
        let line = json!({ "system": opened.name, "projections": names });
        writeln!(std::io::stdout().lock(), "{line}")?;
    }
    let beside = match at.store.kind {
        StoreKind::Embedded => {
            "a directory has one process at a time: stop this before `nagaya serve`, which does the same itself"
        }
        _ => "other processes may do the same",
    };
    eprintln!(
        "nagaya {} keeps `{}` of {} up to date with its events, on {}\n  {beside}",
        env!("CARGO_PKG_VERSION"),
        names.join("`, `"),
        opened.name,
        at.store.describe()
    );
    Ok(())
}

/// Processes events until the process is told to stop.
async fn process(processors: &[Processor]) {
    let (sender, stop) = StopSignal::new();
    let work = processors.iter().map(|processor| {
        let mut stop = stop.clone();
        async move { processor.run(stop.wait()).await }
    });
    let stopping = async {
        serve::stop_signal().await;
        eprintln!("stops after the current batch");
        // Fails if all have ended already.
        let _ = sender.send(true);
    };
    tokio::join!(join_all(work), stopping);
}
