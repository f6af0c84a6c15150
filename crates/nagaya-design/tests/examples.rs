//! The example items of the design documents: each is accepted, keyed, found and explained as documented.

use std::collections::{BTreeMap, BTreeSet};

use nagaya_design::{
    Design, Engine, Explanation, FieldType, FieldValues, KeyPart, KeyRouter, Scalar, check, html, json, markdown,
};
use serde_json::{Map, Value, json};

mod common;
use common::{accepted, derived_keys, design, errors, finds, query, source};

/// Every design, and the engine that its document is written for.
const DESIGNS: [(&str, Engine); 5] = [
    ("aiagent/design/single.toml", Engine::Dynamodb),
    ("aiagent/design/multi.toml", Engine::Dynamodb),
    ("todo/design/todo.toml", Engine::Dynamodb),
    ("kondate/design/kondate.toml", Engine::Dynamodb),
    ("management/design/management.toml", Engine::Cosmos),
];

/// An item as a document shows it.
struct Example {
    design: String,
    entity: String,
    item: Value,
    /// The table's key, attribute by attribute.
    key: Map<String, Value>,
    /// The keys of its indexes, where the document gives them.
    indexes: Map<String, Value>,
}

impl Example {
    fn fields(&self) -> &Map<String, Value> {
        self.item.as_object().expect("an item is an object")
    }

    /// The value of a field as text, as in a key.
    fn text(&self, path: &str) -> Option<String> {
        self.fields().scalar(path).map(|value| match value {
            Scalar::Text(text) => text.to_owned(),
            Scalar::Integer(number) => number.to_string(),
            Scalar::Boolean(flag) => flag.to_string(),
        })
    }
}

/// Runs over every example of every document.
fn each_example(mut test: impl FnMut(&Design, &Example)) {
    let designs: BTreeMap<_, _> = DESIGNS.iter().map(|(path, _)| (*path, design(path))).collect();
    let mut seen = 0;
    for system in ["aiagent", "todo", "kondate", "management"] {
        let examples: Value = serde_json::from_str(&source(&format!("{system}/tests/examples.json"))).expect("JSON");
        for value in examples.as_array().expect("a list of examples") {
            let text = |name: &str| value[name].as_str().expect("a text").to_owned();
            let example = Example {
                design: format!("{system}/design/{}.toml", text("design")),
                entity: text("entity"),
                item: value["item"].clone(),
                key: value["key"].as_object().expect("a key").clone(),
                indexes: value["indexes"].as_object().cloned().unwrap_or_default(),
            };
            test(&designs[example.design.as_str()], &example);
            seen += 1;
        }
    }
    assert!(seen > 70, "{seen} examples");
}

/// All errors, and the warnings without an explanation.
fn open_diagnostics(path: &str, engines: &[Engine]) -> Vec<String> {
    let found = check(&source(path), engines).diagnostics.into_iter().filter(|each| each.explained.is_none());
    found.map(|each| format!("{} {} {}", each.severity(), each.code.id, each.message)).collect()
}

/// Proves N1.
#[test]
fn all_five_designs_pass_the_check_with_every_warning_explained() {
    for (path, _) in DESIGNS {
        assert_eq!(errors(&source(path)), [], "{path}");
        let open = open_diagnostics(path, &[]);
        assert!(open.is_empty(), "{path}: {open:#?}");
    }
}

/// Proves N1.
#[test]
fn each_design_passes_on_the_embedded_engine_and_on_the_one_that_its_document_is_written_for() {
    let mut wrong = Vec::new();
    for (path, engine) in DESIGNS {
        let found = open_diagnostics(path, &[Engine::Embedded]).into_iter().filter(|each| each.starts_with("error"));
        wrong.extend(found.map(|each| format!("{path} on embedded: {each}")));
        wrong.extend(open_diagnostics(path, &[engine]).into_iter().map(|each| format!("{path} on {engine}: {each}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Proves N1.
#[test]
fn every_kind_of_item_in_the_documents_has_an_example() {
    let mut kinds = BTreeSet::new();
    each_example(|_, example| {
        kinds.insert((example.design.clone(), example.entity.clone()));
    });
    for (path, undocumented) in [
        (
            "aiagent/design/multi.toml",
            ["agent", "execution", "audit", "session", "token", "log", "archived_audit"].as_slice(),
        ),
        ("todo/design/todo.toml", &["snapshot"]),
        ("kondate/design/kondate.toml", &[]),
        ("management/design/management.toml", &[]),
    ] {
        let entities = design(path).entities.into_iter().map(|entity| entity.name);
        let without = entities.filter(|entity| !kinds.contains(&(path.to_owned(), entity.clone())));
        assert_eq!(without.collect::<Vec<_>>(), undocumented, "{path}: not in its document");
    }
    for entity in ["tenant", "user", "agent", "execution", "audit", "log", "archived_audit", "session", "token"] {
        assert!(kinds.contains(&("aiagent/design/single.toml".to_owned(), entity.to_owned())), "{entity}");
    }
}

/// Proves N1.
#[test]
fn every_example_is_accepted() {
    each_example(|design, example| {
        let entity = design.entity(&example.entity).unwrap_or_else(|| panic!("no entity {}", example.entity));
        let problems = design.check_item(entity, example.fields());
        assert!(problems.is_empty(), "{}: {} {}: {problems:#?}", example.design, example.entity, example.item);
    });
}

/// Proves N1.
#[test]
fn every_example_has_the_documented_key() {
    each_example(|design, example| {
        let entity = design.entity(&example.entity).expect("an entity");
        let attributes = &design.table_of(entity).key;
        let documented = |name: &str| example.key[name].as_str().expect("a text");
        let (partition, sort) = (documented(&attributes.partition), documented(&attributes.sort));
        for (name, value) in &example.key {
            assert_eq!(example.item.get(name), Some(value), "{}: the item contains its key", example.entity);
        }
        let key = entity.key.render(example.fields()).expect("a key");
        if (key.partition.as_str(), key.sort.as_str()) != (partition, sort) {
            // An older item is found by its former key.
            let table = &design.table_of(entity).id;
            let router = KeyRouter::new(design);
            let routed = router.route(table, partition, sort).unwrap_or_else(|| panic!("{sort} is nothing"));
            assert_eq!((routed.entity, routed.is_former_key), (example.entity.as_str(), true), "{partition} {sort}");
        }
    });
}

/// Proves N1.
#[test]
fn exactly_one_example_has_a_former_key() {
    let mut former = Vec::new();
    each_example(|design, example| {
        let entity = design.entity(&example.entity).expect("an entity");
        let key = entity.key.render(example.fields()).expect("a key");
        let sort = &example.key[&design.table_of(entity).key.sort];
        if sort != &json!(key.sort) {
            former.push(sort.clone());
        }
    });
    assert_eq!(former, [json!("role_assignment_123e4567-e89b-12d3-a456-426614174000")]);
}

/// Proves N1.
#[test]
fn every_example_has_the_documented_index_keys() {
    let mut seen = 0;
    each_example(|design, example| {
        let entity = design.entity(&example.entity).expect("an entity");
        for (index, documented) in &example.indexes {
            let mapping = entity.mapping(index).unwrap_or_else(|| panic!("{} is not in {index}", example.entity));
            let attributes = &design.table_of(entity).indexes[mapping.index].key;
            let key = mapping.key.render(example.fields()).expect("an index key");
            let rendered = json!({ &*attributes.partition: key.partition, &*attributes.sort: key.sort });
            assert_eq!(&rendered, documented, "{} in {index}", example.entity);
            let all = derived_keys(design, &example.entity, &example.item);
            for (name, value) in documented.as_object().expect("a key") {
                let value = value.as_str().expect("a text");
                assert!(all.split(' ').any(|each| each == format!("{name}={value}")), "{all}");
            }
            seen += 1;
        }
    });
    assert!(seen > 20, "{seen} index keys");
}

/// Proves N1.
#[test]
fn every_example_is_routed_by_its_key() {
    each_example(|design, example| {
        let entity = design.entity(&example.entity).expect("an entity");
        let table = design.table_of(entity);
        let value = |name: &str| example.key[name].as_str().expect("a text");
        let (partition, sort) = (value(&table.key.partition), value(&table.key.sort));

        let router = KeyRouter::new(design);
        let routed = router.route(&table.id, partition, sort).unwrap_or_else(|| panic!("{partition} {sort}"));
        assert_eq!(routed.entity, example.entity, "{partition} {sort}");
        if routed.is_former_key {
            return;
        }
        let fields: BTreeSet<_> = routed.fields.iter().map(|(path, _)| *path).collect();
        assert_eq!(fields, entity.key.partition.fields().chain(entity.key.sort.fields()).collect());
        for (path, found) in &routed.fields {
            assert_eq!(Some(found.to_string()), example.text(path), "{path} of {partition} {sort}");
        }
    });
}

/// The explanations of a key that name an entity.
fn explained(design: &Design, key: &Map<String, Value>, entity: &str) -> Vec<Explanation> {
    let part = |(name, value): (&String, &Value)| KeyPart {
        attribute: Some(name.clone()),
        value: value.as_str().expect("a text").to_owned(),
    };
    let parts: Vec<_> = key.iter().map(part).collect();
    design.explain(&parts).into_iter().filter(|each| each.entity == entity).collect()
}

/// Proves N1.
#[test]
fn every_example_is_explained_by_its_key() {
    each_example(|design, example| {
        let found = explained(design, &example.key, &example.entity);
        let [explanation] = found.as_slice() else { panic!("{:?} is explained as {found:#?}", example.key) };
        let entity = design.entity(&example.entity).expect("an entity");
        assert_eq!(explanation.table, design.table_of(entity).id);
        assert_eq!((explanation.index.as_deref(), explanation.wall), (None, entity.wall));
        assert_eq!(explanation.invalid_values, [], "{:?}", example.key);
        for (path, value) in explanation.fields.iter().filter(|_| !explanation.is_former_key) {
            assert_eq!(Some(value.clone()), example.text(path), "{path} of {:?}", example.key);
        }
        let reached: BTreeSet<_> = explanation.reached_by.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(reached, design.access_patterns_of(entity).map(|access| access.name.as_str()).collect());
    });
}

/// Proves N1.
#[test]
fn every_example_is_explained_by_its_index_keys() {
    let mut unexplained = Vec::new();
    each_example(|design, example| {
        let entity = design.entity(&example.entity).expect("an entity");
        for mapping in &entity.indexes {
            if mapping.when.as_ref().is_some_and(|when| !when.is_satisfied_by(example.fields())) {
                continue;
            }
            let table = design.table_of(entity);
            let attributes = &table.indexes[mapping.index].key;
            let rendered = mapping.key.render(example.fields()).expect("an index key");
            let key = [(&attributes.partition, rendered.partition), (&attributes.sort, rendered.sort)];
            let key: Map<_, _> = key.into_iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            let found = explained(design, &key, &example.entity).into_iter();
            let found = found.filter(|each| each.index.as_ref() == Some(&mapping.name) && each.table == table.id);
            let [explanation] = &*found.collect::<Vec<_>>() else {
                unexplained.push(format!("{} in {}: {key:?}", example.entity, mapping.name));
                continue;
            };
            assert_eq!(explanation.wall, mapping.wall, "{key:?}");
            for (path, value) in &explanation.fields {
                assert_eq!(Some(value.clone()), example.text(path), "{path} of {key:?}");
            }
        }
    });
    assert!(unexplained.is_empty(), "index keys that are not explained as their entity: {unexplained:#?}");
}

/// Proves N1.
#[test]
fn a_key_of_no_entity_has_no_explanation() {
    let check = |path: &str, key: [&str; 2]| {
        let design = design(path);
        let parts = key.map(|value| KeyPart { attribute: None, value: value.to_owned() });
        assert!(design.explain(&parts).is_empty(), "{key:?}: {:#?}", design.explain(&parts));
        let router = KeyRouter::new(&design);
        for table in &design.tables {
            assert!(router.route(&table.id, key[0], key[1]).is_none(), "{key:?} in {}", table.id);
        }
    };
    check("aiagent/design/single.toml", ["TENANT#t1", "USERS#u1"]);
    check("aiagent/design/single.toml", ["TENANT#t1", "TENANT#t2"]);
    check("aiagent/design/single.toml", ["TENANT#t1", "AUDIT#yesterday"]);
    check("aiagent/design/multi.toml", ["GLOBAL", "USER#u1"]);
    check("todo/design/todo.toml", ["FAMILY#f-123", "EVENT#01HARX5BD7F8G9H0J1K2M3N4PQ"]);
    check("kondate/design/kondate.toml", ["USER#u_01", "SETTINGS#x"]);
    check("kondate/design/kondate.toml", ["CATALOG#MENU", "CREATED#2026-02-09T10:00:00Z#r_01"]);
}

/// Proves N1.
#[test]
fn every_example_is_found_by_its_access_patterns_and_not_by_those_of_another_tenant() {
    let mut seen = 0;
    each_example(|design, example| {
        let entity = design.entity(&example.entity).expect("an entity");
        for access in design.access_patterns_of(entity) {
            let sparse = access.mapping.and_then(|at| entity.indexes[at].when.as_ref());
            let in_index = sparse.is_none_or(|when| when.is_satisfied_by(example.fields()));
            if !in_index {
                continue;
            }
            let parameters =
                design.parameters(access).into_iter().filter(|each| each.name != "from" && each.name != "to");
            let parameters: Vec<_> = parameters
                .map(|each| {
                    // An item without an optional field is not found by it.
                    let value = example.text(&each.field).unwrap_or_else(|| "none".to_owned());
                    (each, value)
                })
                .collect();
            let pairs: Vec<_> = parameters.iter().map(|(each, value)| (each.name.as_str(), value.as_str())).collect();
            let own = query(design, &access.name, &pairs);
            let passes = own.filter.as_ref().is_none_or(|filter| filter.is_satisfied_by(example.fields()));
            assert_eq!(finds(design, &own, &example.entity, &example.item), passes, "{} {}", access.name, example.item);

            let from_token =
                |pair: &(&str, &str)| parameters.iter().any(|(each, _)| each.from_token && each.name == pair.0);
            if pairs.iter().any(from_token) {
                let others: Vec<_> =
                    pairs.iter().map(|pair| if from_token(pair) { (pair.0, "tenant_other") } else { *pair }).collect();
                let theirs = query(design, &access.name, &others);
                assert!(!finds(design, &theirs, &example.entity, &example.item), "{} {}", access.name, example.item);
            }
            seen += 1;
        }
    });
    assert!(seen > 100, "{seen} queries");
}

/// Proves N1.
#[test]
fn the_document_of_a_design_contains_everything_in_it() {
    for (path, _) in DESIGNS {
        let design = design(path);
        let (text, page, data) = (markdown(&design), html(&design), json(&design));
        let listed = |section: &str, key: &str| -> Vec<String> {
            let items = data[section].as_array().expect("a list").iter();
            items.map(|item| item[key].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(listed("tables", "id"), design.tables.iter().map(|each| each.id.as_str()).collect::<Vec<_>>());
        assert_eq!(
            listed("entities", "name"),
            design.entities.iter().map(|each| each.name.as_str()).collect::<Vec<_>>()
        );
        assert_eq!(
            listed("accessPatterns", "name"),
            design.access_patterns.iter().map(|each| each.name.as_str()).collect::<Vec<_>>()
        );
        assert_eq!(
            listed("accessPatterns", "path"),
            design.access_patterns.iter().map(|each| each.path.as_deref().unwrap_or_default()).collect::<Vec<_>>()
        );
        assert_eq!(listed("roles", "name"), design.roles.iter().map(|each| each.name.as_str()).collect::<Vec<_>>());
        let tables = design.tables.iter().map(|table| table.name.clone());
        let entities = design.entities.iter().flat_map(|entity| {
            let keys = [entity.key.partition.as_str(), entity.key.sort.as_str()].map(str::to_owned);
            let fields = entity.fields.iter().map(|field| field.name.clone());
            [entity.name.clone()].into_iter().chain(keys).chain(fields)
        });
        let accesses = design.access_patterns.iter().flat_map(|access| {
            let query = design.query_outline(access, &[]).to_string();
            [access.name.clone(), query].into_iter().chain(access.path.clone())
        });
        let roles = design.roles.iter().flat_map(|role| {
            let may = role.may.iter().map(|permission| format!("`{permission}`"));
            may.chain([format!("| `{}` |", role.name)]).chain(role.description.clone())
        });
        for expected in tables.chain(entities).chain(accesses).chain(roles) {
            assert!(text.contains(&expected), "{path}: the document does not contain {expected:?}");
        }
        assert!(text.contains("```mermaid"), "{path}: no diagram");
        assert!(page.contains("<html") && !page.contains("src=\"http"), "{path}: one self-contained page");
    }
}

/// The paths of the errors in an item.
fn error_paths(design: &Design, entity: &str, item: &Value) -> BTreeSet<String> {
    let entity = design.entity(entity).expect("an entity");
    design.check_item(entity, item.as_object().expect("an object")).into_iter().map(|each| each.path).collect()
}

/// Proves N1.
#[test]
fn an_example_with_an_unknown_attribute_is_rejected() {
    each_example(|design, example| {
        let mut item = example.item.clone();
        item["colour"] = json!("blue");
        assert_eq!(error_paths(design, &example.entity, &item), ["colour".to_owned()].into(), "{item}");
    });
}

/// Proves N1.
#[test]
fn an_example_without_a_required_field_is_rejected() {
    let mut seen = 0;
    each_example(|design, example| {
        let entity = design.entity(&example.entity).expect("an entity");
        for field in entity.fields.iter().filter(|field| !field.optional && field.default.is_none()) {
            let mut item = example.item.clone();
            item.as_object_mut().expect("an object").remove(&field.name);
            assert!(
                error_paths(design, &example.entity, &item).contains(&field.name),
                "without {}: {item}",
                field.name
            );
            seen += 1;
        }
    });
    assert!(seen > 200, "{seen} fields");
}

/// Proves N1.
#[test]
fn an_example_with_a_value_of_the_wrong_type_is_rejected() {
    let mut seen = 0;
    each_example(|design, example| {
        let entity = design.entity(&example.entity).expect("an entity");
        for field in entity.fields.iter().filter(|field| example.item.get(&field.name).is_some()) {
            let wrong = match field.field_type {
                FieldType::Any => continue,
                FieldType::String | FieldType::Timestamp(_) | FieldType::Date | FieldType::Ulid | FieldType::Uuid => {
                    [json!(true), json!([])]
                }
                FieldType::Number | FieldType::Integer => [json!("7"), json!(true)],
                FieldType::Boolean => [json!("true"), json!(1)],
                FieldType::List(_) => [json!({}), json!("a")],
                FieldType::Map(_) => [json!([]), json!("a")],
            };
            for value in wrong {
                let mut item = example.item.clone();
                item[&field.name] = value;
                assert!(error_paths(design, &example.entity, &item).contains(&field.name), "{}: {item}", field.name);
                seen += 1;
            }
        }
    });
    assert!(seen > 1000, "{seen} values");
}

/// Proves N1.
#[test]
fn an_example_with_a_wrong_key_or_index_attribute_is_rejected() {
    let mut seen = 0;
    each_example(|design, example| {
        let entity = design.entity(&example.entity).expect("an entity");
        let indexes = example.indexes.values().flat_map(|key| key.as_object().expect("a key").keys());
        // An attribute that is also a field cannot differ from it.
        for name in example.key.keys().chain(indexes).filter(|name| entity.field(name).is_none()) {
            for value in [json!("TENANT#other"), json!(""), json!(7), json!(null)] {
                let mut item = example.item.clone();
                item[name] = value;
                assert!(error_paths(design, &example.entity, &item).contains(name), "{name}: {item}");
                seen += 1;
            }
        }
    });
    assert!(seen > 400, "{seen} attributes");
}

/// Proves N1.
#[test]
fn an_item_with_a_former_key_must_belong_to_its_tenant() {
    let design = accepted(
        r#"
        name    = "moved"
        version = "1.0"

        [tenant]
        field = "tenantId"

        [table.main]
        key = ["PK", "SK"]

        [entity.note]
        table       = "main"
        key         = { PK = "TENANT#{tenantId}", SK = "NOTE#{noteId}" }
        former_keys = [{ PK = "TENANT#{tenantId}", SK = "MEMO#{noteId}" }]

        [entity.note.fields]
        tenantId = { type = "string", max = 64 }
        noteId   = { type = "string", max = 64 }
        "#,
    );
    let check = |partition: &str, sort: &str, expected: &[&str]| {
        let item = json!({ "PK": partition, "SK": sort, "tenantId": "t1", "noteId": "n1" });
        let expected: BTreeSet<_> = expected.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(error_paths(&design, "note", &item), expected, "{item}");
    };
    check("TENANT#t1", "NOTE#n1", &[]);
    check("TENANT#t1", "MEMO#n1", &[]);
    check("TENANT#t2", "NOTE#n1", &["PK"]);
    // Neither the present key nor the former key of these fields.
    check("TENANT#t2", "MEMO#n1", &["PK", "SK"]);
    check("TENANT#t1", "MEMO#n2", &["SK"]);
}
