//! Tables as they should be.

use std::collections::BTreeMap;

use nagaya_store::{IndexSpec, TableSpec};

/// A table as it should be, with the settings that the port does not know.
///
/// What is not wanted is left as it is: nothing is ever turned off.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Its key, indexes and expiry.
    pub spec: TableSpec,
    /// How many of its indexes should be there; `None`: all.
    pub stage: Option<usize>,
    /// Whether its changes can be read.
    pub stream: bool,
    /// Whether it can be restored to a past moment.
    pub recovery: bool,
    /// Whether it is encrypted with a key that AWS keeps for the account.
    pub encryption: bool,
    /// The lowest and highest capacity per second; `None`: pay per request.
    pub throughput: Option<(i64, i64)>,
    /// Whether it cannot be deleted before that is turned off.
    pub protected: bool,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

impl Wanted {
    /// A table with its changes, and nothing else that the port does not know.
    pub fn new(spec: TableSpec) -> Self {
        Wanted {
            spec,
            stage: None,
            stream: true,
            recovery: false,
            encryption: false,
            throughput: None,
            protected: false,
            tags: BTreeMap::new(),
        }
    }

    /// The indexes that should be there.
    pub fn indexes(&self) -> &[IndexSpec] {
        let all = &self.spec.indexes;
        &all[..self.stage.unwrap_or(all.len()).min(all.len())]
    }

    /// The index that the next stage adds.
    pub fn next_index(&self) -> Option<&IndexSpec> {
        self.spec.indexes.get(self.indexes().len())
    }
}
