//! Restoring backups: a full one, and the incremental ones after it.

use std::path::Path;

use nagaya_store::Error;

use super::{
    RestoreSummary,
    extras::{ObjectWriter, RestoreExtras, write_keys},
    restore_into_new_directory,
    writer::RestoreWriter,
};
use crate::{
    Options,
    maintenance::{
        Progress,
        backup::{
            BackupDamage, VerifiedBackup,
            format1::{self, Format1Part},
            read::{BackupPart, BackupReader, OpenedBackup, open},
            record::TableRecord,
            verify_backup, verify_chain,
        },
    },
    record::{Table, TrimPoint},
};

/// The sequence number of a directory that is restored from a backup without changes. It counts as removed and is above
/// every position in the old directory: subscribers get a gap, and no earlier state can be restored.
const ABOVE_ALL_POSITIONS: u64 = 1 << 40;

/// Restores one backup into a new directory, without keys.
pub fn restore_backup(file: &Path, directory: &Path, progress: Progress<'_>) -> Result<RestoreSummary, Error> {
    let checked = verify_backup(file, progress).map_err(|error| super::nothing_restored(&error))?;
    restore_backups(&[checked], directory, RestoreExtras::default(), progress)
}

/// Restores a full backup and the incremental ones after it, in order, into a new directory.
///
/// The directory must not exist yet, and is removed if anything fails. Sequence numbers continue; a position in the old
/// directory gives a gap.
pub fn restore_backups(
    chain: &[VerifiedBackup],
    directory: &Path,
    extras: RestoreExtras<'_>,
    progress: Progress<'_>,
) -> Result<RestoreSummary, Error> {
    let key = extras.encryption_key.or_else(|| chain.iter().rev().find_map(|checked| checked.key.as_ref()));
    let restored = verify_chain(chain).and_then(|()| {
        restore_into_new_directory(directory, key, |writer, objects| {
            for checked in chain {
                restore_one(checked, chain, writer, objects, progress)?;
            }
            finish(chain, writer)?;
            write_keys(directory, extras.keys)?;
            Ok(chain.last().and_then(|last| last.backup.content_hash.clone()))
        })
    });
    let restored = restored.map_err(|error| super::nothing_restored(&error))?;
    Ok(RestoreSummary { keys: extras.keys.len() as u64, ..restored })
}

fn restore_one(
    checked: &VerifiedBackup,
    chain: &[VerifiedBackup],
    writer: &mut RestoreWriter<'_>,
    objects: &mut ObjectWriter,
    progress: Progress<'_>,
) -> Result<(), Error> {
    match open(&checked.file, checked.key.as_ref())? {
        OpenedBackup::Format1(mut input) => {
            let now = Options::default().clock.millis();
            format1::read_all(&mut input, progress, |part| match part {
                Format1Part::Table(table) => writer.table(table, TrimPoint { sequence: ABOVE_ALL_POSITIONS, at: now }),
                Format1Part::Item(table, item) => writer.item(table, item),
            })?;
            writer.sequence(ABOVE_ALL_POSITIONS)
        }
        OpenedBackup::Current(reader) => {
            restore_current(checked, last_tables(chain), *reader, writer, objects, progress)
        }
    }
}

/// The tables of the last backup. All of its indexes are built while items are restored.
fn last_tables(chain: &[VerifiedBackup]) -> &[TableRecord] {
    chain.last().and_then(|last| last.current.as_ref()).map_or(&[], |current| &current.tables)
}

fn restore_current<R: std::io::Read>(
    checked: &VerifiedBackup,
    last: &[TableRecord],
    mut reader: BackupReader<R>,
    writer: &mut RestoreWriter<'_>,
    objects: &mut ObjectWriter,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let incremental = reader.header.parent.is_some();
    let mut table: Option<(Table, u64)> = None;
    let no_table = || BackupDamage::error("a record belongs to no table");
    loop {
        if writer.entries.is_multiple_of(1_000) {
            progress(writer.entries);
        }
        match reader.next()? {
            BackupPart::Table(record) => {
                let record = last.iter().find(|known| known.id == record.id).unwrap_or(&record);
                table = Some((record.table(), record.trimmed.sequence));
            }
            BackupPart::Item(item) => {
                let (table, _) = table.as_ref().ok_or_else(no_table)?;
                writer.item(table, item)?;
            }
            BackupPart::Change { sequence, change, bytes } => {
                let (table, trimmed) = table.as_ref().ok_or_else(no_table)?;
                if incremental {
                    writer.apply(table, change)?;
                }
                if sequence > *trimmed {
                    writer.change(table, sequence, &bytes)?;
                }
            }
            BackupPart::Object(object) => objects.start_object(&object)?,
            BackupPart::ObjectBytes(bytes) => objects.part(&bytes)?,
            BackupPart::StoreEnd | BackupPart::Keys(_) => {}
            BackupPart::End(hash) => {
                let is_same = checked.current.as_ref().is_some_and(|current| current.hash == hash);
                return if is_same { Ok(()) } else { Err(BackupDamage::error("it has changed since it was verified")) };
            }
        }
    }
}

/// Writes the final tables and the highest sequence number.
fn finish(chain: &[VerifiedBackup], writer: &mut RestoreWriter<'_>) -> Result<(), Error> {
    let Some(current) = chain.last().and_then(|last| last.current.as_ref()) else { return Ok(()) };
    for record in &current.tables {
        writer.table(&record.table(), record.trimmed)?;
    }
    writer.sequence(current.snapshot.sequence)
}
