//! `nagaya events catch-up`.

use std::fmt::Write as _;

use anyhow::{Context as _, anyhow};
use nagaya_events::refresh_generations;
use nagaya_tenancy::process_everything;
use serde_json::json;

use super::{SystemArgs, opened::Opened};
use crate::{
    Outcome,
    output::{counted, print},
};

/// Process everything that is stored, whatever has been processed before
///
/// For changes that nobody will deliver: those from before a stream function was attached, those that a stream has dropped, and
/// records that a function could not read. What is up to date already stays as it is.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  nagaya events catch-up todo --store dynamodb\n\nIt works beside servers and functions, can be \
                  interrupted and run again, and reads all items once for each thing that is derived from them. Attach \
                  the function first, then run this: no change falls between.\n\nIt exits with 1 if something cannot be \
                  brought up to date; for events, `nagaya events dlq list` shows what."
)]
pub(super) struct Args {
    #[command(flatten)]
    at: SystemArgs,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let at = &args.at;
    let Some(opened) = Opened::with_consumers(at).await? else { return Ok(Outcome::FoundProblem) };
    refresh_generations(&opened.nagaya).await?;
    // Before the items are read: what these are about is among them.
    let unreadable = opened.unreadable_changes().await?;
    let (mut out, mut results, mut parked) = (String::new(), Vec::new(), 0);
    for consumer in &opened.consumers {
        let name = consumer.subscription().name();
        let processed = process_everything(&**consumer).await.map_err(|error| anyhow!(error));
        let processed = processed.with_context(|| format!("`{name}` is not up to date; run this again"))?;
        parked += processed.parked;
        let read = counted(u64::try_from(processed.relevant).unwrap_or(u64::MAX), "stored item");
        let cannot = match processed.parked {
            0 => String::new(),
            parked => format!(", and {parked} cannot be brought up to date"),
        };
        let _ = writeln!(out, "`{name}`: {read} processed{cannot}");
        results.push(json!({ "name": name, "items": processed.relevant, "parked": processed.parked }));
    }
    for (consumer, change) in unreadable.values() {
        consumer.subscription().forget_unreadable(change).await?;
    }
    print(at.json, &json!({ "ok": parked == 0, "consumers": results }), &out, parked == 0)
}
