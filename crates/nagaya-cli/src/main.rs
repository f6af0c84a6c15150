//! The `nagaya` command: one module per subcommand. Data goes to stdout, everything else to stderr.

mod check;
mod control;
mod diff;
mod docs;
mod events;
mod explain;
mod lambda;
mod new;
mod report;
mod schema;
mod seed;
mod serve;
mod smoke;
mod source;
mod store;
mod systems;
mod tables;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Faster than the system's allocator for requests, which make many small allocations that another thread frees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A key design goes in, a running multi-tenant backend comes out.
#[derive(Debug, Parser)]
#[command(name = "nagaya", version, about, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 fine, 1 found a problem, 2 wrong usage.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::Args),
    Check(check::Args),
    Explain(explain::Args),
    Docs(docs::Args),
    Diff(diff::Args),
    Schema(schema::Args),
    Serve(Box<serve::Args>),
    Seed(seed::Args),
    Smoke(smoke::Args),
    Lambda(lambda::Args),
    Store(store::Args),
    Tables(tables::Args),
    Events(events::Args),
    Token(token::Args),
}

/// How a command ended, apart from failures to run at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Fine,
    FoundProblem,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse_from(arguments()).command {
        Command::New(args) => new::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Docs(args) => docs::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Seed(args) => seed::run(&args),
        Command::Smoke(args) => smoke::run(&args),
        Command::Lambda(args) => lambda::run(&args),
        Command::Store(args) => store::run(&args),
        Command::Tables(args) => tables::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Token(args) => token::run(&args),
    };
    match outcome {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::FoundProblem) => ExitCode::from(1),
        Err(error) => {
            // The reader of our output has gone: nothing is left to say, and nobody to say it to.
            if is_broken_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            eprintln!("nagaya: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// What the command was called with. Lambda calls a function's program `bootstrap`, and tells it nothing.
fn arguments() -> Vec<std::ffi::OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if cfg!(feature = "lambda")
        && let [program] = arguments.as_slice()
        && std::path::Path::new(program).file_name().is_some_and(|name| name == "bootstrap")
    {
        arguments.push("lambda".into());
    }
    arguments
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
