//! Bad designs with their diagnostics, and good designs without any.

mod common;

use std::{fs, path::Path};

use common::{nagaya, root};
use insta::assert_snapshot;
use serde_json::Value;

/// The diagnostic code at the start of a file name.
fn code(path: &Path) -> String {
    let stem = path.file_stem().expect("a file has a name").to_string_lossy();
    stem.split('-').next().expect("a name has a first part").to_owned()
}

/// `# engine: cosmos` in the first line asks for that engine's checks.
fn arguments<'a>(path: &'a str, text: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["check", path];
    if let Some(engine) = text.lines().next().and_then(|line| line.strip_prefix("# engine: ")) {
        arguments.extend(["--engine", engine]);
    }
    arguments
}

/// Every bad design gives exactly the diagnostic in its file name; `many-*` give several at once.
///
/// Proves N1.
#[test]
fn each_bad_design_gives_its_diagnostic() {
    insta::glob!("../../nagaya-design/tests", "bad/*.toml", |path| {
        let text = fs::read_to_string(path).expect("a design can be read");
        let relative = path.strip_prefix(root()).expect("the design is in the repository").to_string_lossy();
        let arguments = arguments(&relative, &text);
        let shown = nagaya(&arguments);

        let mut with_json = arguments.clone();
        with_json.push("--json");
        let result: Value = serde_json::from_str(&nagaya(&with_json).stdout).expect("--json prints JSON");
        let diagnostics = result["files"][0]["diagnostics"].as_array().expect("a list");
        let open: Vec<_> = diagnostics.iter().filter(|each| each["explanation"].is_null()).collect();
        let errors = open.iter().any(|each| each["severity"] == "error");
        assert_eq!(shown.status, i32::from(errors), "{relative}");
        if code(path) == "many" {
            assert!(open.len() >= 5, "{relative} has only {} problems", open.len());
        } else {
            assert!(!open.is_empty(), "{relative} passes");
            for each in open {
                assert_eq!(each["code"], code(path), "{relative}: {}", each["message"]);
            }
        }
        // The snapshot is stored beside its design.
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(path.parent().expect("the design is in a folder"));
        settings.set_prepend_module_to_snapshot(false);
        settings.remove_snapshot_suffix();
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        settings.bind(|| assert_snapshot!(name, shown.to_string()));
    });
}

#[test]
fn there_is_a_bad_design_for_every_code() {
    let files = fs::read_dir(root().join("crates/nagaya-design/tests/bad")).expect("the folder is there");
    let files = files.map(|file| file.expect("an entry can be read").path());
    let designs = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let codes: Vec<_> = designs.map(|path| code(&path)).collect();
    for known in nagaya_design::CODES {
        assert!(codes.iter().any(|code| code == known.id), "no bad design gives {} ({})", known.id, known.title);
    }
    assert!(codes.len() >= 40);
}

#[test]
fn good_designs_that_look_bad_pass() {
    insta::glob!("../../nagaya-design/tests", "good/*.toml", |path| {
        let run = nagaya(&["check", "--deny-warnings", &path.to_string_lossy()]);
        assert_eq!(run.status, 0, "{run}");
        assert_eq!(run.stderr, "");
    });
}

/// The five systems pass, and each warning that remains is explained where it arises.
///
/// Proves N1.
#[test]
fn the_five_designs_pass_with_every_warning_explained() {
    let designs = [
        "systems/aiagent/design/single.toml",
        "systems/aiagent/design/multi.toml",
        "systems/todo/design/todo.toml",
        "systems/kondate/design/kondate.toml",
        "systems/management/design/management.toml",
    ];
    let run = nagaya(&[&["check", "--deny-warnings"], designs.as_slice()].concat());
    assert_eq!(run.status, 0, "{run}");
    assert_snapshot!(run.stdout);
    let cosmos = nagaya(&["check", "--deny-warnings", "--engine", "cosmos", designs[4]]);
    assert_eq!(cosmos.status, 0, "{cosmos}");
    let dynamodb = nagaya(&[&["check", "--deny-warnings", "--engine", "dynamodb"], &designs[..4]].concat());
    assert_eq!(dynamodb.status, 0, "{dynamodb}");
}
