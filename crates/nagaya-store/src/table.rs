//! Tables and their indexes.

use serde::{Deserialize, Serialize};

use crate::{Item, Key, KeySchema, limits};

/// The specification of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Its name in the store.
    pub name: String,
    /// Its key.
    pub key: KeySchema,
    /// Its secondary indexes.
    pub indexes: Vec<IndexSpec>,
    /// The attribute with the expiry time of an item, in seconds since 1970.
    pub ttl: Option<String>,
}

/// The specification of a secondary index. It contains the items that have both of its key attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexSpec {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: KeySchema,
}

impl TableSpec {
    /// A table without indexes.
    pub fn new(name: impl Into<String>, key: KeySchema) -> Self {
        TableSpec { name: name.into(), key, indexes: Vec::new(), ttl: None }
    }

    /// Adds an index.
    #[must_use]
    pub fn with_index(mut self, name: impl Into<String>, key: KeySchema) -> Self {
        self.indexes.push(IndexSpec { name: name.into(), key });
        self
    }

    /// Sets the expiry attribute.
    #[must_use]
    pub fn with_ttl(mut self, attribute: impl Into<String>) -> Self {
        self.ttl = Some(attribute.into());
        self
    }

    /// The index with this name.
    pub fn index(&self, name: &str) -> Option<&IndexSpec> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// When an item expires, in seconds since 1970.
    pub fn expiry_of(&self, item: &Item) -> Option<i64> {
        // As in DynamoDB, an item whose value is not a whole number never expires.
        item.get(self.ttl.as_deref()?)?.as_number()?.try_into().ok()
    }

    /// Whether an item has expired at this second since 1970.
    pub fn is_expired(&self, item: &Item, now: i64) -> bool {
        self.expiry_of(item).is_some_and(|expiry| expiry <= now)
    }
}

impl IndexSpec {
    /// The key of an item in the index; `None` if the item is not in the index: it lacks an attribute, or was stored
    /// before the index existed and has values that are not allowed in a key.
    pub fn key_of(&self, item: &Item) -> Option<Key> {
        self.key.key_of(item).filter(|key| limits::check_key(&self.key, key).is_ok())
    }
}
