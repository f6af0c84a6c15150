//! The `nagaya` command.

mod cli;
mod systems;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
