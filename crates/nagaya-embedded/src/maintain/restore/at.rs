//! A store as it was at a past moment, in a new directory.

use std::{
    fmt,
    ops::{Bound, ControlFlow},
    path::Path,
};

use nagaya_store::Error;

use super::{
    Restored,
    beside::{ObjectsAndKeys, write_keys},
    into_new,
};
use crate::{
    Embedded,
    backing::View,
    layout::{self, Space},
    maintain::{Progress, each_item, filler::Filler, instant::instant, sequence, tables},
    read,
    record::{self, Table, Trimmed},
};

/// No state of the moment can be told.
#[derive(Debug)]
enum UnknownMoment {
    Trimmed { table: String, oldest: i64 },
    BeforeTheFirst { oldest: i64 },
    Future { now: i64 },
}

impl fmt::Display for UnknownMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownMoment::Trimmed { table, oldest } => {
                let oldest = instant(*oldest);
                write!(f, "the changes of `{table}` are kept since {oldest}; an earlier state cannot be restored")
            }
            UnknownMoment::BeforeTheFirst { oldest } => {
                let oldest = instant(*oldest);
                write!(f, "the first change is of {oldest}; what was before it is not known and cannot be restored")
            }
            UnknownMoment::Future { now } => {
                write!(f, "it is {} now; a moment in the future cannot be restored", instant(*now))
            }
        }
    }
}

impl std::error::Error for UnknownMoment {}

impl Embedded {
    /// Fills a new directory with the store as it was at this moment (milliseconds since 1970).
    ///
    /// The directory must not be there yet, and is not there if anything fails. It keeps no changes of before, and its sequences
    /// go on.
    pub fn restore_at(
        &self,
        moment: i64,
        directory: &Path,
        beside: ObjectsAndKeys<'_>,
        progress: Progress<'_>,
    ) -> Result<Restored, Error> {
        let view = self.backing().view()?;
        let tables = tables(&view)?;
        let now = self.now();
        if moment > now {
            return Err(Error::engine(UnknownMoment::Future { now }));
        }
        let past = Past::of(&view, &tables, moment)?;
        let sequence = sequence(&view, &tables)?;
        let restored = into_new(directory, |filler, objects| {
            for table in &tables {
                // All that was is gone from the record: positions before this are told of a gap.
                filler.table(table, Trimmed { sequence, at: now })?;
                each_item(&view, table, |_, _, item| {
                    filler.item(table, item)?;
                    if filler.entries.is_multiple_of(1_000) {
                        progress(filler.entries);
                    }
                    Ok(())
                })?;
                undo(&view, table, past.first_after, filler)?;
            }
            filler.sequence(sequence)?;
            if let Some(other) = beside.objects {
                objects.copy_from(other, progress)?;
            }
            write_keys(directory, beside.keys)?;
            Ok(None)
        })?;
        Ok(Restored { keys: beside.keys.len() as u64, clock_went_back: past.clock_went_back, ..restored })
    }
}

/// What the changes tell of a moment.
struct Past {
    /// The first change after it, of all tables: sequences are the order of all writes, so this is one cut through all tables.
    first_after: Option<u64>,
    clock_went_back: bool,
}

impl Past {
    fn of(view: &View<'_>, tables: &[Table], moment: i64) -> Result<Self, Error> {
        let (mut first_after, mut clock_went_back) = (None::<u64>, false);
        let (mut oldest, mut any_trimmed) = (None::<i64>, false);
        for table in tables {
            let trimmed = read::trimmed(view, table.id)?;
            if trimmed.sequence > 0 {
                any_trimmed = true;
                if moment < trimmed.at {
                    let table = table.spec.name.clone();
                    return Err(Error::engine(UnknownMoment::Trimmed { table, oldest: trimmed.at }));
                }
            }
            let mut last = i64::MIN;
            let prefix = layout::table(table.id);
            let end = layout::after_prefix(&prefix);
            view.range(Space::Changes, Bound::Included(prefix), end, false, |place, value| {
                let at = record::decode_change(value)?.at;
                let sequence = layout::sequence(place).unwrap_or(0);
                clock_went_back |= at < last;
                last = at;
                oldest = Some(oldest.map_or(at, |oldest| oldest.min(at)));
                if at > moment {
                    // A clock that went back makes no difference: from the first change after the moment on, all go.
                    first_after = Some(first_after.map_or(sequence, |first| first.min(sequence)));
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        match oldest.filter(|oldest| moment < *oldest && !any_trimmed) {
            Some(oldest) => Err(Error::engine(UnknownMoment::BeforeTheFirst { oldest })),
            None => Ok(Past { first_after, clock_went_back }),
        }
    }
}

/// Takes back what has happened since a change, the newest first.
fn undo(view: &View<'_>, table: &Table, first: Option<u64>, filler: &mut Filler<'_>) -> Result<(), Error> {
    let Some(first) = first else { return Ok(()) };
    let first = layout::change(table.id, first);
    let end = layout::after_prefix(&layout::table(table.id));
    view.range(Space::Changes, Bound::Included(first), end, true, |_, value| {
        let change = record::decode_change(value)?;
        filler.replace(table, &change.key, [change.new, change.old])?;
        Ok(ControlFlow::Continue(()))
    })
}

#[cfg(test)]
mod tests {
    use nagaya_store::{Cause, Item, Key, KeySchema, TableSpec};

    use super::*;
    use crate::{Options, backing::Op};

    /// Stores changes with these stamps, in this order, as a version did whose stamps could go back.
    fn store(stamps: &[(u16, i64)]) -> Result<Embedded, Error> {
        let store = Embedded::memory(Options { sweep_every: None, ..Options::default() })?;
        let mut ops = Vec::new();
        for (id, name) in [(0, "notes"), (1, "others")] {
            let table = Table::new(id, TableSpec::new(name, KeySchema::strings("PK", "SK")));
            ops.push(Op::Put(Space::Meta, record::table_key(name).into(), record::encode(&table)?.into()));
        }
        for (sequence, (table, at)) in (1..).zip(stamps) {
            let key = Key::new("P", sequence.to_string());
            let item = Item::new().with("PK", "P").with("SK", sequence.to_string());
            ops.push(Op::Put(Space::Items, layout::item(*table, &key).into(), record::encode(&item)?.into()));
            let change = record::Change { key, old: None, new: Some(item), cause: Cause::Write, at: *at };
            ops.push(Op::Put(Space::Changes, layout::change(*table, sequence).into(), record::encode(&change)?.into()));
        }
        store.backing().commit(ops)?;
        Ok(store)
    }

    #[test]
    fn a_clock_that_jumped_is_told_of_and_all_tables_are_cut_at_one_place() -> Result<(), Error> {
        let directory = tempfile::tempdir().map_err(Error::engine)?;
        // The clock is an hour ahead for the third write, and right again.
        let jumped = store(&[(0, 10_000), (1, 20_000), (0, 3_600_000), (1, 30_000), (0, 40_000)])?;
        let restored =
            jumped.restore_at(35_000, &directory.path().join("a"), ObjectsAndKeys::default(), &mut |_| {})?;
        // From the jump on everything goes, in both tables: the fourth was written after the third.
        assert_eq!((restored.items, restored.clock_went_back, restored.sequence), (2, true, 5));
        let steady = store(&[(0, 10_000), (1, 20_000), (0, 25_000), (1, 30_000), (0, 40_000)])?;
        let restored =
            steady.restore_at(35_000, &directory.path().join("b"), ObjectsAndKeys::default(), &mut |_| {})?;
        assert_eq!((restored.items, restored.clock_went_back), (4, false));
        Ok(())
    }
}
