//! `nagaya events run`.

use std::{io::Write as _, sync::Arc};

use anyhow::Context as _;
use futures_util::future::join_all;
use nagaya_server::StopSignal;
use nagaya_store::Store;
use serde_json::json;

use super::{SystemArgs, opened};
use crate::{
    Outcome,
    serve::{self, StoreKind, Tables},
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

/// Opens the store. A server that has it open does this work already.
async fn open(at: &SystemArgs) -> anyhow::Result<Arc<dyn Store>> {
    at.store.open().await.with_context(|| match at.store.kind {
        StoreKind::Embedded => {
            "a directory has one process at a time, and `nagaya serve` processes its events itself".to_owned()
        }
        _ => format!("{} cannot be opened", at.store.describe()),
    })
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let at = &args.at;
    let Some(system) = opened::read_system(at)? else { return Ok(Outcome::FoundProblem) };
    let projections = opened::required_projections(&system)?;
    let _logs = args.logs.init()?;
    let nagaya = at.store.open_system(&system, open(at).await?, Tables::Require { creates: false }).await?;
    let opened = opened::Opened { name: system.name, nagaya, projections: projections.clone() };
    let processors: Vec<_> = projections.iter().map(|each| opened.processor(each)).collect::<Result<_, _>>()?;
    let names: Vec<_> = projections.iter().map(|each| each.entity()).collect();
    if at.json {
        let told = json!({ "system": opened.name, "projections": names });
        writeln!(std::io::stdout().lock(), "{told}")?;
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

    let (tell, stop) = StopSignal::new();
    let work = processors.iter().map(|processor| {
        let mut stop = stop.clone();
        async move { processor.run(stop.wait()).await }
    });
    let told = async {
        serve::stop_signal().await;
        eprintln!("stops after the current batch");
        // Fails if all have ended already.
        let _ = tell.send(true);
    };
    tokio::join!(join_all(work), told);
    Ok(Outcome::Fine)
}
