//! `nagaya audit`: what operators did.

mod archive;
mod list;
mod verify;

use anyhow::bail;
use nagaya_tenancy::{MIN_REASON_CHARS, Nagaya, Operator, is_reason};

use super::{
    Outcome,
    serve::{StoreArgs, operator},
    source,
};

/// Read and verify the operator log, and archive audits
///
/// Everything that operators do is an entry of this log, reading it included.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "All of these work beside a server: on DynamoDB by themselves, on a directory of the embedded store through the \
                  server that has it open. Operators also read the log by `GET /operator-log`.\n\nWhat the log can reveal: \
                  docs/how-to/operate-the-server.md"
)]
pub(super) struct Args {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    List(list::Args),
    Verify(verify::Args),
    Archive(archive::Args),
}

/// The system, and why its log or its audit is looked into.
#[derive(Debug, clap::Args)]
struct LogArgs {
    /// A built-in system or a design file
    #[arg(value_name = "SYSTEM|DESIGN.toml")]
    system: String,
    /// Why it is done: at least 10 characters. It becomes an entry of the log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    store: StoreArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.subcommand {
            Subcommand::List(args) => list::run(args).await,
            Subcommand::Verify(args) => verify::run(args).await,
            Subcommand::Archive(args) => archive::run(args).await,
        }
    })
}

impl LogArgs {
    /// An operator with the reason, the system on its store, and its name; `None` after showing what is wrong with the design.
    async fn open(&self) -> anyhow::Result<Option<(Operator, Nagaya, String)>> {
        if !is_reason(&self.reason) {
            bail!("give --reason with at least {MIN_REASON_CHARS} characters, and without control characters");
        }
        let store = &self.store;
        let Some(system) = source::system(&self.system, store.kind.engine(), &store.resources())? else {
            return Ok(None);
        };
        let nagaya = store.open_existing(&system).await?;
        Ok(Some((operator(&nagaya, self.reason.trim()), nagaya, system.name)))
    }
}
