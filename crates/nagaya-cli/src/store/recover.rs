//! `nagaya store recover`: opening a directory whose journal is damaged.

use std::fmt::Write as _;

use anyhow::bail;
use nagaya_embedded::{Recovery, discard_damaged_commits, inspect_damage};
use serde_json::{Value as Json, json};

use super::{
    access::{DirectoryArgs, is_store},
    failure::StoreFailure,
};
use crate::{Outcome, output::print};

/// Show what a damaged journal still holds, and with --yes discard the rest
///
/// Commits are whole up to the damage. With --yes the damaged commit and all after it are cut off the journals and kept in
/// `torn/`. Data of later commits that is already in sorted files stays, so run `verify` and `repair` afterwards. Try a backup
/// first, and keep a copy of the directory.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Discard the damaged commit and every later one
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let data = &args.directory.data;
    if !is_store(data)? {
        bail!("{} is not the directory of a store; name it with --data", data.display());
    }
    let found = inspect_damage(data).map_err(StoreFailure::from)?;
    let kept = if args.yes && found.is_damaged() {
        discard_damaged_commits(data).map_err(StoreFailure::from)?
    } else {
        Vec::new()
    };
    let discarded = args.yes && found.is_damaged();
    let mut json = json(&found);
    json["discarded"] = discarded.into();
    json["keptFiles"] = kept.iter().map(|path| path.display().to_string()).collect();
    let mut text = text(&found);
    if discarded {
        for path in &kept {
            // Writing to a string does not fail.
            let _ = writeln!(text, "cut off, and kept in {}", path.display());
        }
        text.push_str("the directory opens again; run `nagaya store verify` and `nagaya store repair` on it\n");
    } else if found.is_damaged() {
        text.push_str("nothing was changed; --yes discards the damaged commit and every later one\n");
    }
    print(args.directory.json, &json, &text, discarded || !found.is_damaged())
}

fn json(found: &Recovery) -> Json {
    let journals = found.journals.iter().map(|journal| {
        json!({
            "path": journal.path,
            "batches": journal.batches,
            "endOffset": journal.end,
            "tornBytes": journal.torn_bytes,
        })
    });
    json!({
        "damage": found.damage,
        "lastCommit": found.last_commit,
        "lastAcknowledgedCommit": found.acknowledged,
        "lostCommits": found.lost(),
        "journals": journals.collect::<Vec<_>>(),
    })
}

fn text(found: &Recovery) -> String {
    let mut out = String::new();
    for journal in &found.journals {
        let path = journal.path.display();
        // Writing to a string does not fail.
        let _ = write!(out, "{path}: {} whole batches, up to byte {}", journal.batches, journal.end);
        let _ = match journal.torn_bytes {
            0 => writeln!(out),
            bytes => writeln!(out, ", then {bytes} torn bytes"),
        };
    }
    match &found.damage {
        None => out.push_str("the journals are whole; `nagaya store verify` checks everything else\n"),
        Some(damage) => {
            let _ = writeln!(out, "{damage}");
            if let Some(lost) = found.lost() {
                let _ = writeln!(out, "{lost} acknowledged commits or more cannot be read");
            }
        }
    }
    out
}
