//! Whether a backup is whole, without restoring it.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use nagaya_store::Error;

use super::{
    Backup, Since,
    damage::Damage,
    frame::Place,
    objects::CheckedNames,
    old,
    read::{Opened, Part, Reader, open},
    record::{Header, Snapshot, TableRecord},
};
use crate::maintain::Progress;

/// A backup that has been read from beginning to end, and is whole.
#[derive(Debug)]
pub struct Checked {
    /// The file.
    pub file: PathBuf,
    /// What it holds.
    pub backup: Backup,
    /// The sealed keys, if it has some.
    pub sealed_keys: Option<Vec<u8>>,
    /// `None` in the format before this one.
    pub(in crate::maintain) current: Option<Current>,
}

/// What only backups of the current format have.
#[derive(Debug)]
pub(in crate::maintain) struct Current {
    pub(in crate::maintain) header: Header,
    pub(in crate::maintain) snapshot: Snapshot,
    pub(in crate::maintain) hash: [u8; 32],
    pub(in crate::maintain) tables: Vec<TableRecord>,
    /// Where its objects begin.
    pub(super) objects: Place,
}

impl Checked {
    /// Where an incremental backup that follows this one begins; `None`: none can follow.
    pub fn since(&self) -> Option<Since> {
        let snapshot = &self.current.as_ref()?.snapshot;
        Some(Since {
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

/// Reads a backup from beginning to end and checks every byte of it.
pub fn check_backup(file: &Path, progress: Progress<'_>) -> Result<Checked, Error> {
    match open(file)? {
        Opened::Current(reader) => check(file, *reader, progress),
        Opened::Old(mut input) => {
            let backup = old::check(&mut input, progress)?;
            Ok(Checked { file: file.to_path_buf(), backup, sealed_keys: None, current: None })
        }
    }
}

fn check<R: Read>(file: &Path, mut reader: Reader<R>, progress: Progress<'_>) -> Result<Checked, Error> {
    let mut tables = Vec::new();
    let (mut seen, mut objects, mut object_bytes) = (0_u64, 0, 0);
    let mut sealed_keys = None;
    let mut names = CheckedNames::default();
    let mut begin = reader.place();
    let hash = loop {
        seen += 1;
        if seen.is_multiple_of(1_000) {
            progress(seen);
        }
        match reader.next()? {
            Part::Table(table) => tables.push(table),
            Part::Item(_) | Part::Change { .. } => {}
            Part::ObjectBytes(bytes) => names.bytes(&bytes),
            Part::StoreEnd => begin = reader.place(),
            Part::Object(object) => {
                objects += u64::from(object.here);
                object_bytes += if object.here { object.size } else { 0 };
                if object.here {
                    names.begin(object);
                }
            }
            Part::Keys(sealed) => sealed_keys = Some(sealed),
            Part::End(hash) => break hash,
        }
    };
    let counted = reader.counted();
    let backup = Backup {
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
    };
    let current = Current { header: reader.header, snapshot: reader.snapshot, hash, tables, objects: begin };
    Ok(Checked { file: file.to_path_buf(), backup, sealed_keys, current: Some(current) })
}

/// Whether each backup goes on from the one before, and the first is a full one.
pub fn check_chain(chain: &[Checked]) -> Result<(), Error> {
    let Some(first) = chain.first() else { return Err(Error::engine("no backup is named")) };
    let name = |checked: &Checked| checked.file.display().to_string();
    if let Some(parent) = &first.backup.parent {
        let (first, parent) = (name(first), parent);
        return Err(Damage::chain(format!(
            "{first} is incremental and goes on from backup {parent}, which comes first"
        )));
    }
    for pair in chain.windows(2) {
        let [before, after] = pair else { continue };
        let parent = after.current.as_ref().and_then(|current| current.header.parent.as_ref());
        let fits = match (&before.current, parent) {
            (Some(before), Some(parent)) => before.header.id == parent.id && before.hash == parent.hash,
            _ => false,
        };
        if !fits {
            let wanted = match &after.backup.parent {
                Some(parent) => format!("backup {parent}"),
                None => "nothing: it is a full one".to_owned(),
            };
            let (after, before) = (name(after), name(before));
            return Err(Damage::chain(format!("{after} does not go on from {before}, but from {wanted}")));
        }
    }
    Ok(())
}

/// Bytes as digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
