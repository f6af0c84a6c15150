//! An item as its tenant sees it.

use std::{fmt, sync::Arc};

use nagaya_design::{Field, Type};
use nagaya_store::{Item, Value};
use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value as Json};

use crate::{Error, blueprint::Blueprint, values};

/// An item of an entity: its fields, without what is secret and without what the store needs to find it.
#[derive(Clone)]
pub struct Record {
    blueprint: Arc<Blueprint>,
    item: Item,
    /// The fields that it is limited to.
    projection: Option<Arc<[String]>>,
}

impl Record {
    pub(crate) fn new(blueprint: Arc<Blueprint>, item: Item) -> Self {
        Record { blueprint, item, projection: None }
    }

    /// The record with these fields only.
    pub(crate) fn only(mut self, projection: Option<&[String]>) -> Self {
        self.projection = projection.map(Arc::from);
        self
    }

    fn shows(&self, field: &str) -> bool {
        let projected = |projection: &Arc<[String]>| projection.iter().any(|shown| shown == field);
        self.blueprint.shows(field) && self.projection.as_ref().is_none_or(projected)
    }

    /// The entity that it is of.
    pub fn entity(&self) -> &str {
        self.blueprint.name()
    }

    /// A field, as stored; `None` also for what is secret.
    pub fn get(&self, field: &str) -> Option<&Value> {
        if self.shows(field) && !self.blueprint.hides_in(field) { self.item.get(field) } else { None }
    }

    /// A field that holds text.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.get(field)?.as_str()
    }

    /// A field as JSON, without what is secret in it.
    pub fn json(&self, field: &str) -> Option<Json> {
        if self.shows(field) { self.item.get(field).map(|value| self.open(field, value)) } else { None }
    }

    /// Takes a field out: what [`Record::json`] gives of it, without being copied.
    pub fn take(&mut self, field: &str) -> Option<Json> {
        if !self.shows(field) {
            return None;
        }
        let value = values::into_json(self.item.remove(field)?);
        Some(self.stripped(field, value))
    }

    /// Its optimistic version, if its entity has one.
    pub fn version(&self) -> Option<i64> {
        self.blueprint.version_of(&self.item)
    }

    /// The values of its key besides the tenant: what finds it again.
    pub fn id(&self) -> Vec<String> {
        let value = |path: &str| {
            values::lookup(&self.item, path).map(|value| match values::to_json(value) {
                Json::String(text) => text,
                other => other.to_string(),
            })
        };
        self.blueprint.entity.id_fields().into_iter().filter_map(value).collect()
    }

    /// Its fields as JSON.
    pub fn to_json(&self) -> Map<String, Json> {
        self.shown().map(|(name, value)| (name.to_owned(), self.open(name, value))).collect()
    }

    /// The attributes that it shows.
    fn shown(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.item.iter().filter(|(name, _)| self.shows(name))
    }

    /// A value without what is secret in it.
    fn open(&self, name: &str, value: &Value) -> Json {
        self.stripped(name, values::to_json(value))
    }

    fn stripped(&self, name: &str, mut value: Json) -> Json {
        if self.blueprint.hides_in(name) {
            let field = self.blueprint.entity.fields.iter().find(|field| field.name == name);
            field.into_iter().for_each(|field| strip(field, &mut value));
        }
        value
    }

    /// A number that stands for what it shows: for other content another one, in all likelihood (FNV-1a, which is the same
    /// in every build).
    pub fn digest(&self) -> u64 {
        let fold = |sum: u64, bytes: &[u8]| {
            bytes.iter().chain(&[0xff]).fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
        };
        let shown = self.shown().filter(|(name, _)| !self.blueprint.hides_in(name));
        shown.fold(0xcbf2_9ce4_8422_2325, |sum, (name, value)| {
            let sum = fold(sum, name.as_bytes());
            match value {
                Value::String(text) => fold(sum, text.as_bytes()),
                other => fold(sum, values::to_json(other).to_string().as_bytes()),
            }
        })
    }

    /// Its fields as a type of one's own.
    pub fn to<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        let problem = |error: serde_json::Error| Error::problem(self.entity(), format!("cannot be read: {error}"));
        serde_json::from_value(Json::Object(self.to_json())).map_err(problem)
    }

    pub(crate) fn item(&self) -> &Item {
        &self.item
    }
}

/// Takes what is secret out of a value.
fn strip(field: &Field, value: &mut Json) {
    match (&field.kind, value) {
        (Type::Map(fields), Json::Object(values)) => {
            for field in fields {
                if field.secret {
                    values.remove(&field.name);
                } else if let Some(value) = values.get_mut(&field.name) {
                    strip(field, value);
                }
            }
        }
        (Type::List(Some(element)), Json::Array(values)) if element.secret => values.clear(),
        (Type::List(Some(element)), Json::Array(values)) => values.iter_mut().for_each(|value| strip(element, value)),
        _ => {}
    }
}

impl Serialize for Record {
    /// Its fields, as [`Record::to_json`] gives them.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.shown() {
            match value {
                // Most values: written as they are stored.
                Value::String(text) if !self.blueprint.hides_in(name) => map.serialize_entry(name, text.as_str())?,
                _ => map.serialize_entry(name, &self.open(name, value))?,
            }
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
    /// Ids only: fields may be personal data.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(self.entity()).field(&self.id()).finish()
    }
}
