//! Examples that the server accepts, provided that referenced items exist.

use nagaya_design::{Design, Entity, Field};
use serde_json::{Map, Value as Json};

use super::schema;

/// Seconds until examples expire, from when the document is created.
const EXAMPLE_EXPIRY_SECONDS: i64 = 30 * 24 * 60 * 60;

/// An item as it is read.
pub(super) fn item(design: &Design, entity: &Entity, schema: &Json) -> Json {
    let mut example = Json::Object(design.example(entity));
    prune(&mut example, schema);
    example
}

/// The body that creates an item: only the required fields.
pub(super) fn new(design: &Design, entity: &Entity, schema: &Json, now: i64) -> Json {
    of_fields(design, entity, schema, now, |field| requires(schema, &field.name))
}

/// The body that changes one field: a required one if possible.
pub(super) fn patch(design: &Design, entity: &Entity, schema: &Json, now: i64) -> Json {
    let has = |field: &&Field| schema["properties"].get(&field.name).is_some();
    let needed = entity.fields.iter().find(|field| has(field) && !field.optional && field.default.is_none());
    let changed = needed.or_else(|| entity.fields.iter().find(has));
    of_fields(design, entity, schema, now, |field| changed.is_some_and(|changed| changed.name == field.name))
}

fn of_fields(design: &Design, entity: &Entity, schema: &Json, now: i64, wanted: impl Fn(&Field) -> bool) -> Json {
    let expiry = schema::expiry(design, entity).map(|field| field.name.as_str());
    let value = |field: &Field| match &schema["properties"][&field.name]["enum"] {
        _ if Some(field.name.as_str()) == expiry => now.saturating_add(EXAMPLE_EXPIRY_SECONDS).into(),
        // The example may be the soft-delete mark, which the schema excludes.
        Json::Array(choices) if !choices.contains(&field.example()) => choices.first().cloned().unwrap_or_default(),
        _ => field.example(),
    };
    let fields = entity.fields.iter().filter(|field| wanted(field));
    let mut example: Json = fields.map(|field| (field.name.clone(), value(field))).collect::<Map<_, _>>().into();
    prune(&mut example, schema);
    example
}

/// Removes what the schema does not have.
fn prune(example: &mut Json, schema: &Json) {
    match (example, &schema["properties"]) {
        (Json::Object(values), Json::Object(properties)) => {
            values.retain(|name, _| properties.contains_key(name));
            for (name, value) in values {
                prune(value, &properties[name]);
            }
        }
        (Json::Array(values), _) if schema["maxItems"] == 0 => values.clear(),
        (Json::Array(values), _) => values.iter_mut().for_each(|value| prune(value, &schema["items"])),
        _ => {}
    }
}

fn requires(schema: &Json, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|each| each == name))
}
