//! Values for the fields of a design: as many different ones as needed.

use nagaya_design::{DefaultValue, Entity, Field, FieldType, TimestampPrecision, Wall};
use serde_json::{Map, Value as Json};

/// Two days after the moment at which all attacks happen: nothing has expired.
const FUTURE_EXPIRY: i64 = super::environment::NOW_MILLIS + 2 * DAY_MILLIS;
const DAY_MILLIS: i64 = 86_400_000;

/// The fields of the n-th item of an entity; `None` when there is no n-th, or when what it refers to is not there yet.
///
/// `salt` sets apart what tenants share. `referred` gives the id of the n-th item of an entity.
pub(super) fn fields(
    entity: &Entity,
    n: usize,
    salt: usize,
    referred: &(dyn Fn(&str, usize) -> Option<Vec<String>> + Sync),
) -> Option<Map<String, Json>> {
    let mut made = Map::new();
    let ids = entity.id_fields();
    if n > 0 && ids.is_empty() {
        return None;
    }
    for field in &entity.fields {
        let name = field.name.as_str();
        if let Some(reference) = &field.reference {
            match referred(&reference.entity, n) {
                Some(id) => made.extend(id.first().map(|id| (name.to_owned(), id.as_str().into()))),
                None if field.optional => {}
                None => return None,
            }
            continue;
        }
        let is_tenant = entity.tenant.as_deref() == Some(name);
        if is_tenant || is_generated(field) || field.since.is_some() || is_soft_delete_field(entity, name) {
            continue;
        }
        let is_id = ids.contains(&name);
        if field.default == Some(DefaultValue::Caller) && !is_id {
            continue;
        }
        let constraint = entity.unique.iter().find(|unique| unique.fields.iter().any(|unique| unique == name));
        let shared = is_id && entity.wall != Wall::Key || constraint.is_some_and(|unique| !unique.within_tenant);
        let value = match (is_id || constraint.is_some(), shared) {
            // What expires has not yet.
            (false, _) if matches!(field.field_type, FieldType::Timestamp(TimestampPrecision::Epoch)) => {
                nth_value(field, n)?
            }
            (false, _) => field.example(),
            (true, false) => nth_value(field, n)?,
            (true, true) => nth_value(field, salt * 1_000 + n)?,
        };
        made.insert(name.to_owned(), value);
    }
    if let Some(tenant) = &entity.tenant {
        remove(&mut made, tenant);
    }
    Some(made)
}

/// The n-th value of a field; `None` if it has fewer values.
pub(super) fn nth_value(field: &Field, n: usize) -> Option<Json> {
    field.nth_example(n, FUTURE_EXPIRY)
}

/// A value of a field that differs from this one.
pub(super) fn different_value(field: &Field, than: Option<&Json>) -> Option<Json> {
    (0..4).filter_map(|n| nth_value(field, n)).find(|value| Some(value) != than)
}

fn is_generated(field: &Field) -> bool {
    // Fields that only the system sets are left out if possible.
    let is_left_out = field.since.is_some() || field.readonly && field.optional;
    is_left_out || matches!(field.default, Some(DefaultValue::New | DefaultValue::Now))
}

/// Whether a field is part of the soft-delete mark, which callers cannot set.
fn is_soft_delete_field(entity: &Entity, name: &str) -> bool {
    entity.soft_delete.as_ref().is_some_and(|soft| {
        let mark = soft.mark.as_ref().map(|(field, _)| field.as_str());
        [mark, soft.at.as_deref(), soft.by.as_deref()].contains(&Some(name))
    })
}

/// Removes the value at a dotted path.
pub(super) fn remove(fields: &mut Map<String, Json>, path: &str) {
    match path.split_once('.') {
        None => drop(fields.remove(path)),
        Some((first, rest)) => {
            if let Some(Json::Object(inner)) = fields.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

/// A value as text, as in requests and ids.
pub(super) fn as_text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}
