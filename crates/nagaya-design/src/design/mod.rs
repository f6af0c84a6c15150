//! The design, read and resolved. Everything else is derived from it.

mod access;
mod aggregate;
mod entity;
mod table;

pub use access::{AccessPattern, MAX_PAGE, ResultKind, SortBound};
pub use aggregate::{Aggregate, EventType};
pub(crate) use entity::EntitySpans;
pub use entity::{
    Entity, IndexMapping, Key, KeyTemplates, SCHEMA_ATTRIBUTE, SchemaStep, SoftDelete, UniqueConstraint, Wall,
};
pub use table::{Index, Indexing, KeyAttributes, Table};

use crate::{
    audit::Audit,
    diagnostic::Span,
    role::{Role, Verb},
    version::Version,
};

/// A checked key design.
#[derive(Debug, Clone)]
pub struct Design {
    /// Name of the system.
    pub name: String,
    /// Version of the design.
    pub version: Version,
    /// What the system is.
    pub description: Option<String>,
    /// Cosmos DB database of the containers.
    pub database: String,
    /// Who the tenants are.
    pub tenant: Tenant,
    /// The prefix of every HTTP path.
    pub http_prefix: String,
    /// Whether public items can be read without a token.
    pub visitors: bool,
    /// The tables, in the order of the file.
    pub tables: Vec<Table>,
    /// The entities, in the order of the file.
    pub entities: Vec<Entity>,
    /// The access patterns, in the order of the file.
    pub access_patterns: Vec<AccessPattern>,
    /// The aggregates, in the order of the file.
    pub aggregates: Vec<Aggregate>,
    /// Where changes are recorded.
    pub audit: Option<Audit>,
    /// The roles, in the order of the file; empty: every caller may do everything.
    pub roles: Vec<Role>,
    /// Entities that are declared but could not be read. The checks ignore references to them.
    pub(crate) unread: Vec<String>,
    pub(crate) visitors_span: Span,
}

/// Who the tenants are.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// The field that names an item's tenant.
    pub field: String,
    /// The token's claim that carries it.
    pub claim: String,
    /// The tenant that owns the items of the system itself.
    pub system: Option<String>,
    /// The token's claim with the caller's roles.
    pub roles: String,
    /// The token's claim that lists the caller's tenants. A token with a tenant needs it, and the tenant has to be in the list.
    pub member_of: Option<String>,
    /// The token's claim with the roles of operators, who have no tenant.
    pub operator: String,
    pub(crate) span: Span,
}

/// Claims that name a person (OpenID Connect Core, section 5.1).
const CLAIMS_OF_A_PERSON: [&str; 4] = ["sub", "email", "preferred_username", "phone_number"];

impl Tenant {
    /// Whether each tenant is one person, so that the name of a tenant is personal data: its claim names the user.
    pub fn is_person(&self) -> bool {
        CLAIMS_OF_A_PERSON.contains(&self.claim.as_str())
    }
}

impl Design {
    /// The table of an entity.
    pub fn table_of(&self, entity: &Entity) -> &Table {
        &self.tables[entity.table]
    }

    /// The entity with this name.
    pub fn entity(&self, name: &str) -> Option<&Entity> {
        self.entities.iter().find(|entity| entity.name == name)
    }

    /// The access pattern with this name.
    pub fn access_pattern(&self, name: &str) -> Option<&AccessPattern> {
        self.access_patterns.iter().find(|access| access.name == name)
    }

    /// Whether callers create items of the entity at a position over HTTP.
    pub(crate) fn is_created_by_callers(&self, at: usize) -> bool {
        let entity = &self.entities[at];
        entity.routes.contains(&Verb::Create)
            && !self.aggregates.iter().any(|aggregate| aggregate.has_entity(at))
            && !self.holds_audit_entries(entity)
    }

    /// Whether tenants' callers create or update items of the entity at a position over HTTP.
    pub(crate) fn is_written_by_callers(&self, at: usize) -> bool {
        let entity = &self.entities[at];
        entity.is_written_by_tenant()
            && (entity.routes.contains(&Verb::Create) || entity.routes.contains(&Verb::Update))
            && !self.aggregates.iter().any(|aggregate| aggregate.has_entity(at))
            && !self.holds_audit_entries(entity)
    }

    /// The access patterns of an entity.
    pub fn access_patterns_of<'d>(&'d self, entity: &'d Entity) -> impl Iterator<Item = &'d AccessPattern> {
        self.access_patterns.iter().filter(move |access| self.entities[access.entity].name == entity.name)
    }

    /// The key attributes and templates that an access pattern uses.
    pub fn key_of_access(&self, access: &AccessPattern) -> (&KeyAttributes, &KeyTemplates) {
        let entity = &self.entities[access.entity];
        let table = self.table_of(entity);
        match access.mapping {
            None => (&table.key, &entity.key),
            Some(at) => {
                let mapping = &entity.indexes[at];
                (&table.indexes[mapping.index].key, &mapping.key)
            }
        }
    }

    /// The fields that an access pattern sorts by and that can change: an item moves in the list when one does.
    pub fn moving_fields(&self, access: &AccessPattern) -> Vec<String> {
        let entity = &self.entities[access.entity];
        let key = self.key_of_access(access).1;
        let changes = |path: &&str| !entity.is_key_field(path) && !entity.is_immutable(path);
        key.sort.fields().skip(access.fixed).filter(changes).map(str::to_owned).collect()
    }

    /// The wall of an access pattern.
    pub fn wall_of(&self, access: &AccessPattern) -> Wall {
        let entity = &self.entities[access.entity];
        access.mapping.map_or(entity.wall, |at| entity.indexes[at].wall)
    }
}
