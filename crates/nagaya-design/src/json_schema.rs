//! The JSON Schema of the design language, made from its grammar.

use serde_json::{Map, Value, json};

use crate::grammar::{self, Key, Shape, Table};

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
    let rest = of.rest.map_or(json!(false), |rest| shape(rest, definitions));
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": rest,
    })
}

fn property(key: &'static Key, definitions: &mut Map<String, Value>) -> Value {
    let mut value = shape(&key.shape, definitions);
    let doc =
        if key.only.is_empty() { key.doc.to_owned() } else { format!("{} For type {}.", key.doc, key.only.join(", ")) };
    // Draft 7 ignores what stands beside a `$ref`, so the description goes around it.
    if value.get("$ref").is_some() {
        value = json!({ "allOf": [value] });
    }
    value["description"] = json!(doc);
    value
}

fn shape(of: &'static Shape, definitions: &mut Map<String, Value>) -> Value {
    match of {
        Shape::Text => json!({ "type": "string" }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Whole => json!({ "type": "integer" }),
        Shape::Any => json!({}),
        Shape::OneOf(choices) => json!({ "type": "string", "enum": choices }),
        Shape::Pair => json!({
            "type": "array", "items": { "type": "string" }, "minItems": 2, "maxItems": 2,
        }),
        Shape::ListOf(item) => json!({ "type": "array", "items": shape(item, definitions) }),
        Shape::Named(value) => json!({ "type": "object", "additionalProperties": shape(value, definitions) }),
        Shape::Either(shapes) => {
            let shapes: Vec<_> = shapes.iter().map(|each| shape(each, definitions)).collect();
            json!({ "anyOf": shapes })
        }
        Shape::Table(inner) => {
            let name = inner.called.rsplit(' ').next().unwrap_or(inner.called);
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
