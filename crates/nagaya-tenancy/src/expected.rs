//! The state that an item has to have for a change to happen.

use nagaya_store::Item;

use crate::{Record, compiled::CompiledEntity};

/// The state that an item has to have for a change to happen. If it has another one, the change fails with the current item.
#[derive(Debug, Clone, Default)]
pub enum Expected {
    /// Any state.
    #[default]
    Any,
    /// It has this version.
    Version(i64),
    /// It is the same as this record. For entities without a version.
    Unchanged(Box<Record>),
}

impl Expected {
    /// Whether an item is the expected one.
    pub(crate) fn holds(&self, compiled: &CompiledEntity, item: &Item) -> bool {
        match self {
            Expected::Any => true,
            Expected::Version(version) => compiled.version_of(item) == Some(*version),
            Expected::Unchanged(record) => record.item() == item,
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
        record.version().map_or_else(|| Expected::Unchanged(Box::new(record.clone())), Expected::Version)
    }
}
