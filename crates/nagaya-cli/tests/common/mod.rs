//! Runs the `nagaya` command the way a user does.

use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

/// Exit code and output of one run of the command.
pub(crate) struct Run {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Trailing spaces are the renderer's padding and would only make snapshots fragile.
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        write!(f, "exit {}\n-- stdout\n{}\n-- stderr\n{}", self.status, trimmed(&self.stdout), trimmed(&self.stderr))
    }
}

/// Runs `nagaya` in the root of the repository.
pub(crate) fn nagaya(args: &[&str]) -> Run {
    nagaya_with(args, "")
}

/// Runs `nagaya` with a text on its standard input.
pub(crate) fn nagaya_with(args: &[&str], input: &str) -> Run {
    nagaya_in(args, input, &[])
}

/// Runs `nagaya` with a text on its standard input and variables in its environment.
pub(crate) fn nagaya_in(args: &[&str], input: &str, variables: &[(&str, &str)]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
    // Clear the variables that may be set on the developer's machine.
    let ours = |(name, _): &(String, String)| name.starts_with("AWS_") || name.starts_with("DYNAMODB_");
    for (name, _) in std::env::vars().filter(ours) {
        command.env_remove(name);
    }
    let mut child = command
        .args(args)
        .current_dir(root())
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(input.as_bytes()).expect("the command reads its input");
    drop(stdin);
    let output = child.wait_with_output().expect("the command ends");
    Run {
        status: output.status.code().expect("the command is not killed"),
        stdout: String::from_utf8(output.stdout).expect("stdout is text"),
        stderr: String::from_utf8(output.stderr).expect("stderr is text"),
    }
}
