//! Entities, prepared once for the work that every call does.

use std::collections::BTreeSet;

use nagaya_design::{
    Design, Entity, KeyAttributes, KeyTemplates, Problem, SCHEMA_ATTRIBUTE, Template, Type, Unfit, Wall,
};
use nagaya_store::{Condition, Item, Key, Value};

use crate::{
    unique::Constraint,
    values::{self, ItemFields},
};

/// An entity of the design with its table, its derived attributes and its promises.
#[derive(Debug)]
pub(crate) struct Blueprint {
    pub(crate) entity: Entity,
    /// Its table in the store.
    pub(crate) table: String,
    pub(crate) key: KeyAttributes,
    pub(crate) ttl: Option<String>,
    discriminator: Option<(String, String)>,
    derived: Vec<Derived>,
    pub(crate) unique: Vec<Constraint>,
    /// Top-level fields that derived attributes and uniqueness come from.
    pub(crate) sources: BTreeSet<String>,
    /// Attributes that may be read back: its fields that are not secret, and its version.
    shown: BTreeSet<String>,
    /// Top-level fields that are secret, or hold something secret.
    secrets: BTreeSet<String>,
    /// What tells items that are deleted but kept.
    pub(crate) deleted: Option<Condition>,
    /// The fields that find an item of a tenant.
    pub(crate) id_fields: Vec<String>,
    /// Whether items of other entities can refer to it.
    pub(crate) referred: bool,
    /// Whether its changes are written down.
    pub(crate) audited: bool,
    /// Whether it is what changes are written down in.
    pub(crate) is_audit: bool,
}

/// An index attribute and what it is made of.
#[derive(Debug)]
struct Derived {
    attribute: String,
    template: Template,
    /// The item lies in the index only while this holds.
    when: Option<Condition>,
    /// The attribute is a field of its own.
    is_field: bool,
}

impl Blueprint {
    pub(crate) fn new(design: &Design, entity: &Entity, name: String) -> Self {
        let table = design.table_of(entity);
        let mut derived = Vec::new();
        let mut sources = BTreeSet::new();
        for mapping in &entity.indexes {
            let attributes = &table.indexes[mapping.index].key;
            let when = mapping.when.as_ref().map(values::condition);
            for (attribute, template) in parts(attributes, &mapping.key) {
                sources.extend(template.fields().map(root));
                let is_field = entity.field(attribute).is_some();
                // The key's own attributes are made with the key.
                if *attribute != table.key.partition && *attribute != table.key.sort {
                    let (attribute, template) = (attribute.clone(), template.clone());
                    derived.push(Derived { attribute, template, when: when.clone(), is_field });
                }
            }
            sources.extend(mapping.when.iter().flat_map(|when| when.fields()).map(root));
        }
        let unique: Vec<_> = entity.unique.iter().map(Constraint::new).collect();
        for constraint in &entity.unique {
            sources.extend(constraint.fields.iter().map(|field| root(field)));
            sources.extend(constraint.when.iter().flat_map(|when| when.fields()).map(root));
        }
        let secret = |field: &&nagaya_design::Field| field.secret || holds_secret(&field.kind);
        let open = entity.fields.iter().filter(|field| !field.secret).map(|field| field.name.clone());
        let shown = open.chain(entity.version.clone()).collect();
        let secrets = entity.fields.iter().filter(secret).map(|field| field.name.clone()).collect();
        let deleted = entity.soft_delete.as_ref().and_then(|soft| match (&soft.mark, &soft.at) {
            (Some((field, value)), _) => Some(Condition::equal(field.as_str(), values::to_store(value.clone()))),
            (None, Some(at)) => Some(Condition::exists(at.as_str())),
            (None, None) => None,
        });
        Blueprint {
            table: name,
            key: table.key.clone(),
            ttl: table.ttl.clone(),
            discriminator: table.discriminator.clone().zip(entity.discriminator.clone()),
            derived,
            unique,
            sources,
            shown,
            secrets,
            deleted,
            id_fields: entity.id_fields().into_iter().map(str::to_owned).collect(),
            audited: design.is_audited(entity),
            is_audit: design.audit_entity().is_some_and(|audit| audit.name == entity.name),
            referred: !design.referers(entity).is_empty(),
            entity: entity.clone(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.entity.name
    }

    /// The partition that all items of a tenant lie in, where the key has the tenant in it and nothing else.
    pub(crate) fn partition_of(&self, tenant: &str) -> Option<String> {
        let field = self.entity.tenant.as_deref().filter(|_| self.entity.wall == Wall::Key)?;
        let template = &self.entity.key.partition;
        let own = template.fields().all(|each| each == field);
        if own { template.render(&[(field, tenant)]).ok() } else { None }
    }

    /// Whether an item is stored in a partition of its tenant's, under the sort key that its fields give.
    pub(crate) fn lies_in(&self, item: &Item, partition: &str) -> bool {
        let text = |attribute: &str| item.get(attribute).and_then(Value::as_str);
        text(&self.key.partition) == Some(partition)
            && text(&self.key.sort).is_some_and(|sort| self.entity.key.sort.renders(&ItemFields(item), sort))
    }

    /// Whether an item is stored under the key that its fields give. Every item that is read comes by here.
    pub(crate) fn lies_under_its_key(&self, item: &Item) -> bool {
        let fields = ItemFields(item);
        let agrees = |attribute: &str, template: &Template| {
            item.get(attribute).and_then(Value::as_str).is_some_and(|key| template.renders(&fields, key))
        };
        agrees(&self.key.partition, &self.entity.key.partition) && agrees(&self.key.sort, &self.entity.key.sort)
    }

    /// The key that an item is stored under.
    pub(crate) fn stored_key(&self, item: &Item) -> Option<Key> {
        let text = |attribute: &str| item.get(attribute)?.as_str();
        Some(Key::new(text(&self.key.partition)?, text(&self.key.sort)?))
    }

    /// Sets everything that the fields of an item give: key, index attributes, discriminator, schema version.
    pub(crate) fn derive(&self, item: &mut Item) -> Result<(), Problem> {
        let unfit = |unfit: Unfit| Problem { path: unfit.field, message: unfit.reason.to_owned() };
        let mut given: Vec<(&str, Option<String>)> = Vec::with_capacity(self.derived.len());
        for Derived { attribute, template, when, is_field } in &self.derived {
            let present = when.as_ref().is_none_or(|when| when.holds(item));
            let value = if present { Some(template.render(&ItemFields(item)).map_err(unfit)?) } else { None };
            // An attribute that is a field of its own stays as it is, also when the index lets the item go.
            if *is_field {
                value.map_or(Ok(()), |value| self.stands_for_itself(item, attribute, &value))?;
                continue;
            }
            // What one index lets go another may still hold.
            match given.iter_mut().find(|(name, _)| name == attribute) {
                Some((_, earlier @ None)) => *earlier = value,
                Some(_) => {}
                None => given.push((attribute, value)),
            }
        }
        for (attribute, value) in given {
            match value {
                Some(value) => item.insert(attribute, value),
                None => drop(item.remove(attribute)),
            }
        }
        let key = self.entity.key.render(&ItemFields(item)).map_err(unfit)?;
        for (attribute, value) in [(&self.key.partition, key.partition), (&self.key.sort, key.sort)] {
            if self.entity.field(attribute).is_some() {
                self.stands_for_itself(item, attribute, &value)?;
            } else {
                item.insert(attribute, value);
            }
        }
        if let Some((attribute, value)) = &self.discriminator {
            item.insert(attribute, value.as_str());
        }
        if let Some(schema) = self.entity.schema {
            item.insert(SCHEMA_ATTRIBUTE, schema.to_string());
        }
        Ok(())
    }

    /// A field that is a key attribute as well has one value for both, so it cannot hold what keys escape.
    fn stands_for_itself(&self, item: &Item, field: &str, in_key: &str) -> Result<(), Problem> {
        if item.get(field).and_then(Value::as_str) == Some(in_key) {
            return Ok(());
        }
        let message = "is a key as it stands, and cannot hold `#` or `%`".to_owned();
        Err(Problem { path: field.to_owned(), message })
    }

    /// Sets the second at which an item that was just written will be gone.
    pub(crate) fn set_expiry(&self, item: &mut Item, now_millis: i64) {
        if let (Some(ttl), Some(seconds)) = (&self.ttl, self.entity.ttl_after) {
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            item.insert(ttl, now_millis.div_euclid(1000).saturating_add(seconds));
        }
    }

    /// Whether an attribute is a field that may be read back.
    pub(crate) fn shows(&self, attribute: &str) -> bool {
        self.shown.contains(attribute)
    }

    /// Whether there is something secret in an attribute that may be read back.
    pub(crate) fn hides_in(&self, attribute: &str) -> bool {
        self.secrets.contains(attribute)
    }

    /// The version of an item.
    pub(crate) fn version_of(&self, item: &Item) -> Option<i64> {
        item.get(self.entity.version.as_deref()?)?.as_number()?.try_into().ok()
    }

    /// Whether an item is deleted but kept, or about to go.
    pub(crate) fn is_deleted(&self, item: &Item) -> bool {
        self.is_soft_deleted(item) || (self.referred && item.get(DELETING).is_some())
    }

    /// Whether an item is deleted but kept.
    pub(crate) fn is_soft_deleted(&self, item: &Item) -> bool {
        self.deleted.as_ref().is_some_and(|deleted| deleted.holds(item))
    }

    /// The values of an item's key besides the tenant, as texts.
    pub(crate) fn id_of(&self, item: &Item) -> Vec<String> {
        let text = |path: &str| values::to_text(values::lookup(item, path)?);
        self.entity.id_fields().into_iter().filter_map(text).collect()
    }

    /// Whether an item of its table is one of the layer's own: escapes have capitals, so no key of an entity starts so.
    pub(crate) fn is_layers_own(&self, item: &Item) -> bool {
        let sort = item.get(&self.key.sort).and_then(Value::as_str).unwrap_or_default();
        sort.strip_prefix('%').is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_lowercase()))
    }

    /// Whether an item of its table can be of this entity.
    pub(crate) fn owns(&self, item: &Item) -> bool {
        match &self.discriminator {
            Some((attribute, value)) => item.get(attribute).and_then(Value::as_str) == Some(value),
            None => true,
        }
    }
}

/// Marks an item that is about to go, so that nothing new refers to it. No field has a name with `%`.
pub(crate) const DELETING: &str = "%deleting";

fn parts<'k>(attributes: &'k KeyAttributes, key: &'k KeyTemplates) -> [(&'k String, &'k Template); 2] {
    [(&attributes.partition, &key.partition), (&attributes.sort, &key.sort)]
}

/// The top-level field of a path.
fn root(path: &str) -> String {
    path.split('.').next().unwrap_or(path).to_owned()
}

fn holds_secret(kind: &Type) -> bool {
    match kind {
        Type::Map(fields) => fields.iter().any(|field| field.secret || holds_secret(&field.kind)),
        Type::List(Some(element)) => element.secret || holds_secret(&element.kind),
        _ => false,
    }
}
