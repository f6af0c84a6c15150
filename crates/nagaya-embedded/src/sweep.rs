//! Taking away what has expired and what is older than the retention.

use std::{
    ops::{Bound, ControlFlow},
    sync::{Arc, PoisonError},
};

use fjall::Slice;
use nagaya_store::{Cause, Error, Key};

use crate::{
    backing::Op,
    commit::Committer,
    layout::{self, Space},
    plan::Image,
    record::{self, SEQUENCE_KEY, Table, Trimmed},
};

/// Expired items and old changes that one sweep takes away.
const SWEEP: usize = 500;

impl Committer {
    /// Takes expired items and old changes away; whether more are left.
    pub(crate) fn sweep(&mut self) -> Result<bool, Error> {
        let expired = self.sweep_expired()?;
        let old = self.sweep_changes()?;
        Ok(expired || old)
    }

    fn sweep_expired(&mut self) -> Result<bool, Error> {
        let millis = self.shared.options.clock.millis();
        let mut due = Vec::new();
        let end = Some(layout::expired_before(millis.div_euclid(1000).saturating_add(1)));
        self.shared.backing.view().range(Space::Expiry, Bound::Unbounded, end, false, |key, _| {
            due.push(key.to_vec());
            Ok(if due.len() >= SWEEP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let tables = self.shared.tables.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut ops = Vec::new();
        for expiry in &due {
            let bytes = expiry.get(8..).unwrap_or_default();
            let table = tables.values().find(|table| bytes.starts_with(&layout::table(table.id)));
            let stored = self.shared.backing.get(Space::Items, bytes)?;
            match table.zip(stored).map(|(table, value)| found(table, bytes, value)).transpose()? {
                Some((table, key, image)) if table.spec.is_expired(&image.item, millis.div_euclid(1000)) => {
                    let item_at = (&**table, &key, &bytes.into());
                    self.record(item_at, [Some(&image), None], (Cause::Expiry, millis), &mut ops)?;
                }
                _ => ops.push(Op::Remove(Space::Expiry, expiry.clone().into())),
            }
        }
        if !ops.is_empty() {
            self.shared.backing.commit(ops)?;
        }
        Ok(due.len() >= SWEEP)
    }

    fn sweep_changes(&mut self) -> Result<bool, Error> {
        let retention = i64::try_from(self.shared.options.retention.as_millis()).unwrap_or(i64::MAX);
        let oldest = self.shared.options.clock.millis().saturating_sub(retention);
        let tables = self.shared.tables.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut more = false;
        let mut ops = Vec::new();
        for table in tables.values() {
            let mut trimmed = None;
            let prefix = layout::table(table.id);
            let end = layout::after_prefix(&prefix);
            let mut count = 0;
            self.shared.backing.view().range(Space::Changes, Bound::Included(prefix), end, false, |key, value| {
                let change: record::Change = record::decode(value)?;
                if change.at >= oldest || count >= SWEEP {
                    more |= change.at < oldest;
                    return Ok(ControlFlow::Break(()));
                }
                count += 1;
                trimmed = layout::sequence(key).map(|sequence| Trimmed { sequence, at: change.at });
                ops.push(Op::Remove(Space::Changes, key.into()));
                Ok(ControlFlow::Continue(()))
            })?;
            if let Some(trimmed) = trimmed {
                ops.push(Op::Put(Space::Meta, record::trimmed_key(table.id).into(), record::encode(&trimmed)?.into()));
            }
        }
        if !ops.is_empty() {
            // Sequences go on from here even when no change is left to tell how far they were.
            ops.push(Op::Put(Space::Meta, SEQUENCE_KEY.into(), record::encode(&self.sequence)?.into()));
            self.shared.backing.commit(ops)?;
        }
        Ok(more)
    }
}

/// A stored item, and its key.
fn found<'t>(table: &'t Arc<Table>, place: &[u8], value: Slice) -> Result<(&'t Arc<Table>, Key, Image), Error> {
    let item = record::decode_item(&value)?;
    let key = table.spec.key.key_of(&item).ok_or_else(|| Error::engine("a stored item lacks its key"))?;
    let image = Image::stored(table, &key, place, value)?;
    Ok((table, key, image))
}
