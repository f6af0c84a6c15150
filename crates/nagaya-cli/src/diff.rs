//! `nagaya diff`: what changed between two designs, and whether it breaks.

use std::{io::Write as _, path::PathBuf};

use nagaya_design::{Difference, allows_breaking, diff};
use serde_json::json;

use super::{Outcome, source};

/// List what changed between two designs; fail on breaking changes without a new major version
#[derive(Debug, clap::Args)]
#[command(after_help = "OLD and NEW are design files or built-in systems; a file of that name wins.")]
pub(super) struct Args {
    /// The design as it was
    old: PathBuf,
    /// The design as it is now
    new: PathBuf,
    /// Print the differences as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (old, new) = (source::design(&args.old, &[])?, source::design(&args.new, &[])?);
    let (Some(old), Some(new)) = (old, new) else { return Ok(Outcome::FoundProblem) };
    let found = diff(&old, &new);
    let breaking = found.iter().filter(|each| each.breaking_reason.is_some()).count();
    let failed = breaking > 0 && !allows_breaking(&old, &new);
    let mut out = std::io::stdout().lock();
    if args.json {
        let changes: Vec<_> = found
            .iter()
            .map(|each| {
                json!({
                    "path": each.path, "change": each.change, "breaking": each.breaking_reason.is_some(), "reason": each.breaking_reason,
                })
            })
            .collect();
        let result = json!({
            "ok": !failed,
            "from": old.version.to_string(),
            "to": new.version.to_string(),
            "breaking": breaking,
            "changes": changes,
        });
        writeln!(out, "{result:#}")?;
    } else {
        let (breaks, fine): (Vec<_>, Vec<_>) = found.iter().partition(|each| each.breaking_reason.is_some());
        let mut list = |title: &str, changes: &[&Difference]| -> std::io::Result<()> {
            if !changes.is_empty() {
                writeln!(out, "{title}")?;
                changes.iter().try_for_each(|each| writeln!(out, "  {each}"))?;
            }
            Ok(())
        };
        list("breaking", &breaks)?;
        list("not breaking", &fine)?;
        let count = |count: usize| if count == 1 { "1 change".to_owned() } else { format!("{count} changes") };
        writeln!(out, "{} {} → {}: {}, {breaking} breaking", new.name, old.version, new.version, count(found.len()))?;
    }
    if failed {
        eprintln!(
            "nagaya: a breaking change needs a new major version: write version = \"{}.0\" in {}",
            old.version.major.saturating_add(1),
            args.new.display()
        );
        return Ok(Outcome::FoundProblem);
    }
    Ok(Outcome::Fine)
}
