//! `nagaya events run`.

use std::io::Write as _;

use futures_util::future::join_all;
use nagaya_server::Stop;
use serde_json::json;

use super::{At, site};
use crate::{
    Outcome,
    serve::{self, Kind, Tables},
};

/// Keep projections in step with the events, until told to stop
///
/// What `nagaya serve` does beside its requests, as a process of its own.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  nagaya events run todo --store dynamodb\n\nOn DynamoDB several may run side by side, and beside \
                  servers: each event is applied once. A directory has one process at a time, and `nagaya serve` does \
                  this itself.\n\nCtrl-C or SIGTERM ends it, after what it has begun."
)]
pub(super) struct Args {
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    logs: serve::Logs,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let at = &args.at;
    let Some(system) = site::system(at)? else { return Ok(Outcome::FoundProblem) };
    let projections = site::projections(at, &system)?;
    let _logs = args.logs.begin()?;
    let nagaya = at.place.house(&system, site::open(at).await?, Tables::Require { creates: false }).await?;
    let site = site::Site { name: system.name, nagaya };
    let processors: Vec<_> = projections.iter().map(|each| site.processor(each)).collect::<Result<_, _>>()?;
    let names: Vec<_> = projections.iter().map(|each| each.entity()).collect();
    if at.json {
        let told = json!({ "system": site.name, "projections": names });
        writeln!(std::io::stdout().lock(), "{told}")?;
    }
    let beside = match at.place.store {
        Kind::Embedded => {
            "a directory has one process at a time: `nagaya serve` does this itself, and starts once this ends"
        }
        _ => "others may do the same beside it",
    };
    eprintln!(
        "nagaya {} keeps `{}` of {} in step with its events, on {}\n  {beside}",
        env!("CARGO_PKG_VERSION"),
        names.join("`, `"),
        site.name,
        at.place.describe()
    );

    let (tell, stop) = Stop::new();
    let work = processors.iter().map(|processor| {
        let mut stop = stop.clone();
        async move { processor.run(stop.told()).await }
    });
    let told = async {
        serve::stop().await;
        eprintln!("stops after what it has begun");
        // Nobody is left to be told when all have ended.
        let _ = tell.send(true);
    };
    tokio::join!(join_all(work), told);
    Ok(Outcome::Fine)
}
