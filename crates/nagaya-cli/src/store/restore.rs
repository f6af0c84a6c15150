//! `nagaya store restore`.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use nagaya_embedded::{
    KeyFile, RestoreExtras, RestoreSummary, VerifiedBackup, restore_backups, verify_chain, verify_encrypted_backup,
};
use nagaya_server::System;
use serde_json::json;

use super::{
    access::{DirectoryArgs, open},
    failure::StoreFailure,
    keys::{self, KeyArgs},
    show,
};
use crate::{Outcome, output::print, progress::with_progress, systems};

/// Restore a new directory from backups, or to the state of a past time
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya store restore --from monday.nagaya --to ./restored --passphrase-file secret.txt\n  nagaya \
                  store restore --from monday.nagaya --from tuesday.nagaya --to ./restored --key-file backup.key\n  nagaya \
                  store restore --at 2026-01-31T09:30:00Z --to ./restored\n\nThe directory of --to must not exist, or be \
                  empty. A past state is derived from the retained changes (7 days by default); a restored directory has \
                  them too, so a backup can be restored first and then taken back in time. Exit codes: 0 fine, \
                  1 a backup is damaged or does not continue the one before, 2 the command could not run."
)]
#[command(group(clap::ArgGroup::new("source").args(["from", "at"]).required(true)))]
pub(super) struct Args {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// The backup to restore; again for each incremental one that follows it
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// The time to go back to, such as 2026-01-31T09:30:00Z
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    at: Option<Timestamp>,
    /// The new directory
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    key_secret: KeyArgs,
}

/// Reads an instant.
fn instant(text: &str) -> Result<Timestamp, &'static str> {
    text.parse().map_err(|_| "write an instant with its offset, such as 2026-01-31T09:30:00Z")
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let restored = match args.at {
        Some(at) => restore_at(args, at)?,
        None => match restore_backups_of(args) {
            Err(error)
                if error.chain().any(|cause| cause.downcast_ref().is_some_and(|told: &StoreFailure| told.damaged)) =>
            {
                eprintln!("nagaya: {error:#}");
                return Ok(Outcome::FoundProblem);
            }
            other => other?,
        },
    };
    if restored.clock_went_back {
        eprintln!(
            "nagaya: the clock went back while changes were recorded: check whether this is the state that you mean, \
             and try other times if it is not"
        );
    }
    let next = next_steps(args, &restored)?;
    let mut json = show::restored_json(&restored, &args.to);
    json["nextCommands"] = json!(next);
    let outcome = print(args.directory.json, &json, &show::restored_text(&restored, &args.to), true)?;
    if restored.keys == 0 {
        eprintln!(
            "no keys were restored: tokens and cursors issued earlier are refused, and new keys are created at the first start"
        );
    }
    eprintln!("check it before use:");
    for step in next {
        eprintln!("  {step}");
    }
    Ok(outcome)
}

fn restore_at(args: &Args, at: Timestamp) -> anyhow::Result<RestoreSummary> {
    let Args { directory, to, .. } = args;
    let store = open(directory)?;
    let keys = if args.key_secret.without_keys { Vec::new() } else { keys::read(&directory.data)? };
    let objects = directory.data.join("objects");
    let beside = RestoreExtras { objects: Some(&objects), keys: &keys, ..RestoreExtras::default() };
    with_progress("entries", |progress| {
        Ok(store.restore_at(at.as_millisecond(), to, beside, progress).map_err(StoreFailure::from)?)
    })
}

fn restore_backups_of(args: &Args) -> anyhow::Result<RestoreSummary> {
    let key = args.directory.encryption.key()?;
    let check = |file: &PathBuf| -> anyhow::Result<VerifiedBackup> {
        with_progress("records checked", |progress| {
            verify_encrypted_backup(file, key.as_ref(), progress)
                .map_err(StoreFailure::from)
                .with_context(|| format!("{}: nothing was restored", file.display()))
        })
    };
    let chain: Vec<_> = args.from.iter().map(check).collect::<Result<_, _>>()?;
    verify_chain(&chain).map_err(StoreFailure::from).context("nothing was restored")?;
    let keys = keys_of(args, &chain).context("nothing was restored")?;
    let beside = RestoreExtras { objects: None, keys: &keys, encryption_key: key.as_ref() };
    with_progress("entries", |progress| {
        Ok(restore_backups(&chain, &args.to, beside, progress).map_err(StoreFailure::from)?)
    })
}

/// The keys of the newest backup that has some.
fn keys_of(args: &Args, chain: &[VerifiedBackup]) -> anyhow::Result<Vec<KeyFile>> {
    let newest = chain.iter().rev().find_map(|checked| checked.sealed_keys.as_ref().zip(checked.id()));
    match newest {
        Some((sealed, id)) if !args.key_secret.without_keys => keys::unseal_keys(&args.key_secret, sealed, id),
        _ => Ok(Vec::new()),
    }
}

/// The commands that show whether a restored directory is sound.
fn next_steps(args: &Args, restored: &RestoreSummary) -> anyhow::Result<Vec<String>> {
    let to = format!("{}{}", args.to.display(), args.directory.encryption.as_flag());
    let mut next = vec![format!("nagaya store verify --data {to}")];
    let kept = |name: &str| restored.tables.iter().any(|table| table.starts_with(&format!("{name}/")));
    let kept: Vec<_> =
        systems::all(&systems::Resources::default())?.into_iter().filter(|system| kept(&system.name)).collect();
    // The processor of the server applies what was not applied yet when the backup was taken.
    next.push(serve_command(&restored.tables, &to));
    for System { name, projections, .. } in &kept {
        for projection in projections {
            next.push(format!("nagaya events rebuild {name} {} --verify-only --data {to}", projection.entity()));
        }
    }
    for System { name, .. } in kept.iter().filter(|system| system.smoke_test.is_some()) {
        next.push(format!("nagaya smoke {name} --url http://127.0.0.1:8080 --data {}", args.to.display()));
    }
    Ok(next)
}

/// The command that serves the systems of these tables. The directory does not have the design files: each is assumed to
/// have the name of its design.
fn serve_command(tables: &[String], to: &str) -> String {
    let names: BTreeSet<_> = tables.iter().filter_map(|table| Some(table.split_once('/')?.0)).collect();
    let is_built_in = |name: &str| systems::design_text(name).is_some();
    if names.iter().all(|name| is_built_in(name)) {
        return format!("nagaya serve --data {to}");
    }
    let given = |name: &&str| if is_built_in(name) { (*name).to_owned() } else { format!("{name}.toml") };
    format!("nagaya serve {} --data {to}", names.iter().map(given).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_is_missing_or_malformed_is_said_with_its_form() {
        let refusal = |line: &str| Cli::try_parse_from(line.split(' ')).expect_err("it is wrong").to_string();
        let shown = refusal("restore --to x --at yesterday");
        assert!(shown.contains("such as 2026-01-31T09:30:00Z"), "{shown}");
        let shown = refusal("restore --to x");
        assert!(shown.contains("--from <FILE>|--at <INSTANT>"), "{shown}");
        assert!(refusal("restore --to x --from a --at 2026-01-31T09:30:00Z").contains("cannot be used with"));
        let Cli { args } = Cli::try_parse_from("restore --to x --from a --from b".split(' ')).expect("it is fine");
        assert_eq!(args.from.len(), 2);
    }

    #[test]
    fn the_command_to_serve_names_designs_that_are_not_built_in() {
        let serve =
            |tables: &[&str]| serve_command(&tables.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), "r");
        assert_eq!(serve(&["todo/app", "todo/events"]), "nagaya serve --data r");
        assert_eq!(serve(&["shop/app"]), "nagaya serve shop.toml --data r");
        assert_eq!(serve(&["todo/app", "shop/app", "shop/log"]), "nagaya serve shop.toml todo --data r");
    }
}
