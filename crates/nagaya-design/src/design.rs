//! The design, read and resolved. Everything else is derived from it.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    audit::Audit,
    condition::Condition,
    diagnostic::Span,
    field::{self, Field, Problem},
    role::{Role, Verb},
    template::{Fields, Template, Unfit},
    tree::SpannedText,
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
    pub accesses: Vec<Access>,
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
    /// The token's claim that lists the caller's tenants. If a token has it, its tenant has to be in the list.
    pub member_of: Option<String>,
    pub(crate) span: Span,
}

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

/// Where the wall between tenants is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wall {
    /// In the partition key.
    Key,
    /// In an attribute that is checked on every read and write.
    Attribute,
    /// Every tenant reads, the owner writes.
    Public,
    /// Only an operator reads and writes.
    System,
}

impl Wall {
    pub(crate) fn named(name: &str) -> Option<Wall> {
        [Wall::Key, Wall::Attribute, Wall::Public, Wall::System].into_iter().find(|wall| wall.to_string() == name)
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wall::Key => "key",
            Wall::Attribute => "attribute",
            Wall::Public => "public",
            Wall::System => "system",
        })
    }
}

/// The two templates of a key.
#[derive(Debug, Clone)]
pub struct KeyTemplates {
    /// The partition's.
    pub partition: Template,
    /// The sort key's.
    pub sort: Template,
}

/// A rendered key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The partition's value.
    pub partition: String,
    /// The sort key's value.
    pub sort: String,
}

impl KeyTemplates {
    /// The key of these fields.
    pub fn render(&self, fields: &(impl Fields + ?Sized)) -> Result<Key, Unfit> {
        Ok(Key { partition: self.partition.render(fields)?, sort: self.sort.render(fields)? })
    }
}

/// The key of an entity in an index.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// Position of the index in its table.
    pub index: usize,
    /// The index's name.
    pub name: String,
    /// Its templates.
    pub key: KeyTemplates,
    /// Its wall.
    pub wall: Wall,
    /// The index holds the item only while this is true.
    pub when: Option<Condition>,
    pub(crate) span: Span,
    pub(crate) wall_span: Option<Span>,
    pub(crate) when_text: Option<SpannedText>,
}

/// A unique constraint.
#[derive(Debug, Clone)]
pub struct Unique {
    /// The fields.
    pub fields: Vec<String>,
    /// Among the items of one tenant, or among all.
    pub within_tenant: bool,
    /// Only items for which this is true count.
    pub when: Option<Condition>,
    pub(crate) field_texts: Vec<SpannedText>,
    pub(crate) when_text: Option<SpannedText>,
    pub(crate) span: Span,
}

/// Soft delete: a deleted item is marked and kept.
#[derive(Debug, Clone)]
pub struct SoftDelete {
    /// The field that marks deleted items, and its value.
    pub mark: Option<(String, Value)>,
    /// The field for the time of deletion.
    pub at: Option<String>,
    /// The field for the user.
    pub by: Option<String>,
    pub(crate) span: Span,
}

/// A step from one schema version to the next.
#[derive(Debug, Clone)]
pub struct Change {
    /// The older version.
    pub from: Version,
    /// The newer version.
    pub to: Version,
    /// Fields added where they are missing.
    pub add: Vec<(String, Value)>,
    /// Fields removed.
    pub drop: Vec<String>,
    /// Fields renamed, old to new.
    pub rename: Vec<(String, String)>,
    /// Fields overwritten.
    pub set: Vec<(String, Value)>,
    pub(crate) span: Span,
}

impl Change {
    /// Whether it changes the same fields in the same way.
    pub(crate) fn does_the_same(&self, other: &Change) -> bool {
        (&self.add, &self.drop, &self.rename, &self.set) == (&other.add, &other.drop, &other.rename, &other.set)
    }

    /// Whether readers of the old version cannot read the new one.
    pub fn is_breaking(&self) -> bool {
        !self.drop.is_empty() || !self.rename.is_empty() || !self.set.is_empty()
    }
}

/// A kind of items in a table.
#[derive(Debug, Clone)]
pub struct Entity {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Position of its table in the design.
    pub table: usize,
    /// Its key.
    pub key: KeyTemplates,
    /// Key templates of older items.
    pub former_keys: Vec<KeyTemplates>,
    /// Where its wall is.
    pub wall: Wall,
    /// The path of the field that holds its tenant; `None`: it belongs to no tenant.
    pub tenant: Option<String>,
    /// Its value of the table's discriminator.
    pub discriminator: Option<String>,
    /// Its keys in indexes.
    pub indexes: Vec<Mapping>,
    /// Its fields.
    pub fields: Vec<Field>,
    /// The attribute with its optimistic version.
    pub version: Option<String>,
    /// Its unique constraints.
    pub unique: Vec<Unique>,
    /// Seconds from its last write to its expiry.
    pub ttl_after: Option<u64>,
    /// Its soft delete.
    pub soft_delete: Option<SoftDelete>,
    /// The schema version that is written.
    pub schema: Option<Version>,
    /// Steps between schema versions.
    pub changes: Vec<Change>,
    /// Its HTTP path, without the design's prefix.
    pub path: String,
    /// The verbs that have routes for single items, in the order of [`Verb::ALL`].
    pub routes: Vec<Verb>,
    /// Whether its changes are recorded, if the design has an audit.
    pub audited: bool,
    pub(crate) span: Span,
    pub(crate) spans: EntitySpans,
}

/// The spans of the parts of an entity.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntitySpans {
    pub(crate) wall: Option<Span>,
    pub(crate) tenant: Option<Span>,
    /// Whether it says `tenant = false`.
    pub(crate) tenantless: bool,
    pub(crate) version: Option<Span>,
    pub(crate) ttl_after: Option<Span>,
    pub(crate) schema: Option<Span>,
    pub(crate) path: Option<Span>,
}

/// The attribute with an item's schema version.
pub const SCHEMA_ATTRIBUTE: &str = "schemaVersion";

impl Entity {
    /// The field at a path.
    pub fn field(&self, path: &str) -> Option<&Field> {
        field::find(&self.fields, path)
    }

    /// Whether a field, or a map that it is in, may be absent.
    pub fn is_optional(&self, path: &str) -> bool {
        field::is_marked(&self.fields, path, |field| field.optional)
    }

    /// Whether a field, or a map that it is in, is secret.
    pub fn is_secret(&self, path: &str) -> bool {
        field::is_marked(&self.fields, path, |field| field.secret)
    }

    /// Whether a field, or a map that it is in, is personal data.
    pub fn is_personal(&self, path: &str) -> bool {
        field::is_marked(&self.fields, path, |field| field.personal)
    }

    /// The fields of its key without the tenant: the caller gives these.
    pub fn id_fields(&self) -> Vec<&str> {
        let mut found = Vec::new();
        for path in self.key.partition.fields().chain(self.key.sort.fields()) {
            if Some(path) != self.implied_tenant(self.wall) && !found.contains(&path) {
                found.push(path);
            }
        }
        found
    }

    /// The tenant's field, if the wall takes its value from the token.
    pub fn implied_tenant(&self, wall: Wall) -> Option<&str> {
        match wall {
            Wall::Key | Wall::Attribute => self.tenant.as_deref(),
            Wall::Public | Wall::System => None,
        }
    }

    /// Reports every error in the fields of an item: missing, invalid and unknown fields.
    pub fn check(&self, fields: &Map<String, Value>) -> Vec<Problem> {
        let mut errors = Vec::new();
        field::check_fields(&self.fields, fields, None, &mut errors);
        let unknown = fields.keys().filter(|name| self.fields.iter().all(|field| field.name != **name));
        errors.extend(unknown.map(|name| Problem { path: name.clone(), message: "is not a field".to_owned() }));
        errors
    }

    /// The mapping of an index.
    pub fn mapping(&self, index: &str) -> Option<&Mapping> {
        self.indexes.iter().find(|mapping| mapping.name == index)
    }

    /// Whether a field is part of the table key and so cannot change.
    pub fn is_key_field(&self, path: &str) -> bool {
        self.key.partition.fields().chain(self.key.sort.fields()).any(|each| each == path)
    }

    /// The paths of its personal fields.
    pub fn personal_fields(&self) -> Vec<String> {
        field::paths(&self.fields, &|field| field.personal)
    }
}

/// What an access pattern returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// A page of items.
    Many,
    /// The only item.
    One,
    /// The number of items.
    Count,
}

/// The bound of the sort key after its fixed fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// No bound.
    Open,
    /// The whole sort key is given.
    Full,
    /// `from` (inclusive) and `to` (exclusive) bound this field.
    Range(String),
    /// The caller gives the beginning of this field.
    Prefix(String),
}

/// An access pattern: a way to list an entity.
#[derive(Debug, Clone)]
pub struct Access {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Position of its entity in the design.
    pub entity: usize,
    /// Position of the mapping in its entity; `None`: the table's key.
    pub mapping: Option<usize>,
    /// The fields that the caller gives.
    pub by: Vec<String>,
    /// The number of leading fields of the sort key that are fixed.
    pub fixed: usize,
    /// The bound of the rest of the sort key.
    pub bound: Bound,
    /// Whether the order is descending.
    pub descending: bool,
    /// Condition on what is returned.
    pub filter: Option<Condition>,
    /// The fields that are returned; empty: all.
    pub projection: Vec<String>,
    /// Page size.
    pub limit: u32,
    /// What it returns.
    pub returns: Returns,
    /// Its HTTP path, without the design's prefix; `None`: only the system's own code uses it.
    pub path: Option<String>,
    pub(crate) span: Span,
    pub(crate) path_span: Option<Span>,
    pub(crate) filter_text: Option<SpannedText>,
}

/// An event of an aggregate.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// The fields of its data.
    pub fields: Vec<Field>,
}

/// An event-sourced aggregate.
#[derive(Debug, Clone)]
pub struct Aggregate {
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// The field with its id.
    pub id: String,
    /// Position of the entity that holds its events.
    pub events: usize,
    /// Position of the entity with its version.
    pub head: usize,
    /// Position of the entity that maps idempotency keys.
    pub idempotency: Option<usize>,
    /// Position of the entity with its snapshots.
    pub snapshot: Option<usize>,
    /// Position of the entity with the encryption keys of personal fields.
    pub keys: Option<usize>,
    /// Positions of the entities built from its events.
    pub projections: Vec<usize>,
    /// Its events.
    pub event: Vec<Event>,
    pub(crate) span: Span,
}

impl Aggregate {
    /// Whether the entity at a position belongs to it.
    pub fn keeps(&self, entity: usize) -> bool {
        let single = [Some(self.events), Some(self.head), self.idempotency, self.snapshot, self.keys];
        single.contains(&Some(entity)) || self.projections.contains(&entity)
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
    pub fn access(&self, name: &str) -> Option<&Access> {
        self.accesses.iter().find(|access| access.name == name)
    }

    /// Whether callers create items of the entity at a position over HTTP.
    pub(crate) fn is_created_by_callers(&self, at: usize) -> bool {
        let entity = &self.entities[at];
        entity.routes.contains(&Verb::Create)
            && !self.aggregates.iter().any(|aggregate| aggregate.keeps(at))
            && self.audit_entity().is_none_or(|audit| audit.name != entity.name)
    }

    /// The access patterns of an entity.
    pub fn accesses_of<'d>(&'d self, entity: &'d Entity) -> impl Iterator<Item = &'d Access> {
        self.accesses.iter().filter(move |access| self.entities[access.entity].name == entity.name)
    }

    /// The key attributes and templates that an access pattern uses.
    pub fn source_of(&self, access: &Access) -> (&KeyAttributes, &KeyTemplates) {
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

    /// The wall of an access pattern.
    pub fn wall_of(&self, access: &Access) -> Wall {
        let entity = &self.entities[access.entity];
        access.mapping.map_or(entity.wall, |at| entity.indexes[at].wall)
    }
}
