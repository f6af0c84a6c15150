//! Backups: tables, items, changes, objects and sealed keys of a data directory in one file.

mod check;
mod damage;
mod export;
mod file;
pub(super) mod format1;
mod frame;
mod objects;
pub(super) mod read;
pub(super) mod record;
mod unfinished_file;

use std::{
    io::{Read, Write},
    path::Path,
    sync::Arc,
};

pub use check::{VerifiedBackup, verify_backup, verify_chain, verify_encrypted_backup};
pub(super) use damage::BackupDamage;
pub use damage::is_backup_damaged;
pub use export::BackupPosition;
use nagaya_store::Error;
pub(crate) use objects::ObjectWalk;
pub use objects::verify_objects;

use self::{
    file::BackupOutput,
    frame::{FrameKind, FrameReader, FrameWriter, MAGIC},
    read::ParentObjects,
    record::{Header, Parent, Snapshot, StoreEnd, decode},
    unfinished_file::UnfinishedFile,
};
use super::Progress;
use crate::{
    EmbeddedStore,
    bytes::{hex, random_bytes},
    encryption::{EncryptionKey, Keyring},
    files::describe,
    record::encode,
};

/// The summary of a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupSummary {
    /// The id of the backup; `None` in format 1.
    pub id: Option<String>,
    /// The id of the backup that it continues; `None` for a full backup.
    pub parent: Option<String>,
    /// The number of tables.
    pub tables: u64,
    /// The number of items; 0 in an incremental backup.
    pub items: u64,
    /// The number of changes.
    pub changes: u64,
    /// The number of objects whose bytes it contains.
    pub objects: u64,
    /// The size of these objects.
    pub object_bytes: u64,
    /// The paths of objects that were already damaged when they were backed up.
    pub damaged_objects: Vec<String>,
    /// Whether it contains sealed keys.
    pub has_keys: bool,
    /// The highest sequence number of its changes.
    pub sequence: u64,
    /// The time of its snapshot, in milliseconds since 1970.
    pub at: Option<i64>,
    /// The hash of all tables and items of the snapshot; `None` for an incremental backup.
    pub content_hash: Option<String>,
    /// The id of the key that it is encrypted with; `None` if it is not.
    pub key_id: Option<String>,
}

/// The source of the store part of a backup.
pub enum BackupSource<'s> {
    /// A store that this process has open.
    Store(&'s EmbeddedStore),
    /// The stream that [`EmbeddedStore::export`] writes in another process.
    Stream(&'s mut dyn Read),
}

/// The content of a new backup.
pub struct BackupContent<'c> {
    /// The store part.
    pub source: BackupSource<'c>,
    /// The backup that this one continues; `None` for a full backup.
    pub previous: Option<&'c VerifiedBackup>,
    /// The directory of the objects.
    pub objects: Option<&'c Path>,
    /// The keys, sealed for the id of this backup.
    pub sealed_keys: Option<&'c [u8]>,
    /// A random id.
    pub id: [u8; 16],
    /// The key that the file is encrypted with; by default that of the store.
    pub encryption_key: Option<&'c EncryptionKey>,
    /// Decrypts the objects; by default the keys of the store.
    pub keyring: Option<&'c Keyring>,
}

impl EmbeddedStore {
    /// Writes a backup of a snapshot, without objects and keys. Writes to the store continue meanwhile.
    pub fn backup(&self, file: &Path, progress: Progress<'_>) -> Result<BackupSummary, Error> {
        let content = BackupContent {
            source: BackupSource::Store(self),
            previous: None,
            objects: None,
            sealed_keys: None,
            id: new_backup_id()?,
            encryption_key: None,
            keyring: None,
        };
        write_backup(file, content, progress)
    }
}

/// A random id for a backup.
pub fn new_backup_id() -> Result<[u8; 16], Error> {
    random_bytes()
}

/// Writes a backup. The file must not exist yet; it gets its name when it is complete and synced.
pub fn write_backup(file: &Path, content: BackupContent<'_>, progress: Progress<'_>) -> Result<BackupSummary, Error> {
    let (unfinished, out) = UnfinishedFile::create(file)?;
    let own = match &content.source {
        BackupSource::Store(store) => store.keyring(),
        BackupSource::Stream(_) => Arc::default(),
    };
    let keyring = content.keyring.unwrap_or(&own);
    let key = content.encryption_key.cloned().or_else(|| keyring.encryption_key());
    let mut frames = FrameWriter::new(BackupOutput::new(&out, key.as_ref())?)?;
    let parent = content.previous.and_then(|previous| previous.current.as_ref());
    if content.previous.is_some() && parent.is_none() {
        return Err(Error::engine("a backup of an earlier format cannot be continued; make a full one"));
    }
    let parent_of = |current: &check::CurrentFormat| Parent { id: current.header.id, hash: current.hash };
    let header = Header { id: content.id, parent: parent.map(parent_of) };
    frames.put(FrameKind::Header, &[&encode(&header)?])?;

    // The snapshot of the store must be taken before the objects are listed: see `objects`.
    let since = content.previous.and_then(VerifiedBackup::position);
    let (snapshot, end) = match content.source {
        BackupSource::Store(store) => store.export_frames(since.as_ref(), &mut frames, progress)?,
        BackupSource::Stream(stream) => copy_stream(stream, &mut frames, progress)?,
    };
    let copied = match content.objects {
        None => objects::CopiedObjects::default(),
        Some(root) => {
            let mut known: Box<dyn Iterator<Item = Result<record::Object, Error>>> = match content.previous.zip(parent)
            {
                Some((previous, current)) => {
                    Box::new(ParentObjects::open(&previous.file, previous.key.as_ref(), current.objects)?)
                }
                None => Box::new(std::iter::empty()),
            };
            objects::copy(root, keyring, &mut known, &mut frames, progress)?
        }
    };
    if let Some(sealed) = content.sealed_keys {
        frames.put(FrameKind::Keys, &[sealed])?;
    }
    let (_, written) = frames.end()?;
    written.finish(file)?;
    unfinished.finish(&out)?;
    Ok(BackupSummary {
        id: Some(hex(&header.id)),
        parent: header.parent.map(|parent| hex(&parent.id)),
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
        key_id: key.as_ref().map(EncryptionKey::id),
    })
}

/// Copies the store part from a stream. Fails if the stream ends early or reports a failure.
fn copy_stream<W: Write>(
    stream: &mut dyn Read,
    frames: &mut FrameWriter<W>,
    progress: Progress<'_>,
) -> Result<(Snapshot, StoreEnd), Error> {
    let broken = |error: Error| match is_backup_damaged(&error) {
        true => Error::engine(format!("the connection to the server ended early ({error})")),
        false => error,
    };
    let mut magic = [0; MAGIC.len()];
    stream
        .read_exact(&mut magic)
        .map_err(|error| Error::engine(format!("cannot read from the server: {}", describe(&error))))?;
    if magic != *MAGIC {
        return Err(Error::engine("the server is another version; use the `nagaya` that the server runs"));
    }
    let mut incoming = FrameReader::after_magic(stream);
    let (mut snapshot, mut end) = (None, None);
    let mut seen = 0_u64;
    loop {
        let frame = incoming.next().map_err(broken)?;
        match frame.kind {
            FrameKind::Failed => return Err(Error::engine(String::from_utf8_lossy(&frame.body).into_owned())),
            FrameKind::End => break,
            FrameKind::Snapshot => snapshot = Some(decode(&frame.body)?),
            FrameKind::StoreEnd => end = Some(decode(&frame.body)?),
            FrameKind::Table | FrameKind::Item | FrameKind::Change => {}
            FrameKind::Header | FrameKind::Object | FrameKind::ObjectPart | FrameKind::Keys => {
                return Err(Error::engine("the server sent a record that does not belong to a store"));
            }
        }
        frames.put(frame.kind, &[&frame.body])?;
        seen += 1;
        if seen.is_multiple_of(1_000) {
            progress(seen);
        }
    }
    snapshot.zip(end).ok_or_else(|| Error::engine("the server sent an incomplete snapshot"))
}
