//! HTTP paths of entities and access patterns.

use crate::design::{AccessPattern, Design, Entity, ResultKind};

/// The paths that a server answers itself for a system at its root. The checker refuses them, and the server registers
/// them from here.
pub mod server_path {
    /// Whether the process answers.
    pub const HEALTH: &str = "/healthz";
    /// Whether the stores answer.
    pub const READINESS: &str = "/readyz";
    /// The metrics.
    pub const METRICS: &str = "/metrics";
    /// The OpenAPI document.
    pub const OPENAPI: &str = "/openapi.json";
    /// The page that shows the OpenAPI document; its files are below it.
    pub const DOCS: &str = "/docs";
    /// The discovery document of the local issuer.
    pub const DISCOVERY: &str = "/.well-known/openid-configuration";
    /// The keys of the local issuer.
    pub const KEYS: &str = "/.well-known/jwks.json";

    /// The path among these that a path is, or is below.
    pub(crate) fn find(path: &str) -> Option<&'static str> {
        let all = [HEALTH, READINESS, METRICS, OPENAPI, DOCS, DISCOVERY, KEYS];
        let below = |own: &str| own == DOCS && path.strip_prefix(own).is_some_and(|rest| rest.starts_with('/'));
        all.into_iter().find(|own| path == *own || below(own))
    }
}

impl Entity {
    /// The path of one item, without the design's prefix: the entity's path and a parameter for each field of its id.
    pub fn item_path(&self) -> String {
        self.id_fields().into_iter().fold(self.path.clone(), |path, field| format!("{path}/{{{field}}}"))
    }
}

impl AccessPattern {
    /// Whether it has this path, ignoring the names of parameters.
    fn answers_at(&self, path: &str) -> bool {
        self.path.as_deref().is_some_and(|own| without_parameter_names(own) == without_parameter_names(path))
    }
}

impl Design {
    /// Whether an access pattern returns one item at the item's own path. It replaces reading by key.
    pub fn is_lookup(&self, access: &AccessPattern) -> bool {
        let entity = &self.entities[access.entity];
        access.returns == ResultKind::One && access.answers_at(&entity.item_path())
    }

    /// Whether an access pattern has the path of its entity's collection. An entity with one item per tenant has no
    /// collection: its path is that of the item.
    pub fn lists_collection(&self, access: &AccessPattern) -> bool {
        let entity = &self.entities[access.entity];
        !entity.id_fields().is_empty() && access.answers_at(&entity.path)
    }
}

/// A path without the names of its parameters: paths that differ only in these names are the same route.
pub(crate) fn without_parameter_names(path: &str) -> String {
    let segment = |segment| if str::starts_with(segment, '{') { "{}" } else { segment };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}
