//! Tables and their indexes.

use serde::{Deserialize, Serialize};

use crate::{Item, Key, KeySchema, limits};

/// A table as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Its name in the store.
    pub name: String,
    /// Its key.
    pub key: KeySchema,
    /// Its secondary indexes.
    pub indexes: Vec<IndexSpec>,
    /// The attribute with the second since 1970 after which an item is gone.
    pub ttl: Option<String>,
}

/// A secondary index as it should be. An item lies in it when it has both attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexSpec {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: KeySchema,
}

impl TableSpec {
    /// A table with this name and key, without indexes.
    pub fn new(name: impl Into<String>, key: KeySchema) -> Self {
        TableSpec { name: name.into(), key, indexes: Vec::new(), ttl: None }
    }

    /// The table with one index more.
    #[must_use]
    pub fn with_index(mut self, name: impl Into<String>, key: KeySchema) -> Self {
        self.indexes.push(IndexSpec { name: name.into(), key });
        self
    }

    /// The table with an expiry attribute.
    #[must_use]
    pub fn with_ttl(mut self, attribute: impl Into<String>) -> Self {
        self.ttl = Some(attribute.into());
        self
    }

    /// The index with this name.
    pub fn index(&self, name: &str) -> Option<&IndexSpec> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// The second since 1970 after which an item is gone.
    pub fn expiry_of(&self, item: &Item) -> Option<i64> {
        // A value that is not a whole number of seconds does not expire, as in DynamoDB.
        item.get(self.ttl.as_deref()?)?.as_number()?.try_into().ok()
    }

    /// Whether an item has expired at this second since 1970.
    pub fn is_expired(&self, item: &Item, now: i64) -> bool {
        self.expiry_of(item).is_some_and(|expiry| expiry <= now)
    }
}

impl IndexSpec {
    /// The place of an item in the index; `None` when it does not lie there, or was stored before the index and has
    /// values that a key cannot have.
    pub fn key_of(&self, item: &Item) -> Option<Key> {
        self.key.key_of(item).filter(|key| limits::check_key(&self.key, key).is_ok())
    }
}
