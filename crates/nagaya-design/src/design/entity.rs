//! Entities: keys, walls, index mappings, constraints and schema steps.

use serde_json::{Map, Value};

use crate::{
    condition::Condition,
    diagnostic::Span,
    field::{self, Field, FieldError},
    named::named,
    role::Verb,
    template::{FieldValues, KeyFieldError, Template},
    tree::SpannedText,
    version::Version,
};

named! {
    /// Where the wall between tenants is.
    pub enum Wall {
        /// In the partition key.
        Key = "key",
        /// In an attribute that is checked on every read and write.
        Attribute = "attribute",
        /// Every tenant reads, the owner writes.
        Public = "public",
        /// Only an operator reads and writes.
        System = "system",
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
    pub fn render(&self, fields: &(impl FieldValues + ?Sized)) -> Result<Key, KeyFieldError> {
        Ok(Key { partition: self.partition.render(fields)?, sort: self.sort.render(fields)? })
    }
}

/// The key of an entity in an index.
#[derive(Debug, Clone)]
pub struct IndexMapping {
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
pub struct UniqueConstraint {
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
pub struct SchemaStep {
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

impl SchemaStep {
    /// Whether it changes the same fields in the same way.
    pub(crate) fn has_same_effect(&self, other: &SchemaStep) -> bool {
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
    /// The field with the user whose item it is; permissions for own items compare it with the caller.
    pub owner: Option<String>,
    /// Whether tenants share names that callers choose, first come, first served.
    pub names_first_come: bool,
    /// Its value of the table's discriminator.
    pub discriminator: Option<String>,
    /// Its keys in indexes.
    pub indexes: Vec<IndexMapping>,
    /// Its fields.
    pub fields: Vec<Field>,
    /// The attribute with its optimistic version.
    pub version: Option<String>,
    /// Its unique constraints.
    pub unique: Vec<UniqueConstraint>,
    /// Seconds from its last write to its expiry.
    pub ttl_after: Option<u64>,
    /// Its soft delete.
    pub soft_delete: Option<SoftDelete>,
    /// The schema version that is written.
    pub schema: Option<Version>,
    /// Steps between schema versions.
    pub schema_steps: Vec<SchemaStep>,
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
    pub(crate) owner: Option<Span>,
    pub(crate) names: Option<Span>,
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

    /// Whether tenants write it; otherwise operators do.
    pub fn is_written_by_tenant(&self) -> bool {
        match self.wall {
            Wall::Key | Wall::Attribute => true,
            Wall::Public => self.tenant.is_some(),
            Wall::System => false,
        }
    }

    /// The maximum size of the fields of an item in bytes, as the stores count them.
    pub fn max_bytes(&self) -> usize {
        self.fields.iter().fold(0, |sum: usize, field| sum.saturating_add(field.max_bytes()))
    }

    /// Reports every error in the fields of an item: missing, invalid and unknown fields.
    pub fn check_fields(&self, fields: &Map<String, Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        field::check_fields(&self.fields, fields, None, &mut errors);
        let unknown = fields.keys().filter(|name| self.fields.iter().all(|field| field.name != **name));
        errors.extend(unknown.map(|name| FieldError { path: name.clone(), message: "is not a field".to_owned() }));
        errors
    }

    /// The mapping of an index.
    pub fn mapping(&self, index: &str) -> Option<&IndexMapping> {
        self.indexes.iter().find(|mapping| mapping.name == index)
    }

    /// Whether a field is part of the table key and so cannot change.
    pub fn is_key_field(&self, path: &str) -> bool {
        self.key.partition.fields().chain(self.key.sort.fields()).any(|each| each == path)
    }

    /// Whether a field, or a map that it is in, cannot change.
    pub fn is_immutable(&self, path: &str) -> bool {
        field::is_marked(&self.fields, path, |field| field.immutable)
    }

    /// The paths of its personal fields.
    pub fn personal_fields(&self) -> Vec<String> {
        field::paths(&self.fields, &|field| field.personal)
    }
}
