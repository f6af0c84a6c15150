//! Reading the operators' log.

use nagaya_store::{Query, SortCondition};

use super::cursor;
use crate::{
    Error, LogEntry, Operator,
    write::log::{LOG_PARTITION_MILLIS, partition, sort_key, span_of},
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

impl Operator {
    /// What operators did from one instant on and before another, in milliseconds since 1970, the oldest first.
    ///
    /// Reading the log is an entry of the log itself.
    pub async fn read_log(&self, from: i64, to: i64, cursor: Option<&str>) -> Result<LogPage, Error> {
        let session = &self.0;
        let state = &session.state;
        let (table, _) = state.log_table();
        let bound = format!("%audit {} {from} {to}", state.design.name).into_bytes();
        let mut after = cursor.map(|cursor| cursor::open(&state.settings, &bound, cursor)).transpose()?;
        session.require_reason()?;
        session.audit_log_reading().await?;
        let started = after.as_ref().and_then(span_of).unwrap_or_else(|| from.max(0) / LOG_PARTITION_MILLIS);
        let ended =
            to.min(state.settings.clock.millis().saturating_add(LOG_PARTITION_MILLIS)).max(0) / LOG_PARTITION_MILLIS;
        let mut entries = Vec::new();
        for span in started..=ended {
            loop {
                let query = Query::table(table, partition(span))
                    .sort(SortCondition::Between(sort_key(from).into(), sort_key(to).into()))
                    .limit(PAGE - entries.len());
                let page = state.store.query(Query { after: after.take(), ..query }).await?;
                entries.extend(page.items.iter().filter_map(LogEntry::from_item));
                match page.next {
                    Some(next) if entries.len() >= PAGE => {
                        let next = cursor::seal(&state.settings, &bound, &next)?;
                        return Ok(LogPage { entries, next: Some(next) });
                    }
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(LogPage { entries, next: None })
    }
}
