//! Tables and their indexes.

use super::{Entity, KeyTemplates};
use crate::{Engine, diagnostic::Span, template::Template};

/// The attributes of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAttributes {
    /// The partition attribute.
    pub partition: String,
    /// The sort attribute.
    pub sort: String,
}

/// A table (container) of the store.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name in the design.
    pub id: String,
    /// Its name in the store, with `{base}` not yet filled in.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its key.
    pub key: KeyAttributes,
    /// Its secondary indexes.
    pub indexes: Vec<Index>,
    /// The attribute that says which entity an item is.
    pub discriminator: Option<String>,
    /// The attribute with the expiry time.
    pub ttl: Option<String>,
    /// Whether it can be restored to a past time.
    pub point_in_time: bool,
    /// Whether it is encrypted with a customer-managed key.
    pub kms: bool,
    /// Whether its changes are streamed.
    pub stream: bool,
    /// Lowest and highest capacity per second; `None`: pay per request.
    pub throughput: Option<(i64, i64)>,
    /// Cosmos DB consistency level.
    pub consistency: Option<String>,
    /// Cosmos DB indexing policy.
    pub indexing: Option<Indexing>,
    pub(crate) span: Span,
    pub(crate) name_span: Span,
}

impl Table {
    /// The name in the store for a base name.
    pub fn physical_name(&self, base: &str) -> String {
        self.name.replace("{base}", base)
    }

    /// The settings that an engine does not have (`NG0906`).
    pub fn ignored_settings(&self, engine: Engine) -> Vec<&'static str> {
        let mut ignored = Vec::new();
        if engine != Engine::Cosmos {
            ignored.extend(self.consistency.as_ref().map(|_| "consistency"));
            ignored.extend(self.indexing.as_ref().map(|_| "indexing"));
        }
        if engine == Engine::Embedded {
            ignored.extend(self.throughput.map(|_| "throughput"));
            ignored.extend(self.kms.then_some("encryption"));
        }
        ignored
    }

    /// Where it is in the source: the main span of a diagnostic about its settings.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// Each attribute of an entity's table key and index keys, with its template.
    pub(crate) fn templates_of<'d>(&'d self, entity: &'d Entity) -> impl Iterator<Item = (&'d str, &'d Template)> {
        self.keys_of(entity).flat_map(|(attributes, key)| {
            [(attributes.partition.as_str(), &key.partition), (attributes.sort.as_str(), &key.sort)]
        })
    }

    /// The attributes and templates of an entity's table key, then those of its index keys.
    pub(crate) fn keys_of<'d>(
        &'d self,
        entity: &'d Entity,
    ) -> impl Iterator<Item = (&'d KeyAttributes, &'d KeyTemplates)> {
        let indexes = entity.indexes.iter().map(|mapping| (&self.indexes[mapping.index].key, &mapping.key));
        std::iter::once((&self.key, &entity.key)).chain(indexes)
    }
}

/// A secondary index of a table.
#[derive(Debug, Clone)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Its attributes.
    pub key: KeyAttributes,
    pub(crate) span: Span,
}

/// A Cosmos DB indexing policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indexing {
    /// `consistent` or `none`.
    pub mode: String,
    /// Whether documents are indexed automatically.
    pub automatic: bool,
    /// Paths that are indexed.
    pub include: Vec<String>,
    /// Paths that are not.
    pub exclude: Vec<String>,
}
