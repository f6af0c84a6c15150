//! Changes: what happened to the items of a table, in order for each item.

use serde::{Deserialize, Serialize};

use crate::{Item, Key};

/// What happened to an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeRecord {
    /// The item's key.
    pub key: Key,
    /// The item before; `None`: it was made.
    pub old: Option<Item>,
    /// The item after; `None`: it is gone.
    pub new: Option<Item>,
    /// Why.
    pub cause: Cause,
    /// Grows with every change of the same item.
    pub sequence: u128,
}

/// Why an item changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// Somebody wrote.
    Write,
    /// It expired.
    Expiry,
}

/// Where to read changes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// The oldest that is kept.
    Oldest,
    /// Whatever happens from now on.
    Now,
    /// After what was read before.
    After(ChangePosition),
}

/// How far changes have been read. Opaque: only the engine that made it reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePosition(pub String);

/// Changes read at once, and where to go on. At least once: a record may come again, never in the wrong order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The records.
    pub records: Vec<ChangeRecord>,
    /// Where to go on.
    pub next: ChangePosition,
}
