//! Restoring the state of a store at a past time into a new directory.

use std::{
    ops::{Bound, ControlFlow},
    path::Path,
};

use nagaya_store::Error;

use super::{
    RestoreSummary,
    extras::{RestoreExtras, write_keys},
    restore_into_new_directory,
    writer::RestoreWriter,
};
use crate::{
    EmbeddedStore,
    layout::{self, Keyspace},
    maintenance::{Progress, for_each_item, highest_sequence, sorted_tables, timestamp::format_timestamp},
    read,
    record::{self, Table, TrimPoint},
    storage::View,
};

/// The state at a time is unknown.
#[derive(Debug, thiserror::Error)]
enum UnrestorableTime {
    #[error(
        "the changes of `{table}` are kept since {}; an earlier state cannot be restored",
        format_timestamp(*.oldest)
    )]
    Trimmed { table: String, oldest: i64 },
    #[error("the first change is of {}; an earlier state is unknown and cannot be restored", format_timestamp(*.oldest))]
    BeforeFirstChange { oldest: i64 },
    #[error("it is {} now; a time in the future cannot be restored", format_timestamp(*.now))]
    Future { now: i64 },
}

impl EmbeddedStore {
    /// Restores the state at a past time (milliseconds since 1970) into a new directory.
    ///
    /// The directory must not exist yet, and is removed if anything fails. It contains no changes; sequence numbers
    /// continue.
    pub fn restore_at(
        &self,
        time: i64,
        directory: &Path,
        extras: RestoreExtras<'_>,
        progress: Progress<'_>,
    ) -> Result<RestoreSummary, Error> {
        let view = self.storage().view()?;
        let tables = sorted_tables(&view)?;
        let now = self.now();
        if time > now {
            return Err(Error::engine(UnrestorableTime::Future { now }));
        }
        let point = PointInTime::find(&view, &tables, time)?;
        let sequence = highest_sequence(&view, &tables)?;
        let keyring = self.keyring();
        let own = keyring.encryption_key();
        let key = extras.encryption_key.or(own.as_ref());
        let restored = restore_into_new_directory(directory, key, |writer, objects| {
            for table in &tables {
                // The new directory has no changes: positions before this one give a gap.
                writer.table(table, TrimPoint { sequence, at: now })?;
                for_each_item(&view, table, |_, _, item| {
                    writer.item(table, item)?;
                    if writer.entries.is_multiple_of(1_000) {
                        progress(writer.entries);
                    }
                    Ok(())
                })?;
                undo(&view, table, point.first_after, writer)?;
            }
            writer.sequence(sequence)?;
            if let Some(other) = extras.objects {
                objects.copy_from(other, &keyring, progress)?;
            }
            write_keys(directory, extras.keys)?;
            Ok(None)
        })?;
        Ok(RestoreSummary { keys: extras.keys.len() as u64, clock_went_back: point.clock_went_back, ..restored })
    }
}

/// A past time, as a position in the changes.
struct PointInTime {
    /// The sequence number of the first change after it, of all tables. Sequence numbers order all writes, so all
    /// tables are cut at the same point.
    first_after: Option<u64>,
    clock_went_back: bool,
}

impl PointInTime {
    fn find(view: &View<'_>, tables: &[Table], time: i64) -> Result<Self, Error> {
        let (mut first_after, mut clock_went_back) = (None::<u64>, false);
        let (mut oldest, mut any_trimmed) = (None::<i64>, false);
        for table in tables {
            let trimmed = read::trim_point(view, table.id)?;
            if trimmed.sequence > 0 {
                any_trimmed = true;
                if time < trimmed.at {
                    let table = table.spec.name.clone();
                    return Err(Error::engine(UnrestorableTime::Trimmed { table, oldest: trimmed.at }));
                }
            }
            let mut last = i64::MIN;
            view.scan_prefix(Keyspace::Changes, layout::table_prefix(table.id), |key, value| {
                let at = record::decode_change(value)?.at;
                let sequence = layout::change_sequence(key).unwrap_or(0);
                clock_went_back |= at < last;
                last = at;
                oldest = Some(oldest.map_or(at, |oldest| oldest.min(at)));
                if at > time {
                    // All changes from the first one after the time on are undone, even if the clock went back later.
                    first_after = Some(first_after.map_or(sequence, |first| first.min(sequence)));
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        match oldest.filter(|oldest| time < *oldest && !any_trimmed) {
            Some(oldest) => Err(Error::engine(UnrestorableTime::BeforeFirstChange { oldest })),
            None => Ok(PointInTime { first_after, clock_went_back }),
        }
    }
}

/// Undoes all changes from one on, the newest first.
fn undo(view: &View<'_>, table: &Table, first: Option<u64>, writer: &mut RestoreWriter<'_>) -> Result<(), Error> {
    let Some(first) = first else { return Ok(()) };
    let first = layout::change_key(table.id, first);
    let end = layout::prefix_end(&layout::table_prefix(table.id));
    view.range(Keyspace::Changes, Bound::Included(first), end, true, |_, value| {
        let change = record::decode_change(value)?;
        writer.replace(table, &change.key, [change.new, change.old])?;
        Ok(ControlFlow::Continue(()))
    })
}

#[cfg(test)]
mod tests {
    use nagaya_store::{ChangeCause, Item, Key, KeySchema, TableSpec};

    use super::*;
    use crate::{Options, storage::Op};

    /// Stores changes with these timestamps, in this order, as older versions did, whose timestamps could go back.
    fn store(timestamps: &[(u16, i64)]) -> Result<EmbeddedStore, Error> {
        let store = EmbeddedStore::in_memory(Options { sweep_interval: None, ..Options::default() })?;
        let mut ops = Vec::new();
        for (id, name) in [(0, "notes"), (1, "others")] {
            let table = Table::new(id, TableSpec::new(name, KeySchema::strings("PK", "SK")));
            ops.push(Op::Put(Keyspace::Meta, record::table_key(name).into(), record::encode(&table)?.into()));
        }
        for (sequence, (table, at)) in (1..).zip(timestamps) {
            let key = Key::new("P", sequence.to_string());
            let item = Item::new().with("PK", "P").with("SK", sequence.to_string());
            ops.push(Op::Put(Keyspace::Items, layout::item_key(*table, &key).into(), record::encode(&item)?.into()));
            let change = record::Change { key, old: None, new: Some(item), cause: ChangeCause::Write, at: *at };
            ops.push(Op::Put(
                Keyspace::Changes,
                layout::change_key(*table, sequence).into(),
                record::encode(&change)?.into(),
            ));
        }
        store.storage().commit(ops)?;
        Ok(store)
    }

    #[test]
    fn a_clock_jump_is_reported_and_all_tables_are_cut_at_the_same_point() -> Result<(), Error> {
        let directory = tempfile::tempdir().map_err(Error::engine)?;
        // The clock is an hour ahead at the third write, then correct again.
        let jumped = store(&[(0, 10_000), (1, 20_000), (0, 3_600_000), (1, 30_000), (0, 40_000)])?;
        let restored = jumped.restore_at(35_000, &directory.path().join("a"), RestoreExtras::default(), &mut |_| {})?;
        // Everything from the jump on is undone, in both tables: the fourth was written after the third.
        assert_eq!((restored.items, restored.clock_went_back, restored.sequence), (2, true, 5));
        let steady = store(&[(0, 10_000), (1, 20_000), (0, 25_000), (1, 30_000), (0, 40_000)])?;
        let restored = steady.restore_at(35_000, &directory.path().join("b"), RestoreExtras::default(), &mut |_| {})?;
        assert_eq!((restored.items, restored.clock_went_back), (4, false));
        Ok(())
    }
}
