//! The JSON Schemas of an entity: as it is read, created and changed. They are as narrow as what the tenancy layer accepts,
//! as far as JSON Schema allows.

use nagaya_design::{DefaultValue, Design, Entity, Field, FieldType, Wall};
use serde_json::{Map, Value as Json, json};

/// What a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// An item that is read.
    Item,
    /// The body that creates an item.
    New,
    /// The body that changes an item.
    Patch,
}

/// An item as it is read: without secret fields, with the version.
pub(super) fn item(entity: &Entity) -> Json {
    let mut schema = object(&entity.fields, Purpose::Item);
    if let Some(version) = &entity.version {
        let counter = json!({ "type": "integer", "minimum": 1, "description": "Increases with every change." });
        if let Some(Json::Object(properties)) = schema.get_mut("properties") {
            properties.insert(version.clone(), counter);
        }
        require(&mut schema, version);
    }
    // Key fields have a value in every item, also those that the layer generates.
    for field in entity.fields.iter().filter(|field| entity.is_key_field(&field.name) && !field.secret) {
        require(&mut schema, &field.name);
    }
    schema.insert("additionalProperties".to_owned(), false.into());
    described(schema, entity)
}

/// An item of an access pattern with a projection.
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

/// The body that creates an item.
pub(super) fn new(design: &Design, entity: &Entity, now: i64) -> Json {
    let mut schema = object(&entity.fields, Purpose::New);
    if entity.is_written_by_tenant() {
        // The tenant comes from the token, and the layer generates ids that all tenants share.
        let generated = |path: &&str| entity.field(path).is_some_and(|field| field.default == Some(DefaultValue::New));
        let shared = entity.id_fields().into_iter().filter(|_| entity.wall != Wall::Key).filter(generated);
        for path in entity.tenant.as_deref().into_iter().chain(shared) {
            remove_field(&mut schema, path);
        }
    }
    narrow(&mut schema, design, entity, now);
    // An id is a segment of a path, where dots mean something else.
    for path in entity.id_fields() {
        if entity.field(path).is_some_and(|field| field.accepts(&".".into()) || field.accepts(&"..".into()))
            && let Some(Json::Object(field)) = get(&mut schema, path)
        {
            field.entry("not").or_insert_with(|| json!({ "enum": [".", ".."] }));
        }
    }
    described(schema, entity)
}

/// The body that changes an item.
pub(super) fn patch(design: &Design, entity: &Entity, now: i64) -> Json {
    let mut schema = object(&entity.fields, Purpose::Patch);
    let tenant = entity.tenant.as_deref().filter(|_| entity.is_written_by_tenant());
    for path in entity.key.partition.fields().chain(entity.key.sort.fields()).chain(tenant) {
        remove_field(&mut schema, path);
    }
    narrow(&mut schema, design, entity, now);
    described(schema, entity)
}

/// The values of a field as a parameter: never null.
pub(super) fn parameter(field: &Field) -> Json {
    let mut schema = field.json_schema();
    if let Some(schema) = schema.as_object_mut() {
        for keyword in ["default", "description", "readOnly", "writeOnly"] {
            schema.remove(keyword);
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

/// Excludes the empty string.
pub(super) fn not_empty(schema: &mut Json) {
    let Some(schema) = schema.as_object_mut() else { return };
    let is_text = schema.get("type").is_some_and(|kind| kind == "string" || *kind == json!(["string", "null"]));
    let least = schema.get("minLength").and_then(Json::as_u64).unwrap_or(0);
    // The patterns of ids and timestamps exclude it already.
    let has_format = schema.contains_key("pattern") && !schema.contains_key("maxLength");
    if is_text && least == 0 && !has_format && !schema.contains_key("enum") {
        schema.insert("minLength".to_owned(), 1.into());
    }
}

/// The field with the expiry of an entity.
pub(super) fn expiry<'e>(design: &Design, entity: &'e Entity) -> Option<&'e Field> {
    let attribute = design.table_of(entity).ttl.as_ref().filter(|_| entity.ttl_after.is_none())?;
    entity.fields.iter().find(|field| field.name == *attribute)
}

fn object(fields: &[Field], purpose: Purpose) -> Map<String, Json> {
    let shown = |field: &&Field| match purpose {
        Purpose::Item => !field.secret,
        Purpose::New => field.why_not_writable().is_none(),
        Purpose::Patch => !field.immutable && field.why_not_writable().is_none(),
    };
    let fields: Vec<_> = fields.iter().filter(shown).collect();
    // Items that are older than a field with a default do not have it.
    let needed = |field: &&&Field| purpose != Purpose::Patch && !field.optional && field.default.is_none();
    let required: Vec<_> = fields.iter().filter(needed).map(|field| field.name.as_str()).collect();
    let mut properties = Map::new();
    properties.extend(fields.iter().map(|field| (field.name.clone(), value(field, purpose))));
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties.into());
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
    // Maps may have fields of an older design.
    if purpose != Purpose::Item {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

/// The values of a field.
fn value(field: &Field, purpose: Purpose) -> Json {
    let mut schema = match field.json_schema() {
        Json::Object(schema) => schema,
        other => return other,
    };
    if purpose != Purpose::New {
        schema.remove("default");
    }
    if let Some(reference) = &field.reference {
        schema.insert("x-nagaya-references".to_owned(), reference.entity.as_str().into());
    }
    match &field.field_type {
        FieldType::Map(fields) if !fields.is_empty() => {
            for keyword in ["properties", "required", "additionalProperties"] {
                schema.remove(keyword);
            }
            let kind = schema.remove("type");
            schema.append(&mut object(fields, purpose));
            schema.extend(kind.map(|kind| ("type".to_owned(), kind)));
        }
        // A list of secret elements is read as an empty list.
        FieldType::List(Some(element)) if purpose == Purpose::Item && element.secret => {
            schema.remove("items");
            schema.insert("minItems".to_owned(), 0.into());
            schema.insert("maxItems".to_owned(), 0.into());
        }
        FieldType::List(Some(element)) => {
            // A list is replaced as a whole.
            let purpose = if purpose == Purpose::Patch { Purpose::New } else { purpose };
            schema.insert("items".to_owned(), value(element, purpose));
        }
        FieldType::Map(_) | FieldType::Any => {
            schema.insert("x-nagaya-max-bytes".to_owned(), field.max_size.into());
        }
        _ => {}
    }
    schema.into()
}

/// Adds constraints beyond the types of single fields.
fn narrow(schema: &mut Map<String, Json>, design: &Design, entity: &Entity, now: i64) {
    // An expiry in the past would delete the item at once.
    if let Some(field) = expiry(design, entity)
        && let Some(Json::Object(field)) = get(schema, &field.name)
    {
        let least = field.get("minimum").and_then(Json::as_i64).unwrap_or(i64::MIN);
        field.insert("minimum".to_owned(), least.max(now).into());
    }
    // Only DELETE sets the soft-delete mark.
    if let Some(soft) = &entity.soft_delete {
        match (&soft.mark, &soft.at) {
            (Some((field, mark)), _) => {
                if let Some(Json::Object(field)) = get(schema, field) {
                    exclude(field, mark);
                }
            }
            (None, Some(at)) => remove_field(schema, at),
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
            // No key contains an empty string.
            for path in template.fields().filter(|_| !sparse) {
                if let Some(field) = get(schema, path) {
                    not_empty(field);
                }
            }
            // A field that is the whole key cannot contain characters that keys escape.
            if template.as_str() == format!("{{{attribute}}}")
                && entity.field(attribute).is_some_and(|field| matches!(field.field_type, FieldType::String))
                && let Some(Json::Object(field)) = get(schema, attribute)
            {
                exclude_escaped(field);
            }
        }
    }
}

/// Excludes strings with `#` or `%`.
fn exclude_escaped(schema: &mut Map<String, Json>) {
    if schema.contains_key("enum") || schema.get("pattern").is_some_and(|pattern| pattern == "^[^#%]*$") {
        return;
    }
    let mut condition = Map::from_iter([("pattern".to_owned(), Json::from("^[^#%]*$"))]);
    if !schema.contains_key("allOf") && !schema.contains_key("pattern") {
        schema.append(&mut condition);
        return;
    }
    // A schema can have one pattern.
    let condition = Json::Object(condition);
    if let Json::Array(all) = schema.entry("allOf").or_insert_with(|| json!([]))
        && !all.contains(&condition)
    {
        all.push(condition);
    }
}

/// Excludes a value.
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

/// Removes the field at a dotted path. A map without required fields is not required either: the layer creates it.
pub(super) fn remove_field(schema: &mut Map<String, Json>, path: &str) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let Some(Json::Object(properties)) = schema.get_mut("properties") else { return };
    let still_needed = match rest {
        None => {
            properties.remove(first);
            false
        }
        Some(rest) => match properties.get_mut(first) {
            Some(Json::Object(inner)) => {
                remove_field(inner, rest);
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
