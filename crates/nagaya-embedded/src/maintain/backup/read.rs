//! Reading a backup: its parts, in the one order that they can have.

use std::{
    cmp::Ordering,
    collections::HashSet,
    fs::File,
    io::{BufReader, Read, Seek as _, SeekFrom},
    path::Path,
};

use nagaya_store::{Error, Item};

use super::{
    frame::{Frame, FrameReader, Kind, MAGIC, Place},
    objects::{is_inside, order},
    record::{Header, Object, Snapshot, StoreEnd, TableRecord, decode},
};
use crate::{
    layout,
    maintain::Hash,
    record::{self, Change, FORMAT, Table},
};

/// A part of a backup.
#[derive(Debug)]
pub(in crate::maintain) enum Part {
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
    /// The last; the hash of the whole file.
    End([u8; 32]),
}

/// Reads the parts of a backup, and refuses what does not belong together.
pub(in crate::maintain) struct Reader<R> {
    frames: FrameReader<R>,
    pub(in crate::maintain) header: Header,
    pub(in crate::maintain) snapshot: Snapshot,
    stage: Stage,
    table: Option<Table>,
    /// The byte key of the last item of the table.
    last_item: Vec<u8>,
    last_sequence: u64,
    hash: Hash,
    counted: StoreEnd,
    table_ids: HashSet<u16>,
    last_object: Option<Object>,
    /// Bytes of the object that are still to come.
    left: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Tables,
    Objects,
    Keys,
    End,
}

/// What a file begins with.
pub(in crate::maintain) enum Opened {
    Current(Box<Reader<BufReader<File>>>),
    /// The format before this one; the reader is behind its magic number.
    Old(BufReader<File>),
}

pub(in crate::maintain) fn open(path: &Path) -> Result<Opened, Error> {
    let unreadable = |error| Error::engine(format!("{} cannot be read: {error}", path.display()));
    let mut input = BufReader::with_capacity(256 * 1024, File::open(path).map_err(unreadable)?);
    let mut magic = Vec::new();
    input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(unreadable)?;
    match magic.as_slice() {
        magic if magic == MAGIC => Ok(Opened::Current(Box::new(Reader::new(FrameReader::after_magic(input))?))),
        magic if magic == super::old::MAGIC => Ok(Opened::Old(input)),
        magic if magic.starts_with(b"NAGAYA") && magic.len() == MAGIC.len() => {
            Err(super::damage::Damage::error("its format is one that this version does not know"))
        }
        _ => Err(super::damage::Damage::error("it is not a backup")),
    }
}

impl<R: Read> Reader<R> {
    fn new(mut frames: FrameReader<R>) -> Result<Self, Error> {
        let header = expect(&mut frames, Kind::Header)?;
        let snapshot: Snapshot = expect(&mut frames, Kind::Snapshot)?;
        let header: Header = header;
        if snapshot.format > FORMAT {
            let (found, known) = (snapshot.format, FORMAT);
            return Err(frames.damaged(format!(
                "it is of a directory of format {found}, and this version knows those up to {known}"
            )));
        }
        if header.parent.is_some() != snapshot.since.is_some() {
            return Err(frames.damaged("it is neither a full nor an incremental one"));
        }
        Ok(Reader {
            frames,
            header,
            snapshot,
            stage: Stage::Tables,
            table: None,
            last_item: Vec::new(),
            last_sequence: 0,
            hash: Hash::default(),
            counted: StoreEnd::default(),
            table_ids: HashSet::new(),
            last_object: None,
            left: 0,
        })
    }

    /// The next part.
    pub(in crate::maintain) fn next(&mut self) -> Result<Part, Error> {
        let Frame { kind, body } = self.frames.next()?;
        if self.left > 0 && kind != Kind::ObjectPart {
            return Err(self.frames.damaged("an object is cut off"));
        }
        match (self.stage, kind) {
            (Stage::Tables, Kind::Table) => self.table(decode(&body)?),
            (Stage::Tables, Kind::Item) => self.item(&body),
            (Stage::Tables, Kind::Change) => self.change(body),
            (Stage::Tables, Kind::StoreEnd) => self.store_end(&decode(&body)?),
            (Stage::Objects, Kind::Object) => self.object(decode(&body)?),
            (Stage::Objects, Kind::ObjectPart) => match self.left.checked_sub(body.len() as u64) {
                Some(left) if !body.is_empty() => {
                    self.left = left;
                    Ok(Part::ObjectBytes(body))
                }
                _ => Err(self.frames.damaged("an object is longer than it should be")),
            },
            (Stage::Objects, Kind::Keys) => {
                self.stage = Stage::Keys;
                Ok(Part::Keys(body))
            }
            (Stage::Objects | Stage::Keys, Kind::End) => {
                self.stage = Stage::End;
                self.frames.nothing_follows()?;
                let hash = body.try_into().map_err(|_| self.frames.damaged("its end is not one"))?;
                Ok(Part::End(hash))
            }
            _ => Err(self.frames.damaged(format!("a record of kind {kind:?} is not in its place"))),
        }
    }

    /// Where the next part begins.
    pub(super) fn place(&self) -> Place {
        self.frames.place()
    }

    /// What has been read of the store.
    pub(in crate::maintain) fn counted(&self) -> &StoreEnd {
        &self.counted
    }

    fn table(&mut self, record: TableRecord) -> Result<Part, Error> {
        let table = record.table();
        if self.table.as_ref().is_some_and(|last| last.spec.name >= table.spec.name) {
            return Err(self.frames.damaged("the tables are not in order"));
        }
        if !self.table_ids.insert(table.id) {
            return Err(self.frames.damaged("two tables have one number"));
        }
        self.counted.tables += 1;
        self.hash.table(&table)?;
        self.last_item.clear();
        self.last_sequence = 0;
        self.table = Some(table);
        Ok(Part::Table(record))
    }

    fn item(&mut self, body: &[u8]) -> Result<Part, Error> {
        let item = record::decode_item(body).map_err(|_| self.frames.damaged("an item cannot be read"))?;
        let table = self.table.as_ref().filter(|_| self.snapshot.since.is_none() && self.last_sequence == 0);
        let key = table.and_then(|table| Some(layout::item(table.id, &table.spec.key.key_of(&item)?)));
        let Some(key) = key.filter(|key| *key > self.last_item) else {
            return Err(self.frames.damaged("an item is not in its place"));
        };
        self.last_item = key;
        self.counted.items += 1;
        self.hash.item(body);
        Ok(Part::Item(item))
    }

    fn change(&mut self, mut body: Vec<u8>) -> Result<Part, Error> {
        let sequence = body.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let least = self.last_sequence.max(self.snapshot.since.unwrap_or(0));
        if self.table.is_none() || sequence <= least || sequence > self.snapshot.sequence {
            return Err(self.frames.damaged("a change is not in its place"));
        }
        body.drain(..8);
        let change = record::decode_change(&body).map_err(|_| self.frames.damaged("a change cannot be read"))?;
        self.last_sequence = sequence;
        self.counted.changes += 1;
        Ok(Part::Change { sequence, change, bytes: body })
    }

    fn store_end(&mut self, told: &StoreEnd) -> Result<Part, Error> {
        self.counted.content_hash = self.snapshot.since.is_none().then(|| self.hash.text());
        if *told != self.counted {
            return Err(self.frames.damaged("it does not have the content that it should"));
        }
        self.stage = Stage::Objects;
        Ok(Part::StoreEnd)
    }

    fn object(&mut self, object: Object) -> Result<Part, Error> {
        if !is_inside(&object.path) {
            return Err(self.frames.damaged("an object has a name that leads elsewhere"));
        }
        let after = |last: &Object| order(&last.path, &object.path) == Ordering::Less;
        if !self.last_object.as_ref().is_none_or(after) || !(object.here || self.snapshot.since.is_some()) {
            return Err(self.frames.damaged("an object is not in its place"));
        }
        self.left = if object.here { object.size } else { 0 };
        self.last_object = Some(object.clone());
        Ok(Part::Object(object))
    }
}

fn expect<T: serde::de::DeserializeOwned>(frames: &mut FrameReader<impl Read>, kind: Kind) -> Result<T, Error> {
    match frames.next()? {
        frame if frame.kind == kind => decode(&frame.body),
        _ => Err(frames.damaged("it does not begin as a backup does")),
    }
}

/// The objects that a backup names, from where its objects begin. The backup has been checked before.
pub(super) struct ParentObjects {
    frames: FrameReader<BufReader<File>>,
    ended: bool,
}

impl ParentObjects {
    pub(super) fn open(path: &Path, place: Place) -> Result<Self, Error> {
        let mut file = File::open(path).map_err(Error::engine)?;
        file.seek(SeekFrom::Start(place.offset)).map_err(Error::engine)?;
        Ok(ParentObjects {
            frames: FrameReader::resume(BufReader::with_capacity(256 * 1024, file), place),
            ended: false,
        })
    }
}

impl Iterator for ParentObjects {
    type Item = Result<Object, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let frame = match self.frames.next() {
                Ok(frame) => frame,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            };
            match frame.kind {
                Kind::Object => return Some(decode(&frame.body)),
                Kind::ObjectPart => {}
                _ => self.ended = true,
            }
        }
        None
    }
}
