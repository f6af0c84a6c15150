//! `nagaya store backup`.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use nagaya_embedded::{Content, Source, check_backup, new_id, write_backup};

use super::{
    failure::StoreFailure,
    keys::{self, KeyArgs},
    place::{Access, Place, access},
    progress::with_progress,
    show,
};
use crate::Outcome;

/// Write everything of the data directory to one file, while a server runs as well
///
/// Tables, items, the changes that are kept, objects such as long notes, and the sealed keys, as they are at one moment. Writes
/// go on meanwhile.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya store backup monday.nagaya --passphrase-file secret.txt\n  nagaya store backup \
                  tuesday.nagaya --since monday.nagaya --key-file backup.key\n  nagaya store backup data-only.nagaya \
                  --without-keys\n\nA file that is there is never replaced. An incremental backup (--since) goes on from one \
                  that is not older than the changes that are kept (7 days by default); restoring it needs all backups \
                  from the full one on. Exit codes: 0 fine, 2 it could not be made."
)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// The file to write
    file: PathBuf,
    /// Write only what is new since this backup
    #[arg(long, value_name = "PREVIOUS")]
    since: Option<PathBuf>,
    #[command(flatten)]
    keys: KeyArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Args { place, file, .. } = args;
    // What can be known to fail is told before anything is read.
    if file.symlink_metadata().is_ok() {
        bail!("{} is there already, and a backup never replaces a file; choose another name", file.display());
    }
    let access = access(place)?;
    let id = new_id()?;
    let sealed = keys::sealed(&args.keys, &place.data, id)?;
    // Whatever is wrong with the one before would be wrong with this one too.
    let check = |previous: &PathBuf| {
        with_progress("records checked", |progress| {
            check_backup(previous, progress)
                .map_err(StoreFailure::from)
                .with_context(|| format!("{} cannot be continued", previous.display()))
        })
    };
    let previous = args.since.as_ref().map(check).transpose()?;
    let since = previous.as_ref().and_then(|previous| previous.since());
    if previous.is_some() && since.is_none() {
        bail!("the previous backup is of a format that cannot be continued; make a full one, without --since");
    }
    let objects = place.data.join("objects");
    let mut stream = None;
    let own;
    let source = match access {
        Access::Own(store) => {
            own = store;
            Source::Store(&own)
        }
        Access::Server(connection) => Source::Stream(stream.insert(connection.stream(since.as_ref())?)),
    };
    let content =
        Content { source, previous: previous.as_ref(), objects: Some(&objects), sealed_keys: sealed.as_deref(), id };
    let made =
        with_progress("records", |progress| Ok(write_backup(file, content, progress).map_err(StoreFailure::from)?))?;
    let json = show::backup(&made, file);
    show::print(place.json, &json, &show::backup_text(&made, &format!("written to {}", file.display())))?;
    Ok(if made.damaged_objects.is_empty() { Outcome::Fine } else { Outcome::FoundProblem })
}
