//! `nagaya events run`.

use std::{io::Write as _, sync::Arc};

use anyhow::Context as _;
use futures_util::future::join_all;
use nagaya_server::StopSignal;
use nagaya_tenancy::ChangeConsumer;
use serde_json::json;

use super::{SystemArgs, opened};
use crate::{
    Outcome,
    serve::{self, KeyFiles, StoreKind, Tables},
};

/// Keep projections and other derived data up to date with changes, until stopped
///
/// The same work that `nagaya serve` does in the background, as a process of its own: the projections of events, and what a
/// system derives from other items, such as counts and a search index.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  nagaya events run todo --store dynamodb\n\nOn DynamoDB several may run side by side, and beside \
                  servers: each change is applied once. A directory has one process at a time, and `nagaya serve` does \
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
    let Some(system) = opened::read_any_system(at)? else { return Ok(Outcome::FoundProblem) };
    let _logs = args.logs.init()?;
    at.store.require_existing()?;
    // A server that has the directory open does this work already, and is not asked.
    let store = at.store.open().await.with_context(|| match at.store.kind {
        StoreKind::Embedded => {
            "a directory has one process at a time, and `nagaya serve` processes its changes itself".to_owned()
        }
        _ => format!("{} cannot be opened", at.store.describe()),
    })?;
    let nagaya = at.store.open_system(&system, store, &Tables::Require { creates: false }, KeyFiles::Read).await?;
    let consumers = system.consumers(&nagaya)?;
    opened::check_consumers(&system.name, &consumers)?;
    announce(at, &system.name, &consumers)?;
    process(&consumers).await;
    Ok(Outcome::Fine)
}

/// Says what is processed.
fn announce(at: &SystemArgs, system: &str, consumers: &[Arc<dyn ChangeConsumer>]) -> anyhow::Result<()> {
    let names: Vec<_> = consumers.iter().map(|each| each.subscription().name()).collect();
    if at.json {
        let line = json!({ "system": system, "consumers": names });
        writeln!(std::io::stdout().lock(), "{line}")?;
    }
    let beside = match at.store.kind {
        StoreKind::Embedded => {
            "a directory has one process at a time: stop this before `nagaya serve`, which does the same itself"
        }
        _ => "other processes may do the same",
    };
    eprintln!(
        "nagaya {} keeps `{}` of {system} up to date with changes, on {}\n  {beside}",
        env!("CARGO_PKG_VERSION"),
        names.join("`, `"),
        at.store.describe()
    );
    Ok(())
}

/// Processes changes until the process is told to stop.
async fn process(consumers: &[Arc<dyn ChangeConsumer>]) {
    let (sender, stop) = StopSignal::new();
    let work = consumers.iter().map(|consumer| {
        let mut stop = stop.clone();
        async move { consumer.run(Box::pin(async move { stop.wait().await })).await }
    });
    let stopping = async {
        serve::stop_signal().await;
        eprintln!("stops after the current batch");
        // Fails if all have ended already.
        let _ = sender.send(true);
    };
    tokio::join!(join_all(work), stopping);
}
