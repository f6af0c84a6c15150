//! The store's part of a backup: one snapshot, while writes go on.

use std::{
    fmt,
    io::Write,
    ops::{Bound, ControlFlow},
};

use nagaya_store::Error;

use super::{
    frame::{FrameWriter, Kind},
    record::{Snapshot, StoreEnd, TableRecord, encode},
};
use crate::{
    Embedded,
    backing::View,
    layout::{self, Space},
    maintain::{Hash, Progress, incarnation, reason, sequence, tables},
    read,
    record::{FORMAT, Table},
};

/// Where an incremental backup begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// Which directory the backup before is of.
    pub incarnation: Option<Vec<u8>>,
    /// The highest sequence that it knows.
    pub sequence: u64,
    /// The hash of the change with that sequence: a directory that was rolled back has another one there.
    pub last_change: Option<[u8; 32]>,
}

/// Why no incremental backup can be made.
#[derive(Debug)]
enum NeedsFull {
    OtherDirectory,
    NoId,
    Trimmed { table: String },
}

impl fmt::Display for NeedsFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NeedsFull::OtherDirectory => {
                f.write_str(
                    "the previous backup is of another directory, or of this one before it was restored or rolled back",
                )?;
            }
            NeedsFull::NoId => f.write_str("the directory was made by an earlier version and has no id to compare")?,
            NeedsFull::Trimmed { table } => {
                write!(f, "changes of `{table}` after the previous backup are older than the retention and gone")?;
            }
        }
        f.write_str("; make a full backup, without --since")
    }
}

impl std::error::Error for NeedsFull {}

impl Embedded {
    /// Streams the store as it is at this moment, for [`Source::Stream`](super::Source::Stream) to read. Writes go on meanwhile.
    ///
    /// A failure is told in the stream too, so that whoever reads it knows why it ends.
    pub fn export(&self, since: Option<&Since>, out: &mut dyn Write, progress: Progress<'_>) -> Result<(), Error> {
        let mut frames = FrameWriter::new(out)?;
        let exported = self.export_frames(since, &mut frames, progress);
        if let Err(error) = &exported {
            frames.put(Kind::Failed, &[reason(error).as_bytes()])?;
        }
        frames.end()?;
        exported.map(drop)
    }

    pub(super) fn export_frames<W: Write>(
        &self,
        since: Option<&Since>,
        frames: &mut FrameWriter<W>,
        progress: Progress<'_>,
    ) -> Result<(Snapshot, StoreEnd), Error> {
        let view = self.backing().view()?;
        // The tables of the snapshot, not those of now: one that is made meanwhile is not in it.
        let tables = tables(&view)?;
        let sequence = sequence(&view, &tables)?;
        let snapshot = Snapshot {
            format: FORMAT,
            incarnation: incarnation(&view)?,
            sequence,
            last_change: last_change(&view, &tables, sequence)?,
            since: since.map(|since| since.sequence),
            at: self.now(),
        };
        if let Some(since) = since {
            goes_on(&view, &snapshot, since, &tables)?;
        }
        frames.put(Kind::Snapshot, &[&encode(&snapshot)?])?;
        let mut export = Export { view: &view, frames, progress, end: StoreEnd::default(), hash: Hash::default() };
        for table in &tables {
            export.table(table, &snapshot)?;
        }
        let Export { mut end, hash, frames, .. } = export;
        end.content_hash = since.is_none().then(|| hash.text());
        frames.put(Kind::StoreEnd, &[&encode(&end)?])?;
        Ok((snapshot, end))
    }
}

/// Whether the changes since the backup before are all there.
fn goes_on(view: &View<'_>, snapshot: &Snapshot, since: &Since, tables: &[Table]) -> Result<(), Error> {
    if since.incarnation != snapshot.incarnation || since.sequence > snapshot.sequence {
        return Err(Error::engine(NeedsFull::OtherDirectory));
    }
    if since.incarnation.is_none() {
        return Err(Error::engine(NeedsFull::NoId));
    }
    for table in tables {
        if read::trimmed(view, table.id)?.sequence > since.sequence {
            return Err(Error::engine(NeedsFull::Trimmed { table: table.spec.name.clone() }));
        }
    }
    // One that has been swept away since cannot be compared.
    let there = last_change(view, tables, since.sequence)?;
    if there.is_some() && there != since.last_change {
        return Err(Error::engine(NeedsFull::OtherDirectory));
    }
    Ok(())
}

/// The hash of the change with a sequence, if it is kept.
fn last_change(view: &View<'_>, tables: &[Table], sequence: u64) -> Result<Option<[u8; 32]>, Error> {
    for table in tables {
        if let Some(change) = view.get(Space::Changes, &layout::change(table.id, sequence))? {
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
    hash: Hash,
}

impl<W: Write> Export<'_, '_, W> {
    fn table(&mut self, table: &Table, snapshot: &Snapshot) -> Result<(), Error> {
        let trimmed = read::trimmed(self.view, table.id)?;
        self.end.tables += 1;
        self.hash.table(table)?;
        let record = TableRecord { id: table.id, spec: table.spec.clone(), trimmed };
        self.frames.put(Kind::Table, &[&encode(&record)?])?;
        let prefix = layout::table(table.id);
        let end = layout::after_prefix(&prefix);
        let view = self.view;
        if snapshot.since.is_none() {
            view.range(Space::Items, Bound::Included(prefix), end.clone(), false, |_, value| {
                self.end.items += 1;
                self.hash.item(value);
                self.frames.put(Kind::Item, &[value])?;
                self.step();
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let after = layout::change(table.id, snapshot.since.unwrap_or(0));
        view.range(Space::Changes, Bound::Excluded(after), end, false, |key, value| {
            let sequence = layout::sequence(key).ok_or_else(|| Error::engine("a stored change has a damaged key"))?;
            self.end.changes += 1;
            self.frames.put(Kind::Change, &[&sequence.to_be_bytes(), value])?;
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
