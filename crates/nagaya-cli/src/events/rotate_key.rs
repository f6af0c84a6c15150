//! `nagaya events rotate-key`.

use anyhow::Context as _;
use serde_json::json;

use super::{SystemArgs, opened::Opened};
use crate::{
    Outcome,
    output::{counted, print},
};

/// Seal personal data in a user's later events with a new key
///
/// The older keys stay: events are never changed, and their personal fields stay readable. `nagaya events erase` destroys all
/// keys of the user. Processes that run beside it use the new key with the next event.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  nagaya events rotate-key letters.toml --tenant demo ann")]
pub(super) struct Args {
    #[command(flatten)]
    at: SystemArgs,
    /// The user's tenant
    #[arg(long, value_name = "TENANT")]
    tenant: String,
    /// The user
    user: String,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some(opened) = Opened::open(&args.at).await? else { return Ok(Outcome::FoundProblem) };
    let Args { tenant: name, user, .. } = args;
    let aggregates = opened.sealing_aggregates()?;
    let tenant = opened.tenant("nagaya events rotate-key", name)?;
    let mut rotated = 0;
    for aggregate in &aggregates {
        let done = opened.inspector(aggregate)?.rotate_key(&tenant, user).await;
        let room = "the new key was not stored; if `key` is too short for several keys, raise its `max` in the design";
        rotated += u64::from(done.context(room)?);
    }
    let text = match rotated {
        0 => format!("{user} has no key in {name}: the first event with personal data creates it\n"),
        _ => format!("{} rotated\n", counted(rotated, "key")),
    };
    print(args.at.json, &json!({ "rotatedKeys": rotated }), &text, true)
}
