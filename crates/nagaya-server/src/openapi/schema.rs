//! The JSON Schemas of an entity: as it is read, as it is made, as it is changed. They say what the walls accept, as
//! narrowly as JSON Schema can.

use nagaya_design::{Default, Design, Entity, Field, Type, Wall};
use serde_json::{Map, Value as Json, json};

/// What a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// What is read.
    Item,
    /// What is made.
    New,
    /// What is changed.
    Patch,
}

/// An item as it is read: without what is secret, with the version that the layer keeps.
pub(super) fn item(entity: &Entity) -> Json {
    let mut schema = object(&entity.fields, View::Item);
    if let Some(version) = &entity.version {
        let counter = json!({ "type": "integer", "minimum": 1, "description": "Grows with every change." });
        if let Some(Json::Object(properties)) = schema.get_mut("properties") {
            properties.insert(version.clone(), counter);
        }
        require(&mut schema, version);
    }
    // A key has a value in every item, also where it was made by the layer.
    for field in entity.fields.iter().filter(|field| entity.is_key_field(&field.name) && !field.secret) {
        require(&mut schema, &field.name);
    }
    schema.insert("additionalProperties".to_owned(), false.into());
    described(schema, entity)
}

/// An item of an access pattern that gives some fields only.
pub(super) fn projected(entity: &Entity, projection: &[String]) -> Json {
    let mut schema = item(entity);
    if let Some(Json::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|name, _| projection.contains(name));
    }
    if let Some(Json::Array(required)) = schema.get_mut("required") {
        required.retain(|name| projection.iter().any(|shown| name == shown));
    }
    schema
}

/// What an item is made from.
pub(super) fn new(design: &Design, entity: &Entity, now: i64) -> Json {
    let mut schema = object(&entity.fields, View::New);
    if is_written_by_tenant(entity) {
        // The tenant comes from the token, and ids that all tenants share come from the layer.
        let made = |path: &&str| entity.field(path).is_some_and(|field| field.default == Some(Default::New));
        let shared = entity.id_fields().into_iter().filter(|_| entity.wall != Wall::Key).filter(made);
        for path in entity.tenant.as_deref().into_iter().chain(shared) {
            leave_out(&mut schema, path);
        }
    }
    narrow(&mut schema, design, entity, now);
    described(schema, entity)
}

/// What an item is changed by.
pub(super) fn patch(design: &Design, entity: &Entity, now: i64) -> Json {
    let mut schema = object(&entity.fields, View::Patch);
    let tenant = entity.tenant.as_deref().filter(|_| is_written_by_tenant(entity));
    for path in entity.key.partition.fields().chain(entity.key.sort.fields()).chain(tenant) {
        leave_out(&mut schema, path);
    }
    narrow(&mut schema, design, entity, now);
    described(schema, entity)
}

/// The values of a field as a parameter takes them: never null.
pub(super) fn parameter(field: &Field) -> Json {
    let mut schema = field.json_schema();
    if let Some(schema) = schema.as_object_mut() {
        for kept in ["default", "description", "readOnly", "writeOnly"] {
            schema.remove(kept);
        }
        if let Some(Json::Array(types)) = schema.get_mut("type") {
            types.retain(|each| each != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                schema.insert("type".to_owned(), only);
            }
        }
        if let Some(Json::Array(choices)) = schema.get_mut("enum") {
            choices.retain(|choice| !choice.is_null());
        }
    }
    schema
}

/// Says of a text that it is not empty.
pub(super) fn not_empty(schema: &mut Json) {
    let Some(schema) = schema.as_object_mut() else { return };
    let is_text = schema.get("type").is_some_and(|kind| kind == "string" || *kind == json!(["string", "null"]));
    let least = schema.get("minLength").and_then(Json::as_u64).unwrap_or(0);
    // Ids and instants have a form that says it already.
    let formed = schema.contains_key("pattern") && !schema.contains_key("maxLength");
    if is_text && least == 0 && !formed && !schema.contains_key("enum") {
        schema.insert("minLength".to_owned(), 1.into());
    }
}

/// Whether tenants write an entity; operators do otherwise.
pub(super) fn is_written_by_tenant(entity: &Entity) -> bool {
    match entity.wall {
        Wall::Key | Wall::Attribute => true,
        Wall::Public => entity.tenant.is_some(),
        Wall::System => false,
    }
}

/// The field in which an entity says when it expires.
pub(super) fn expiry<'e>(design: &Design, entity: &'e Entity) -> Option<&'e Field> {
    let attribute = design.table_of(entity).ttl.as_ref().filter(|_| entity.ttl_after.is_none())?;
    entity.fields.iter().find(|field| field.name == *attribute)
}

fn object(fields: &[Field], view: View) -> Map<String, Json> {
    let shown = |field: &&Field| match view {
        View::Item => !field.secret,
        View::New => field.not_given().is_none(),
        View::Patch => !field.immutable && field.not_given().is_none(),
    };
    let fields: Vec<_> = fields.iter().filter(shown).collect();
    // An item that was made before a field with a default came to the design does not have it.
    let needed = |field: &&&Field| view != View::Patch && !field.optional && field.default.is_none();
    let required: Vec<_> = fields.iter().filter(needed).map(|field| field.name.as_str()).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema
        .insert("properties".to_owned(), fields.iter().map(|field| (field.name.clone(), value(field, view))).collect());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    // What an older design left inside of a map is read as it is.
    if view != View::Item {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

/// The values of a field.
fn value(field: &Field, view: View) -> Json {
    let mut schema = match field.json_schema() {
        Json::Object(schema) => schema,
        other => return other,
    };
    if view != View::New {
        schema.remove("default");
    }
    if let Some(reference) = &field.reference {
        schema.insert("x-nagaya-references".to_owned(), reference.entity.as_str().into());
    }
    match &field.kind {
        Type::Map(fields) if !fields.is_empty() => {
            for keyword in ["properties", "required", "additionalProperties"] {
                schema.remove(keyword);
            }
            let kind = schema.remove("type");
            schema.append(&mut object(fields, view));
            schema.extend(kind.map(|kind| ("type".to_owned(), kind)));
        }
        // What is secret in a list is taken out of it, and it is empty then.
        Type::List(Some(element)) if view == View::Item && element.secret => {
            schema.remove("items");
            schema.insert("minItems".to_owned(), 0.into());
            schema.insert("maxItems".to_owned(), 0.into());
        }
        Type::List(Some(element)) => {
            // A list is replaced as a whole.
            let view = if view == View::Patch { View::New } else { view };
            schema.insert("items".to_owned(), value(element, view));
        }
        Type::Map(_) | Type::Any => {
            schema.insert("x-nagaya-max-bytes".to_owned(), field.size.into());
        }
        _ => {}
    }
    schema.into()
}

/// Says what holds beyond the types of single fields.
fn narrow(schema: &mut Map<String, Json>, design: &Design, entity: &Entity, now: i64) {
    // What is past when it is written would be gone at once.
    if let Some(field) = expiry(design, entity)
        && let Some(Json::Object(field)) = get(schema, &field.name)
    {
        let least = field.get("minimum").and_then(Json::as_i64).unwrap_or(i64::MIN);
        field.insert("minimum".to_owned(), least.max(now).into());
    }
    // An item is marked as deleted by deleting it.
    if let Some(soft) = &entity.soft_delete {
        match (&soft.mark, &soft.at) {
            (Some((field, mark)), _) => {
                if let Some(Json::Object(field)) = get(schema, field) {
                    exclude(field, mark);
                }
            }
            (None, Some(at)) => leave_out(schema, at),
            (None, None) => {}
        }
    }
    let table = design.table_of(entity);
    let mut keys = vec![(&table.key, &entity.key, false)];
    keys.extend(entity.indexes.iter().map(|each| (&table.indexes[each.index].key, &each.key, each.when.is_some())));
    for (attributes, templates, sparse) in keys {
        for (attribute, template) in
            [(&attributes.partition, &templates.partition), (&attributes.sort, &templates.sort)]
        {
            // No key holds an empty text.
            for path in template.fields().filter(|_| !sparse) {
                if let Some(field) = get(schema, path) {
                    not_empty(field);
                }
            }
            // A field that is a key as it stands cannot hold what keys escape.
            if template.as_str() == format!("{{{attribute}}}")
                && entity.field(attribute).is_some_and(|field| matches!(field.kind, Type::String))
                && let Some(Json::Object(field)) = get(schema, attribute)
            {
                plain(field);
            }
        }
    }
}

/// Says of a text that it has no `#` and no `%`.
fn plain(schema: &mut Map<String, Json>) {
    if schema.contains_key("enum") || schema.get("pattern").is_some_and(|pattern| pattern == "^[^#%]*$") {
        return;
    }
    let mut condition = Map::from_iter([("pattern".to_owned(), Json::from("^[^#%]*$"))]);
    if !schema.contains_key("allOf") && !schema.contains_key("pattern") {
        schema.append(&mut condition);
        return;
    }
    // A schema has room for one pattern.
    let condition = Json::Object(condition);
    if let Json::Array(all) = schema.entry("allOf").or_insert_with(|| json!([]))
        && !all.contains(&condition)
    {
        all.push(condition);
    }
}

/// Takes a value out of those that a schema allows.
fn exclude(schema: &mut Map<String, Json>, value: &Json) {
    match (schema.get_mut("enum"), value) {
        (Some(Json::Array(choices)), _) => choices.retain(|choice| choice != value),
        (_, Json::Bool(truth)) => drop(schema.insert("enum".to_owned(), json!([!truth]))),
        _ => drop(schema.insert("not".to_owned(), json!({ "const": value }))),
    }
}

/// The schema of the field at a dotted path.
fn get<'s>(schema: &'s mut Map<String, Json>, path: &str) -> Option<&'s mut Json> {
    let properties = schema.get_mut("properties")?.as_object_mut()?;
    match path.split_once('.') {
        None => properties.get_mut(path),
        Some((first, rest)) => get(properties.get_mut(first)?.as_object_mut()?, rest),
    }
}

/// Leaves out the field at a dotted path. A map that needs nothing else is not needed either: the layer makes it.
pub(super) fn leave_out(schema: &mut Map<String, Json>, path: &str) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let Some(Json::Object(properties)) = schema.get_mut("properties") else { return };
    let still_needed = match rest {
        None => {
            properties.remove(first);
            false
        }
        Some(rest) => match properties.get_mut(first) {
            Some(Json::Object(inner)) => {
                leave_out(inner, rest);
                inner.contains_key("required")
            }
            _ => return,
        },
    };
    if !still_needed && let Some(Json::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name != first);
        if required.is_empty() {
            schema.remove("required");
        }
    }
}

fn require(schema: &mut Map<String, Json>, name: &str) {
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Json::Array(required) = required
        && required.iter().all(|each| each != name)
    {
        required.push(name.into());
    }
}

fn described(mut schema: Map<String, Json>, entity: &Entity) -> Json {
    if let Some(description) = &entity.description {
        schema.insert("description".to_owned(), description.as_str().into());
    }
    schema.into()
}
