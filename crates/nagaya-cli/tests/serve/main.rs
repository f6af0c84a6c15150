//! `nagaya serve`, `nagaya token` and `nagaya smoke`, as a new user runs them.

#[path = "../common/mod.rs"]
mod common;
mod doctor;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod running;
mod smoke;
mod start_and_stop;
mod systems;

use std::{path::Path, process::Command};

use nagaya_testing::ServeProcess;

fn serve(args: &[&str], env: &[(&str, &str)]) -> ServeProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nagaya"));
    command.envs(env.iter().copied());
    ServeProcess::start(command, args)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is text")
}
