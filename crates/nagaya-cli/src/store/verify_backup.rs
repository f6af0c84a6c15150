//! `nagaya store verify-backup`.

use std::path::PathBuf;

use anyhow::Context as _;
use nagaya_embedded::{verify_chain, verify_encrypted_backup};
use serde_json::json;

use super::{
    failure::StoreFailure,
    keys::{self, KeyArgs},
    show,
};
use crate::{Outcome, encryption::EncryptionArgs, output::print, progress::with_progress};

/// Check that backups are complete and continue each other, without restoring them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya store verify-backup monday.nagaya\n  nagaya store verify-backup monday.nagaya \
                  tuesday.nagaya --key-file backup.key\n\nEvery byte is read and checked. Several files are a full backup \
                  and the incremental ones that follow it, in their order. With a secret it is tried on the sealed \
                  keys. Exit codes: 0 fine, 1 a backup is damaged or does not continue the one before, 2 a file cannot be read."
)]
pub(super) struct Args {
    /// The backups
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    encryption: EncryptionArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (mut listed, mut text, mut problems) = (Vec::new(), String::new(), Vec::new());
    let mut chain = Vec::new();
    let key = args.encryption.key()?;
    for file in &args.files {
        match with_progress("records checked", |progress| {
            Ok(verify_encrypted_backup(file, key.as_ref(), progress).map_err(StoreFailure::from))
        })? {
            Ok(checked) => {
                let mut what = show::backup_json(&checked.backup, file);
                let damaged = checked.backup.damaged_objects.len();
                what["ok"] = (damaged == 0).into();
                if damaged > 0 {
                    problems.push(format!("{}: {damaged} objects were damaged when it was written", file.display()));
                }
                listed.push(what);
                text.push_str(&show::backup_text(&checked.backup, &format!("in {}", file.display())));
                chain.push(checked);
            }
            Err(error) if error.damaged => {
                let told = format!("{}: {error}", file.display());
                listed.push(json!({ "file": file, "ok": false, "problem": error.to_string() }));
                problems.push(told);
            }
            Err(error) => return Err(error).context("the backup cannot be checked"),
        }
    }
    // A single incremental backup is checked alone; the one that it continues is needed to restore it.
    if problems.is_empty()
        && chain.len() > 1
        && let Err(error) = verify_chain(&chain).map_err(StoreFailure::from)
    {
        problems.push(error.to_string());
    }
    if args.keys.secret()?.is_some() {
        for checked in &chain {
            if let (Some(sealed), Some(id)) = (&checked.sealed_keys, checked.id())
                && let Err(error) = keys::unseal_keys(&args.keys, sealed, id)
            {
                problems.push(format!("{}: {error:#}", checked.file.display()));
            }
        }
    }
    for problem in &problems {
        text.push_str(problem);
        text.push('\n');
    }
    let json = json!({ "ok": problems.is_empty(), "backups": listed, "problems": problems });
    print(args.json, &json, &text, problems.is_empty())
}
