//! Reading a backup: its parts, and the checks of their order.

use std::{cmp::Ordering, collections::HashSet, io::Read, path::Path};

use nagaya_store::{Error, Item};

use super::{
    file::{BackupFormat, BackupInput},
    frame::{Frame, FrameKind, FrameOffset, FrameReader},
    objects::{is_inside, order},
    record::{Header, Object, Snapshot, StoreEnd, TableRecord, decode},
};
use crate::{
    encryption::EncryptionKey,
    files::IoContext as _,
    layout,
    maintenance::ContentHash,
    record::{self, Change, FORMAT, Table},
};

/// A part of a backup.
#[derive(Debug)]
pub(in crate::maintenance) enum BackupPart {
    Table(TableRecord),
    Item(Item),
    Change {
        sequence: u64,
        change: Change,
        bytes: Vec<u8>,
    },
    StoreEnd,
    Object(Object),
    ObjectBytes(Vec<u8>),
    Keys(Vec<u8>),
    /// The last part: the hash of the whole file.
    End([u8; 32]),
}

/// Reads the parts of a backup and checks their order and counts.
pub(in crate::maintenance) struct BackupReader<R> {
    frames: FrameReader<R>,
    pub(in crate::maintenance) header: Header,
    pub(in crate::maintenance) snapshot: Snapshot,
    stage: Stage,
    table: Option<Table>,
    /// The byte key of the last item of the table.
    last_item: Vec<u8>,
    last_sequence: u64,
    hash: ContentHash,
    counted: StoreEnd,
    table_ids: HashSet<u16>,
    last_object: Option<Object>,
    /// The number of bytes of the current object that have not been read yet.
    left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Tables,
    Objects,
    Keys,
    End,
}

/// An opened backup, by its format.
pub(in crate::maintenance) enum OpenedBackup {
    Current(Box<BackupReader<BackupInput>>),
    /// Format 1; the reader is after its magic number.
    Format1(BackupInput),
}

/// Opens a backup of any format. An encrypted one needs its key.
pub(in crate::maintenance) fn open(path: &Path, key: Option<&EncryptionKey>) -> Result<OpenedBackup, Error> {
    match BackupInput::open(path, key)? {
        (input, BackupFormat::Current) => {
            Ok(OpenedBackup::Current(Box::new(BackupReader::new(FrameReader::after_magic(input))?)))
        }
        (input, BackupFormat::Format1) => Ok(OpenedBackup::Format1(input)),
    }
}

impl BackupReader<BackupInput> {
    pub(super) fn is_encrypted(&self) -> bool {
        self.frames.input().is_encrypted()
    }
}

impl<R: Read> BackupReader<R> {
    fn new(mut frames: FrameReader<R>) -> Result<Self, Error> {
        let header = expect(&mut frames, FrameKind::Header)?;
        let snapshot: Snapshot = expect(&mut frames, FrameKind::Snapshot)?;
        let header: Header = header;
        if snapshot.format > FORMAT {
            let (found, known) = (snapshot.format, FORMAT);
            return Err(frames
                .damaged(format!("its directory had format {found}, and this version knows formats up to {known}")));
        }
        if header.parent.is_some() != snapshot.since.is_some() {
            return Err(frames.damaged("it is neither a full nor an incremental backup"));
        }
        Ok(BackupReader {
            frames,
            header,
            snapshot,
            stage: Stage::Tables,
            table: None,
            last_item: Vec::new(),
            last_sequence: 0,
            hash: ContentHash::default(),
            counted: StoreEnd::default(),
            table_ids: HashSet::new(),
            last_object: None,
            left: 0,
        })
    }

    /// The next part.
    pub(in crate::maintenance) fn next(&mut self) -> Result<BackupPart, Error> {
        let Frame { kind, body } = self.frames.next()?;
        if self.left > 0 && kind != FrameKind::ObjectPart {
            return Err(self.frames.damaged("an object ends early"));
        }
        match (self.stage, kind) {
            (Stage::Tables, FrameKind::Table) => self.table(decode(&body)?),
            (Stage::Tables, FrameKind::Item) => self.item(&body),
            (Stage::Tables, FrameKind::Change) => self.change(body),
            (Stage::Tables, FrameKind::StoreEnd) => self.store_end(&decode(&body)?),
            (Stage::Objects, FrameKind::Object) => self.object(decode(&body)?),
            (Stage::Objects, FrameKind::ObjectPart) => match self.left.checked_sub(body.len() as u64) {
                Some(left) if !body.is_empty() => {
                    self.left = left;
                    Ok(BackupPart::ObjectBytes(body))
                }
                _ => Err(self.frames.damaged("an object is longer than it should be")),
            },
            (Stage::Objects, FrameKind::Keys) => {
                self.stage = Stage::Keys;
                Ok(BackupPart::Keys(body))
            }
            (Stage::Objects | Stage::Keys, FrameKind::End) => {
                self.stage = Stage::End;
                self.frames.expect_end()?;
                let hash = body.try_into().map_err(|_| self.frames.damaged("its last record is invalid"))?;
                Ok(BackupPart::End(hash))
            }
            _ => Err(self.frames.damaged(format!("a record of kind {kind:?} is in the wrong place"))),
        }
    }

    /// Where the next part starts.
    pub(super) fn offset(&self) -> FrameOffset {
        self.frames.offset()
    }

    /// The counts of the store part so far.
    pub(in crate::maintenance) fn counted(&self) -> &StoreEnd {
        &self.counted
    }

    fn table(&mut self, record: TableRecord) -> Result<BackupPart, Error> {
        let table = record.table();
        if self.table.as_ref().is_some_and(|last| last.spec.name >= table.spec.name) {
            return Err(self.frames.damaged("the tables are not in order"));
        }
        if !self.table_ids.insert(table.id) {
            return Err(self.frames.damaged("two tables have the same number"));
        }
        self.counted.tables += 1;
        self.hash.table(&table)?;
        self.last_item.clear();
        self.last_sequence = 0;
        self.table = Some(table);
        Ok(BackupPart::Table(record))
    }

    fn item(&mut self, body: &[u8]) -> Result<BackupPart, Error> {
        let item = record::decode_item(body).map_err(|_| self.frames.damaged("an item cannot be read"))?;
        let table = self.table.as_ref().filter(|_| self.snapshot.since.is_none() && self.last_sequence == 0);
        let key = table.and_then(|table| Some(layout::item_key(table.id, &table.spec.key.key_of(&item)?)));
        let Some(key) = key.filter(|key| *key > self.last_item) else {
            return Err(self.frames.damaged("an item is in the wrong place"));
        };
        self.last_item = key;
        self.counted.items += 1;
        self.hash.item(body);
        Ok(BackupPart::Item(item))
    }

    fn change(&mut self, mut body: Vec<u8>) -> Result<BackupPart, Error> {
        let sequence = body.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let least = self.last_sequence.max(self.snapshot.since.unwrap_or(0));
        if self.table.is_none() || sequence <= least || sequence > self.snapshot.sequence {
            return Err(self.frames.damaged("a change is in the wrong place"));
        }
        body.drain(..8);
        let change = record::decode_change(&body).map_err(|_| self.frames.damaged("a change cannot be read"))?;
        self.last_sequence = sequence;
        self.counted.changes += 1;
        Ok(BackupPart::Change { sequence, change, bytes: body })
    }

    fn store_end(&mut self, expected: &StoreEnd) -> Result<BackupPart, Error> {
        self.counted.content_hash = self.snapshot.since.is_none().then(|| self.hash.to_hex());
        if *expected != self.counted {
            return Err(self.frames.damaged("its content does not match its counts"));
        }
        self.stage = Stage::Objects;
        Ok(BackupPart::StoreEnd)
    }

    fn object(&mut self, object: Object) -> Result<BackupPart, Error> {
        if !is_inside(&object.path) {
            return Err(self.frames.damaged("the path of an object leads out of the directory"));
        }
        let is_after = |last: &Object| order(&last.path, &object.path) == Ordering::Less;
        if !self.last_object.as_ref().is_none_or(is_after) || !(object.is_included || self.snapshot.since.is_some()) {
            return Err(self.frames.damaged("an object is in the wrong place"));
        }
        self.left = if object.is_included { object.size } else { 0 };
        self.last_object = Some(object.clone());
        Ok(BackupPart::Object(object))
    }
}

fn expect<T: serde::de::DeserializeOwned>(frames: &mut FrameReader<impl Read>, kind: FrameKind) -> Result<T, Error> {
    match frames.next()? {
        frame if frame.kind == kind => decode(&frame.body),
        _ => Err(frames.damaged("it does not start like a backup")),
    }
}

/// The objects that a verified backup names.
pub(super) struct ParentObjects {
    frames: FrameReader<BackupInput>,
    is_done: bool,
}

impl ParentObjects {
    /// Reads a backup from the start of its objects.
    pub(super) fn open(path: &Path, key: Option<&EncryptionKey>, start: FrameOffset) -> Result<Self, Error> {
        let (mut input, _) = BackupInput::open(path, key)?;
        input.seek_to(start).context("read", path)?;
        let frames = FrameReader::resume(input, start);
        Ok(ParentObjects { frames, is_done: false })
    }
}

impl Iterator for ParentObjects {
    type Item = Result<Object, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_done {
            let frame = match self.frames.next() {
                Ok(frame) => frame,
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            };
            match frame.kind {
                FrameKind::Object => return Some(decode(&frame.body)),
                FrameKind::ObjectPart => {}
                _ => self.is_done = true,
            }
        }
        None
    }
}
