//! The old and new values of an audit entry: masked, and bounded in size.

use nagaya_design::{Entity, Field, FieldType};
use nagaya_store::{Item, Value};
use serde_json::{Map, Value as Json};

use crate::values;

/// The mask of personal data.
pub(crate) const MASKED: &str = "***";
/// Marks where text was cut off.
const ELLIPSIS: char = '…';
/// The size limits of a value in bytes of JSON that are tried in turn, until all values together are small enough.
const SIZES: [usize; 4] = [2_048, 256, 64, 16];
/// The deepest nesting of a value: stores have a limit, and an entry adds levels of its own.
const DEPTH: usize = 20;

/// The fields that differ, each with its old and new value, in at most so many bytes of JSON.
pub(crate) fn changed_fields(entity: &Entity, old: Option<&Item>, new: Option<&Item>, limit: usize) -> Json {
    let mut changed = Map::new();
    for field in &entity.fields {
        let value = |item: Option<&Item>| -> Option<Value> { item?.get(&field.name).cloned() };
        let (before, after) = (value(old), value(new));
        let is_tenant = entity.tenant.as_deref() == Some(field.name.as_str());
        if field.secret || is_tenant || before == after {
            continue;
        }
        let mut change = Map::new();
        for (side, value) in [("old", before), ("new", after)] {
            if let Some(value) = value {
                change.insert(side.to_owned(), masked(field, values::to_json(&value)));
            }
        }
        changed.insert(field.name.clone(), Json::Object(change));
    }
    bounded(changed, limit)
}

/// A text of at most so many characters; an ellipsis shows that it was cut.
pub(crate) fn truncate_text(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    text.chars().take(characters.saturating_sub(1)).chain([ELLIPSIS]).collect()
}

/// A value without secrets, and with personal data masked.
fn masked(field: &Field, value: Json) -> Json {
    if field.personal {
        return MASKED.into();
    }
    match (&field.field_type, value) {
        (FieldType::Map(fields), Json::Object(values)) if !fields.is_empty() => {
            let inner = values.into_iter().filter_map(|(name, value)| {
                let field = fields.iter().find(|field| field.name == name && !field.secret)?;
                Some((name, masked(field, value)))
            });
            Json::Object(inner.collect())
        }
        (FieldType::List(Some(element)), Json::Array(_)) if element.secret => Json::Array(Vec::new()),
        (FieldType::List(Some(element)), Json::Array(values)) => {
            values.into_iter().map(|value| masked(element, value)).collect()
        }
        (_, value) => value,
    }
}

/// Changes of at most so many bytes: long values are cut, in the worst case all of them.
fn bounded(changed: Map<String, Json>, limit: usize) -> Json {
    for size in SIZES {
        let mut fitted = changed.clone();
        for change in fitted.values_mut().filter_map(Json::as_object_mut) {
            change.values_mut().for_each(|value| shorten(value, size));
        }
        let fitted = Json::Object(fitted);
        if fitted.to_string().len() <= limit {
            return fitted;
        }
    }
    Json::Object(Map::from_iter([(ELLIPSIS.to_string(), ELLIPSIS.to_string().into())]))
}

fn shorten(value: &mut Json, bytes: usize) {
    let text = value.to_string();
    if text.len() > bytes || depth(value) > DEPTH {
        let text = value.as_str().map_or(text, str::to_owned);
        // A character takes up to four bytes, or six where JSON escapes it.
        *value = truncate_text(&text, bytes.min(text.chars().count().saturating_sub(1)) / 4 + 1).into();
    }
}

fn depth(value: &Json) -> usize {
    match value {
        Json::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Json::Object(values) => 1 + values.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_cut_with_an_ellipsis() {
        assert_eq!(truncate_text("abc", 3), "abc");
        assert_eq!(truncate_text("abcd", 3), "ab…");
        let long =
            Map::from_iter((0..100).map(|at| (format!("field{at}"), serde_json::json!({ "new": "x".repeat(5_000) }))));
        for limit in [65_536, 16_384, 4_096, 300, 40] {
            let fitted = bounded(long.clone(), limit);
            assert!(fitted.to_string().len() <= limit, "{} bytes of {limit}", fitted.to_string().len());
            assert!(fitted.to_string().contains('…'));
        }
    }

    #[test]
    fn values_are_cut_only_if_they_are_too_long() {
        let changed = Map::from_iter([("note".to_owned(), serde_json::json!({ "new": "x".repeat(100) }))]);
        let whole = Json::Object(changed.clone());
        let bytes = whole.to_string().len();
        assert_eq!(bounded(changed.clone(), bytes), whole);
        // Cut to 64 bytes, of which four may be one character.
        assert_eq!(bounded(changed, bytes - 1)["note"]["new"], format!("{}…", "x".repeat(16)));
        // The quotes count too.
        for (text, expected) in [("x".repeat(14), "x".repeat(14)), ("x".repeat(15), "xxx…".to_owned())] {
            let mut value = Json::from(text);
            shorten(&mut value, 16);
            assert_eq!(value, expected);
        }
    }

    #[test]
    fn deeply_nested_values_become_text() {
        let lists = |depth: usize| (0..depth).fold(Json::from(1), |inner, _| Json::Array(vec![inner]));
        let maps = |depth: usize| (0..depth).fold(Json::from(1), |inner, _| serde_json::json!({ "a": inner, "b": 1 }));
        for nested in [lists, maps] {
            let mut kept = nested(20);
            shorten(&mut kept, 2_048);
            assert_eq!(kept, nested(20));
            let mut cut = nested(21);
            shorten(&mut cut, 2_048);
            assert!(cut.as_str().is_some_and(|text| text.ends_with('…')), "{cut}");
        }
    }

    const DESIGN: &str = r#"
name    = "accounts"
version = "1.0"

[tenant]
field = "tenantId"

[table.app]
key = ["PK", "SK"]

[entity.account]
table = "app"
key   = { PK = "TENANT#{tenantId}", SK = "ACCOUNT#{accountId}" }

[entity.account.fields]
tenantId  = { type = "string", min = 1, max = 64 }
accountId = { type = "ulid", default = "new" }
pin       = { type = "string", max = 10, secret = true }
extra     = { type = "map" }

[entity.account.fields.login]
type   = "map"
fields = { user = { type = "string", max = 100 }, phone = { type = "string", max = 100, personal = true }, password = { type = "string", max = 100, secret = true } }

[entity.account.fields.contacts]
type  = "list"
items = { type = "map", fields = { kind = { type = "string", max = 100 }, code = { type = "string", max = 100, secret = true } } }

[entity.account.fields.codes]
type  = "list"
items = { type = "string", max = 100, secret = true }
"#;

    #[test]
    fn secrets_and_personal_data_in_maps_and_lists_are_not_in_an_entry() {
        let design = nagaya_design::check(DESIGN, &[]).design.expect("a design");
        let item = |fields: Json| -> Item {
            let Json::Object(fields) = fields else { panic!("no object") };
            fields.into_iter().map(|(name, value)| (name, values::to_store(value))).collect()
        };
        let old = item(serde_json::json!({
            "tenantId": "t1", "pin": "s3cret-1", "codes": ["s3cret-2"], "extra": { "kept": 1 },
            "login": { "user": "ann", "phone": "s3cret-3", "password": "s3cret-4", "unknown": "s3cret-5" },
            "contacts": [{ "kind": "shop", "code": "s3cret-6" }],
        }));
        let new = item(serde_json::json!({ "tenantId": "t2" }));
        let changes = changed_fields(&design.entities[0], Some(&old), Some(&new), 10_000);
        assert!(!changes.to_string().contains("s3cret"), "{changes}");
        assert_eq!(
            changes,
            serde_json::json!({
                "extra": { "old": { "kept": 1 } },
                "login": { "old": { "user": "ann", "phone": MASKED } },
                "contacts": { "old": [{ "kind": "shop" }] },
                "codes": { "old": [] },
            })
        );
    }
}
