//! Reading the operator log.

use nagaya_store::{PagePosition, Query, SortCondition};

use super::cursor;
use crate::{
    Error, LogEntry, Operator, Principal,
    session::Session,
    state::TenancyState,
    write::{
        is_expired,
        log::{FIRST_SPAN, partition, sort_key, span, span_of},
        operator_log_item_key,
    },
};

/// Entries of a page.
const PAGE: usize = 100;

/// A page of what operators did.
#[derive(Debug, Clone, PartialEq)]
pub struct LogPage {
    /// The entries, the oldest first.
    pub entries: Vec<LogEntry>,
    /// The cursor of the next page; `None`: this is the last one.
    pub next: Option<String>,
}

/// A listing of the operator log, page by page: one entry of the log, however many pages it has.
#[derive(Debug)]
pub struct LogListing {
    session: Session,
    from: i64,
    to: i64,
    /// Where the next page starts; `None`: there is none.
    next: Option<Option<PagePosition>>,
}

impl LogListing {
    /// The next entries, the oldest first; `None` after the last ones.
    pub async fn next_page(&mut self) -> Result<Option<Vec<LogEntry>>, Error> {
        let Some(after) = self.next.take() else { return Ok(None) };
        let (entries, next) = log_page(&self.session.state, self.from, self.to, after).await?;
        self.next = next.map(Some);
        Ok(Some(entries))
    }
}

impl Operator {
    /// What operators did from one instant on and before another, in milliseconds since 1970, the oldest first.
    ///
    /// Reading the log is an entry of the log itself, for each page. [`Operator::list_log`] reads many pages with one entry.
    pub async fn read_log(&self, from: i64, to: i64, cursor: Option<&str>) -> Result<LogPage, Error> {
        let session = &self.0;
        let state = &session.state;
        // The cursor is this operator's, for this period.
        let Principal { user, issuer, .. } = &session.principal;
        let bound = format!("%audit {} {from} {to} {user:?} {issuer:?}", state.design.name).into_bytes();
        let after = cursor.map(|cursor| cursor::open(&state.settings, &bound, cursor)).transpose()?;
        session.require_reason()?;
        session.audit_log_reading("list").await?;
        let (entries, next) = log_page(state, from, to, after).await?;
        let next = next.map(|next| cursor::seal(&state.settings, &bound, &next)).transpose()?;
        Ok(LogPage { entries, next })
    }

    /// Lists the same page by page. The listing is an entry of the log itself.
    pub async fn list_log(&self, from: i64, to: i64) -> Result<LogListing, Error> {
        let session = self.0.clone();
        session.require_reason()?;
        session.audit_log_reading("list").await?;
        Ok(LogListing { session, from, to, next: Some(None) })
    }
}

/// A page of the log, and where the next one starts.
async fn log_page(
    state: &TenancyState,
    from: i64,
    to: i64,
    mut after: Option<PagePosition>,
) -> Result<(Vec<LogEntry>, Option<PagePosition>), Error> {
    let mut entries = Vec::new();
    if from >= to {
        return Ok((entries, None));
    }
    let started = after.as_ref().and_then(span_of).unwrap_or_else(|| span(from));
    // The clock of another server may be ahead.
    let ended = span(to).min(span(state.settings.clock.millis()) + 1);
    for span in started.max(FIRST_SPAN)..=ended {
        loop {
            let query = Query::table(&state.operator_log_table().name, partition(span))
                .sort(SortCondition::Between(sort_key(from).into(), sort_key(to).into()))
                .limit(PAGE - entries.len());
            let page = state.store.query(Query { after: after.take(), ..query }).await?;
            let kept = page.items.iter().filter(|item| !is_expired(state, item));
            entries.extend(kept.filter_map(LogEntry::from_item));
            if entries.len() >= PAGE {
                // The next page begins after this entry, be it the last one of its span or not.
                let last = page.items.last().and_then(|item| operator_log_item_key(state, item));
                return Ok((entries, last.map(|key| PagePosition { key, index_key: None })));
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok((entries, None))
}
