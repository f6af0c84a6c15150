//! Any file gives a list of diagnostics, never a panic.

use nagaya_design::{Engine, check, diff, html, json, markdown};
use proptest::prelude::*;

const ENGINES: [Engine; 3] = [Engine::Embedded, Engine::Dynamodb, Engine::Cosmos];

const DESIGNS: [&str; 5] = [
    include_str!("../../../systems/aiagent/design/single.toml"),
    include_str!("../../../systems/aiagent/design/multi.toml"),
    include_str!("../../../systems/todo/design/todo.toml"),
    include_str!("../../../systems/kondate/design/kondate.toml"),
    include_str!("../../../systems/management/design/management.toml"),
];

/// Checks a text and, if it is a valid design, everything that is derived from it.
fn survives(source: &str) {
    let checked = check(source, &ENGINES);
    for diagnostic in &checked.diagnostics {
        for label in &diagnostic.labels {
            assert!(label.span.start <= label.span.end && label.span.end <= source.len(), "{diagnostic:?}");
            assert!(
                source.is_char_boundary(label.span.start) && source.is_char_boundary(label.span.end),
                "{diagnostic:?}"
            );
        }
    }
    if let Some(design) = checked.design {
        markdown(&design);
        html(&design);
        json(&design);
        assert_eq!(diff(&design, &design), []);
        for entity in &design.entities {
            let example = design.example(entity);
            design.check_item(entity, &example);
        }
        for access in &design.access_patterns {
            design.query_outline(access, &[]);
            let all: Vec<(&str, &str)> = vec![("from", "0"), ("to", "9"), ("tenantId", "t"), ("userId", source)];
            let _ = design.query(access, all.as_slice());
        }
    }
}

/// Words of the language, and almost valid values.
fn word() -> impl Strategy<Value = String> {
    let words = [
        "name",
        "version",
        "tenant",
        "field",
        "table",
        "entity",
        "access",
        "aggregate",
        "key",
        "index",
        "GSI1",
        "fields",
        "type",
        "wall",
        "when",
        "unique",
        "references",
        "PK",
        "SK",
        "user",
        "userId",
        "tenantId",
        "range",
        "prefix",
        "by",
        "change",
        "from",
        "to",
        "schema",
        "soft_delete",
        "ttl",
        "ttl_after",
        "pattern",
        "one_of",
        "min",
        "max",
        "default",
        "items",
        "event",
        "filter",
        "path",
        "日本",
        "",
    ];
    proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        word().prop_map(|word| format!("\"{word}\"")),
        Just("true".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("1e400".to_owned()),
        Just("2026-01-01".to_owned()),
        "[A-Z]{1,4}#\\{[a-zA-Z.:0]{0,9}\\}?[#_%]?".prop_map(|template| format!("\"{template}\"")),
        "[a-z]{1,5} (=|in|<) ('x'|\\(|[0-9]{1,20}|\\{a\\})( and| or|\\))?"
            .prop_map(|condition| format!("\"{condition}\"")),
        "[\\[\\](){}a-z|*+?^$0-9,]{1,10}".prop_map(|pattern| format!("'{pattern}'")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::vec((word(), inner), 0..4).prop_map(|entries| {
                let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("\"{key}\" = {value}")).collect();
                format!("{{ {} }}", entries.join(", "))
            }),
        ]
    })
}

fn document() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        (word(), value()).prop_map(|(key, value)| format!("\"{key}\" = {value}")),
        proptest::collection::vec(word(), 1..5).prop_map(|path| format!("[\"{}\"]", path.join("\".\""))),
        word().prop_map(|word| format!("# NG0304: {word}")),
    ];
    proptest::collection::vec(line, 0..30).prop_map(|lines| lines.join("\n"))
}

/// A real design with some parts replaced, which gets further into the checks than random text.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..60usize, prop_oneof![value(), word(), "\\PC{0,8}"]);
    (proptest::sample::select(DESIGNS.to_vec()), proptest::collection::vec(edit, 1..4)).prop_map(|(design, edits)| {
        let mut text = design.to_owned();
        for (at, length, with) in edits {
            let start = text.floor_char_boundary(at.index(text.len()));
            let end = text.ceil_char_boundary((start + length).min(text.len()));
            text.replace_range(start..end, &with);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_text_makes_the_checker_panic(source in "\\PC{0,400}") {
        survives(&source);
    }

    #[test]
    fn no_toml_makes_the_checker_panic(source in document()) {
        survives(&source);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_changed_design_makes_the_checker_panic(source in mutated()) {
        survives(&source);
    }
}

#[test]
fn designs_survive_being_cut_at_every_line() {
    for design in DESIGNS {
        let mut at = 0;
        for (number, line) in design.split_inclusive('\n').enumerate() {
            at += line.len();
            // Every line of short designs; enough lines of long ones to end in every section.
            if design.len() < 10_000 || number % 7 == 0 {
                survives(&design[..at]);
            }
        }
    }
}
