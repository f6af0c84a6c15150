//! The examples of the README, compared with what the command prints.
//!
//! Edits that a reader makes by hand are comments in the page: `<!-- run: … -->`.
#![cfg(unix)]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");

/// What a shell prints in a directory, with `nagaya` on its path.
fn run(directory: &Path, command: &str) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_nagaya")).parent().expect("the command is in a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("exec 2>&1; {command}")]).current_dir(directory).env("PATH", path).stdin(Stdio::null());
    String::from_utf8(shell.output().expect("bash runs").stdout).expect("text")
}

#[test]
fn the_readme_shows_what_the_command_prints() {
    let page = fs::read_to_string(PAGE).expect("the page");
    let directory = tempfile::tempdir().expect("a directory");
    let (mut lines, mut compared) = (page.lines(), 0);
    while let Some(line) = lines.next() {
        if let Some(command) = line.strip_prefix("<!-- run: ").and_then(|line| line.strip_suffix(" -->")) {
            run(directory.path(), command);
        }
        let Some(kind) = line.strip_prefix("```") else { continue };
        let block: String = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        if kind == "toml" {
            fs::write(directory.path().join("desk.toml"), &block).expect("a file");
        }
        for example in block.split("$ nagaya ").skip(1).filter(|_| kind == "text") {
            let (arguments, expected) = example.split_once('\n').expect("a command and its output");
            let printed = run(directory.path(), &format!("nagaya {arguments}"));
            assert_eq!(printed.trim_end(), expected.trim_end(), "{arguments}");
            compared += 1;
        }
    }
    assert_eq!(compared, 3);
}
