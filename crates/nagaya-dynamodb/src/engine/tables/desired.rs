//! The tables that should exist.

use std::collections::BTreeMap;

use nagaya_store::{IndexSpec, TableSpec};

/// The KMS key that a table is encrypted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableKey {
    /// The AWS managed key of the account.
    Managed,
    /// A customer-managed key: its id, ARN or alias.
    Customer(String),
}

impl TableKey {
    /// Whether a table with the key of this ARN has it; `None` if that cannot be told, because an alias does not say which key it
    /// stands for.
    pub(super) fn is_key_of(&self, arn: Option<&str>) -> Option<bool> {
        match (self, arn) {
            (_, None) => Some(false),
            // A table that has a key of its own keeps it.
            (TableKey::Managed, Some(_)) => Some(true),
            (TableKey::Customer(id), Some(_)) if id.starts_with("alias/") || id.contains(":alias/") => None,
            (TableKey::Customer(id), Some(arn)) => Some(arn == id || arn.rsplit('/').next() == Some(id)),
        }
    }
}

/// A table that should exist, with the settings that only DynamoDB has.
///
/// A plan only turns settings on, never off.
#[derive(Debug, Clone)]
pub struct DesiredTable {
    /// Its key, indexes and TTL attribute.
    pub spec: TableSpec,
    /// How many of its indexes should exist; `None`: all.
    pub index_count: Option<usize>,
    /// Whether it has a stream of changes.
    pub stream: bool,
    /// Whether it has point-in-time recovery.
    pub recovery: bool,
    /// The KMS key that it is encrypted with; `None`: a key that AWS owns.
    pub encryption: Option<TableKey>,
    /// The lowest and highest provisioned capacity; `None`: on demand.
    pub throughput: Option<(i64, i64)>,
    /// Whether it has deletion protection.
    pub protected: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl DesiredTable {
    /// A table with a stream and no other setting of DynamoDB.
    pub fn new(spec: TableSpec) -> Self {
        DesiredTable {
            spec,
            index_count: None,
            stream: true,
            recovery: false,
            encryption: None,
            throughput: None,
            protected: false,
            tags: BTreeMap::new(),
        }
    }

    /// The indexes that should exist.
    pub fn indexes(&self) -> &[IndexSpec] {
        let all = &self.spec.indexes;
        &all[..self.index_count.unwrap_or(all.len()).min(all.len())]
    }

    /// The index that the next stage adds.
    pub fn next_index(&self) -> Option<&IndexSpec> {
        self.spec.indexes.get(self.indexes().len())
    }
}
