//! `nagaya audit archive`.

use anyhow::{Context as _, bail};
use serde_json::json;

use super::LogArgs;
use crate::{Outcome, output::print, progress};

/// Move old audit entries to the archive of the design
///
/// Servers do this in the background. This is for deployments without one that runs for long, such as on AWS Lambda. It reads
/// the whole table of the entries, and may be interrupted: what has moved stays moved.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  nagaya audit archive desk.toml --store dynamodb --reason 'daily archive'")]
pub(super) struct Args {
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Some((operator, nagaya, system)) = args.log.open().await? else { return Ok(Outcome::FoundProblem) };
    let Some(archive) = nagaya.design().audit_archive_entity() else {
        bail!("the design of {system} has no archive: old entries stay where they are (`archive` in [audit])")
    };
    let bar = progress::bar("{spinner} {human_pos} entries moved, {elapsed}", None);
    let moved = operator.archive_audits(&|moved| bar.set_position(moved as u64)).await;
    bar.finish_and_clear();
    let moved = moved.with_context(|| format!("not all entries could be moved to `{}`", archive.name))? as u64;
    let entries = if moved == 1 { "1 entry".to_owned() } else { format!("{moved} entries") };
    let text = format!("{entries} moved to `{}`\n", archive.name);
    let shown = json!({ "system": system, "archive": archive.name, "moved": moved });
    print(args.log.json, &shown, &text, true)
}
