//! Finishing deletions that a crash has interrupted.

use nagaya_store::{Query, Value};

use super::record::{DeletionRecord, PARTITION};
use crate::{Nagaya, TenancyFuture};

impl Nagaya {
    /// Ends the deletions that were under way when a process ended: each is finished, or undone where something forbids it.
    /// Gives their number.
    ///
    /// Call it when a process starts. It reads one partition of each table, is safe beside other processes on the same store,
    /// and can be repeated. Until then nobody sees the items concerned: an item whose deletion is under way is not found.
    pub fn recover_deletions(&self) -> TenancyFuture<'_, usize> {
        Box::pin(async move {
            let state = self.state();
            let mut ended = 0;
            for compiled in state.referenceable_tables() {
                let mut after = None;
                loop {
                    let query = Query { after, ..Query::table(&compiled.table, PARTITION) };
                    let page = state.store.query(query).await?;
                    for item in &page.items {
                        let token = item.get(&compiled.key.sort).and_then(Value::as_str).unwrap_or_default();
                        let Some(record) = DeletionRecord::from_item(item, token) else {
                            tracing::warn!(table = compiled.table, token, "the record of a deletion cannot be read");
                            continue;
                        };
                        if state.compiled(&record.entity).is_err() {
                            tracing::warn!(
                                entity = record.entity,
                                token,
                                "the design no longer has the entity of a deletion"
                            );
                            continue;
                        }
                        record.session(&state).resume_by_token(compiled, token, false).await?;
                        ended += 1;
                    }
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
            }
            Ok(ended)
        })
    }
}
