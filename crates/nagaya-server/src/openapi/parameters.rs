//! Parameters: of paths, queries and headers.

use nagaya_design::{
    AccessParameter, AccessPattern, Design, Entity, FieldType, ResultKind, SortBound, TimestampPrecision,
};
use nagaya_tenancy::MIN_REASON_CHARS;
use serde_json::{Value as Json, json};

use super::schema;

/// The value of a header: printable characters without spaces at the ends.
const PRINTABLE: &str = "^[!-~]([\\t -~]*[!-~])?$";
/// The same without tabs, which are control characters.
const REASON: &str = "^[!-~][ -~]*[!-~]$";

/// The parameters that operations share, by name.
pub(super) fn shared() -> Json {
    json!({
        "IfMatch": {
            "name": "If-Match",
            "in": "header",
            "description": "Only if the item still has this `ETag`, or one of these.",
            "schema": { "type": "string" },
            "examples": {
                "any": { "summary": "Any version", "value": "*" },
                "one": { "summary": "The version that was read", "value": "\"v1\"" },
            },
        },
        "IfNoneMatch": {
            "name": "If-None-Match",
            "in": "header",
            "description": "Answer 304 if the item still has this `ETag`, or one of these.",
            "schema": { "type": "string" },
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "The same key and body give the same answer and one item, however often they are sent within a day. \
                            Use a new key for each new item, best a UUID.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": PRINTABLE },
        },
        "Reason": reason(true),
        "ReasonWithoutTenant": reason(false),
        "Cursor": {
            "name": "cursor",
            "in": "query",
            "description": "The `nextCursor` of the page before this one. All other parameters except `limit` have \
                            to stay the same.",
            "schema": { "type": "string", "minLength": 1 },
        },
    })
}

fn reason(required: bool) -> Json {
    let description = if required {
        "Why an operator does this. It is stored in the audit trail."
    } else {
        "Why an operator does this: needed with a token that names no tenant."
    };
    // Where it is optional, it is not checked.
    let schema = if required {
        json!({ "type": "string", "pattern": REASON, "minLength": MIN_REASON_CHARS })
    } else {
        json!({ "type": "string" })
    };
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

/// The parameters of an access pattern; `in_path` has the names in the path and their names in the document.
pub(super) fn of_access(design: &Design, access: &AccessPattern, in_path: &[(&str, &str)]) -> Vec<Json> {
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
        // The page fills in examples, so optional parameters have none.
        if let Some(field) = entity.field(&parameter.field).filter(|_| parameter.required) {
            described["example"] = field.example();
        }
        if let Some(description) = description(access, parameter, entity) {
            described["description"] = description.into();
        }
        all.push(described);
    }
    if access.returns == ResultKind::Many {
        let order = if access.descending { "desc" } else { "asc" };
        all.push(json!({
            "name": "limit",
            "in": "query",
            "description": "The maximum number of items in a page.",
            "schema": { "type": "integer", "minimum": 1, "maximum": nagaya_design::MAX_PAGE, "default": access.limit },
        }));
        all.push(json!({
            "name": "order",
            "in": "query",
            "description": "Ascending or descending.",
            "schema": { "type": "string", "enum": ["asc", "desc"], "default": order },
        }));
        all.push(reference("Cursor"));
    }
    all
}

/// The values of a parameter of an access pattern.
fn values(design: &Design, access: &AccessPattern, parameter: &AccessParameter, entity: &Entity) -> Json {
    let Some(field) = entity.field(&parameter.field) else { return json!({ "type": "string" }) };
    match &access.bound {
        // Any prefix of a value.
        SortBound::Prefix(prefix) if *prefix == parameter.name => json!({ "type": "string" }),
        // A bound may be outside the values of the field.
        SortBound::Range(_) if is_bound(access, parameter) && is_number(&field.field_type) => {
            json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX })
        }
        _ => {
            let mut schema = schema::parameter(field);
            let (_, key) = design.key_of_access(access);
            let mut in_key = key.partition.fields().chain(key.sort.fields().take(access.fixed));
            if in_key.any(|path| path == parameter.name) {
                schema::not_empty(&mut schema);
            }
            schema
        }
    }
}

fn description(access: &AccessPattern, parameter: &AccessParameter, entity: &Entity) -> Option<String> {
    let field = &parameter.field;
    match (&access.bound, parameter.name.as_str()) {
        (SortBound::Range(_), "from") if is_bound(access, parameter) => Some(format!("`{field}` from this on.")),
        (SortBound::Range(_), "to") if is_bound(access, parameter) => {
            Some(format!("`{field}` before this; after `from`."))
        }
        (SortBound::Prefix(prefix), name) if prefix == name => Some(format!("A prefix of `{field}`.")),
        _ => entity.field(field)?.description.clone(),
    }
}

/// Whether it is a bound of the range, and not a field of that name.
fn is_bound(access: &AccessPattern, parameter: &AccessParameter) -> bool {
    matches!(&access.bound, SortBound::Range(field) if *field == parameter.field)
        && matches!(parameter.name.as_str(), "from" | "to")
        && parameter.name != parameter.field
}

fn is_number(kind: &FieldType) -> bool {
    matches!(kind, FieldType::Integer | FieldType::Timestamp(TimestampPrecision::Epoch))
}
