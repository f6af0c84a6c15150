//! A store as it was at a past moment, in a new directory.

use std::{
    fmt, fs,
    ops::{Bound, ControlFlow},
    path::{Path, PathBuf},
};

use nagaya_store::Error;

use super::{Backup, Filler, Progress, each_item};
use crate::{
    Embedded, Options,
    backing::{Disk, Purpose, View},
    layout::{self, Space},
    lock::Lock,
    read,
    record::{self, Change, Table},
};

/// The directory that should be made is there.
#[derive(Debug)]
struct InTheWay(PathBuf);

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is there already; restore into a new directory", self.0.display())
    }
}

impl std::error::Error for InTheWay {}

/// The moment is before what the changes tell.
#[derive(Debug)]
struct TooOld {
    table: String,
    oldest: i64,
}

impl fmt::Display for TooOld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, oldest) = (&self.table, self.oldest);
        write!(f, "the changes of `{table}` are kept since {oldest} ms after 1970; an earlier state cannot be restored")
    }
}

impl std::error::Error for TooOld {}

impl Embedded {
    /// Fills a new directory with the store as it was at this moment (milliseconds since 1970).
    ///
    /// The directory must not be there yet, and is not there if anything fails. It starts without a past of its own.
    pub fn restore_at(&self, moment: i64, directory: &Path, progress: Progress<'_>) -> Result<Backup, Error> {
        let view = self.backing().view()?;
        let tables = self.sorted_tables();
        for table in &tables {
            let trimmed = read::trimmed(&view, table)?;
            if trimmed.sequence > 0 && moment < trimmed.at {
                return Err(Error::engine(TooOld { table: table.spec.name.clone(), oldest: trimmed.at }));
            }
        }
        into_new(directory, Options::default(), |filler| {
            for table in &tables {
                filler.table(table)?;
                each_item(&view, table, |_, _, item| {
                    filler.item(table, item)?;
                    progress(filler.items);
                    Ok(())
                })?;
                undo(&view, table, moment, filler)?;
            }
            Ok(Backup { tables: tables.len() as u64, items: filler.items, content_hash: String::new() })
        })?;
        // Opening it again counts what is really there, in order.
        let restored = Embedded::open(directory, Options { sweep_every: None, ..Options::default() })?.stat()?;
        let items = restored.tables.iter().map(|table| table.items).sum();
        Ok(Backup { tables: restored.tables.len() as u64, items, content_hash: restored.content_hash })
    }
}

/// Takes back what has happened since a moment, the newest first.
fn undo(view: &View<'_>, table: &Table, moment: i64, filler: &mut Filler<'_>) -> Result<(), Error> {
    let prefix = layout::table(table.id);
    let end = layout::after_prefix(&prefix);
    // A clock that went back makes no difference: from the first change after the moment on, all go.
    let mut first = None;
    view.range(Space::Changes, Bound::Included(prefix), end.clone(), false, |place, value| {
        let change: Change = record::decode(value)?;
        if change.at <= moment {
            return Ok(ControlFlow::Continue(()));
        }
        first = Some(place.to_vec());
        Ok(ControlFlow::Break(()))
    })?;
    let Some(first) = first else { return Ok(()) };
    view.range(Space::Changes, Bound::Included(first), end, true, |_, value| {
        let change: Change = record::decode(value)?;
        filler.replace(table, &change.key, [change.new, change.old])?;
        Ok(ControlFlow::Continue(()))
    })
}

/// Fills a directory that is not there yet; removes it again if that fails.
pub(super) fn into_new<T>(
    directory: &Path,
    options: Options,
    fill: impl FnOnce(&mut Filler<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let occupied = directory.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if occupied {
        return Err(Error::engine(InTheWay(directory.to_path_buf())));
    }
    let filled = (|| {
        let _lock = Lock::take(directory)?;
        let (_disk, made) = Disk::make(directory, &options, Purpose::Restore, |disk| {
            let mut filler = Filler::new(disk);
            let made = fill(&mut filler)?;
            filler.flush()?;
            Ok(made)
        })?;
        Ok(made)
    })();
    if filled.is_err() {
        // What cannot be removed is told by the next attempt; the failure itself matters more.
        let _ = fs::remove_dir_all(directory);
    }
    filled
}
