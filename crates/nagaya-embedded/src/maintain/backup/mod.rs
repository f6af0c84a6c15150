//! Everything of a data directory in one file: tables, items, changes, objects and sealed keys.

mod check;
mod damage;
mod draft;
mod export;
mod frame;
mod objects;
pub(super) mod old;
pub(super) mod read;
pub(super) mod record;

use std::{
    io::{BufWriter, Read, Write},
    path::Path,
};

pub use check::{Checked, check_backup, check_chain};
pub(super) use damage::Damage;
pub use damage::is_damaged;
pub use export::Since;
use nagaya_store::Error;
pub(super) use objects::Walk;
pub use objects::verify_objects;

use self::{
    draft::Draft,
    frame::{FrameReader, FrameWriter, Kind, MAGIC},
    read::ParentObjects,
    record::{Header, Parent, Snapshot, StoreEnd, decode, encode},
};
use super::{Progress, reason};
use crate::Embedded;

/// What a backup holds, or what was restored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backup {
    /// Which backup it is; `None` in the format before this one.
    pub id: Option<String>,
    /// The backup that it goes on from; `None`: it is a full one.
    pub parent: Option<String>,
    /// Tables.
    pub tables: u64,
    /// Items; none in an incremental one.
    pub items: u64,
    /// Changes.
    pub changes: u64,
    /// Objects whose bytes it has.
    pub objects: u64,
    /// The bytes of these objects.
    pub object_bytes: u64,
    /// The paths of objects that were already damaged when they were copied.
    pub damaged_objects: Vec<String>,
    /// Whether it has sealed keys.
    pub has_keys: bool,
    /// The highest sequence of its changes.
    pub sequence: u64,
    /// Milliseconds since 1970 of its snapshot.
    pub at: Option<i64>,
    /// The hash of all tables and items, the same as that of the store when it was made; an incremental one has none.
    pub content_hash: Option<String>,
}

/// Where the store's part of a backup comes from.
pub enum Source<'s> {
    /// A store that this process has open.
    Store(&'s Embedded),
    /// What [`Embedded::export`] writes in another process.
    Stream(&'s mut dyn Read),
}

/// What goes into a backup.
pub struct Content<'c> {
    /// The store's part.
    pub source: Source<'c>,
    /// The backup that this one goes on from; `None`: a full one.
    pub previous: Option<&'c Checked>,
    /// The directory of the objects.
    pub objects: Option<&'c Path>,
    /// Keys, sealed for the id of this backup.
    pub sealed_keys: Option<&'c [u8]>,
    /// A random id.
    pub id: [u8; 16],
}

impl Embedded {
    /// Writes the store as it is at this moment to one file, without objects and keys. Writes go on meanwhile.
    pub fn backup(&self, file: &Path, progress: Progress<'_>) -> Result<Backup, Error> {
        let content =
            Content { source: Source::Store(self), previous: None, objects: None, sealed_keys: None, id: new_id()? };
        write_backup(file, content, progress)
    }
}

/// A random id for a backup.
pub fn new_id() -> Result<[u8; 16], Error> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| Error::engine(error.to_string()))?;
    Ok(id)
}

/// Writes a backup. The file must not be there yet; it gets its name once it is whole and on disk.
pub fn write_backup(file: &Path, content: Content<'_>, progress: Progress<'_>) -> Result<Backup, Error> {
    let (draft, out) = Draft::create(file)?;
    let mut frames = FrameWriter::new(BufWriter::with_capacity(256 * 1024, &out))?;
    let parent = content.previous.and_then(|previous| previous.current.as_ref());
    if content.previous.is_some() && parent.is_none() {
        return Err(Error::engine("a backup of an earlier format cannot be continued; make a full one"));
    }
    let parent_of = |current: &check::Current| Parent { id: current.header.id, hash: current.hash };
    let header = Header { id: content.id, parent: parent.map(parent_of) };
    frames.put(Kind::Header, &[&encode(&header)?])?;

    // The snapshot of the store comes first, the objects after it: see `objects`.
    let since = content.previous.and_then(Checked::since);
    let (snapshot, end) = match content.source {
        Source::Store(store) => store.export_frames(since.as_ref(), &mut frames, progress)?,
        Source::Stream(stream) => copy_stream(stream, &mut frames, progress)?,
    };
    let copied = match content.objects {
        None => objects::Copied::default(),
        Some(root) => {
            let mut known: Box<dyn Iterator<Item = Result<record::Object, Error>>> = match content.previous.zip(parent)
            {
                Some((previous, current)) => Box::new(ParentObjects::open(&previous.file, current.objects)?),
                None => Box::new(std::iter::empty()),
            };
            objects::copy(root, &mut known, &mut frames, progress)?
        }
    };
    if let Some(sealed) = content.sealed_keys {
        frames.put(Kind::Keys, &[sealed])?;
    }
    let (_, written) = frames.end()?;
    drop(written);
    draft.finish(&out)?;
    Ok(Backup {
        id: Some(check::hex(&header.id)),
        parent: header.parent.map(|parent| check::hex(&parent.id)),
        tables: end.tables,
        items: end.items,
        changes: end.changes,
        objects: copied.objects,
        object_bytes: copied.bytes,
        damaged_objects: copied.names.damaged,
        has_keys: content.sealed_keys.is_some(),
        sequence: snapshot.sequence,
        at: Some(snapshot.at),
        content_hash: end.content_hash,
    })
}

/// Copies the store's part out of a stream. A stream that breaks off, or tells of a failure, is an error.
fn copy_stream<W: Write>(
    stream: &mut dyn Read,
    frames: &mut FrameWriter<W>,
    progress: Progress<'_>,
) -> Result<(Snapshot, StoreEnd), Error> {
    let broken = |error: Error| match is_damaged(&error) {
        true => Error::engine(format!("the connection to the server broke off before the end ({})", reason(&error))),
        false => error,
    };
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).map_err(Error::engine)?;
    if magic != *MAGIC {
        return Err(Error::engine("the server speaks another version; use the `nagaya` that the server runs"));
    }
    let mut incoming = FrameReader::after_magic(stream);
    let (mut snapshot, mut end) = (None, None);
    let mut seen = 0_u64;
    loop {
        let frame = incoming.next().map_err(broken)?;
        match frame.kind {
            Kind::Failed => return Err(Error::engine(String::from_utf8_lossy(&frame.body).into_owned())),
            Kind::End => break,
            Kind::Snapshot => snapshot = Some(decode(&frame.body)?),
            Kind::StoreEnd => end = Some(decode(&frame.body)?),
            Kind::Table | Kind::Item | Kind::Change => {}
            Kind::Header | Kind::Object | Kind::ObjectPart | Kind::Keys => {
                return Err(Error::engine("the server sent what is not of a store"));
            }
        }
        frames.put(frame.kind, &[&frame.body])?;
        seen += 1;
        if seen.is_multiple_of(1_000) {
            progress(seen);
        }
    }
    snapshot.zip(end).ok_or_else(|| Error::engine("the server sent no whole snapshot"))
}
