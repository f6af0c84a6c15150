//! Retention: entries of the operators' log that have expired are removed.
//!
//! A table with expiry removes them by itself. This is for the others, and for entries that were written before the log had a chain.

use nagaya_store::{Item, Key, Query, Value, Write, WriteSet};

use super::log::{self, FIRST_SPAN, number_in};
use crate::{
    Error, Nagaya, Principal,
    scope::Scope,
    session::{OwnItems, Session},
    state::TenancyState,
};

/// Entries that are removed at once.
const PAGE: usize = 100;

impl Nagaya {
    /// Removes the entries of the operators' log whose time is over; gives their number. Nothing else removes entries from a
    /// table without expiry, so a server has to call it from time to time.
    pub async fn prune_log(&self) -> Result<u64, Error> {
        let (state, principal) = (self.state(), Principal::new("", "nagaya"));
        let own_items = OwnItems::Unlimited;
        let session = Session { state, scope: Scope::Operator, principal, reason: None, own_items };
        let state = &session.state;
        let mut removed = 0;
        for span in FIRST_SPAN..=log::span(state.settings.clock.millis()) {
            let mut after = None;
            loop {
                let query = Query::table(state.log_table().name, log::partition(span)).limit(PAGE);
                let page = state.store.query(Query { after: after.take(), ..query }).await?;
                let expired = page.items.iter().filter(|item| is_expired(state, item));
                let keys = expired.filter_map(|item| log_key(state, item));
                let deletions: Vec<_> = keys.map(|key| Write::delete(state.log_table().name, key)).collect();
                removed += deletions.len() as u64;
                // A store without cross-partition sets may have no sets at all.
                for deletions in deletions.chunks(if state.cross_partition() { PAGE } else { 1 }) {
                    session.commit_if(deletions.iter().cloned().collect::<WriteSet>()).await?;
                }
                // The entries after one that has not expired are younger.
                if page.items.iter().any(|item| !is_expired(state, item) && !is_for_ever(state, item)) {
                    return Ok(removed);
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(removed)
    }
}

/// The key of an entry.
pub(crate) fn log_key(state: &TenancyState, item: &Item) -> Option<Key> {
    let key = state.log_table().key;
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    Some(Key::new(text(&key.partition)?, text(&key.sort)?))
}

/// Whether the time of an entry is over.
pub(crate) fn is_expired(state: &TenancyState, item: &Item) -> bool {
    expiry(state, item).is_some_and(|expires| expires <= state.settings.clock.seconds())
}

fn is_for_ever(state: &TenancyState, item: &Item) -> bool {
    expiry(state, item).is_none()
}

/// When an entry expires, in seconds since 1970; `None`: never. One that does not say it, because it was written before the log had
/// a chain, expires by the retention of today.
fn expiry(state: &TenancyState, item: &Item) -> Option<i64> {
    if item.get("%number").is_some() {
        return number_in(item, "%expires");
    }
    let retention = i64::try_from(state.settings.audit_retention.as_secs()).unwrap_or(i64::MAX);
    let at = number_in(item, "%at")?;
    (retention > 0).then(|| (at / 1_000).saturating_add(retention))
}
