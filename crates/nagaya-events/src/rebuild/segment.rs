//! Reading the stored events of all aggregates, segment by segment.

use nagaya_store::PagePosition;
use nagaya_tenancy::{ChangeSource, Record};

use crate::Error;

/// Reads one segment of the event table. Two tasks take turns with it.
pub(super) struct SegmentReader {
    source: ChangeSource,
    /// Which segment of how many.
    segment: (u32, u32),
    /// The tenant whose events are read; `None`: all.
    tenant: Option<String>,
    /// How many are read at once.
    limit: usize,
    after: Option<PagePosition>,
    ended: bool,
    /// Events of the last aggregate of a page: the next page may have more of them.
    incomplete: Vec<(String, Record)>,
}

impl SegmentReader {
    pub(super) fn new(source: ChangeSource, segment: (u32, u32), tenant: Option<String>, limit: usize) -> Self {
        SegmentReader { source, segment, tenant, limit, after: None, ended: false, incomplete: Vec::new() }
    }

    /// The stored events of the next aggregates with their tenants, complete and in order for each aggregate; `None`: there are
    /// no more. `id` is the field with the aggregate's id.
    pub(super) async fn next(&mut self, id: &str) -> Result<Option<Vec<(String, Record)>>, Error> {
        if self.ended {
            return Ok(None);
        }
        // After a failure it has ended for both tasks.
        self.ended = true;
        let page = self.source.scan(self.segment, self.after.take(), Some(self.limit)).await?;
        let mut events = std::mem::take(&mut self.incomplete);
        let before = events.len();
        let tenant = self.tenant.as_deref();
        events.extend(page.records.into_iter().filter(|(owner, _)| tenant.is_none_or(|one| one == owner)));
        if let Some(next) = page.next {
            (self.after, self.ended) = (Some(next), false);
            // The events of an aggregate come together: only the last aggregate may be incomplete.
            let last = events.last().map(|(_, last)| last.text(id));
            let is_last = |(_, event): &&(String, Record)| Some(event.text(id)) == last;
            let (known, new) = events.split_at(before);
            let mut incomplete = new.iter().rev().take_while(is_last).count();
            if incomplete == new.len() && known.last().is_some_and(|event| is_last(&event)) {
                incomplete = events.len();
            }
            self.incomplete = events.split_off(events.len() - incomplete);
        }
        Ok(Some(events))
    }
}
