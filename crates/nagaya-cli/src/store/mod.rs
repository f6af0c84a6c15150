//! `nagaya store`: maintenance of the embedded store's directory.

mod access;
mod backup;
pub(super) mod encrypt;
mod failure;
mod keys;
mod recover;
pub(super) mod repair;
mod restore;
mod seal;
pub(super) mod show;
mod verify_backup;

use nagaya_embedded::verify_objects;
use serde_json::json;

pub(super) use self::access::{is_store, read_small};
use self::{
    access::{Access, DirectoryArgs, access, open},
    failure::StoreFailure,
};
use super::{Outcome, output::print, progress::with_progress};

/// Maintain the directory of the embedded store
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`stat`, `verify`, `backup`, `reindex`, `repair`, `encrypt` and `rotate-key` work while a server has the directory open: they ask the \
                        server, over the socket `control.sock` in the directory. The others need exclusive access.\n\nExit \
                        codes: 0 fine, 1 found a problem, 2 wrong usage."
)]
pub(super) struct Args {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    /// Count what is in the directory
    Stat(DirectoryArgs),
    /// Verify checksums of files and objects, and that items, indexes, expiries and changes agree
    Verify(DirectoryArgs),
    Backup(backup::Args),
    VerifyBackup(verify_backup::Args),
    Restore(restore::Args),
    Reindex(repair::ReindexArgs),
    Repair(repair::RepairArgs),
    Recover(recover::Args),
    Encrypt(encrypt::EncryptArgs),
    RotateKey(encrypt::RotateKeyArgs),
    /// Rewrite the files without overwritten and deleted data
    Compact(DirectoryArgs),
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match &args.subcommand {
        Subcommand::Stat(directory) => {
            let stat = match access(directory)? {
                Access::Own(store) => show::stats_json(&store.stats()?),
                Access::Server(connection) => connection.ask(&json!({ "do": "stat" }), &mut |_| {})?,
            };
            print(directory.json, &stat, &show::store_stat_text(&stat), true)
        }
        Subcommand::Verify(directory) => verify(directory),
        Subcommand::Backup(args) => backup::run(args),
        Subcommand::VerifyBackup(args) => verify_backup::run(args),
        Subcommand::Restore(args) => restore::run(args),
        Subcommand::Reindex(args) => repair::reindex(args),
        Subcommand::Repair(args) => repair::repair(args),
        Subcommand::Recover(args) => recover::run(args),
        Subcommand::Encrypt(args) => encrypt::encrypt(args),
        Subcommand::RotateKey(args) => encrypt::rotate_key(args),
        Subcommand::Compact(directory) => {
            let store = open(directory)?;
            let before = store.stats()?.disk_bytes;
            store.compact()?;
            let after = store.stats()?.disk_bytes;
            let text = format!("{} before, {} after\n", show::byte_count_text(before), show::byte_count_text(after));
            print(directory.json, &json!({ "bytesBefore": before, "bytesAfter": after }), &text, true)
        }
    }
}

fn verify(directory: &DirectoryArgs) -> anyhow::Result<Outcome> {
    let access = access(directory)?;
    let keyring = access.keyring(directory)?;
    let mut found = with_progress("entries", |progress| match access {
        Access::Own(store) => Ok(show::findings_json(&store.verify(progress).map_err(StoreFailure::from)?)),
        Access::Server(connection) => Ok(connection.ask(&json!({ "do": "verify" }), progress)?),
    })?;
    let objects = with_progress("objects", |progress| {
        Ok(verify_objects(&directory.data.join("objects"), &keyring, progress).map_err(StoreFailure::from)?)
    })?;
    show::add_findings(&mut found, &objects);
    print(directory.json, &found, &show::findings_text(&found), found["ok"] == true)
}
