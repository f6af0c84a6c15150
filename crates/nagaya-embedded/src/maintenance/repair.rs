//! Rebuilding indexes and expiries that do not match the items.

use std::ops::Bound;

use nagaya_store::Error;

use super::{Finding, Progress, sorted_tables, verify::is_expiry_of_item};
use crate::{EmbeddedStore, commit::MaintenanceRequest, layout::Keyspace, storage::break_if};

/// The number of expiries that are removed in one step.
const STEP: usize = 500;

/// The findings before and after a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairSummary {
    /// The findings before the repair.
    pub found: Vec<Finding>,
    /// The findings after it. Damaged changes remain: they cannot be rebuilt from items.
    pub remaining: Vec<Finding>,
}

impl EmbeddedStore {
    /// Rebuilds the indexes and expiries of all tables with findings. Items and changes are not modified.
    pub async fn repair(&self, progress: Progress<'_>) -> Result<RepairSummary, Error> {
        let found = self.verify(progress)?;
        if found.is_empty() {
            return Ok(RepairSummary { found, remaining: Vec::new() });
        }
        for table in self.sorted_tables() {
            if found.iter().any(|finding| finding.table == table.spec.name) {
                self.reindex(&table.spec.name, None).await?;
            }
        }
        while let Some(stray) = self.stray_expiries()? {
            self.maintain(|reply| MaintenanceRequest::Expire(stray, reply)).await?;
        }
        let left = self.verify(progress)?;
        Ok(RepairSummary { found, remaining: left })
    }

    /// Some expiries without an item; `None` if there are no more.
    fn stray_expiries(&self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let view = self.storage().view()?;
        let tables = sorted_tables(&view)?;
        let mut stray = Vec::new();
        view.range(Keyspace::Expiry, Bound::Unbounded, None, false, |key, _| {
            if !is_expiry_of_item(&view, &tables, key)? {
                stray.push(key.to_vec());
            }
            break_if(stray.len() >= STEP)
        })?;
        Ok((!stray.is_empty()).then_some(stray))
    }
}
