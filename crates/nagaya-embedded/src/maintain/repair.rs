//! Deriving anew what does not agree with the items.

use std::ops::{Bound, ControlFlow};

use nagaya_store::Error;

use super::{Finding, Progress, tables, verify::is_expiry_of_item};
use crate::{Embedded, commit::Request, layout::Space};

/// Expiries that are removed at once.
const STEP: usize = 500;

/// What was wrong, and what still is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// What did not agree.
    pub found: Vec<Finding>,
    /// What still does not: changes cannot be derived from items.
    pub left: Vec<Finding>,
}

impl Embedded {
    /// Builds the indexes and expiries anew of all tables in which something does not agree. Items and changes are left as
    /// they are.
    pub async fn repair(&self, progress: Progress<'_>) -> Result<Repair, Error> {
        let found = self.verify(progress)?;
        if found.is_empty() {
            return Ok(Repair { found, left: Vec::new() });
        }
        for table in self.sorted_tables() {
            if found.iter().any(|finding| finding.table == table.spec.name) {
                self.reindex(&table.spec.name, None).await?;
            }
        }
        while let Some(stray) = self.stray_expiries()? {
            self.ask(|reply| Request::Expire(stray, reply)).await?;
        }
        let left = self.verify(progress)?;
        Ok(Repair { found, left })
    }

    /// Some expiries that are of no item; `None`: there are none.
    fn stray_expiries(&self) -> Result<Option<Vec<Vec<u8>>>, Error> {
        let view = self.backing().view()?;
        let tables = tables(&view)?;
        let mut stray = Vec::new();
        view.range(Space::Expiry, Bound::Unbounded, None, false, |key, _| {
            if !is_expiry_of_item(&view, &tables, key)? {
                stray.push(key.to_vec());
            }
            Ok(if stray.len() >= STEP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok((!stray.is_empty()).then_some(stray))
    }
}
