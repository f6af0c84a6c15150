//! Retention: entries of the operator log that have expired are removed.
//!
//! A table with expiry removes them by itself. This is for the others, and for entries that were written before the log had a chain.

use nagaya_store::{Item, Key, PagePosition, Query, Value, Write, WriteSet};

use super::{
    chain::{EXPIRES, NUMBER},
    expiry::expires_at,
    log::{self, FIRST_SPAN},
};
use crate::{Error, Nagaya, Principal, session::Session, state::TenancyState, values::integer_in};

/// Entries that are read, and removed, at once.
const PAGE: usize = 100;
/// Pages without expired entries that a call reads after the first one. The next call goes on after them.
const MAX_PAGES: usize = 100;

/// Where a page of the log starts: its span of time, and after which entry of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PruningPosition {
    span: i64,
    after: Option<PagePosition>,
}

/// A page after its expired entries were removed.
struct PrunedPage {
    removed: u64,
    /// Whether entries are left.
    has_others: bool,
    next: PruningPosition,
}

impl Nagaya {
    /// Removes entries of the operator log whose time is over; gives their number. Nothing else removes entries from a
    /// table without expiry, so a server has to call it from time to time.
    ///
    /// It removes all until the first entry that stays. After a shorter retention was set, later ones may have expired before that
    /// one: for them each call reads a part of the rest.
    pub async fn prune_operator_log(&self) -> Result<u64, Error> {
        let session = Session::unaudited_operator(self.state(), Principal::new("", "nagaya"));
        let state = &session.state;
        let last_span = log::span(state.settings.clock.millis());
        let mut at = PruningPosition { span: FIRST_SPAN, after: None };
        let mut removed = 0;
        while at.span <= last_span {
            let page = session.prune_page(at).await?;
            removed += page.removed;
            at = page.next;
            if page.has_others {
                break;
            }
        }
        at = state.pruning_position().take().unwrap_or(at);
        let mut pages = 0;
        while at.span <= last_span && pages < MAX_PAGES {
            let page = session.prune_page(at).await?;
            removed += page.removed;
            at = page.next;
            pages += usize::from(page.removed == 0);
        }
        *state.pruning_position() = (at.span <= last_span).then_some(at);
        Ok(removed)
    }
}

impl Session {
    /// Removes the expired entries of a page.
    async fn prune_page(&self, at: PruningPosition) -> Result<PrunedPage, Error> {
        let state = &self.state;
        let query = Query::table(&state.operator_log_table().name, log::partition(at.span)).limit(PAGE);
        let page = state.store.query(Query { after: at.after, ..query }).await?;
        let expired = page.items.iter().filter(|item| is_expired(state, item));
        let keys = expired.filter_map(|item| operator_log_item_key(state, item));
        let deletions: Vec<_> = keys.map(|key| Write::delete(&state.operator_log_table().name, key)).collect();
        // A store without cross-partition sets may have no sets at all.
        for deletions in deletions.chunks(if state.cross_partition() { PAGE } else { 1 }) {
            self.commit_if(deletions.iter().cloned().collect::<WriteSet>()).await?;
        }
        let next = match page.next {
            Some(next) => PruningPosition { span: at.span, after: Some(next) },
            None => PruningPosition { span: at.span + 1, after: None },
        };
        let has_others = deletions.len() < page.items.len();
        Ok(PrunedPage { removed: deletions.len() as u64, has_others, next })
    }
}

/// The key of an entry.
pub(crate) fn operator_log_item_key(state: &TenancyState, item: &Item) -> Option<Key> {
    let key = &state.operator_log_table().key;
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    Some(Key::new(text(&key.partition)?, text(&key.sort)?))
}

/// Whether the time of an entry is over.
pub(crate) fn is_expired(state: &TenancyState, item: &Item) -> bool {
    expiry(state, item).is_some_and(|expires| expires <= state.settings.clock.seconds())
}

/// When an entry expires, in seconds since 1970; `None`: never. One that does not say it, because it was written before the log had
/// a chain, expires by the retention of today.
fn expiry(state: &TenancyState, item: &Item) -> Option<i64> {
    if item.get(NUMBER).is_some() {
        return integer_in(item, EXPIRES);
    }
    expires_at(state, integer_in(item, "%at")?)
}
