//! The laws of keys: exact inverses, injective, ordered like their values.

use std::sync::LazyLock;

use nagaya_design::{Design, Entity, FieldValues, KeyRouter, Scalar, check};
use proptest::prelude::*;

/// One entity for each way a value can end: at the end, before a character, by its length.
const DESIGN: &str = r#"
    name    = "laws"
    version = "1.0"
    tenant  = { field = "tenantId" }

    [table.main]
    key        = ["PK", "SK"]
    index.GSI1 = ["GSI1PK", "GSI1SK"]

    [entity.note]
    table      = "main"
    key        = { PK = "TENANT#{tenantId}", SK = "NOTE#{kind}#{title}" }
    index.GSI1 = { GSI1PK = "TENANT#{tenantId}#COUNT", GSI1SK = "{count:06}#{at}#{title}" }

    [entity.role]
    table = "main"
    key   = { PK = "T_{tenantId}_x", SK = "ra_{userId}_{kind}_{title}" }

    [entity.note.fields]
    tenantId = { type = "string", max = 100 }
    kind     = { type = "string", max = 50 }
    title    = { type = "string", max = 50 }
    count    = { type = "integer", min = 0, max = 999999 }
    at       = { type = "timestamp", precision = "millis" }

    [entity.role.fields]
    tenantId = { type = "string", max = 100 }
    userId   = { type = "uuid", prefix = "user_" }
    kind     = { type = "string", max = 50 }
    title    = { type = "string", max = 50 }
"#;

fn design() -> &'static Design {
    static PARSED: LazyLock<Design> = LazyLock::new(|| {
        let checked = check(DESIGN, &[]);
        checked.design.unwrap_or_else(|| panic!("{:#?}", checked.diagnostics))
    });
    &PARSED
}

/// Texts with many characters that are special in keys.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[#%_a-z0-9]{1,12}", "(TENANT|NOTE|#|%|%23|%25|_|USER#x|t1|T1|é|e\u{301}|日本|/|~){1,5}", "\\PC{1,12}",]
}

fn uuid() -> impl Strategy<Value = String> {
    "user_[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
}

/// Timestamps of the years 0 to 9999, in the precision of the field.
fn instant() -> impl Strategy<Value = String> {
    (0..9999u32, 1..13u32, 1..29u32, 0..24u32, 0..60u32, 0..60u32, 0..1000u32)
        .prop_map(|(y, mo, d, h, mi, s, ms)| format!("{y:04}-{mo:02}-{d:02}T{h:02}:{mi:02}:{s:02}.{ms:03}Z"))
}

#[derive(Debug, Clone, PartialEq)]
struct Values(Vec<(&'static str, String)>);

impl FieldValues for Values {
    fn scalar(&self, path: &str) -> Option<Scalar<'_>> {
        self.0.iter().find(|(name, _)| *name == path).map(|(_, value)| Scalar::Text(value))
    }
}

fn note() -> impl Strategy<Value = Values> {
    (text(), text(), text(), 0..1_000_000u32, instant()).prop_map(|(tenant, kind, title, count, at)| {
        Values(vec![("tenantId", tenant), ("kind", kind), ("title", title), ("count", count.to_string()), ("at", at)])
    })
}

fn role() -> impl Strategy<Value = Values> {
    (text(), uuid(), text(), text()).prop_map(|(tenant, user, kind, title)| {
        Values(vec![("tenantId", tenant), ("userId", user), ("kind", kind), ("title", title)])
    })
}

fn entity<'d>(design: &'d Design, name: &str) -> &'d Entity {
    design.entity(name).expect("declared above")
}

/// Routing a rendered key gives the same fields, and rendering them gives the same key.
fn check_round_trip(name: &str, values: &Values) {
    let design = design();
    let router = KeyRouter::new(design);
    let key = entity(design, name).key.render(values).expect("every field is given");
    let templates = &entity(design, name).key;
    assert!(templates.partition.renders_to(values, &key.partition) && templates.sort.renders_to(values, &key.sort));
    assert!(!templates.sort.renders_to(values, &format!("{}x", key.sort)), "a longer key is another key");
    let routed = router.route("main", &key.partition, &key.sort).expect("a rendered key is routed");
    assert_eq!(routed.entity, name);
    for (path, value) in &routed.fields {
        assert!(values.0.iter().any(|(name, given)| name == path && given == value), "{path}={value} of {key:?}");
    }
    let again = Values(routed.fields.iter().map(|(path, value)| (leak(path), value.to_string())).collect());
    assert_eq!(entity(design, name).key.render(&again).expect("all key fields came back"), key);
}

fn leak(name: &str) -> &'static str {
    ["tenantId", "kind", "title", "userId"].into_iter().find(|known| *known == name).expect("a field of the key")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_rendered_key_gives_its_fields_back(note in note(), role in role()) {
        check_round_trip("note", &note);
        check_round_trip("role", &role);
    }

    #[test]
    fn different_fields_never_give_equal_keys(one in note(), other in note(), a in role(), b in role()) {
        let design = design();
        for (name, one, other, fields) in [
            ("note", &one, &other, ["tenantId", "kind", "title"].as_slice()),
            ("role", &a, &b, &["tenantId", "userId", "kind", "title"]),
        ] {
            let same_fields = fields.iter().all(|field| one.scalar(field) == other.scalar(field));
            let key = |values: &Values| entity(design, name).key.render(values).expect("every field is given");
            prop_assert_eq!(key(one) == key(other), same_fields);
        }
    }

    /// Values that differ in one position only are the most likely to collide.
    #[test]
    fn moving_a_special_character_between_fields_changes_the_key(kind in text(), title in text(), mark in "[#%_]{1,2}") {
        let design = design();
        let key = |kind: String, title: String| {
            let values = Values(vec![("tenantId", "t".to_owned()), ("kind", kind), ("title", title)]);
            entity(design, "note").key.render(&values).expect("every field is given")
        };
        prop_assert_ne!(key(format!("{kind}{mark}"), title.clone()), key(kind, format!("{mark}{title}")));
    }

    #[test]
    fn key_order_is_value_order_for_padded_numbers_and_timestamps(
        (a, b) in (0..1_000_000u32, 0..1_000_000u32),
        (s, t) in (instant(), instant()),
    ) {
        let design = design();
        let sort = |count: u32, at: &str| {
            let values = [("tenantId", "t"), ("count", &*count.to_string()), ("at", at), ("title", "x")];
            entity(design, "note").indexes[0].key.sort.render(&values).expect("every field is given")
        };
        prop_assert_eq!(sort(a, &s).cmp(&sort(b, &s)), a.cmp(&b));
        // All timestamps have the same format, so comparing their texts compares time.
        prop_assert_eq!(sort(a, &s).cmp(&sort(a, &t)), s.cmp(&t));
    }

    /// An almost valid key: rendered, then edited.
    #[test]
    fn a_key_is_routed_to_at_most_what_it_renders_to(
        note in note(),
        role in role(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), 0..3usize, "[#%_a-f0-9A-Z]{0,3}"), 0..3),
    ) {
        let design = design();
        let router = KeyRouter::new(design);
        for (name, values) in [("note", &note), ("role", &role)] {
            let key = entity(design, name).key.render(values).expect("every field is given");
            let mut sort = key.sort.clone();
            for (at, length, with) in &edits {
                let start = sort.floor_char_boundary(at.index(sort.len() + 1));
                let end = sort.ceil_char_boundary((start + length).min(sort.len()));
                sort.replace_range(start..end, with);
            }
            if let Some(routed) = router.route("main", &key.partition, &sort) {
                let values = Values(routed.fields.iter().map(|(path, value)| (leak(path), value.to_string())).collect());
                let again = entity(design, routed.entity).key.render(&values).expect("all key fields came back");
                prop_assert_eq!((again.partition, again.sort), (key.partition, sort));
            }
        }
    }
}

#[test]
fn an_empty_value_in_a_key_is_rejected() {
    let values = [("tenantId", ""), ("kind", "a"), ("title", "b")];
    let unfit = entity(design(), "note").key.render(&values).expect_err("an empty tenant is no tenant");
    assert_eq!(unfit.to_string(), "`tenantId` is empty, and a key cannot contain an empty value");
}

#[test]
fn keys_are_case_sensitive() {
    let design = design();
    let key = |tenant| {
        entity(design, "note").key.render(&[("tenantId", tenant), ("kind", "k"), ("title", "t")]).expect("given")
    };
    assert_ne!(key("Acme"), key("acme"));
}
