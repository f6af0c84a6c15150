//! `PUT` of what a user has one of: the profile, the settings, and each of the two plans. It creates the item or replaces it, so a
//! client need not know whether it exists.

use std::sync::Arc;

use axum::http::Method;
use nagaya_design::{DefaultValue, Design, Entity, Field, FieldError, FieldType, Verb};
use nagaya_server::{Answer, Call, CustomRoute, Problem, ProblemCode};
use nagaya_tenancy::Record;
use serde_json::{Map, Value as Json, json};

use crate::{
    plans::{PLAN_ENTITY, normalize_slot, slot_named},
    product::{find, item_schema, retry_lost_races, unless_lost_race},
};

/// What can be replaced: the entity, its schema in the OpenAPI document, and its path.
const REPLACEABLE: [(&str, &str, &str); 3] = [
    ("profile", "Profile", "/profile"),
    ("notification_settings", "NotificationSettings", "/notification-settings"),
    (PLAN_ENTITY, "Plan", "/plans/{slot}"),
];

pub(crate) fn routes(design: &Design) -> Vec<CustomRoute> {
    let route = |(name, schema, path): (&'static str, &str, &str)| {
        let entity = design.entity(name)?;
        let summary = format!(
            "Creates the {} or replaces it: what is left out is as in a new one. The same again changes nothing.",
            name.replace('_', " ")
        );
        let route = CustomRoute::new(Method::PUT, path, &summary, move |call| put(name, call))
            .requires_permission(name, Verb::Update)
            .parameter(json!({ "$ref": "#/components/parameters/IfMatch" }))
            .body(body_schema(entity))
            .answers(200, Some(item_schema(schema)));
        Some(route.also_answers(201, "It is new."))
    };
    REPLACEABLE.into_iter().filter_map(route).collect()
}

/// The JSON Schema of a body: the fields of the item, which has its key from the path.
fn body_schema(entity: &Entity) -> Json {
    let mut properties = Map::new();
    for field in &entity.fields {
        let mut schema = field.json_schema();
        if is_given_by_path(entity, &field.name) {
            schema["readOnly"] = true.into();
        }
        properties.insert(field.name.clone(), schema);
    }
    let required = entity.fields.iter().filter(|field| is_replaced(entity, field) && is_required(field));
    let required: Vec<_> = required.map(|field| &field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn is_required(field: &Field) -> bool {
    !field.optional && field.default.is_none()
}

/// Whether the caller gives the field: it is no part of the key, and no value of the layer.
fn is_replaced(entity: &Entity, field: &Field) -> bool {
    !is_given_by_path(entity, &field.name) && field.why_not_writable().is_none() && !field.immutable
}

/// Whether the field is the tenant or part of the key.
fn is_given_by_path(entity: &Entity, field: &str) -> bool {
    entity.tenant.as_deref() == Some(field) || entity.is_key_field(field)
}

/// Creates the item (201) or replaces it (200); with `If-Match`, only that version. What would not change is not written.
async fn put(name: &'static str, call: Arc<Call>) -> Result<Answer, Problem> {
    let entity = call.design().entity(name).ok_or_else(Problem::internal)?;
    // A plan is one of the two.
    let slot = match call.path_parameter("slot") {
        Some(slot) => Some(slot_named(slot).ok_or_else(Problem::not_found)?),
        None => None,
    };
    let id = slot.as_slice();
    let mut body = call.body.clone();
    normalize_slot(&mut body);
    body.retain(|field, value| !(value.is_null() && entity.field(field).is_some_and(|field| field.optional)));
    add_defaults(&entity.fields, &mut body);
    let tenant = call.tenant()?;

    let stored = retry_lost_races(|| async {
        let current = find(&tenant, name, id).await?;
        let fields = replacing_fields(entity, &body, slot, current.as_ref())?;
        let Some(current) = current else {
            if call.header("if-match").is_some() {
                let detail = "There is no item to be the expected one: leave `If-Match` out to make it.";
                return Err(Problem::from_code(ProblemCode::VERSION_CONFLICT, detail));
            }
            let mut fields = fields;
            fields.extend(slot.map(|slot| ("slot".to_owned(), slot.into())));
            let created = unless_lost_race(tenant.create(name, fields).await)?;
            let location = call.location(&slot.map_or(entity.path.clone(), |slot| format!("{}/{slot}", entity.path)));
            return Ok(created.map(|created| Answer::created(created, &location)));
        };
        call.check_if_match(&current)?;
        // What is left out is removed.
        let absent =
            entity.fields.iter().filter(|field| is_replaced(entity, field) && !fields.contains_key(&field.name));
        let absent: Vec<_> = absent.map(|field| (field.name.clone(), Json::Null)).collect();
        let mut patch = fields;
        patch.extend(absent);
        patch.retain(|field, value| current.json(field).unwrap_or_default() != *value);
        if patch.is_empty() {
            return Ok(Some(Answer::record(current)));
        }
        Ok(unless_lost_race(tenant.update(name, id, patch, &current).await)?.map(Answer::record))
    });
    stored.await
}

/// The fields of a body that the caller gives. The others, which the layer sets, may be there as they were read.
fn replacing_fields(
    entity: &Entity,
    body: &Map<String, Json>,
    slot: Option<&str>,
    current: Option<&Record>,
) -> Result<Map<String, Json>, Problem> {
    let (mut fields, mut errors) = (Map::new(), Vec::new());
    let mut refuse = |path: &str, message: String| errors.push(FieldError { path: path.to_owned(), message });
    for (name, value) in body {
        let field = entity.field(name);
        let is_as_read = current.and_then(|current| current.json(name)).as_ref() == Some(value);
        match field {
            Some(field) if is_replaced(entity, field) => drop(fields.insert(name.clone(), value.clone())),
            _ if is_as_read || (name == "slot" && slot.is_some() && value.as_str() == slot) => {}
            Some(field) if is_given_by_path(entity, name) => {
                let from = if is_given_by_path(entity, &field.name) { "token" } else { "path" };
                refuse(name, format!("comes from the {from}; leave it out"));
            }
            Some(field) => {
                let message = field.why_not_writable().unwrap_or_else(|| "cannot be changed".to_owned());
                refuse(name, message);
            }
            None if entity.version.as_deref() == Some(name) => refuse(name, "is another one now".to_owned()),
            None => refuse(name, "is not a field".to_owned()),
        }
    }
    for field in entity.fields.iter().filter(|field| is_replaced(entity, field)) {
        match fields.get(&field.name) {
            Some(value) => field.check(value, &field.name, &mut errors),
            None if is_required(field) => {
                errors.push(FieldError { path: field.name.clone(), message: "is missing".to_owned() });
            }
            None => {}
        }
    }
    Problem::check_fields(errors)?;
    Ok(fields)
}

/// Adds the constant defaults of missing fields, also of maps in lists.
fn add_defaults(fields: &[Field], given: &mut Map<String, Json>) {
    for field in fields {
        if let Some(DefaultValue::Constant(value)) = &field.default
            && !given.contains_key(&field.name)
            && field.why_not_writable().is_none()
        {
            given.insert(field.name.clone(), value.clone());
        }
        if let Some(value) = given.get_mut(&field.name) {
            add_nested_defaults(field, value);
        }
    }
}

fn add_nested_defaults(field: &Field, value: &mut Json) {
    match (&field.field_type, value) {
        (FieldType::Map(fields), Json::Object(given)) => add_defaults(fields, given),
        (FieldType::List(Some(element)), Json::Array(values)) => {
            values.iter_mut().for_each(|value| add_nested_defaults(element, value));
        }
        _ => {}
    }
}
