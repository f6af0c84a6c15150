//! The store part of a backup: a snapshot, while writes continue.

use std::{
    io::Write,
    ops::{Bound, ControlFlow},
};

use nagaya_store::Error;

use super::{
    frame::{FrameKind, FrameWriter},
    record::{Snapshot, StoreEnd, TableRecord},
};
use crate::{
    EmbeddedStore,
    layout::{self, Keyspace},
    maintenance::{ContentHash, Progress, highest_sequence, incarnation, sorted_tables},
    read,
    record::{FORMAT, Table, encode},
    storage::View,
};

/// Where an incremental backup starts: the end of the previous backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupPosition {
    /// The incarnation of the directory of the previous backup.
    pub incarnation: Option<Vec<u8>>,
    /// The highest sequence number of the previous backup.
    pub sequence: u64,
    /// The hash of the change with that number: a directory that was rolled back has another change there.
    pub last_change: Option<[u8; 32]>,
}

/// Why an incremental backup is not possible.
#[derive(Debug, thiserror::Error)]
enum FullBackupRequired {
    #[error(
        "the previous backup is of another directory, or of this one before it was restored or rolled back; make a full backup, \
         without --since"
    )]
    OtherDirectory,
    #[error(
        "the directory was created by an earlier version and has no id to compare; make a full backup, without --since"
    )]
    NoIncarnation,
    #[error(
        "changes of `{table}` after the previous backup are older than the retention and have been removed; make a full \
         backup, without --since"
    )]
    Trimmed { table: String },
}

impl EmbeddedStore {
    /// Streams a snapshot of the store, for [`BackupSource::Stream`](super::BackupSource::Stream). Writes continue meanwhile.
    ///
    /// A failure is also written to the stream, so that the reader knows why it ends.
    pub fn export(
        &self,
        since: Option<&BackupPosition>,
        out: &mut dyn Write,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        let mut frames = FrameWriter::new(out)?;
        let exported = self.export_frames(since, &mut frames, progress);
        if let Err(error) = &exported {
            frames.put(FrameKind::Failed, &[error.to_string().as_bytes()])?;
        }
        frames.end()?;
        exported.map(drop)
    }

    pub(super) fn export_frames<W: Write>(
        &self,
        since: Option<&BackupPosition>,
        frames: &mut FrameWriter<W>,
        progress: Progress<'_>,
    ) -> Result<(Snapshot, StoreEnd), Error> {
        let view = self.storage().view()?;
        let tables = sorted_tables(&view)?;
        let sequence = highest_sequence(&view, &tables)?;
        let snapshot = Snapshot {
            format: FORMAT,
            incarnation: incarnation(&view)?,
            sequence,
            last_change: last_change(&view, &tables, sequence)?,
            since: since.map(|since| since.sequence),
            at: self.now(),
        };
        if let Some(since) = since {
            check_continues(&view, &snapshot, since, &tables)?;
        }
        frames.put(FrameKind::Snapshot, &[&encode(&snapshot)?])?;
        let mut export =
            Export { view: &view, frames, progress, end: StoreEnd::default(), hash: ContentHash::default() };
        for table in &tables {
            export.table(table, &snapshot)?;
        }
        let Export { mut end, hash, frames, .. } = export;
        end.content_hash = since.is_none().then(|| hash.to_hex());
        frames.put(FrameKind::StoreEnd, &[&encode(&end)?])?;
        Ok((snapshot, end))
    }
}

/// Checks that all changes since the previous backup are retained.
fn check_continues(
    view: &View<'_>,
    snapshot: &Snapshot,
    since: &BackupPosition,
    tables: &[Table],
) -> Result<(), Error> {
    if since.incarnation != snapshot.incarnation || since.sequence > snapshot.sequence {
        return Err(Error::engine(FullBackupRequired::OtherDirectory));
    }
    if since.incarnation.is_none() {
        return Err(Error::engine(FullBackupRequired::NoIncarnation));
    }
    for table in tables {
        if read::trim_point(view, table.id)?.sequence > since.sequence {
            return Err(Error::engine(FullBackupRequired::Trimmed { table: table.spec.name.clone() }));
        }
    }
    // A change that has been removed since cannot be compared.
    let found = last_change(view, tables, since.sequence)?;
    if found.is_some() && found != since.last_change {
        return Err(Error::engine(FullBackupRequired::OtherDirectory));
    }
    Ok(())
}

/// The hash of the change with a sequence number, if it is retained.
fn last_change(view: &View<'_>, tables: &[Table], sequence: u64) -> Result<Option<[u8; 32]>, Error> {
    for table in tables {
        if let Some(change) = view.get(Keyspace::Changes, &layout::change_key(table.id, sequence))? {
            return Ok(Some(*blake3::hash(&change).as_bytes()));
        }
    }
    Ok(None)
}

struct Export<'e, 'p, W> {
    view: &'e View<'e>,
    frames: &'e mut FrameWriter<W>,
    progress: Progress<'p>,
    end: StoreEnd,
    hash: ContentHash,
}

impl<W: Write> Export<'_, '_, W> {
    fn table(&mut self, table: &Table, snapshot: &Snapshot) -> Result<(), Error> {
        let trimmed = read::trim_point(self.view, table.id)?;
        self.end.tables += 1;
        self.hash.table(table)?;
        let record = TableRecord { id: table.id, spec: table.spec.clone(), trimmed };
        self.frames.put(FrameKind::Table, &[&encode(&record)?])?;
        let prefix = layout::table_prefix(table.id);
        let end = layout::prefix_end(&prefix);
        let view = self.view;
        if snapshot.since.is_none() {
            view.range(Keyspace::Items, Bound::Included(prefix), end.clone(), false, |_, value| {
                self.end.items += 1;
                self.hash.item(value);
                self.frames.put(FrameKind::Item, &[value])?;
                self.step();
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let after = layout::change_key(table.id, snapshot.since.unwrap_or(0));
        view.range(Keyspace::Changes, Bound::Excluded(after), end, false, |key, value| {
            let sequence =
                layout::change_sequence(key).ok_or_else(|| Error::engine("a stored change has a damaged key"))?;
            self.end.changes += 1;
            self.frames.put(FrameKind::Change, &[&sequence.to_be_bytes(), value])?;
            self.step();
            Ok(ControlFlow::Continue(()))
        })
    }

    fn step(&mut self) {
        let done = self.end.items + self.end.changes;
        if done.is_multiple_of(1_000) {
            (self.progress)(done);
        }
    }
}
