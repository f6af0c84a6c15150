//! `nagaya new`, as a new user runs it.

mod common;

use std::{fs, path::Path};

use common::{nagaya, nagaya_with};
use insta::assert_snapshot;

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}

#[test]
fn a_new_design_is_valid_for_any_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let longest = "x".repeat(64);
    for name in ["a", "desk", "my-shop-2", "x--", longest.as_str()] {
        let made = nagaya(&["new", name, "--dir", text(dir.path())]);
        assert_eq!((made.status, made.stdout.as_str()), (0, ""), "{made}");
        let file = dir.path().join(format!("{name}.toml"));
        assert!(fs::read_to_string(&file).expect("a file").contains(&format!("\"{name}\"")));
        let args = ["check", text(&file), "--deny-warnings", "--engine", "embedded", "--engine", "dynamodb"];
        let checked = nagaya(&args);
        assert_eq!((checked.status, checked.stderr.as_str()), (0, ""), "{name}: {checked}");
    }
}

#[test]
fn new_prints_the_next_steps() {
    let dir = tempfile::tempdir().expect("a directory");
    let deep = dir.path().join("deep/down");
    let made = nagaya(&["new", "desk", "--dir", text(&deep)]);
    assert_snapshot!(made.to_string().replace(text(dir.path()), "DIR"));
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("desk.toml");
    fs::write(&file, "mine").expect("a file");
    let refused = nagaya(&["new", "desk", "--dir", text(dir.path())]);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("desk.toml exists"), "{refused}");
    assert_eq!(fs::read_to_string(&file).expect("a file"), "mine");
}

#[test]
fn new_can_print_to_standard_output() {
    let printed = nagaya(&["new", "desk", "--print"]);
    assert_eq!((printed.status, printed.stderr.as_str()), (0, ""));
    assert_eq!(nagaya_with(&["check", "-", "--deny-warnings"], &printed.stdout).status, 0);
}

#[test]
fn a_bad_name_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().expect("a directory");
    let too_long = "x".repeat(65);
    let names = ["", "Desk", "2desk", "-desk", "my desk", "../desk", "desk.toml", "かんばん", "todo", &too_long];
    let outputs: Vec<String> = names
        .iter()
        .map(|name| {
            let refused = nagaya(&["new", "--dir", text(dir.path()), "--", name]);
            assert_eq!((refused.status, refused.stdout.as_str()), (2, ""), "{refused}");
            refused.stderr
        })
        .collect();
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0);
    assert_snapshot!(outputs.concat());
}
