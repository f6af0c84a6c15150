//! Entities of the design, prepared once for the work of every call.

use std::collections::BTreeSet;

use nagaya_design::{
    Design, Entity, FieldType, FieldValues, KeyAttributes, Scalar, Template, TimestampPrecision, Wall,
};
use nagaya_store::{Condition, Item, Key, Value, Write};

use crate::{
    values::{self, ItemFields},
    write::Constraint,
};

/// An entity of the design with its table, its key attributes and its constraints.
#[derive(Debug)]
pub(crate) struct CompiledEntity {
    pub(crate) entity: Entity,
    /// The name of its table in the store.
    pub(crate) table: String,
    pub(crate) key: KeyAttributes,
    pub(crate) ttl: Option<String>,
    pub(crate) discriminator: Option<(String, String)>,
    pub(crate) unique: Vec<Constraint>,
    /// Top-level fields that index attributes and unique markers are made of.
    pub(crate) sources: BTreeSet<String>,
    /// Attributes that may be read: the fields that are not secret, and the version.
    readable: BTreeSet<String>,
    /// Top-level fields that are secret or contain a secret.
    secrets: BTreeSet<String>,
    /// Holds for soft-deleted items.
    pub(crate) soft_deleted: Option<Condition>,
    /// The fields of an id within a tenant.
    pub(crate) id_fields: Vec<String>,
    /// Whether items of other entities can refer to its items.
    pub(crate) referenceable: bool,
    /// Whether its changes are audited.
    pub(crate) audited: bool,
    /// Whether it holds audit entries, recent or old.
    pub(crate) is_audit: bool,
}

/// The fields of a key: the tenant and the parts of an id.
struct IdFields<'i> {
    compiled: &'i CompiledEntity,
    tenant: Option<&'i str>,
    id: &'i [&'i str],
}

impl FieldValues for IdFields<'_> {
    fn scalar(&self, path: &str) -> Option<Scalar<'_>> {
        let entity = &self.compiled.entity;
        if entity.implied_tenant(entity.wall) == Some(path) {
            return self.tenant.map(Scalar::Text);
        }
        let at = self.compiled.id_fields.iter().position(|field| field == path)?;
        let text = *self.id.get(at)?;
        match entity.field(path)?.field_type {
            FieldType::Integer | FieldType::Timestamp(TimestampPrecision::Epoch) => {
                text.parse().ok().map(Scalar::Integer)
            }
            FieldType::Boolean => text.parse().ok().map(Scalar::Boolean),
            _ => Some(Scalar::Text(text)),
        }
    }
}

impl CompiledEntity {
    pub(crate) fn new(design: &Design, entity: &Entity, name: String) -> Self {
        let table = design.table_of(entity);
        let index_keys = entity.indexes.iter().map(|mapping| &mapping.key);
        let index_fields = index_keys.flat_map(|key| key.partition.fields().chain(key.sort.fields()));
        let unique_fields = entity.unique.iter().flat_map(|unique| &unique.fields).map(String::as_str);
        let conditions = entity.indexes.iter().map(|mapping| &mapping.when);
        let conditions = conditions.chain(entity.unique.iter().map(|unique| &unique.when)).flatten();
        let sources = index_fields.chain(unique_fields).chain(conditions.flat_map(|when| when.fields()));
        let secret = |field: &&nagaya_design::Field| field.secret || contains_secret(&field.field_type);
        let open = entity.fields.iter().filter(|field| !field.secret).map(|field| field.name.clone());
        let soft_deleted = entity.soft_delete.as_ref().and_then(|soft| match (&soft.mark, &soft.at) {
            (Some((field, value)), _) => Some(Condition::equal(field.as_str(), values::to_store(value.clone()))),
            (None, Some(at)) => Some(Condition::exists(at.as_str())),
            (None, None) => None,
        });
        CompiledEntity {
            table: name,
            key: table.key.clone(),
            ttl: table.ttl.clone(),
            discriminator: table.discriminator.clone().zip(entity.discriminator.clone()),
            unique: entity.unique.iter().map(Constraint::new).collect(),
            sources: sources.map(top_level).collect(),
            readable: open.chain(entity.version.clone()).collect(),
            secrets: entity.fields.iter().filter(secret).map(|field| field.name.clone()).collect(),
            soft_deleted,
            id_fields: entity.id_fields().into_iter().map(str::to_owned).collect(),
            audited: design.is_audited(entity),
            is_audit: design.holds_audit_entries(entity),
            referenceable: !design.referring_fields(entity).is_empty(),
            entity: entity.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.entity.name
    }

    /// The key of an id; `None` if no item can have this id.
    pub(crate) fn key_of(&self, tenant: Option<&str>, id: &[&str]) -> Option<Key> {
        if self.id_fields.len() != id.len() {
            return None;
        }
        let fields = IdFields { compiled: self, tenant, id };
        for (path, text) in self.id_fields.iter().zip(id) {
            // No item has an id that its field does not accept, whatever key it would give.
            let value = match fields.scalar(path)? {
                Scalar::Text(text) => text.into(),
                Scalar::Integer(number) => number.into(),
                Scalar::Boolean(truth) => truth.into(),
            };
            if values::is_dot_segment(text) || !values::is_valid(self.entity.field(path)?, &value) {
                return None;
            }
        }
        // An empty text is part of no key.
        let key = self.entity.key.render(&fields).ok()?;
        Some(Key::new(key.partition, key.sort))
    }

    /// The partition of all items of a tenant, where the partition key is made of the tenant and nothing else.
    pub(crate) fn tenant_partition(&self, tenant: &str) -> Option<String> {
        let field = self.entity.tenant.as_deref().filter(|_| self.entity.wall == Wall::Key)?;
        // Another field would be missing.
        self.entity.key.partition.render(&[(field, tenant)]).ok()
    }

    /// Whether an item is stored in this partition, under the sort key that its fields give.
    pub(crate) fn is_in_partition(&self, item: &Item, partition: &str) -> bool {
        let text = |attribute: &str| item.get(attribute).and_then(Value::as_str);
        text(&self.key.partition) == Some(partition)
            && text(&self.key.sort).is_some_and(|sort| self.entity.key.sort.renders_to(&ItemFields(item), sort))
    }

    /// Whether an item is stored under the key that its fields give. Called for every item that is read.
    pub(crate) fn is_under_own_key(&self, item: &Item) -> bool {
        let fields = ItemFields(item);
        let agrees = |attribute: &str, template: &Template| {
            item.get(attribute).and_then(Value::as_str).is_some_and(|key| template.renders_to(&fields, key))
        };
        agrees(&self.key.partition, &self.entity.key.partition) && agrees(&self.key.sort, &self.entity.key.sort)
    }

    /// Whether an item is in its tenant's partition under a key of an older form.
    pub(crate) fn has_former_key(&self, item: &Item) -> bool {
        let fields = ItemFields(item);
        let stored = item.get(&self.key.partition).and_then(Value::as_str);
        let agrees = |template: &Template| template.render(&fields).is_ok_and(|key| stored == Some(key.as_str()));
        self.entity.former_keys.iter().any(|former| agrees(&former.partition))
    }

    /// Whether an item of the table is one of this entity, under a key that its fields give.
    pub(crate) fn is_in_place(&self, item: &Item) -> bool {
        self.matches_discriminator(item) && (self.is_under_own_key(item) || self.has_former_key(item))
    }

    /// The key that an item is stored under.
    pub(crate) fn stored_key(&self, item: &Item) -> Option<Key> {
        let text = |attribute: &str| item.get(attribute)?.as_str();
        Some(Key::new(text(&self.key.partition)?, text(&self.key.sort)?))
    }

    /// The tenant of an item.
    pub(crate) fn owner<'i>(&self, item: &'i Item) -> Option<&'i str> {
        values::lookup(item, self.entity.tenant.as_deref()?)?.as_str()
    }

    /// An item of the layer's own, in the entity's table.
    pub(crate) fn internal_item(&self, key: Key) -> Item {
        Item::new().with(&self.key.partition, Value::from(key.partition)).with(&self.key.sort, Value::from(key.sort))
    }

    /// The write that inserts an item into the entity's table, if its key is free.
    pub(crate) fn insert(&self, item: Item) -> Write {
        Write::put(&self.table, item).when(self.is_absent())
    }

    /// The key of a write is free.
    pub(crate) fn is_absent(&self) -> Condition {
        Condition::absent(self.key.partition.as_str())
    }

    /// Whether an attribute is a field that may be read.
    pub(crate) fn is_readable(&self, attribute: &str) -> bool {
        self.readable.contains(attribute)
    }

    /// Whether a readable attribute contains a secret.
    pub(crate) fn contains_secret(&self, attribute: &str) -> bool {
        self.secrets.contains(attribute)
    }

    /// The version of an item.
    pub(crate) fn version_of(&self, item: &Item) -> Option<i64> {
        values::integer_in(item, self.entity.version.as_deref()?)
    }

    /// Whether an item is soft-deleted, or marked by a deletion that is under way.
    pub(crate) fn is_deleted(&self, item: &Item) -> bool {
        self.is_soft_deleted(item) || (self.referenceable && item.get(DELETING).is_some())
    }

    /// Whether an item is soft-deleted.
    pub(crate) fn is_soft_deleted(&self, item: &Item) -> bool {
        self.soft_deleted.as_ref().is_some_and(|condition| condition.is_satisfied_by(item))
    }

    /// The values of an item's key besides the tenant, as texts.
    pub(crate) fn id_of(&self, item: &Item) -> Vec<String> {
        let text = |path: &String| values::to_text(values::lookup(item, path)?);
        self.id_fields.iter().filter_map(text).collect()
    }

    /// Whether an item of the table is one of the layer's own. Escapes have capitals, so no key of an entity starts with `%` and
    /// a small letter.
    pub(crate) fn is_internal(&self, item: &Item) -> bool {
        let sort = item.get(&self.key.sort).and_then(Value::as_str).unwrap_or_default();
        sort.strip_prefix('%').is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_lowercase()))
    }

    /// Whether the discriminator of an item allows this entity.
    pub(crate) fn matches_discriminator(&self, item: &Item) -> bool {
        match &self.discriminator {
            Some((attribute, value)) => item.get(attribute).and_then(Value::as_str) == Some(value),
            None => true,
        }
    }
}

/// The attribute that a deletion under way sets, so that nothing new can refer to the item. No field has a name with `%`.
pub(crate) const DELETING: &str = "%deleting";

/// The top-level field of a path.
fn top_level(path: &str) -> String {
    path.split('.').next().unwrap_or(path).to_owned()
}

fn contains_secret(kind: &FieldType) -> bool {
    match kind {
        FieldType::Map(fields) => fields.iter().any(|field| field.secret || contains_secret(&field.field_type)),
        FieldType::List(Some(element)) => element.secret || contains_secret(&element.field_type),
        _ => false,
    }
}
