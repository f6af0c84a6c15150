//! Verifying a backup without restoring it.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use nagaya_store::Error;

use super::{
    BackupPosition, BackupSummary,
    damage::BackupDamage,
    format1,
    frame::FrameOffset,
    objects::ObjectNameCheck,
    read::{BackupPart, BackupReader, OpenedBackup, open},
    record::{Header, Snapshot, TableRecord},
};
use crate::{bytes::hex, encryption::EncryptionKey, maintenance::Progress};

/// A backup that has been read completely, and whose structure is intact. Objects in it can be damaged: see
/// [`BackupSummary::damaged_objects`].
#[derive(Debug)]
pub struct VerifiedBackup {
    /// The file.
    pub file: PathBuf,
    /// Its summary.
    pub backup: BackupSummary,
    /// The sealed keys, if it contains any.
    pub sealed_keys: Option<Vec<u8>>,
    /// The key that it is encrypted with.
    pub(in crate::maintenance) key: Option<EncryptionKey>,
    /// `None` for a backup of format 1.
    pub(in crate::maintenance) current: Option<CurrentFormat>,
}

/// What only backups of the current format contain.
#[derive(Debug)]
pub(in crate::maintenance) struct CurrentFormat {
    pub(in crate::maintenance) header: Header,
    pub(in crate::maintenance) snapshot: Snapshot,
    pub(in crate::maintenance) hash: [u8; 32],
    pub(in crate::maintenance) tables: Vec<TableRecord>,
    /// Where its objects start.
    pub(super) objects: FrameOffset,
}

impl VerifiedBackup {
    /// Where the next incremental backup starts; `None` if no incremental backup can continue this one.
    pub fn position(&self) -> Option<BackupPosition> {
        let snapshot = &self.current.as_ref()?.snapshot;
        Some(BackupPosition {
            incarnation: snapshot.incarnation.clone(),
            sequence: snapshot.sequence,
            last_change: snapshot.last_change,
        })
    }

    /// The id that the keys of this backup are sealed for.
    pub fn id(&self) -> Option<[u8; 16]> {
        self.current.as_ref().map(|current| current.header.id)
    }
}

/// Reads a whole backup that is not encrypted, and verifies every byte.
pub fn verify_backup(file: &Path, progress: Progress<'_>) -> Result<VerifiedBackup, Error> {
    verify_encrypted_backup(file, None, progress)
}

/// Reads a whole backup and verifies every byte. The key is used only if the backup is encrypted.
pub fn verify_encrypted_backup(
    file: &Path,
    key: Option<&EncryptionKey>,
    progress: Progress<'_>,
) -> Result<VerifiedBackup, Error> {
    match open(file, key)? {
        OpenedBackup::Current(reader) => {
            let key = key.filter(|_| reader.is_encrypted()).cloned();
            let mut verified = verify(file, *reader, progress)?;
            verified.backup.key_id = key.as_ref().map(EncryptionKey::id);
            Ok(VerifiedBackup { key, ..verified })
        }
        OpenedBackup::Format1(mut input) => {
            let backup = format1::read_all(&mut input, progress, |_| Ok(()))?;
            Ok(VerifiedBackup { file: file.to_path_buf(), backup, sealed_keys: None, key: None, current: None })
        }
    }
}

fn verify<R: Read>(file: &Path, mut reader: BackupReader<R>, progress: Progress<'_>) -> Result<VerifiedBackup, Error> {
    let mut tables = Vec::new();
    let (mut seen, mut objects, mut object_bytes) = (0_u64, 0, 0);
    let mut sealed_keys = None;
    let mut names = ObjectNameCheck::default();
    let mut objects_start = reader.offset();
    let hash = loop {
        seen += 1;
        if seen.is_multiple_of(1_000) {
            progress(seen);
        }
        match reader.next()? {
            BackupPart::Table(table) => tables.push(table),
            BackupPart::Item(_) | BackupPart::Change { .. } => {}
            BackupPart::ObjectBytes(bytes) => names.bytes(&bytes),
            BackupPart::StoreEnd => objects_start = reader.offset(),
            BackupPart::Object(object) => {
                objects += u64::from(object.is_included);
                object_bytes += if object.is_included { object.size } else { 0 };
                if object.is_included {
                    names.start_object(object);
                }
            }
            BackupPart::Keys(sealed) => sealed_keys = Some(sealed),
            BackupPart::End(hash) => break hash,
        }
    };
    let counted = reader.counted();
    let backup = BackupSummary {
        id: Some(hex(&reader.header.id)),
        parent: reader.header.parent.as_ref().map(|parent| hex(&parent.id)),
        tables: counted.tables,
        items: counted.items,
        changes: counted.changes,
        objects,
        object_bytes,
        damaged_objects: names.damaged,
        has_keys: sealed_keys.is_some(),
        sequence: reader.snapshot.sequence,
        at: Some(reader.snapshot.at),
        content_hash: counted.content_hash.clone(),
        key_id: None,
    };
    let current =
        CurrentFormat { header: reader.header, snapshot: reader.snapshot, hash, tables, objects: objects_start };
    Ok(VerifiedBackup { file: file.to_path_buf(), backup, sealed_keys, key: None, current: Some(current) })
}

/// Checks that the first backup is a full one, and that each other one continues the one before.
pub fn verify_chain(chain: &[VerifiedBackup]) -> Result<(), Error> {
    let Some(first) = chain.first() else { return Err(Error::engine("no backup was given")) };
    let name = |checked: &VerifiedBackup| checked.file.display().to_string();
    if let Some(parent) = &first.backup.parent {
        let (first, parent) = (name(first), parent);
        return Err(BackupDamage::chain(format!(
            "{first} is incremental and continues backup {parent}, which must come first"
        )));
    }
    for pair in chain.windows(2) {
        let [before, after] = pair else { continue };
        let parent = after.current.as_ref().and_then(|current| current.header.parent.as_ref());
        let continues = match (&before.current, parent) {
            (Some(before), Some(parent)) => before.header.id == parent.id && before.hash == parent.hash,
            _ => false,
        };
        if !continues {
            let file = name(after);
            return Err(BackupDamage::chain(match &after.backup.parent {
                Some(parent) => format!("{file} does not continue {}, but backup {parent}", name(before)),
                None => format!("{file} is a full backup; only the first file may be one"),
            }));
        }
    }
    Ok(())
}
