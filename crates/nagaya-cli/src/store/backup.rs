//! `nagaya store backup`.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use nagaya_embedded::{BackupContent, BackupSource, new_backup_id, verify_encrypted_backup, write_backup};
use nagaya_store::files;

use super::{
    access::{Access, DirectoryArgs, access},
    failure::StoreFailure,
    keys::{self, KeyArgs},
    show,
};
use crate::{Outcome, output::print, progress::with_progress};

/// Back up the data directory to one file, also while a server runs
///
/// The backup is a consistent snapshot of tables, items, retained changes, objects and the sealed keys. Writes go on
/// meanwhile.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya store backup monday.nagaya --passphrase-file secret.txt\n  nagaya store backup \
                  tuesday.nagaya --since monday.nagaya --key-file backup.key\n  nagaya store backup data-only.nagaya \
                  --without-keys\n\nAn existing file is never replaced. An incremental backup (--since) continues one that is not older \
                  than the retained changes (7 days by default); restoring it needs all backups from the full one on. \
                  Exit codes: 0 fine, 1 the backup was written, but objects in the data directory are damaged, 2 the backup could not be \
                  written."
)]
pub(super) struct Args {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// The file to write
    file: PathBuf,
    /// Write only what is new since this backup
    #[arg(long, value_name = "PREVIOUS")]
    since: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Args { directory, file, .. } = args;
    // Fail before reading anything if the result could not be written.
    if file.symlink_metadata().is_ok() {
        bail!("{} exists, and a backup never replaces a file; choose another name", file.display());
    }
    let access = access(directory)?;
    let keyring = access.keyring(directory)?;
    let key = directory.encryption.key()?;
    let id = new_backup_id()?;
    let sealed = keys::seal_keys(&args.keys, &directory.data, id)?;
    // An incremental backup of a damaged one would be useless.
    let check = |previous: &PathBuf| {
        with_progress("records checked", |progress| {
            verify_encrypted_backup(previous, key.as_ref(), progress)
                .map_err(StoreFailure::from)
                .with_context(|| format!("{} cannot be continued", previous.display()))
        })
    };
    let previous = args.since.as_ref().map(check).transpose()?;
    let since = previous.as_ref().and_then(|previous| previous.position());
    if previous.is_some() && since.is_none() {
        bail!("the previous backup is of a format that cannot be continued; write a full one, without --since");
    }
    let objects = directory.data.join("objects");
    // Before the snapshot: an object that it refers to is not deleted until it has been copied.
    let lock = files::lock_objects_shared(&objects);
    let _lock = lock.with_context(|| format!("the objects of {} cannot be locked", directory.data.display()))?;
    let mut stream = None;
    let own;
    let source = match access {
        Access::Own(store) => {
            own = store;
            BackupSource::Store(&own)
        }
        Access::Server(connection) => BackupSource::Stream(stream.insert(connection.stream(since.as_ref())?)),
    };
    let content = BackupContent {
        source,
        previous: previous.as_ref(),
        objects: Some(&objects),
        sealed_keys: sealed.as_deref(),
        id,
        // Also where the store itself is not encrypted.
        encryption_key: key.as_ref(),
        keyring: Some(&keyring),
    };
    let made =
        with_progress("records", |progress| Ok(write_backup(file, content, progress).map_err(StoreFailure::from)?))?;
    let json = show::backup_json(&made, file);
    let text = show::backup_text(&made, &format!("written to {}", file.display()));
    print(directory.json, &json, &text, made.damaged_objects.is_empty())
}
