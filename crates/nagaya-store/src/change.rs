//! The change stream of a table: what happened to its items, in order for each item.

use serde::{Deserialize, Serialize};

use crate::{Item, Key};

/// One change of one item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// The item's key.
    pub key: Key,
    /// The item before the change; `None` if the change created it.
    pub old: Option<Item>,
    /// The item after the change; `None` if the change removed it.
    pub new: Option<Item>,
    /// Why the item changed.
    pub cause: ChangeCause,
    /// Increases with every change of the same item.
    pub sequence: u128,
}

/// Why an item changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeCause {
    /// A write changed it.
    Write,
    /// Its expiry time passed, and the engine removed it.
    Expiry,
}

/// Where reading changes starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartPosition {
    /// At the oldest retained change.
    Oldest,
    /// After the newest change: only what happens from now on.
    Latest,
    /// After the last change that was read before.
    After(ChangePosition),
}

/// How far changes have been read. Opaque: only the engine that created it can interpret it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangePosition(pub String);

/// A page of changes. Delivery is at least once: a record may be repeated, but never out of order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangePage {
    /// The records.
    pub records: Vec<ChangeRecord>,
    /// Where the next page starts.
    pub next: ChangePosition,
}
