//! The JSON Schema of the design language, generated from its grammar.

use serde_json::{Map, Value, json};

use crate::grammar::{self, Key, Table, ValueKind};

/// The JSON Schema (draft 7, which TOML editors understand) of a design file.
pub fn json_schema() -> Value {
    let mut definitions = Map::new();
    let mut schema = table(&grammar::DESIGN, &mut definitions);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!("Nagaya design");
    schema["definitions"] = Value::Object(definitions);
    schema
}

fn table(of: &'static Table, definitions: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    for key in of.keys {
        properties.insert(key.name.to_owned(), property(key, definitions));
    }
    let required: Vec<_> = of.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let rest = of.rest.map_or(json!(false), |rest| kind(rest, definitions));
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": rest,
    })
}

fn property(key: &'static Key, definitions: &mut Map<String, Value>) -> Value {
    let mut value = kind(&key.kind, definitions);
    let doc =
        if key.only.is_empty() { key.doc.to_owned() } else { format!("{} For type {}.", key.doc, key.only.join(", ")) };
    // Draft 7 ignores what stands beside a `$ref`, so the description goes around it.
    if value.get("$ref").is_some() {
        value = json!({ "allOf": [value] });
    }
    value["description"] = json!(doc);
    value
}

fn kind(of: &'static ValueKind, definitions: &mut Map<String, Value>) -> Value {
    match of {
        ValueKind::Text => json!({ "type": "string" }),
        ValueKind::Boolean => json!({ "type": "boolean" }),
        ValueKind::Integer => json!({ "type": "integer" }),
        ValueKind::Any => json!({}),
        ValueKind::OneOf(choices) => json!({ "type": "string", "enum": choices }),
        ValueKind::Pair => json!({
            "type": "array", "items": { "type": "string" }, "minItems": 2, "maxItems": 2,
        }),
        ValueKind::ListOf(item) => json!({ "type": "array", "items": kind(item, definitions) }),
        ValueKind::Named(value) => json!({ "type": "object", "additionalProperties": kind(value, definitions) }),
        ValueKind::Either(shapes) => {
            let shapes: Vec<_> = shapes.iter().map(|each| kind(each, definitions)).collect();
            json!({ "anyOf": shapes })
        }
        ValueKind::Table(inner) => {
            let name = inner.noun.rsplit(' ').next().unwrap_or(inner.noun);
            if !definitions.contains_key(name) {
                // The placeholder ends the recursion of tables that contain themselves.
                definitions.insert(name.to_owned(), Value::Null);
                let definition = table(inner, definitions);
                definitions.insert(name.to_owned(), definition);
            }
            json!({ "$ref": format!("#/definitions/{name}") })
        }
    }
}
