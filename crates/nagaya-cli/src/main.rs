//! The `nagaya` command: one module per subcommand. Data goes to stdout, everything else to stderr.

mod audit;
mod check;
mod completions;
mod confirm;
mod control;
mod diff;
mod docs;
mod doctor;
mod duration;
mod encryption;
mod events;
mod explain;
mod hex;
mod key_file;
mod keys;
mod lambda;
mod new;
mod output;
mod pages;
mod progress;
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

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::ExitCode,
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// Faster than the system's allocator for requests, which make many small allocations that another thread frees.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A key design goes in, a running multi-tenant backend comes out.
#[derive(Debug, Parser)]
#[command(name = "nagaya", version, max_term_width = 100)]
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
    Keys(keys::Args),
    Doctor(Box<doctor::Args>),
    Audit(audit::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Man(completions::ManArgs),
}

impl Command {
    /// Whether it writes data or keys, or opens a store. The others write designs and documents, which may be for everyone.
    fn holds_data(&self) -> bool {
        use Command::{Audit, Doctor, Events, Keys, Lambda, Seed, Serve, Smoke, Store, Token};
        matches!(
            self,
            Audit(_)
                | Doctor(_)
                | Events(_)
                | Keys(_)
                | Lambda(_)
                | Seed(_)
                | Serve(_)
                | Smoke(_)
                | Store(_)
                | Token(_)
        )
    }
}

/// How a command ended, apart from failures to run at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Fine,
    FoundProblem,
}

fn main() -> ExitCode {
    let command = Cli::from_arg_matches(&command_line().get_matches_from(arguments()));
    let command = command.unwrap_or_else(|error| error.exit()).command;
    if command.holds_data() {
        nagaya_embedded::keep_new_files_private();
    }
    let outcome = match command {
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
        Command::Keys(args) => keys::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => completions::write_man_pages(&args),
    };
    match outcome {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::FoundProblem) => ExitCode::from(1),
        Err(error) => {
            // The reader of the output is gone: there is nothing left to do.
            if is_broken_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            eprintln!("nagaya: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Former names of variables for `serve`: the old name, the new one, and the flag.
const RENAMED: [[&str; 3]; 3] = [
    ["NAGAYA_CONNECTIONS", "NAGAYA_MAX_CONNECTIONS", "--max-connections"],
    ["NAGAYA_IDLE", "NAGAYA_IDLE_TIMEOUT", "--idle-timeout"],
    ["NAGAYA_GRACE", "NAGAYA_SHUTDOWN_DELAY", "--shutdown-delay"],
];

/// The variables that must not be set to nothing: without an issuer a server is for development, and nobody wants that because
/// a template had no value for it.
const NEVER_EMPTY: [&str; 2] = ["NAGAYA_ISSUER", "NAGAYA_AUDIENCE"];

/// The command line, in which a variable that is set to nothing is as good as unset.
fn command_line() -> clap::Command {
    without_empty_variables(Cli::command(), &|name| std::env::var_os(name).is_some_and(|value| value.is_empty()))
}

fn without_empty_variables(command: clap::Command, is_empty: &dyn Fn(&OsStr) -> bool) -> clap::Command {
    let command = command.mut_args(|argument| match argument.get_env() {
        Some(name) if is_empty(name) && !NEVER_EMPTY.iter().any(|known| name == *known) => {
            argument.env(clap::builder::Resettable::Reset)
        }
        _ => argument,
    });
    command.mut_subcommands(|subcommand| without_empty_variables(subcommand, is_empty))
}

/// The arguments of the command. Lambda starts the program as `bootstrap` without any.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|command| command == "serve" || command == "doctor") {
        add_renamed(&mut arguments, |name| std::env::var_os(name));
    }
    if cfg!(feature = "lambda")
        && let [program] = arguments.as_slice()
        && Path::new(program).file_name().is_some_and(|name| name == "bootstrap")
    {
        arguments.push("lambda".into());
    }
    arguments
}

/// Takes over the values of variables that are set under their former names only. A flag that is given comes last and wins.
fn add_renamed(arguments: &mut Vec<OsString>, variable: impl Fn(&str) -> Option<OsString>) {
    for [old, new, flag] in RENAMED {
        let former = flag_of(old);
        let given = |argument: &OsString| {
            let name = argument.to_string_lossy();
            let name = name.split('=').next().unwrap_or_default();
            name == flag || name == former
        };
        if let (Some(value), None) = (variable(old), variable(new))
            && !arguments.iter().any(given)
        {
            arguments.splice(2..2, [OsString::from(flag), value]);
        }
    }
}

/// The flag that a variable stands for.
fn flag_of(variable: &str) -> String {
    variable.to_lowercase().replace("nagaya_", "--").replace('_', "-")
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn variables_with_former_names_are_still_read() {
        let line = |words: &[&str], set: &[(&str, &str)]| {
            let mut arguments: Vec<OsString> = words.iter().map(OsString::from).collect();
            add_renamed(&mut arguments, |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            });
            arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let old = [("NAGAYA_GRACE", "3")];
        assert_eq!(line(&["nagaya", "serve", "todo"], &old), "nagaya serve --shutdown-delay 3 todo");
        assert_eq!(line(&["nagaya", "serve", "--grace=1"], &old), "nagaya serve --grace=1");
        assert_eq!(line(&["nagaya", "serve"], &[old[0], ("NAGAYA_SHUTDOWN_DELAY", "4")]), "nagaya serve");
    }
}
