//! `nagaya events erase`.

use serde_json::json;

use super::{SystemArgs, opened::Opened};
use crate::{
    Outcome,
    confirm::confirm,
    output::{counted, print},
};

/// Erase personal data in a user's events
///
/// Destroys the key that seals the personal fields of the user's events. The events stay, and show the fields as erased; the
/// projections are updated. It cannot be undone, and is final once backups and retained changes of the store are gone too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  nagaya events erase letters.toml --tenant demo ann --yes")]
pub(super) struct Args {
    #[command(flatten)]
    at: SystemArgs,
    /// The user's tenant
    #[arg(long, value_name = "TENANT")]
    tenant: String,
    /// The user
    user: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some(opened) = Opened::open(&args.at).await? else { return Ok(Outcome::FoundProblem) };
    let Args { tenant: name, user, .. } = args;
    let aggregates = opened.sealing_aggregates()?;
    let tenant = opened.tenant("nagaya events erase", name)?;
    confirm(args.yes, &format!("erase the personal data in the events of {user} in {name} for good?"))?;
    let mut destroyed = 0;
    for aggregate in &aggregates {
        destroyed += u64::from(opened.inspector(aggregate)?.erase(&tenant, user).await?);
    }
    let mut updated = 0;
    for projection in &opened.projections {
        updated += opened.processor(projection)?.repair(name, &|_| {}).await?;
    }
    let text = match destroyed {
        0 => format!("{user} has no key in {name}: there is nothing to erase\n"),
        _ => format!("{} destroyed, {} updated\n", counted(destroyed, "key"), counted(updated, "item")),
    };
    print(args.at.json, &json!({ "destroyedKeys": destroyed, "updatedItems": updated }), &text, destroyed > 0)
}
