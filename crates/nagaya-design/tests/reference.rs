//! The documentation covers the whole language.

use std::{fs, path::PathBuf};

use nagaya_design::{CODES, Severity, check, json_schema};
use serde_json::Value;

fn read(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fenced blocks of a language in a Markdown page, with the line that each starts at.
fn blocks(page: &str, language: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (at, line) in page.lines().enumerate() {
        match &mut open {
            None if line == format!("```{language}") => open = Some((at + 1, String::new())),
            Some(_) if line == "```" => found.extend(open.take()),
            Some((_, text)) => *text += &format!("{line}\n"),
            None => {}
        }
    }
    found
}

/// Proves N1.
#[test]
fn every_example_of_the_reference_is_a_design_without_problems() {
    let examples = blocks(&read("docs/reference/design.md"), "toml");
    assert!(examples.len() >= 15, "only {} examples", examples.len());
    for (line, example) in examples {
        let open: Vec<_> =
            check(&example, &[]).diagnostics.into_iter().filter(|each| each.explained.is_none()).collect();
        assert!(open.is_empty(), "the example at line {line} of design.md: {open:#?}");
    }
}

/// Every key of every table has a row in the section of its table.
#[test]
fn every_key_is_documented() {
    let page = read("docs/reference/design.md");
    let schema = json_schema();
    let mut tables = vec![("design", &schema)];
    tables.extend(schema["definitions"].as_object().expect("a map").iter().map(|(name, table)| (name.as_str(), table)));
    let mut keys = 0;
    for (name, table) in tables {
        let sections: Vec<_> = page
            .split("\n## ")
            .flat_map(|section| section.split("\n### "))
            .filter(|section| title(section).ends_with(name))
            .collect();
        assert!(!sections.is_empty(), "no section of design.md is called `{name}`");
        for key in table["properties"].as_object().expect("a map").keys() {
            let row = format!("| `{key}` |");
            assert!(
                sections.iter().any(|section| section.contains(&row)),
                "`{key}` has no row in the section `{name}`"
            );
            keys += 1;
        }
    }
    assert!(keys > 90, "only {keys} keys");
}

fn title(section: &str) -> String {
    section.lines().next().unwrap_or_default().to_lowercase()
}

#[test]
fn the_schema_in_the_repository_is_up_to_date() {
    let stored: Value = serde_json::from_str(&read("docs/reference/design.schema.json")).expect("the schema is JSON");
    assert_eq!(stored, json_schema(), "run `nagaya schema > docs/reference/design.schema.json`");
}

#[test]
fn every_code_has_a_page_with_its_title_and_a_row_in_the_list() {
    let list = read("docs/reference/errors/README.md");
    for code in CODES {
        let page = read(&format!("docs/reference/errors/{}.md", code.id));
        assert!(page.starts_with(&format!("# {}: {}\n", code.id, code.title)), "the page of {}", code.id);
        assert!(page.contains("\n## Remedy\n"), "the page of {} has no remedy", code.id);
        let severity = match code.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let row = format!("| [{0}]({0}.md) | {severity} | {1} |", code.id, code.title);
        assert!(list.contains(&row), "the list of errors lacks: {row}");
    }
}

#[test]
fn the_design_of_the_readme_passes() {
    for (line, example) in blocks(&read("README.md"), "toml") {
        let diagnostics = check(&example, &[]).diagnostics;
        assert!(diagnostics.is_empty(), "the design at line {line} of README.md: {diagnostics:#?}");
    }
}

#[test]
fn the_designs_of_the_tutorial_pass() {
    for path in ["docs/tutorials/desk.toml", "docs/tutorials/desk-1.toml"] {
        let open: Vec<_> =
            check(&read(path), &[]).diagnostics.into_iter().filter(|each| each.explained.is_none()).collect();
        assert!(open.is_empty(), "{path}: {open:#?}");
    }
}
