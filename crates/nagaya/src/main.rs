//! The `nagaya` command.

mod cli;
mod systems;

use std::process::ExitCode;

/// A request makes many small allocations that end on another thread, which this one is quicker at than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
