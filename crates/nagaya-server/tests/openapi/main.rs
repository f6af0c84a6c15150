//! The OpenAPI documents of systems, and the pages to read them.

mod document;
mod examples;
mod listing;
mod pages;
mod schemas;

use std::{fs, path::PathBuf};

use nagaya_design::{Design, check};
use nagaya_server::{System, document};
use serde_json::Value as Json;

/// The creation time of the documents: 2026-01-31T09:30:00Z.
const NOW: i64 = 1_769_851_800;

/// All systems and their designs.
const SYSTEMS: [(&str, &str); 5] = [
    ("aiagent", "aiagent/design/single.toml"),
    ("aiagent-multi", "aiagent/design/multi.toml"),
    ("todo", "todo/design/todo.toml"),
    ("kondate", "kondate/design/kondate.toml"),
    ("management", "management/design/management.toml"),
];

fn systems() -> impl Iterator<Item = System> {
    SYSTEMS.into_iter().map(|(name, path)| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../systems").join(path);
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        System::named(name, design(&source))
    })
}

/// A design from its source.
fn design(source: &str) -> Design {
    let checked = check(source, &[]);
    let messages: Vec<_> = checked.diagnostics.iter().map(|each| each.message.clone()).collect();
    checked.design.unwrap_or_else(|| panic!("{messages:?}"))
}

/// The document of a system that is served beside others.
fn of(system: &System) -> Json {
    document(system, &format!("/{}", system.name), NOW)
}

/// The operations of a document: method, path and description.
fn operations(document: &Json) -> Vec<(&str, &str, &Json)> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            all.push((method.as_str(), path.as_str(), operation));
        }
    }
    all
}

/// The target of a `$ref`; the value itself where there is none.
fn resolved<'d>(document: &'d Json, value: &'d Json) -> &'d Json {
    match value["$ref"].as_str() {
        Some(reference) => {
            let found = document.pointer(reference.trim_start_matches('#'));
            found.unwrap_or_else(|| panic!("there is no {reference}"))
        }
        None => value,
    }
}

/// Whether a value fits a schema of a document.
fn fits(document: &Json, schema: &Json, value: &Json) -> Result<(), String> {
    let validator = jsonschema::draft202012::new(&inlined(document, schema)).map_err(|error| error.to_string())?;
    validator.validate(value).map_err(|error| format!("{value}: {error} at {}", error.instance_path()))
}

/// A schema with its references resolved.
fn inlined(document: &Json, schema: &Json) -> Json {
    match resolved(document, schema) {
        Json::Object(parts) => parts.iter().map(|(name, part)| (name.clone(), inlined(document, part))).collect(),
        Json::Array(parts) => parts.iter().map(|part| inlined(document, part)).collect(),
        other => other.clone(),
    }
}
