//! The record of the runs of the archiver: when the last one ended, where the current one is, and whose it is.

use std::time::Duration;

use nagaya_store::{Condition, Item, Key, KeyValue, PagePosition, Value, Write};

use super::Archive;
use crate::{Error, values::integer_in};

/// How long a process has the work without a sign of life.
pub(super) const LEASE: Duration = Duration::from_secs(60);
/// The longest time between two runs: each reads the whole table.
pub(super) const MAX_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// The shortest time between two runs.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

const OWNER: &str = "%owner";
const UNTIL: &str = "%until";
const ENDED: &str = "%ended";
const POSITION: &str = "%position";

/// The time between two runs, for entries that move at this age.
pub(super) fn interval(after_millis: i64) -> Duration {
    let after = Duration::from_millis(u64::try_from(after_millis).unwrap_or_default());
    after.clamp(MIN_INTERVAL, MAX_INTERVAL)
}

/// A run, as it is stored.
pub(super) struct Run(Option<Item>);

/// A run that this process has the lease of.
pub(super) struct LeasedRun {
    item: Item,
    position: Option<PagePosition>,
}

impl Run {
    pub(super) async fn read(archive: &Archive) -> Result<Self, Error> {
        Ok(Run(archive.state().store.get(&archive.entries.table, &run_key()).await?))
    }

    /// How long there is nothing to do for this process.
    pub(super) fn wait(&self, id: &str, now: i64, after_millis: i64) -> Option<Duration> {
        let item = self.0.as_ref()?;
        let until = match item.get(OWNER).and_then(Value::as_str) {
            Some(owner) if owner == id => return None,
            Some(_) => integer_in(item, UNTIL)?,
            None => integer_in(item, ENDED)?.saturating_add(interval(after_millis).as_millis().try_into().ok()?),
        };
        let left = u64::try_from(until.saturating_sub(now)).ok().filter(|left| *left > 0)?;
        Some(Duration::from_millis(left))
    }

    /// Takes the lease or renews it; `None` if another process was faster.
    pub(super) async fn lease(self, archive: &Archive, id: &str, now: i64) -> Result<Option<LeasedRun>, Error> {
        let position = self.0.as_ref().and_then(position);
        let mut item = archive.entries.internal_item(run_key());
        item = item.with(OWNER, id).with(UNTIL, lease_end(now));
        set_position(&mut item, position.as_ref());
        let write = Write::put(&archive.entries.table, item.clone()).when(is_unchanged(archive, self.0.as_ref()));
        let taken = archive.session.commit_if(write).await?;
        Ok(taken.then_some(LeasedRun { item, position }))
    }
}

impl LeasedRun {
    /// Where its next page starts.
    pub(super) fn position(&self) -> Option<PagePosition> {
        self.position.clone()
    }

    /// Notes where the next page starts; `None`: the run has ended. A process that has lost its lease notes nothing.
    pub(super) async fn advance(self, archive: &Archive, next: Option<PagePosition>, now: i64) -> Result<(), Error> {
        let mut item = archive.entries.internal_item(run_key());
        match &next {
            Some(_) => {
                item = item.with(UNTIL, lease_end(now));
                if let Some(owner) = self.item.get(OWNER) {
                    item.insert(OWNER, owner.clone());
                }
            }
            None => item = item.with(ENDED, now),
        }
        set_position(&mut item, next.as_ref());
        let write = Write::put(&archive.entries.table, item).when(is_unchanged(archive, Some(&self.item)));
        archive.session.commit_if(write).await?;
        Ok(())
    }
}

/// The key of the record, in the table of the entries. Escapes have capitals, so no key of an entity is like it.
fn run_key() -> Key {
    Key::new("%archiving", "%archiving")
}

/// Until when a process has the lease that it takes or renews now, in milliseconds since 1970.
fn lease_end(now: i64) -> i64 {
    now.saturating_add(LEASE.as_millis().try_into().unwrap_or(i64::MAX))
}

/// The record is still the one that was read.
fn is_unchanged(archive: &Archive, item: Option<&Item>) -> Condition {
    let Some(item) = item else { return archive.entries.is_absent() };
    let same = |name: &str| match item.get(name) {
        Some(value) => Condition::equal(name, value.clone()),
        None => Condition::absent(name),
    };
    same(OWNER).and(same(UNTIL)).and(same(ENDED))
}

fn position(item: &Item) -> Option<PagePosition> {
    let Value::List(key) = item.get(POSITION)? else { return None };
    let [partition, sort] = key.as_slice() else { return None };
    Some(PagePosition { key: Key::new(partition.as_str()?, sort.as_str()?), index_key: None })
}

fn set_position(item: &mut Item, position: Option<&PagePosition>) {
    let Some(PagePosition { key, .. }) = position else { return };
    let text = |value: &KeyValue| Value::from(value.clone());
    item.insert(POSITION, Value::List(vec![text(&key.partition), text(&key.sort)]));
}
