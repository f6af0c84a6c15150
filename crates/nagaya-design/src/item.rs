//! Stored items: what is wrong with one, compared with its entity.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::{
    design::{Design, Entity, SCHEMA_ATTRIBUTE},
    field::{self, FieldError},
    template::{FieldValues as _, Scalar, Slot},
    version::Version,
};

/// Attributes that Cosmos DB adds to its documents.
const STORE_ATTRIBUTES: [&str; 6] = ["_ts", "_etag", "_rid", "_self", "_attachments", "_lsn"];

impl Design {
    /// Reports every error in a stored item of an entity: missing or invalid fields, key and index attributes that do not
    /// match the fields, unknown attributes.
    pub fn check_item(&self, entity: &Entity, item: &Map<String, Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        field::check_fields(&entity.fields, item, None, &mut errors);
        let table = self.table_of(entity);
        let derived = self.derived_attributes(entity, item);
        let former = self.has_former_key(entity, item);
        for (attribute, expected) in &derived {
            let is_key = *attribute == table.key.partition || *attribute == table.key.sort;
            let message = match (item.get(attribute), expected) {
                _ if is_key && former => continue,
                (Some(Value::String(found)), Ok(Some(expected))) if found == expected => continue,
                // Derived attributes may be missing: they are added when the item is written.
                (None, Ok(_)) => continue,
                (Some(found), Ok(Some(expected))) => format!("is {found}, but the fields give \"{expected}\""),
                (Some(_), Ok(None)) => "is present, but the condition of the index is false".to_owned(),
                (_, Err(unfit)) => unfit.to_string(),
            };
            errors.push(FieldError { path: attribute.clone(), message });
        }
        if let Some(name) = table.discriminator.as_ref().filter(|name| !item.contains_key(*name)) {
            errors.push(FieldError { path: name.clone(), message: "is missing".to_owned() });
        }
        let managed = [table.ttl.as_deref(), table.discriminator.as_deref(), entity.version.as_deref()];
        for (name, value) in item {
            let known = STORE_ATTRIBUTES.contains(&name.as_str())
                || entity.fields.iter().any(|field| field.name == *name)
                || derived.iter().any(|(attribute, _)| attribute == name)
                || managed.contains(&Some(name.as_str()))
                || (entity.schema.is_some() && name == SCHEMA_ATTRIBUTE);
            let counted = entity.version.as_ref() == Some(name)
                || (entity.ttl_after.is_some() && table.ttl.as_ref() == Some(name));
            if counted && !value.is_u64() {
                errors.push(FieldError { path: name.clone(), message: "is not a whole number".to_owned() });
            }
            let is_version = |value: &Value| value.as_str().is_some_and(|text| text.parse::<Version>().is_ok());
            if entity.schema.is_some() && name == SCHEMA_ATTRIBUTE && !is_version(value) {
                errors.push(FieldError { path: name.clone(), message: "is not a version".to_owned() });
            }
            if !known {
                errors.push(FieldError { path: name.clone(), message: "is not a field".to_owned() });
            }
            if table.discriminator.as_ref() == Some(name) && value.as_str() != entity.discriminator.as_deref() {
                errors.push(FieldError { path: name.clone(), message: "names another entity".to_owned() });
            }
        }
        errors
    }

    /// Whether the item has a former key that matches its fields.
    fn has_former_key(&self, entity: &Entity, item: &Map<String, Value>) -> bool {
        let key = &self.table_of(entity).key;
        let text = |attribute: &str| item.get(attribute).and_then(Value::as_str);
        let (Some(partition), Some(sort)) = (text(&key.partition), text(&key.sort)) else { return false };
        entity.former_keys.iter().any(|former| {
            let mut agrees = true;
            let mut compare = |slot: &Slot, value: Cow<'_, str>| {
                // A field may occur in the former key only.
                let mut expected = String::new();
                let own = item.scalar(&slot.path).map(|own| slot.render(own, &mut expected));
                let mut found = String::new();
                let given = slot.render(Scalar::Text(&value), &mut found);
                agrees &= own.is_none_or(|own| own.is_ok() && given.is_ok() && expected == found);
            };
            let parsed = former.partition.parse(partition, true, &mut compare).is_some()
                && former.sort.parse(sort, true, &mut compare).is_some();
            parsed && agrees
        })
    }
}
