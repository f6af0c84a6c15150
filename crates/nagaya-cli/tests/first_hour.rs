//! What a new user tries in the first hour.

mod common;

use std::{fs, path::Path, process::Command};

use common::nagaya;
use nagaya_testing::{ServeProcess, send_request};
use serde_json::json;

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

/// Writes the design that `nagaya new` prints.
fn design(directory: &Path, name: &str) -> String {
    fs::create_dir_all(directory).expect("a directory");
    let file = directory.join(format!("{name}.toml"));
    fs::write(&file, nagaya(&["new", name, "--print"]).stdout).expect("a file");
    text(&file).to_owned()
}

#[test]
fn a_name_without_its_extension_suggests_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = design(directory.path(), "desk");
    let name = file.strip_suffix(".toml").expect("a design file");
    for command in ["serve", "seed", "check", "docs"] {
        let refused = nagaya(&[command, name]);
        assert_eq!(refused.status, 2, "{refused}");
        assert!(refused.stderr.contains(&format!("did you mean {file}?")), "{refused}");
    }
}

#[test]
fn several_designs_are_served_below_their_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let [desk, shop] = ["desk", "shop"].map(|name| design(&directory.path().join("designs"), name));
    fs::write(directory.path().join("designs/notes.txt"), "not a design").expect("a file");
    for (data, args) in
        [("one", vec![desk.as_str(), shop.as_str()]), ("two", vec![text(&directory.path().join("designs"))])]
    {
        let serving = ServeProcess::start(
            Command::new(env!("CARGO_BIN_EXE_nagaya")),
            &[args.as_slice(), &["--data", text(&directory.path().join(data))]].concat(),
        );
        for name in ["desk", "shop"] {
            let (status, made) = serving.send(name, "POST", "/items", Some(&json!({ "title": "First" })));
            assert_eq!(status, 201, "{made}");
            // The path needs only the id.
            let path = format!("/items/{}", made["data"]["itemId"].as_str().expect("an id"));
            assert_eq!(serving.send(name, "GET", &path, None).0, 200);
            let api = serving.system(name)["api"].as_str().expect("a URL");
            assert!(api.ends_with(&format!("/{name}/v1")), "{api}");
            assert_eq!(send_request("GET", &format!("{api}/items"), None, None).0, 401);
        }
    }
}

#[test]
fn designs_with_the_same_name_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let [one, other] = ["one", "other"].map(|folder| design(&directory.path().join(folder), "desk"));
    let refused = nagaya(&["serve", &one, &other, "--store", "memory", "--listen", "127.0.0.1:0"]);
    let told = format!("{one} and {other} both have the name `desk`");
    assert!(refused.status == 2 && refused.stderr.contains(&told), "{refused}");
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).expect("a directory");
    let refused = nagaya(&["serve", text(&empty), "--store", "memory", "--listen", "127.0.0.1:0"]);
    assert!(refused.status == 2 && refused.stderr.contains("has no design file (*.toml)"), "{refused}");
}

#[test]
fn a_wrong_address_is_refused_with_examples() {
    let refused = nagaya(&["serve", "todo", "--store", "memory", "--listen", "8080"]);
    assert!(refused.status == 2 && refused.stderr.contains("127.0.0.1:8080, localhost:8080"), "{refused}");
}

#[test]
fn an_engine_that_does_not_exist_is_not_offered() {
    assert!(!nagaya(&["serve", "--help"]).stdout.contains("osmos"));
    let refused = nagaya(&["serve", "todo", "--store", "cosmos", "--listen", "127.0.0.1:0"]);
    assert!(refused.status == 2 && refused.stderr.contains("there is no engine for Cosmos DB yet"), "{refused}");
}

#[test]
fn built_in_system_names_are_accepted_like_design_files() {
    for args in [
        vec!["check", "todo", "kondate"],
        vec!["docs", "todo"],
        vec!["explain", "todo", "--access", "todos_active"],
        vec!["diff", "todo", "systems/todo/design/todo.toml"],
    ] {
        let run = nagaya(&args);
        assert_eq!(run.status, 0, "{args:?}: {run}");
    }
    let file = nagaya(&["docs", "systems/management/design/management.toml"]);
    assert_eq!(nagaya(&["docs", "management"]).stdout, file.stdout);
}

#[test]
fn a_diagnostic_code_is_explained_by_its_page() {
    let page = nagaya(&["explain", "NG0101"]);
    assert!(page.status == 0 && page.stdout.starts_with("# NG0101: an entity without a wall"), "{page}");
    assert_eq!(nagaya(&["explain", "ng0101"]).stdout, page.stdout);
    let unknown = nagaya(&["explain", "NG9999"]);
    assert!(unknown.status == 2 && unknown.stderr.contains("there is no diagnostic NG9999"), "{unknown}");
}

#[test]
fn shells_complete_the_command_and_man_pages_are_written() {
    for shell in ["bash", "zsh", "fish"] {
        let script = nagaya(&["completions", shell]);
        assert!(script.status == 0 && script.stdout.contains("nagaya"), "{shell}: {script}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    assert_eq!(nagaya(&["man", text(directory.path())]).status, 0);
    for page in ["nagaya.1", "nagaya-serve.1", "nagaya-events-dlq.1"] {
        assert!(directory.path().join(page).is_file(), "{page}");
    }
}

#[test]
fn help_uses_the_terms_of_the_glossary() {
    for command in ["", "serve", "seed", "smoke", "token", "store", "tables", "events", "lambda", "new"] {
        let args: Vec<_> = [command, "--help"].into_iter().filter(|arg| !arg.is_empty()).collect();
        let help = nagaya(&args).stdout.to_lowercase();
        assert!(!help.contains("house"), "{help}");
    }
    let help = nagaya(&["serve", "--help"]).stdout;
    let limits =
        help.split("Limits:").nth(1).expect("a heading").split("Stopping and failing:").next().unwrap_or_default();
    assert!(!limits.contains("--json"), "{help}");
    for old in ["--connections", "--idle ", "--grace"] {
        assert!(!help.contains(old), "{old}: {help}");
    }
}
