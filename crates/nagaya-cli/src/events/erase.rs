//! `nagaya events erase`.

use anyhow::bail;
use serde_json::json;

use super::{
    At,
    confirm::confirmed,
    print::{counted, print},
    site::Site,
};
use crate::{Outcome, systems};

/// Erase what is personal in a user's events
///
/// Destroys the key that the personal fields of the user's events are sealed with. The events stay, and show them as erased; what
/// is built from them is brought in step. It cannot be undone, and is final once the store's own past (backups, recovery to a
/// past moment) is gone too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  nagaya events erase letters.toml --tenant demo ann --yes")]
pub(super) struct Args {
    #[command(flatten)]
    at: At,
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
    let Some(site) = Site::look(&args.at).await? else { return Ok(Outcome::FoundProblem) };
    let Args { tenant: name, user, .. } = args;
    let sealed = |aggregate: &&nagaya_design::Aggregate| aggregate.keys.is_some();
    let design = site.nagaya.design();
    let aggregates: Vec<_> = design.aggregates.iter().filter(sealed).map(|each| each.name.clone()).collect();
    if aggregates.is_empty() {
        bail!(
            "nothing is sealed in the events of {}: its design names no `keys` for an aggregate, so nothing can be erased",
            site.name
        );
    }
    let tenant = site.tenant("nagaya events erase", name)?;
    confirmed(args.yes, &format!("erase what is personal in the events of {user} in {name}, for good?"))?;
    let mut destroyed = 0;
    for aggregate in &aggregates {
        destroyed += u64::from(site.inspector(aggregate)?.erase(&tenant, user).await?);
    }
    let mut mended = 0;
    for projection in systems::projections(&args.at.system) {
        mended += site.processor(&projection)?.repair(name, &|_| {}).await?;
    }
    let text = match destroyed {
        0 => format!("{user} has no key in {name}: there is nothing of theirs to erase\n"),
        _ => format!("{} destroyed, {} brought in step\n", counted(destroyed, "key"), counted(mended, "item")),
    };
    print(args.at.json, &json!({ "keys": destroyed, "items": mended }), &text)?;
    Ok(if destroyed == 0 { Outcome::FoundProblem } else { Outcome::Fine })
}
