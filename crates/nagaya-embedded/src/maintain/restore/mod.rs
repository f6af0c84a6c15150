//! A new directory with what a backup holds, or with what a store held at a past moment.

mod at;
mod beside;
mod chain;
mod target;

use std::path::Path;

pub use beside::{KeyFile, ObjectsAndKeys};
pub use chain::{restore_backup, restore_backups};
use nagaya_store::Error;
pub(crate) use target::{UnfinishedRestore, refuse_unfinished_restore};

use self::{beside::Objects, target::Target};
use super::{Hash, backup::Damage, each_item, filler::Filler, is_damaged, reason, sequence, tables};
use crate::{Options, backing::Backing};

/// What was restored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// The names of its tables.
    pub tables: Vec<String>,
    /// Items.
    pub items: u64,
    /// Objects.
    pub objects: u64,
    /// Files with keys.
    pub keys: u64,
    /// The highest sequence given out; those to come are higher.
    pub sequence: u64,
    /// The hash of all tables and items, read back from the directory.
    pub content_hash: String,
    /// Whether some change says that it was made before the one in front of it: a moment is then told as well as it can be.
    pub clock_went_back: bool,
}

/// Fills a directory that is not there yet; nothing is left of it if that fails. What fills it gives the content hash that it
/// should have, if that is known.
fn into_new(
    directory: &Path,
    fill: impl FnOnce(&mut Filler<'_>, &mut Objects) -> Result<Option<String>, Error>,
) -> Result<Restored, Error> {
    let target = Target::claim(directory)?;
    let filled = Backing::make(directory, &Options::default(), |backing| {
        let mut filler = Filler::new(backing);
        let mut objects = Objects::below(directory);
        let expected = fill(&mut filler, &mut objects)?;
        filler.flush()?;
        let content = content(backing)?;
        if expected.is_some_and(|expected| expected != content.content_hash) {
            return Err(Error::engine("what was written is not what is read back"));
        }
        Ok(Restored { objects: objects.count, ..content })
    });
    match filled {
        Ok((backing, restored)) => {
            drop(backing);
            target.finish().map(|()| restored)
        }
        Err(error) => {
            target.discard();
            Err(error)
        }
    }
}

/// What is in a directory, read back.
fn content(backing: &Backing) -> Result<Restored, Error> {
    let view = backing.view()?;
    let tables = tables(&view)?;
    let mut hash = Hash::default();
    let mut items = 0;
    for table in &tables {
        hash.table(table)?;
        each_item(&view, table, |_, value, _| {
            items += 1;
            hash.item(value);
            Ok(())
        })?;
    }
    let sequence = sequence(&view, &tables)?;
    let tables = tables.into_iter().map(|table| table.spec.name).collect();
    Ok(Restored { tables, items, sequence, content_hash: hash.text(), ..Restored::default() })
}

/// A failure to restore, which has left nothing behind.
fn nothing_restored(error: &Error) -> Error {
    let told = format!("{}; nothing was restored", reason(error));
    // Whoever asks is still told whether the backup is to blame.
    if is_damaged(error) { Damage::message(told) } else { Error::engine(told) }
}
