//! Writing: a change set is drafted, planned and committed.
//!
//! 1. [`change_set`](ChangeSet) collects the changes of a call.
//! 2. `draft` makes each change an item before and after, and the audit entries about it.
//! 3. `plan` makes the drafts writes with conditions; `unique` adds the markers of unique values.
//! 4. `commit` writes all of it at once. It has the only function that writes to the store.
//!
//! `deletion` is for items that others can refer to, which may take more than one write set.

mod audit;
mod change_set;
mod commit;
mod deletion;
mod draft;
mod idempotency;
mod plan;
mod unique;

use std::sync::Arc;

use self::{
    audit::{AuditEntries, AuditedAction},
    draft::audit_entries,
};
use crate::{Error, compiled::CompiledEntity, session::Session};

pub use self::{
    audit::{ArchiveStep, AuditArchiver, LogEntry},
    change_set::ChangeSet,
};
pub(crate) use self::{
    audit::{Expiries, PruningPosition, chain, is_expired, log, operator_log_item_key, target},
    unique::Constraint,
};

impl Session {
    /// Records what an operator is about to read. Does nothing for other sessions.
    pub(crate) async fn audit_reading<'e>(
        &self,
        verb: &'static str,
        read: impl IntoIterator<Item = (&'e Arc<CompiledEntity>, String)> + Send,
    ) -> Result<(), Error> {
        if self.reason.is_none() {
            return Ok(());
        }
        let tenant = self.scope.tenant();
        let mut entries = AuditEntries::default();
        for (compiled, target) in read {
            let action = AuditedAction { verb, compiled, target, tenant, old: None, new: None };
            entries.extend(audit_entries(self, &action)?);
        }
        // Boxed: it is large, and part of the future of every read.
        Box::pin(self.commit_entries(entries)).await
    }

    /// Records what an operator is about to do with the operator log, or with the archive of audits.
    pub(crate) async fn audit_log_reading(&self, verb: &str) -> Result<(), Error> {
        self.append_log(&[audit::entry_about_log(self, verb)]).await
    }
}
