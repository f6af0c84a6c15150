//! Restoring backups: a full one, and those that go on from it.

use std::path::Path;

use nagaya_store::Error;

use super::{
    Restored,
    beside::{Objects, ObjectsAndKeys, write_keys},
    into_new,
};
use crate::{
    Options,
    maintain::{
        Progress,
        backup::{
            Checked, Damage, check_backup, check_chain,
            old::{self, OldPart},
            read::{Opened, Part, Reader, open},
            record::TableRecord,
        },
        filler::Filler,
    },
    record::{Table, Trimmed},
};

/// The sequence of a directory that is restored from a backup without any. It counts as swept away and is above every position
/// that a consumer of the old directory can have: they are told of a gap, and no earlier state is told.
const ABOVE_ALL_POSITIONS: u64 = 1 << 40;

/// Fills a new directory from one backup, without keys.
pub fn restore_backup(file: &Path, directory: &Path, progress: Progress<'_>) -> Result<Restored, Error> {
    let checked = check_backup(file, progress).map_err(|error| super::nothing_restored(&error))?;
    restore_backups(&[checked], directory, ObjectsAndKeys::default(), progress)
}

/// Fills a new directory from a full backup and the incremental ones that follow it, in their order.
///
/// The directory must not be there yet, and is not there if anything fails. Sequences go on from where they were; whoever has a
/// position of the old directory is told of a gap.
pub fn restore_backups(
    chain: &[Checked],
    directory: &Path,
    beside: ObjectsAndKeys<'_>,
    progress: Progress<'_>,
) -> Result<Restored, Error> {
    let restored = check_chain(chain).and_then(|()| {
        into_new(directory, |filler, objects| {
            for checked in chain {
                restore_one(checked, chain, filler, objects, progress)?;
            }
            finish(chain, filler)?;
            write_keys(directory, beside.keys)?;
            Ok(chain.last().and_then(|last| last.backup.content_hash.clone()))
        })
    });
    let restored = restored.map_err(|error| super::nothing_restored(&error))?;
    Ok(Restored { keys: beside.keys.len() as u64, ..restored })
}

fn restore_one(
    checked: &Checked,
    chain: &[Checked],
    filler: &mut Filler<'_>,
    objects: &mut Objects,
    progress: Progress<'_>,
) -> Result<(), Error> {
    match open(&checked.file)? {
        Opened::Old(mut input) => {
            let now = Options::default().clock.millis();
            old::read_all(&mut input, progress, |part| match part {
                OldPart::Table(table) => filler.table(table, Trimmed { sequence: ABOVE_ALL_POSITIONS, at: now }),
                OldPart::Item(table, item) => filler.item(table, item),
            })?;
            filler.sequence(ABOVE_ALL_POSITIONS)
        }
        Opened::Current(reader) => restore_current(checked, last_tables(chain), *reader, filler, objects, progress),
    }
}

/// The tables as the last backup has them. Indexes are made of the items, so all that it has are filled from the beginning.
fn last_tables(chain: &[Checked]) -> &[TableRecord] {
    chain.last().and_then(|last| last.current.as_ref()).map_or(&[], |current| &current.tables)
}

fn restore_current<R: std::io::Read>(
    checked: &Checked,
    last: &[TableRecord],
    mut reader: Reader<R>,
    filler: &mut Filler<'_>,
    objects: &mut Objects,
    progress: Progress<'_>,
) -> Result<(), Error> {
    let incremental = reader.header.parent.is_some();
    let mut table: Option<(Table, u64)> = None;
    let no_table = || Damage::error("a record is of no table");
    loop {
        if filler.entries.is_multiple_of(1_000) {
            progress(filler.entries);
        }
        match reader.next()? {
            Part::Table(record) => {
                let record = last.iter().find(|known| known.id == record.id).unwrap_or(&record);
                table = Some((record.table(), record.trimmed.sequence));
            }
            Part::Item(item) => {
                let (table, _) = table.as_ref().ok_or_else(no_table)?;
                filler.item(table, item)?;
            }
            Part::Change { sequence, change, bytes } => {
                let (table, trimmed) = table.as_ref().ok_or_else(no_table)?;
                if incremental {
                    filler.apply(table, change)?;
                }
                if sequence > *trimmed {
                    filler.change(table, sequence, &bytes)?;
                }
            }
            Part::Object(object) => objects.begin(&object)?,
            Part::ObjectBytes(bytes) => objects.part(&bytes)?,
            Part::StoreEnd | Part::Keys(_) => {}
            Part::End(hash) => {
                let same = checked.current.as_ref().is_some_and(|current| current.hash == hash);
                return if same { Ok(()) } else { Err(Damage::error("it has changed since it was checked")) };
            }
        }
    }
}

/// Writes how far the sequences are, so that they go on from there.
fn finish(chain: &[Checked], filler: &mut Filler<'_>) -> Result<(), Error> {
    let Some(current) = chain.last().and_then(|last| last.current.as_ref()) else { return Ok(()) };
    for record in &current.tables {
        filler.table(&record.table(), record.trimmed)?;
    }
    filler.sequence(current.snapshot.sequence)
}
