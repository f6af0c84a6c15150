//! Removing expired items and changes that are older than the retention.
//!
//! They are found here, in parallel to the committing thread, which removes them in small steps between writes.

use std::{
    collections::HashMap,
    ops::{Bound, ControlFlow},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fjall::Slice;
use nagaya_store::{ChangeCause, Error, Key};

use crate::{
    commit::{Committer, MaintenanceRequest},
    engine::{CommitClient, Shared},
    layout::{self, Keyspace, TableId},
    prepare::Image,
    read,
    record::{self, SEQUENCE_KEY, Table, TrimPoint},
    storage::{Op, View, break_if},
};

/// The number of expired items or old changes that are removed in one step.
const STEP: usize = 500;
/// How often the periodic checks run during a sweep, which may take minutes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Changes to remove.
pub(crate) struct Trim {
    table: TableId,
    /// The newest change of the whole sweep: readers must see it before the first change is removed.
    trim_point: TrimPoint,
    keys: Vec<Slice>,
}

/// How far earlier sweeps have come. The next sweep continues there, because removed entries slow reads down until they
/// are compacted.
#[derive(Debug, Default)]
pub(crate) struct SweepProgress {
    /// By table, the sequence number up to which changes have been removed.
    changes: Mutex<HashMap<TableId, u64>>,
}

impl CommitClient {
    /// Removes all expired items and all changes that are older than the retention.
    ///
    /// Changes come first: removing an item needs space for its change.
    pub(crate) async fn sweep(&self) -> Result<(), Error> {
        let mut last_check = Instant::now();
        let mut before_step = || {
            self.check_running()?;
            if last_check.elapsed() >= CHECK_INTERVAL {
                self.shared.run_periodic_checks();
                last_check = Instant::now();
            }
            Ok::<_, Error>(())
        };
        for table in self.shared.sorted_tables() {
            let Some(trim_point) = find_trim_point(&self.shared, &table)? else { continue };
            loop {
                before_step()?;
                let keys = self.shared.sweep_progress.next(&self.shared, &table, trim_point.sequence)?;
                let is_done = keys.len() < STEP;
                let last = keys.last().and_then(|key| layout::change_sequence(key));
                let trim = Trim { table: table.id, trim_point, keys };
                self.maintain(|reply| MaintenanceRequest::Trim(trim, reply)).await?;
                self.shared.sweep_progress.advance(table.id, last.unwrap_or(trim_point.sequence));
                if is_done {
                    break;
                }
            }
        }
        // Reads do not return expired items, so these can wait until the disk has more space.
        while self.shared.free_space.check().is_ok()
            && let Some(due) = due_expiries(&self.shared)?
        {
            before_step()?;
            self.maintain(|reply| MaintenanceRequest::Expire(due, reply)).await?;
        }
        Ok(())
    }
}

/// The keys of some expiries that are due; `None` if there are no more.
fn due_expiries(shared: &Shared) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let mut due = Vec::new();
    let end = Some(layout::expiry_prefix(shared.options.clock.seconds().saturating_add(1)));
    shared.storage.view()?.range(Keyspace::Expiry, Bound::Unbounded, end, false, |key, _| {
        due.push(key.to_vec());
        break_if(due.len() >= STEP)
    })?;
    Ok((!due.is_empty()).then_some(due))
}

/// The newest change of a table that is older than the retention; `None` if all such changes have been removed.
fn find_trim_point(shared: &Shared, table: &Table) -> Result<Option<TrimPoint>, Error> {
    let retention = i64::try_from(shared.options.retention.as_millis()).unwrap_or(i64::MAX);
    let oldest = shared.options.clock.millis().saturating_sub(retention);
    let view = shared.storage.view()?;
    let trimmed = read::trim_point(&view, table.id)?;
    let newest = read::newest_sequence(&view, table)?;
    // Timestamps increase with sequence numbers, so a binary search finds the first change to keep.
    let (mut old, mut kept) = (trimmed, newest + 1);
    while let Some(middle) = Some(old.sequence.midpoint(kept)).filter(|middle| *middle > old.sequence) {
        match first_change_from(&view, table, middle)? {
            Some(found) if found.at < oldest => old = found,
            _ => kept = middle,
        }
    }
    let is_behind = shared.sweep_progress.changes().get(&table.id).is_none_or(|swept| *swept < old.sequence);
    Ok((old.sequence > 0 && is_behind).then_some(old))
}

/// The first change of a table from a sequence number on.
fn first_change_from(view: &View<'_>, table: &Table, sequence: u64) -> Result<Option<TrimPoint>, Error> {
    let mut found = None;
    let from = Bound::Included(layout::change_key(table.id, sequence));
    let end = layout::prefix_end(&layout::table_prefix(table.id));
    view.range(Keyspace::Changes, from, end, false, |key, value| {
        let at = record::decode_change(value)?.at;
        found = layout::change_sequence(key).map(|sequence| TrimPoint { sequence, at });
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

impl SweepProgress {
    fn changes(&self) -> std::sync::MutexGuard<'_, HashMap<TableId, u64>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of the next changes up to a sequence number.
    fn next(&self, shared: &Shared, table: &Table, last: u64) -> Result<Vec<Slice>, Error> {
        let swept = self.changes().get(&table.id).copied().unwrap_or(0);
        let mut keys = Vec::new();
        let from = Bound::Excluded(layout::change_key(table.id, swept));
        let end = Some(layout::change_key(table.id, last.saturating_add(1)));
        shared.storage.view()?.range(Keyspace::Changes, from, end, false, |key, _| {
            keys.push(key.into());
            break_if(keys.len() >= STEP)
        })?;
        Ok(keys)
    }

    fn advance(&self, table: TableId, sequence: u64) {
        let mut changes = self.changes();
        let reached = changes.entry(table).or_default();
        *reached = sequence.max(*reached);
    }
}

impl Committer {
    /// Removes changes. The trim point is written in the same commit, so that readers never miss a change unnoticed.
    pub(crate) fn trim(&mut self, trim: Trim) -> Result<(), Error> {
        let former = read::trim_point(&self.shared.storage.view()?, trim.table)?;
        // Of two concurrent sweeps, one may be behind.
        let trim_point = if former.sequence > trim.trim_point.sequence { former } else { trim.trim_point };
        let mut ops = vec![
            Op::Put(Keyspace::Meta, record::trim_point_key(trim.table).into(), record::encode(&trim_point)?.into()),
            // Sequence numbers continue from here even if no change is left.
            Op::Put(Keyspace::Meta, SEQUENCE_KEY.into(), record::encode(&self.sequence)?.into()),
        ];
        ops.extend(trim.keys.into_iter().map(|key| Op::Remove(Keyspace::Changes, key)));
        self.commit(ops, self.sequence)
    }

    /// Removes expired items, by the keys of their expiries.
    pub(crate) fn expire(&mut self, due: &[Vec<u8>]) -> Result<(), Error> {
        let (before, seconds) = (self.sequence, self.shared.options.clock.seconds());
        let tables = self.shared.tables.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut ops = Vec::new();
        for expiry in due {
            let item_key = expiry.get(8..).unwrap_or_default();
            let table = tables.values().find(|table| item_key.starts_with(&layout::table_prefix(table.id)));
            let stored = self.shared.storage.latest(Keyspace::Items, item_key)?;
            match table.zip(stored).map(|(table, value)| decode_stored(table, item_key, value)).transpose()? {
                Some((table, key, image))
                    if image.has_expiry_key(expiry) && table.spec.is_expired(&image.item, seconds) =>
                {
                    let target = (&**table, &key, &item_key.into());
                    self.record_change(target, [Some(&image), None], ChangeCause::Expiry, &mut ops)?;
                }
                // Not due yet.
                Some((_, _, image)) if image.has_expiry_key(expiry) => {}
                // The item has another expiry now, or does not exist any more.
                _ => ops.push(Op::Remove(Keyspace::Expiry, expiry.clone().into())),
            }
        }
        self.commit(ops, before)
    }
}

/// A stored item with its table and key.
fn decode_stored<'t>(
    table: &'t Arc<Table>,
    item_key: &[u8],
    value: Slice,
) -> Result<(&'t Arc<Table>, Key, Image), Error> {
    let item = record::decode_item(&value)?;
    let key = table.spec.key.key_of(&item).ok_or_else(|| Error::engine("a stored item lacks its key"))?;
    let image = Image::decode(table, &key, item_key, value)?;
    Ok((table, key, image))
}
