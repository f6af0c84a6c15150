//! Parameters: of paths, queries and headers.

use nagaya_design::{Access, Bound, Design, Entity, Parameter, Precision, Returns, Type};
use serde_json::{Value as Json, json};

use super::schema;

/// What a header can hold: printable characters, with none that gets lost at its ends.
const PRINTABLE: &str = "^[!-~]([\\t -~]*[!-~])?$";

/// The parameters that operations share, by name.
pub(super) fn shared() -> Json {
    json!({
        "IfMatch": {
            "name": "If-Match",
            "in": "header",
            "description": "Do it only if the item is still the one with this `ETag`, or one of these.",
            "schema": { "type": "string" },
            "examples": {
                "any": { "summary": "Whatever it is like", "value": "*" },
                "one": { "summary": "The one that was read", "value": "\"v1\"" },
            },
        },
        "IfNoneMatch": {
            "name": "If-None-Match",
            "in": "header",
            "description": "Answer 304 if the item is still the one with this `ETag`, or one of these.",
            "schema": { "type": "string" },
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "The same key and body give the same answer and one item, however often they are sent within a day. \
                            A key of your own for each thing that is to be made, best a UUID.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": PRINTABLE },
        },
        "Reason": reason(true),
        "ReasonWithoutTenant": reason(false),
        "Cursor": {
            "name": "cursor",
            "in": "query",
            "description": "The `nextCursor` of the page before this one. The other parameters have to stay the same, but \
                            for `limit`.",
            "schema": { "type": "string", "minLength": 1 },
        },
    })
}

fn reason(required: bool) -> Json {
    let description = if required {
        "Why an operator does this. It is written down."
    } else {
        "Why an operator does this: needed with a token that names no tenant."
    };
    // Where it is not needed, it is not looked at.
    let schema = if required { json!({ "type": "string", "pattern": PRINTABLE }) } else { json!({ "type": "string" }) };
    json!({
        "name": "Nagaya-Reason",
        "in": "header",
        "required": required,
        "description": description,
        "schema": schema,
        "example": "Asked for by the customer, ticket 4711",
    })
}

pub(super) fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/parameters/{name}") })
}

/// A part of an id in a path.
pub(super) fn of_id(entity: &Entity, path: &str, name: &str) -> Json {
    let mut parameter = json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    if let Some(field) = entity.field(path) {
        parameter["schema"] = schema::parameter(field);
        parameter["example"] = field.example();
        if let Some(description) = &field.description {
            parameter["description"] = description.as_str().into();
        }
    }
    schema::not_empty(&mut parameter["schema"]);
    parameter
}

/// What an access pattern is asked with; `in_path` has the names in the path and what the document calls them.
pub(super) fn of_access(design: &Design, access: &Access, in_path: &[(&str, &str)]) -> Vec<Json> {
    let entity = &design.entities[access.entity];
    let mut all = Vec::new();
    for parameter in design.parameters(access).iter().filter(|parameter| !parameter.from_token) {
        let named = in_path.iter().find(|(name, _)| *name == parameter.name);
        let (place, name) = named.map_or(("query", parameter.name.as_str()), |(_, name)| ("path", *name));
        let mut described = json!({
            "name": name,
            "in": place,
            "required": parameter.required || place == "path",
            "schema": values(design, access, parameter, entity),
        });
        if place == "path" {
            schema::not_empty(&mut described["schema"]);
        }
        // The page fills examples in: what can be left out is better left out.
        if let Some(field) = entity.field(&parameter.field).filter(|_| parameter.required) {
            described["example"] = field.example();
        }
        if let Some(description) = description(access, parameter, entity) {
            described["description"] = description.into();
        }
        all.push(described);
    }
    if access.returns == Returns::Many {
        let order = if access.descending { "desc" } else { "asc" };
        all.push(json!({
            "name": "limit",
            "in": "query",
            "description": "The most items of a page.",
            "schema": { "type": "integer", "minimum": 1, "maximum": nagaya_design::MAX_PAGE, "default": access.limit },
        }));
        all.push(json!({
            "name": "order",
            "in": "query",
            "description": "From the start or from the end.",
            "schema": { "type": "string", "enum": ["asc", "desc"], "default": order },
        }));
        all.push(reference("Cursor"));
    }
    all
}

/// What a parameter of an access pattern can be.
fn values(design: &Design, access: &Access, parameter: &Parameter, entity: &Entity) -> Json {
    let Some(field) = entity.field(&parameter.field) else { return json!({ "type": "string" }) };
    match &access.bound {
        // Whatever a value can begin with.
        Bound::Prefix(prefix) if *prefix == parameter.name => json!({ "type": "string" }),
        // A number beyond those of the field leaves nothing out.
        Bound::Range(_) if is_bound(access, parameter) && is_number(&field.kind) => {
            json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX })
        }
        _ => {
            let mut schema = schema::parameter(field);
            let (_, key) = design.source_of(access);
            let mut in_key = key.partition.fields().chain(key.sort.fields().take(access.fixed));
            if in_key.any(|path| path == parameter.name) {
                schema::not_empty(&mut schema);
            }
            schema
        }
    }
}

fn description(access: &Access, parameter: &Parameter, entity: &Entity) -> Option<String> {
    let field = &parameter.field;
    match (&access.bound, parameter.name.as_str()) {
        (Bound::Range(_), "from") if is_bound(access, parameter) => Some(format!("`{field}` from this on.")),
        (Bound::Range(_), "to") if is_bound(access, parameter) => Some(format!("`{field}` before this; after `from`.")),
        (Bound::Prefix(prefix), name) if prefix == name => Some(format!("What `{field}` begins with.")),
        _ => entity.field(field)?.description.clone(),
    }
}

/// Whether it is an end of a range, and not a field of that name.
fn is_bound(access: &Access, parameter: &Parameter) -> bool {
    matches!(&access.bound, Bound::Range(field) if *field == parameter.field)
        && matches!(parameter.name.as_str(), "from" | "to")
        && parameter.name != parameter.field
}

fn is_number(kind: &Type) -> bool {
    matches!(kind, Type::Integer | Type::Timestamp(Precision::Epoch))
}
