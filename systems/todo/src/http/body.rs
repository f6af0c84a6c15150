//! Request bodies: the fields that a route takes, with their checks and their JSON Schema.

use nagaya_design::FieldError;
use nagaya_server::Problem;
use nagaya_tenancy::read_fields;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value as Json, json};

/// A field of a request body.
pub(super) struct BodyField {
    pub(super) name: &'static str,
    pub(super) values: Values,
    /// Whether the field has to be given.
    pub(super) required: bool,
    /// Its description in the OpenAPI document.
    pub(super) description: &'static str,
}

/// The values that a field can have.
pub(super) enum Values {
    Boolean,
    /// A text of 1 to so many characters, not all of them white space.
    Text(usize),
    /// The same, or null.
    NullableText(usize),
}

impl Values {
    fn schema(&self) -> Json {
        match self {
            Values::Boolean => json!({ "type": "boolean" }),
            Values::Text(max) => json!({ "type": "string", "minLength": 1, "maxLength": max, "pattern": "\\S" }),
            Values::NullableText(max) => json!({ "anyOf": [Values::Text(*max).schema(), { "type": "null" }] }),
        }
    }

    /// What is wrong with a value.
    fn why_invalid(&self, value: &Json) -> Option<String> {
        match (self, value) {
            (Values::NullableText(_), Json::Null) | (Values::Boolean, Json::Bool(_)) => None,
            (Values::Boolean, _) => Some("has to be true or false".to_owned()),
            (Values::Text(max) | Values::NullableText(max), Json::String(text)) => match text.chars().count() {
                0 => Some("has to be at least 1 character".to_owned()),
                _ if text.trim().is_empty() => Some("has to be more than white space".to_owned()),
                count => (count > *max).then(|| format!("has to be at most {max} characters")),
            },
            _ => Some("has to be a text".to_owned()),
        }
    }
}

/// Reads a body. The problem names every field that does not fit.
pub(super) fn parse<B: DeserializeOwned>(body: &Map<String, Json>, fields: &[BodyField]) -> Result<B, Problem> {
    let is_known = |name: &str| fields.iter().any(|field| field.name == name);
    let unknown = body.keys().filter(|name| !is_known(name)).map(|name| {
        let why = if name == "familyId" { "comes from the token; leave it out" } else { "is not a field" };
        (name.as_str(), why.to_owned())
    });
    let wrong = fields.iter().filter_map(|field| match body.get(field.name) {
        Some(value) => Some((field.name, field.values.why_invalid(value)?)),
        None => field.required.then(|| (field.name, "is missing".to_owned())),
    });
    let errors = unknown.chain(wrong).map(|(path, message)| FieldError { path: path.to_owned(), message });
    Problem::check_fields(errors.collect())?;
    // The values have been checked, so this fails only if the struct does not fit the fields.
    read_fields(body).map_err(|error| Problem::internal().with_cause(error.to_string()))
}

/// Reads a field that can be left out and can be null, so that the two differ.
pub(super) fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// The JSON Schema of an object with these fields.
pub(super) fn schema(fields: &[BodyField]) -> Json {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = field.values.schema();
        schema["description"] = field.description.into();
        properties.insert(field.name.to_owned(), schema);
    }
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}
