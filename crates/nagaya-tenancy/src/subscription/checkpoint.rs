//! The stored position of a subscription.

use nagaya_store::ChangePosition;
use serde_json::Map;

use crate::{Error, Operator, RecordOwner, SideRecord};

/// The field of the record with the position.
const AFTER: &str = "after";

/// Where a subscription stores its position: in a record beside an entity.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) operator: Operator,
    pub(super) entity: String,
    pub(super) name: String,
}

impl Checkpoint {
    pub(super) async fn read(&self) -> Result<Option<SideRecord>, Error> {
        self.operator.side_record(&self.entity, RecordOwner::System, &self.name).await
    }

    /// Replaces the record that was read. If another process has replaced it, its position is kept: each of the two has
    /// processed everything up to the position that it writes.
    pub(super) async fn write(&self, read: Option<&SideRecord>, next: &ChangePosition) -> Result<(), Error> {
        let fields = Map::from_iter([(AFTER.to_owned(), next.0.as_str().into())]);
        match self
            .operator
            .change_set()
            .side_record(&self.entity, RecordOwner::System, &self.name, Some(fields), read)
            .commit()
            .await
        {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }
}

/// The position in a record.
pub(super) fn position(record: &SideRecord) -> Option<ChangePosition> {
    record.text(AFTER).map(|after| ChangePosition(after.to_owned()))
}
