//! Removing what has expired and what is older than the retention.
//!
//! What is to go is found here, beside the committing thread, and removed by it in small steps between the writes.

use std::{
    collections::HashMap,
    ops::{Bound, ControlFlow},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use fjall::Slice;
use nagaya_store::{Cause, Error, Key};

use crate::{
    backing::{Op, View},
    commit::{Committer, Request},
    engine::{Client, Shared},
    layout::{self, Space, TableId},
    plan::Image,
    read,
    record::{self, SEQUENCE_KEY, Table, Trimmed},
};

/// Expired items or old changes that are removed at once.
const STEP: usize = 500;
/// A sweep may take minutes; what else is done every so often goes on meanwhile.
const MAINTAIN_EVERY: Duration = Duration::from_secs(1);

/// Changes to remove.
pub(crate) struct Trim {
    table: TableId,
    /// The newest of all that are to go: readers must know before the first one goes.
    trimmed: Trimmed,
    keys: Vec<Slice>,
}

/// How far earlier sweeps have come, so that each goes on from there: what has been removed still has to be passed over
/// until it is compacted away.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// By table, the sequence up to which changes have been removed.
    changes: Mutex<HashMap<TableId, u64>>,
}

impl Client {
    /// Removes all items that have expired and all changes that are older than the retention.
    ///
    /// Old changes go first: to remove an item takes room for the change.
    pub(crate) async fn sweep(&self) -> Result<(), Error> {
        let mut maintained = Instant::now();
        let mut next = || {
            self.check_running()?;
            if maintained.elapsed() >= MAINTAIN_EVERY {
                self.shared.maintain();
                maintained = Instant::now();
            }
            Ok::<_, Error>(())
        };
        for table in self.shared.sorted_tables() {
            let Some(trimmed) = too_old(&self.shared, &table)? else { continue };
            loop {
                next()?;
                let keys = self.shared.swept.next(&self.shared, &table, trimmed.sequence)?;
                let done = keys.len() < STEP;
                let last = keys.last().and_then(|key| layout::sequence(key));
                self.ask(|reply| Request::Trim(Trim { table: table.id, trimmed, keys }, reply)).await?;
                self.shared.swept.reached(table.id, last.unwrap_or(trimmed.sequence));
                if done {
                    break;
                }
            }
        }
        // What has expired is not returned, and can wait for a disk with more room.
        while self.shared.space.check().is_ok()
            && let Some(due) = due(&self.shared)?
        {
            next()?;
            self.ask(|reply| Request::Expire(due, reply)).await?;
        }
        Ok(())
    }
}

/// Expiries that are due; `None`: there are no more.
fn due(shared: &Shared) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let mut due = Vec::new();
    let end = Some(layout::expired_before(shared.options.clock.seconds().saturating_add(1)));
    shared.backing.view()?.range(Space::Expiry, Bound::Unbounded, end, false, |key, _| {
        due.push(key.to_vec());
        Ok(if due.len() >= STEP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok((!due.is_empty()).then_some(due))
}

/// The newest change of a table that is older than the retention, if there is one that has not been removed.
fn too_old(shared: &Shared, table: &Table) -> Result<Option<Trimmed>, Error> {
    let retention = i64::try_from(shared.options.retention.as_millis()).unwrap_or(i64::MAX);
    let oldest = shared.options.clock.millis().saturating_sub(retention);
    let view = shared.backing.view()?;
    let trimmed = read::trimmed(&view, table.id)?;
    let newest = read::newest(&view, table)?;
    // Stamps grow with sequences, so that the first one to keep is found without reading all that go.
    let (mut old, mut kept) = (trimmed, newest + 1);
    while let Some(middle) = Some(old.sequence.midpoint(kept)).filter(|middle| *middle > old.sequence) {
        match change_at(&view, table, middle)? {
            Some(found) if found.at < oldest => old = found,
            _ => kept = middle,
        }
    }
    let behind = shared.swept.changes().get(&table.id).is_none_or(|swept| *swept < old.sequence);
    Ok((old.sequence > 0 && behind).then_some(old))
}

/// The first change of a table from a sequence on, and when it was.
fn change_at(view: &View<'_>, table: &Table, sequence: u64) -> Result<Option<Trimmed>, Error> {
    let mut found = None;
    let from = Bound::Included(layout::change(table.id, sequence));
    let end = layout::after_prefix(&layout::table(table.id));
    view.range(Space::Changes, from, end, false, |key, value| {
        let at = record::decode_change(value)?.at;
        found = layout::sequence(key).map(|sequence| Trimmed { sequence, at });
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

impl Swept {
    fn changes(&self) -> std::sync::MutexGuard<'_, HashMap<TableId, u64>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of some changes up to a sequence.
    fn next(&self, shared: &Shared, table: &Table, last: u64) -> Result<Vec<Slice>, Error> {
        let swept = self.changes().get(&table.id).copied().unwrap_or(0);
        let mut keys = Vec::new();
        let from = Bound::Excluded(layout::change(table.id, swept));
        let end = Some(layout::change(table.id, last.saturating_add(1)));
        shared.backing.view()?.range(Space::Changes, from, end, false, |key, _| {
            keys.push(key.into());
            Ok(if keys.len() >= STEP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(keys)
    }

    fn reached(&self, table: TableId, sequence: u64) {
        let mut changes = self.changes();
        let reached = changes.entry(table).or_default();
        *reached = sequence.max(*reached);
    }
}

impl Committer {
    /// Removes changes, after readers can know of it: the mark goes first, or with the first of them.
    pub(crate) fn trim(&mut self, trim: Trim) -> Result<(), Error> {
        let former = read::trimmed(&self.shared.backing.view()?, trim.table)?;
        // Of two sweeps at the same time, one may be behind.
        let trimmed = if former.sequence > trim.trimmed.sequence { former } else { trim.trimmed };
        let mut ops = vec![
            Op::Put(Space::Meta, record::trimmed_key(trim.table).into(), record::encode(&trimmed)?.into()),
            // Sequences go on from here even when no change is left to tell how far they were.
            Op::Put(Space::Meta, SEQUENCE_KEY.into(), record::encode(&self.sequence)?.into()),
        ];
        ops.extend(trim.keys.into_iter().map(|key| Op::Remove(Space::Changes, key)));
        self.commit(ops, self.sequence)
    }

    /// Removes items that have expired, by the keys of their expiries.
    pub(crate) fn expire(&mut self, due: &[Vec<u8>]) -> Result<(), Error> {
        let (before, seconds) = (self.sequence, self.shared.options.clock.seconds());
        let tables = self.shared.tables.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut ops = Vec::new();
        for expiry in due {
            let bytes = expiry.get(8..).unwrap_or_default();
            let table = tables.values().find(|table| bytes.starts_with(&layout::table(table.id)));
            let stored = self.shared.backing.latest(Space::Items, bytes)?;
            match table.zip(stored).map(|(table, value)| found(table, bytes, value)).transpose()? {
                Some((table, key, image))
                    if image.expires_at(expiry) && table.spec.is_expired(&image.item, seconds) =>
                {
                    let item_at = (&**table, &key, &bytes.into());
                    self.record(item_at, [Some(&image), None], Cause::Expiry, &mut ops)?;
                }
                // It is not due.
                Some((_, _, image)) if image.expires_at(expiry) => {}
                // The item has changed since, or is gone.
                _ => ops.push(Op::Remove(Space::Expiry, expiry.clone().into())),
            }
        }
        self.commit(ops, before)
    }
}

/// A stored item, and its key.
fn found<'t>(table: &'t Arc<Table>, place: &[u8], value: Slice) -> Result<(&'t Arc<Table>, Key, Image), Error> {
    let item = record::decode_item(&value)?;
    let key = table.spec.key.key_of(&item).ok_or_else(|| Error::engine("a stored item lacks its key"))?;
    let image = Image::stored(table, &key, place, value)?;
    Ok((table, key, image))
}
