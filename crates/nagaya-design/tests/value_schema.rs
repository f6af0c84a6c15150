//! The JSON Schema of a field accepts every value that the field accepts, and as few others as possible.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex},
};

use nagaya_design::{Design, Field};
use proptest::prelude::*;
use regex::Regex;
use serde_json::{Value, json};

#[path = "common/designs.rs"]
mod designs;
use designs::{accepted, design, source};

/// A design whose one entity has these fields besides its key.
fn with(fields: &str) -> Design {
    accepted(&format!(
        r#"
        name    = "values"
        version = "1.0"

        [tenant]
        field = "tenantId"

        [table.app]
        key = ["PK", "SK"]

        [entity.thing]
        table = "app"
        key   = {{ PK = "TENANT#{{tenantId}}", SK = "THING#{{thingId}}" }}

        [entity.thing.fields]
        tenantId = {{ type = "string", max = 64 }}
        thingId  = {{ type = "ulid", default = "new" }}
        {fields}
        "#
    ))
}

fn fields(design: &Design) -> &[Field] {
    &design.entities[0].fields[2..]
}

/// Whether a schema accepts a value. It implements the keywords that fields use, and fails on others.
fn valid(schema: &Value, value: &Value) -> bool {
    schema.as_object().expect("a schema is an object").iter().all(|(word, says)| match word.as_str() {
        "description" | "default" | "readOnly" | "writeOnly" | "format" => true,
        "type" => match says {
            Value::Array(types) => types.iter().any(|one| is(value, one)),
            one => is(value, one),
        },
        "enum" => says.as_array().expect("choices").contains(value),
        "allOf" => says.as_array().expect("schemas").iter().all(|each| valid(each, value)),
        "pattern" => value.as_str().is_none_or(|text| matches(says, text)),
        "minLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 >= count(says)),
        "maxLength" => value.as_str().is_none_or(|text| text.chars().count() as u64 <= count(says)),
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= count(says)),
        "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= count(says)),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| valid(says, item))),
        "minimum" => value.is_null() || !less(value, says),
        "maximum" => value.is_null() || !less(says, value),
        "exclusiveMinimum" => value.is_null() || less(says, value),
        "exclusiveMaximum" => value.is_null() || less(value, says),
        "properties" => value
            .as_object()
            .is_none_or(|map| map.iter().all(|(name, value)| says.get(name).is_none_or(|schema| valid(schema, value)))),
        "required" => value.as_object().is_none_or(|map| {
            says.as_array().expect("names").iter().all(|name| map.contains_key(name.as_str().expect("a name")))
        }),
        "additionalProperties" => {
            assert_eq!(says, &json!(false));
            value.as_object().is_none_or(|map| map.keys().all(|name| schema["properties"].get(name).is_some()))
        }
        word => panic!("`{word}` is no word that a field should use"),
    })
}

fn is(value: &Value, kind: &Value) -> bool {
    match kind.as_str().expect("the name of a type") {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("there is no type {other}"),
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

/// Whether one number is less than another; false unless both are numbers.
fn less(one: &Value, other: &Value) -> bool {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => one < other,
        _ => one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one < other),
    }
}

fn matches(pattern: &Value, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let pattern = pattern.as_str().expect("a pattern is a text");
    assert!(pattern.starts_with("^(?:") && pattern.ends_with(")$"), "{pattern} is for the whole text");
    let mut compiled = COMPILED.lock().expect("no test fails in here");
    compiled
        .entry(pattern.to_owned())
        .or_insert_with(|| Regex::new(pattern).expect("a regular expression"))
        .is_match(text)
}

/// Both the schema and the field accept the first values and reject the second.
fn check(field: &str, taken: &[Value], refused: &[Value]) {
    let design = with(&format!("x = {field}"));
    let found = &fields(&design)[0];
    let schema = found.json_schema();
    for (values, expected) in [(taken, true), (refused, false)] {
        for value in values {
            assert_eq!(found.accepts(value), expected, "{field}: {value}");
            assert_eq!(valid(&schema, value), expected, "{field}: {value} by {schema:#}");
        }
    }
}

#[test]
fn a_schema_accepts_what_its_field_accepts() {
    let text = |length: usize| json!("é".repeat(length));
    check("{ type = \"string\" }", &[json!(""), text(256)], &[text(257), json!(null), json!(1)]);
    check("{ type = \"string\", min = 2, max = 3 }", &[text(2), text(3)], &[text(1), text(4)]);
    check("{ type = \"string\", one_of = [\"a\", \"b\"] }", &[json!("a")], &[json!("c"), json!(null)]);
    check("{ type = \"string\", one_of = [\"a\"], optional = true }", &[json!("a"), json!(null)], &[json!("c")]);
    check("{ type = \"string\", optional = true }", &[json!(null), json!("x")], &[json!(false)]);
    check("{ type = \"boolean\" }", &[json!(true)], &[json!("true"), json!(null), json!(0)]);
    check("{ type = \"integer\" }", &[json!(i64::MIN), json!(i64::MAX)], &[json!(u64::MAX), json!(0.5), json!("1")]);
    check("{ type = \"integer\", min = -1, max = 7 }", &[json!(-1), json!(7)], &[json!(-2), json!(8)]);
    check("{ type = \"number\", min = 0, max = 0.5 }", &[json!(0), json!(0.5)], &[json!(-0.1), json!(0.6), json!("0")]);
    check("{ type = \"number\" }", &[json!(9e125), json!(-9e125), json!(1)], &[json!(null)]);
    check("{ type = \"timestamp\", precision = \"epoch\" }", &[json!(0), json!(-5)], &[json!("0"), json!(1.5)]);
    check("{ type = \"timestamp\", precision = \"any\" }", &[json!("2026-01-31T09:30:00+09:00")], &[json!(0)]);
    check("{ type = \"list\", min = 1, max = 2 }", &[json!([null]), json!([1, "a"])], &[json!([]), json!([1, 2, 3])]);
    check(
        "{ type = \"list\", items = { type = \"integer\", min = 1 } }",
        &[json!([]), json!([1, 2])],
        &[json!([0]), json!(["1"]), json!([null]), json!({})],
    );
    check("{ type = \"map\" }", &[json!({}), json!({ "a": [null] })], &[json!([]), json!("{}"), json!(null)]);
    check(
        "{ type = \"map\", fields = { a = { type = \"integer\" }, b = { type = \"date\", optional = true }, c = { type = \"boolean\", default = true } } }",
        &[json!({ "a": 1 }), json!({ "a": 1, "b": null, "c": false })],
        &[json!({}), json!({ "a": "1" }), json!({ "a": 1, "d": 1 }), json!({ "a": 1, "b": "2026-02-30" })],
    );
    check("{ type = \"any\" }", &[json!(1), json!("a"), json!([]), json!({}), json!(false)], &[json!(null)]);
    check("{ type = \"any\", optional = true }", &[json!(null), json!(1)], &[]);
}

#[test]
fn a_schema_knows_the_calendar_and_the_length_of_labels() {
    let days = |days: &[&str], rest: &str| days.iter().map(|day| json!(format!("{day}{rest}"))).collect::<Vec<_>>();
    for (field, rest) in [
        ("{ type = \"date\" }", ""),
        ("{ type = \"timestamp\" }", "T23:59:59Z"),
        ("{ type = \"timestamp\", precision = \"millis\" }", "T00:00:00.000Z"),
    ] {
        check(
            field,
            &days(&["2026-01-31", "2026-11-30", "2024-02-29", "2000-02-29", "0000-02-29", "9999-02-28"], rest),
            &days(&["2026-00-01", "2026-13-01", "2026-04-31", "2026-01-00", "2026-02-29", "1900-02-29"], rest),
        );
    }
    check(
        "{ type = \"timestamp\" }",
        &[],
        &["24:00:00", "23:60:00", "23:59:60", "1:00:00"].map(|time| json!(format!("2026-01-31T{time}Z"))),
    );
    let host = |label: usize| json!(format!("{}.example.com", "a".repeat(label)));
    check("{ type = \"string\", format = \"hostname\" }", &[host(1), host(63)], &[host(0), host(64)]);
    let long = |labels: usize| json!(vec!["a"; labels].join("."));
    check("{ type = \"string\", format = \"hostname\", max = 1000 }", &[long(127)], &[long(128)]);
}

#[test]
fn patterns_are_written_for_other_dialects() {
    let check = |pattern: &str, expected: &str| {
        let design = with(&format!("x = {{ type = \"string\", pattern = '{pattern}' }}"));
        assert_eq!(fields(&design)[0].json_schema()["pattern"], format!("^(?:{expected})$"), "{pattern}");
    };
    check("[a-z0-9]+(-[a-z0-9]+)*", "[0-9a-z]+(?:-[0-9a-z]+)*");
    check("(?i)ab", "[Aa][Bb]");
    check("(?P<year>[0-9]{4})-x{2,}y?", r"[0-9]{4}-(?:x){2,}(?:y)?");
    check("(a1|b2)c", "(?:a1|b2)c");
    check("/.*", r"\/[^\u000a]*");
    check("(?s).", r"[\s\S]");
    check("[^a-c#]", "[^#a-c]");
    check(r"a\.b\-c\x41", r"a\.b-cA");
    check(r"[\^\]\-]{1,3}", r"[\-\]\^]{1,3}");
    check("[^#/?]", r"[^#\/?]");
    check("日本+", "日(?:本)+");
}

#[test]
fn rules_that_a_schema_cannot_express_are_in_its_description() {
    let check = |field: &str, expected: Value| {
        let design = with(&format!("x = {field}"));
        assert_eq!(fields(&design)[0].json_schema(), expected, "{field}");
    };
    check(
        "{ type = \"map\", max = 100, description = \"Whatever.\", default = {} }",
        json!({ "type": "object", "description": "Whatever. At most 100 bytes as JSON.", "default": {} }),
    );
    check(
        "{ type = \"list\", max = 3, optional = true }",
        json!({
            "type": ["array", "null"], "maxItems": 3,
            "description": "Each element has at most 1024 bytes as JSON.",
        }),
    );
    check(
        "{ type = \"string\", max = 9, secret = true, default = \"a\" }",
        json!({ "type": "string", "maxLength": 9, "writeOnly": true, "default": "a" }),
    );
    check(
        "{ type = \"string\", max = 9, readonly = true, default = \"a\" }",
        json!({ "type": "string", "maxLength": 9, "readOnly": true, "default": "a" }),
    );
    check(
        "{ type = \"string\", prefix = \"a.\", pattern = \"a.[0-9]+\" }",
        json!({
            "type": "string", "maxLength": 256,
            "allOf": [{ "pattern": r"^(?:a\.[\s\S]*)$" }, { "pattern": "^(?:a[^\\u000a][0-9]+)$" }],
        }),
    );
    check(
        "{ type = \"string\", prefix = \"a.\", pattern = 'a\\.[0-9]+' }",
        json!({ "type": "string", "maxLength": 256, "pattern": r"^(?:a\.[0-9]+)$" }),
    );
    check(
        "{ type = \"ulid\", prefix = \"u_\", also = \"old-[0-9]{1,3}\", default = \"new\" }",
        json!({ "type": "string", "pattern": "^(?:u_[0-7][0-9A-HJKMNP-TV-Z]{25}|old-[0-9]{1,3})$" }),
    );
    check("{ type = \"number\", min = 1 }", json!({ "type": "number", "minimum": 1.0, "exclusiveMaximum": 1e126 }));
    for (field, format) in [
        ("{ type = \"timestamp\", precision = \"micros\" }", json!("date-time")),
        ("{ type = \"timestamp\", precision = \"any\" }", json!("date-time")),
        ("{ type = \"date\" }", json!("date")),
        ("{ type = \"uuid\" }", json!("uuid")),
        ("{ type = \"uuid\", prefix = \"u_\" }", json!(null)),
        ("{ type = \"string\", format = \"email\" }", json!(null)),
    ] {
        let design = with(&format!("x = {field}"));
        assert_eq!(fields(&design)[0].json_schema()["format"], format, "{field}");
    }
}

const DESIGNS: [&str; 5] = [
    "aiagent/design/single.toml",
    "aiagent/design/multi.toml",
    "todo/design/todo.toml",
    "kondate/design/kondate.toml",
    "management/design/management.toml",
];

#[test]
fn the_examples_of_every_field_and_document_are_valid() {
    let mut seen = 0;
    for path in DESIGNS {
        for field in design(path).entities.iter().flat_map(|entity| &entity.fields) {
            let example = field.example();
            assert!(valid(&field.json_schema(), &example), "{path}: {} = {example}", field.name);
            seen += 1;
        }
    }
    for system in ["aiagent", "todo", "kondate", "management"] {
        let examples: Value = serde_json::from_str(&source(&format!("{system}/tests/examples.json"))).expect("JSON");
        for example in examples.as_array().expect("a list of examples") {
            let design = design(&format!("{system}/design/{}.toml", example["design"].as_str().expect("a text")));
            let entity = design.entity(example["entity"].as_str().expect("a text")).expect("an entity");
            for field in &entity.fields {
                if let Some(value) = example["item"].get(&field.name) {
                    assert!(valid(&field.json_schema(), value), "{system}: {} = {value}", field.name);
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 1000, "{seen} values");
}

/// A field of each kind of text.
const TEXTS: &str = r#"
    short    = { type = "string", min = 2, max = 4 }
    slug     = { type = "string", format = "slug", max = 30 }
    mail     = { type = "string", format = "email" }
    host     = { type = "string", format = "hostname" }
    link     = { type = "string", format = "uri" }
    address  = { type = "string", format = "ip" }
    user     = { type = "string", prefix = "user_", pattern = '\w+_([a-f]|\d\d)*' }
    said     = { type = "string", prefix = "user_", pattern = 'user_[0-9a-f]+' }
    either   = { type = "string", prefix = "user_", pattern = 'user_|[a-z_]+' }
    many     = { type = "string", prefix = "user_", pattern = 'user_*[a-z]?' }
    mixed    = { type = "string", pattern = '(?i)ab(c|-.)*e{2,3}|x.y|[^a-c\s]{2}', max = 6 }
    id       = { type = "ulid" }
    older    = { type = "ulid", prefix = "r.", also = "[a-z]{1,3}_[0-9]{1,4}" }
    bare     = { type = "uuid" }
    prefixed = { type = "uuid", prefix = "user_" }
    day      = { type = "date" }
    second   = { type = "timestamp" }
    milli    = { type = "timestamp", precision = "millis" }
    micro    = { type = "timestamp", precision = "micros" }
"#;

/// Texts of those kinds, or nearly.
fn texts() -> impl Strategy<Value = String> {
    let form = prop_oneof![
        "[a-c-]{0,6}",
        "[a-z.]{1,5}@[a-z-]{1,4}(\\.[a-z-]{1,4}){0,3}",
        "[a-z+:]{1,5}:[ -~]{0,8}",
        "[0-9]{1,3}(\\.[0-9]{1,3}){3}",
        any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|address| address.to_string()),
        "([0-9a-f]{0,4}:){1,8}[0-9A-F]{0,5}",
        "([0-9a-f]{0,2}:){0,7}(25[0-9]|[0-9])(\\.[0-9]{1,2}){3}",
        "user_[a-g0-9]{0,5}",
        "(AB|ab|x|y|c|-|e|E| ){1,6}",
        "[0-9][0-9A-Z]{25}",
        "r\\.[0-7][0-9A-HJKMNP-TV-Z]{25}",
        "[a-z]{1,3}_[0-9]{1,4}",
        "(user_)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        // Years to 9998: timestamps cannot represent the last hours of 9999.
        "([0-8][0-9]{3}|2000|1900|2024)-(0[0-9]|1[0-3])-([0-2][0-9]|3[0-2])",
        "[0-8][0-9]{3}-(0[0-9]|1[0-3])-([0-2][0-9]|3[0-2])T[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{3}|\\.[0-9]{6})?Z",
    ];
    let edit = proptest::option::weighted(0.3, (any::<prop::sample::Index>(), 0..2usize, "[a-zA-Z0-9:._@-]{0,2}"));
    (form, edit).prop_map(|(mut text, edit)| {
        if let Some((at, length, with)) = edit {
            let start = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.ceil_char_boundary((start + length).min(text.len()));
            text.replace_range(start..end, &with);
        }
        text
    })
}

/// Every field of `TEXTS` with its schema.
fn kinds() -> &'static [(Field, Value)] {
    static KINDS: LazyLock<Vec<(Field, Value)>> =
        LazyLock::new(|| fields(&with(TEXTS)).iter().map(|field| (field.clone(), field.json_schema())).collect());
    &KINDS
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_schema_and_its_field_agree_on_texts(text in texts()) {
        for (field, schema) in kinds() {
            let value = json!(text);
            prop_assert_eq!(valid(schema, &value), field.accepts(&value), "{}: {:?}", field.name, text);
        }
    }

    /// Beyond ASCII a schema may accept more than its field, but never less.
    #[test]
    fn a_schema_accepts_every_text_that_its_field_accepts(text in "(\\PC|[a-z@.-]|é|日|٣){0,8}") {
        for (field, schema) in kinds() {
            let value = json!(text);
            prop_assert!(valid(schema, &value) || !field.accepts(&value), "{}: {:?}", field.name, text);
        }
    }

    #[test]
    fn a_schema_and_its_field_agree_on_numbers(whole in any::<i64>(), near in -20..20i64, part in -20.0..20.0f64) {
        static NUMBERS: LazyLock<Vec<Field>> = LazyLock::new(|| {
            let all = r#"
                free  = { type = "integer" }
                bound = { type = "integer", min = -3, max = 9 }
                least = { type = "integer", min = 9007199254740993 }
                at    = { type = "timestamp", precision = "epoch" }
                real  = { type = "number" }
                tight = { type = "number", min = -2.5, max = 7 }
            "#;
            fields(&with(all)).to_vec()
        });
        for field in &*NUMBERS {
            let values = [
                json!(whole),
                json!(near),
                json!(9_007_199_254_740_992 + near),
                json!(part),
                json!(near as f64),
                json!(part * 1e125),
            ];
            for value in values {
                prop_assert_eq!(valid(&field.json_schema(), &value), field.accepts(&value), "{}: {}", field.name, value);
            }
        }
    }
}
