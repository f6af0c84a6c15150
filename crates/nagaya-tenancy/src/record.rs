//! An item as callers see it.

use std::{fmt, sync::Arc};

use nagaya_design::{Field, FieldType};
use nagaya_store::{Item, Value};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value as Json};

use crate::{Error, compiled::CompiledEntity, type_mismatch::read_fields, values};

/// An item of an entity: its fields, without secrets and without the attributes that the layer adds.
#[derive(Clone)]
pub struct Record {
    compiled: Arc<CompiledEntity>,
    item: Item,
    /// The fields of the access pattern that it was read by; `None`: all.
    projection: Option<Arc<[String]>>,
    /// What it says besides its stored fields.
    added: Option<Box<Map<String, Json>>>,
}

impl Record {
    pub(crate) fn new(compiled: Arc<CompiledEntity>, item: Item) -> Self {
        Record { compiled, item, projection: None, added: None }
    }

    /// Limits the record to these fields.
    pub(crate) fn only(mut self, projection: Option<&[String]>) -> Self {
        self.projection = projection.map(Arc::from);
        self
    }

    /// Limits the record to these fields, and adds others that are not stored, such as a note that something is left out. What
    /// is left out cannot be read from the record any more, and does not count in its [digest](Record::digest).
    pub fn restrict(&mut self, shown: &Arc<[String]>, added: Map<String, Json>) {
        let shown = match self.projection.take() {
            None => Arc::clone(shown),
            Some(before) => before.iter().filter(|field| shown.contains(field)).cloned().collect(),
        };
        self.projection = Some(shown);
        self.add_fields(added);
    }

    /// Adds fields that are not stored, such as what the item is to the caller.
    pub fn add_fields(&mut self, added: Map<String, Json>) {
        self.added.get_or_insert_default().extend(added);
    }

    /// Whether it shows something else than what is stored: see [`Record::restrict`] and [`Record::add_fields`].
    pub fn is_adapted(&self) -> bool {
        self.added.is_some()
    }

    fn is_field_readable(&self, field: &str) -> bool {
        let projected = |projection: &Arc<[String]>| projection.iter().any(|shown| shown == field);
        self.compiled.is_readable(field) && self.projection.as_ref().is_none_or(projected)
    }

    /// Its entity.
    pub fn entity(&self) -> &str {
        self.compiled.name()
    }

    /// A field as it is stored; `None` if it contains a secret.
    pub fn get(&self, field: &str) -> Option<&Value> {
        if self.is_field_readable(field) && !self.compiled.contains_secret(field) { self.item.get(field) } else { None }
    }

    /// A text field.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.get(field)?.as_str()
    }

    /// A field as JSON, without secrets.
    pub fn json(&self, field: &str) -> Option<Json> {
        if self.is_field_readable(field) { self.item.get(field).map(|value| self.open(field, value)) } else { None }
    }

    /// Moves a field out of the record, as [`Record::json`] gives it.
    pub fn take(&mut self, field: &str) -> Option<Json> {
        if !self.is_field_readable(field) {
            return None;
        }
        let value = values::into_json(self.item.remove(field)?);
        Some(self.without_secrets(field, value))
    }

    /// Its stored size, in bytes.
    pub fn size(&self) -> usize {
        self.item.size()
    }

    /// Its optimistic version, if its entity has one.
    pub fn version(&self) -> Option<i64> {
        self.compiled.version_of(&self.item)
    }

    /// The values of its key besides the tenant: the id that finds it.
    pub fn id(&self) -> Vec<String> {
        self.compiled.id_of(&self.item)
    }

    /// Its fields as JSON.
    pub fn to_json(&self) -> Map<String, Json> {
        let stored = self.readable().map(|(name, value)| (name.to_owned(), self.open(name, value)));
        let added = self.added().map(|(name, value)| (name.clone(), value.clone()));
        stored.chain(added).collect()
    }

    /// What it says besides its stored fields.
    fn added(&self) -> impl Iterator<Item = (&String, &Json)> {
        self.added.iter().flat_map(|added| added.iter())
    }

    /// The attributes that may be read.
    fn readable(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.item.iter().filter(|(name, _)| self.is_field_readable(name))
    }

    /// A value as JSON, without secrets.
    fn open(&self, name: &str, value: &Value) -> Json {
        self.without_secrets(name, values::to_json(value))
    }

    fn without_secrets(&self, name: &str, mut value: Json) -> Json {
        if self.compiled.contains_secret(name) {
            let field = self.compiled.entity.fields.iter().find(|field| field.name == name);
            field.into_iter().for_each(|field| remove_secrets(field, &mut value));
        }
        value
    }

    /// A hash of the readable fields (FNV-1a, which is the same in every build).
    pub fn digest(&self) -> u64 {
        let fold = |sum: u64, bytes: &[u8]| {
            bytes.iter().chain(&[0xff]).fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
        };
        let fields = self.readable().filter(|(name, _)| !self.compiled.contains_secret(name));
        let stored = fields.fold(0xcbf2_9ce4_8422_2325, |sum, (name, value)| {
            let sum = fold(sum, name.as_bytes());
            match value {
                Value::String(text) => fold(sum, text.as_bytes()),
                other => fold(sum, values::to_json(other).to_string().as_bytes()),
            }
        });
        self.added().fold(stored, |sum, (name, value)| fold(fold(sum, name.as_bytes()), value.to_string().as_bytes()))
    }

    /// Its fields as a type of the caller. The error names path and type of what does not fit, and no value.
    pub fn deserialize<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        read_fields(&self.to_json()).map_err(|error| Error::problem(self.entity(), format!("cannot be read: {error}")))
    }

    pub(crate) fn item(&self) -> &Item {
        &self.item
    }
}

/// Removes the secrets from a value.
fn remove_secrets(field: &Field, value: &mut Json) {
    match (&field.field_type, value) {
        (FieldType::Map(fields), Json::Object(values)) => {
            for field in fields {
                if field.secret {
                    values.remove(&field.name);
                } else if let Some(value) = values.get_mut(&field.name) {
                    remove_secrets(field, value);
                }
            }
        }
        (FieldType::List(Some(element)), Json::Array(values)) if element.secret => values.clear(),
        (FieldType::List(Some(element)), Json::Array(values)) => {
            values.iter_mut().for_each(|value| remove_secrets(element, value));
        }
        _ => {}
    }
}

impl Serialize for Record {
    /// Its fields, as [`Record::to_json`] gives them.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.readable() {
            match value {
                // The fast path for most values: no conversion to JSON. A secret inside a field is in a map or a list.
                Value::String(text) => map.serialize_entry(name, text.as_str())?,
                other => map.serialize_entry(name, &self.open(name, other))?,
            }
        }
        for (name, value) in self.added() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        self.entity() == other.entity() && self.item == other.item
    }
}

impl fmt::Debug for Record {
    /// The id only: fields may be personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(self.entity()).field(&self.id()).finish()
    }
}
