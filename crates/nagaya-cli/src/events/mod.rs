//! `nagaya events`: operating event-sourced systems.

mod catch_up;
mod cause_tree;
mod dlq;
mod erase;
mod opened;
mod print;
mod rebuild;
mod rotate_key;
mod run;
mod show;

mod tail;
mod verify;

use anyhow::bail;
use nagaya_tenancy::{MIN_REASON_CHARS, is_reason};

pub(crate) use self::print::without_control_chars;
use super::{Outcome, serve::StoreArgs};

/// Inspect and maintain the events of a system and its projections
#[derive(Debug, clap::Args)]
#[command(
    after_help = "All of these work beside a server: on DynamoDB by themselves, on a directory of the embedded store \
                  through the server that has it open. Only `run` needs the directory for itself.\n\nWhat to do when: \
                  docs/how-to/run-event-sourcing.md"
)]
pub(super) struct Args {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    Run(run::Args),
    CatchUp(catch_up::Args),
    Tail(tail::Args),
    Show(show::Args),
    Verify(verify::Args),
    Dlq(dlq::Args),
    Rebuild(rebuild::Args),
    Erase(erase::Args),
    RotateKey(rotate_key::Args),
}

/// The system and its store.
#[derive(Debug, clap::Args)]
struct SystemArgs {
    /// A built-in system; tail, show, verify, erase and rotate-key also take the file of a design
    #[arg(value_name = "SYSTEM")]
    system: String,
    #[command(flatten)]
    store: StoreArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Refuses a reason that tells an auditor nothing.
fn check_reason(reason: &str) -> anyhow::Result<()> {
    if !is_reason(reason) {
        bail!("give --reason with at least {MIN_REASON_CHARS} characters, and without control characters");
    }
    Ok(())
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.subcommand {
            Subcommand::Run(args) => run::run(args).await,
            Subcommand::CatchUp(args) => catch_up::run(args).await,
            Subcommand::Tail(args) => tail::run(args).await,
            Subcommand::Show(args) => show::run(args).await,
            Subcommand::Verify(args) => verify::run(args).await,
            Subcommand::Dlq(args) => dlq::run(args).await,
            Subcommand::Rebuild(args) => rebuild::run(args).await,
            Subcommand::Erase(args) => erase::run(args).await,
            Subcommand::RotateKey(args) => rotate_key::run(args).await,
        }
    })
}
