//! HTTP paths: where entities and access patterns answer.

use crate::design::{Access, Design, Entity, Returns};

impl Entity {
    /// The path of one item, without the design's prefix: the entity's path and a parameter for each field of its id.
    pub fn item_path(&self) -> String {
        self.id_fields().into_iter().fold(self.path.clone(), |path, field| format!("{path}/{{{field}}}"))
    }
}

impl Access {
    /// Whether it has this path, whatever the parameters are called.
    fn answers_at(&self, path: &str) -> bool {
        self.path.as_deref().is_some_and(|own| shape(own) == shape(path))
    }
}

impl Design {
    /// Whether an access pattern finds the one item at the item's own path: it replaces reading by key.
    pub fn is_lookup(&self, access: &Access) -> bool {
        let entity = &self.entities[access.entity];
        access.returns == Returns::One && access.answers_at(&entity.item_path())
    }

    /// Whether an access pattern answers at the path of its entity's collection. An entity that is there once per tenant
    /// has none: its path is that of the item.
    pub fn lists_collection(&self, access: &Access) -> bool {
        let entity = &self.entities[access.entity];
        !entity.id_fields().is_empty() && access.answers_at(&entity.path)
    }
}

/// A path with its parameters' names left out: a server cannot tell apart paths that differ in these only.
pub(crate) fn shape(path: &str) -> String {
    let segment = |segment| if str::starts_with(segment, '{') { "{}" } else { segment };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}
