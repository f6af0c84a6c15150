//! Projections: items that are built from events, one for each aggregate.

use serde_json::{Map, Value as Json};

use crate::{Error, RecordedEvent};

/// Builds an item from an aggregate's events.
///
/// It is pure: the same events give the same item, so that a projection can be rebuilt and checked against its events at any
/// time.
pub trait Projection: Send + Sync + 'static {
    /// The aggregate whose events it reads.
    fn aggregate_name(&self) -> &str;

    /// The entity of its items. The id of an item is the aggregate's id.
    fn entity(&self) -> &str;

    /// The item after an event, without the tenant field; `None`: it is deleted.
    fn apply(&self, before: Option<Map<String, Json>>, event: &RecordedEvent) -> Result<Item, Error>;
}

/// The fields of an item; `None`: there is none.
pub type Item = Option<Map<String, Json>>;
