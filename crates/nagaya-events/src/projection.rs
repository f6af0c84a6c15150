//! Projections: items that are made from events, one for each aggregate.

use serde_json::{Map, Value as Json};

use crate::{Error, Recorded};

/// Makes an item of an aggregate's events.
///
/// It is pure: the same events make the same item, so that a projection can be built anew at any time, and checked against
/// its events.
pub trait Projection: Send + Sync + 'static {
    /// The aggregate whose events it takes in.
    fn aggregate(&self) -> &str;

    /// The entity of the items that it makes. What finds an item of it is the aggregate's id.
    fn entity(&self) -> &str;

    /// The item after an event, without its tenant; `None`: there is none any more.
    fn apply(&self, before: Option<Map<String, Json>>, event: &Recorded) -> Result<Item, Error>;
}

/// The fields of an item; `None`: there is none.
pub type Item = Option<Map<String, Json>>;
