//! What an item has to be like for a change to happen.

use nagaya_store::Item;

use crate::{Record, blueprint::Blueprint};

/// What an item has to be like for a change to happen: a change that finds another one fails, and tells which.
#[derive(Debug, Clone, Default)]
pub enum Expected {
    /// Whatever it is like.
    #[default]
    Any,
    /// It has this optimistic version.
    Version(i64),
    /// It is still what was read. For entities that have no version.
    Same(Box<Record>),
}

impl Expected {
    /// Whether an item is what is expected.
    pub(crate) fn holds(&self, blueprint: &Blueprint, item: &Item) -> bool {
        match self {
            Expected::Any => true,
            Expected::Version(version) => blueprint.version_of(item) == Some(*version),
            Expected::Same(record) => record.item() == item,
        }
    }
}

impl From<Option<i64>> for Expected {
    fn from(version: Option<i64>) -> Self {
        version.map_or(Expected::Any, Expected::Version)
    }
}

impl From<&Record> for Expected {
    fn from(record: &Record) -> Self {
        record.version().map_or_else(|| Expected::Same(Box::new(record.clone())), Expected::Version)
    }
}
