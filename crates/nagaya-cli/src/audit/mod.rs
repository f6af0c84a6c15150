//! `nagaya audit`: what operators did.

mod list;
mod verify;

use anyhow::{Context as _, bail};
use nagaya_tenancy::{MIN_REASON_CHARS, Nagaya, Operator, Principal, is_reason};

use super::{
    Outcome,
    serve::{StoreArgs, StoreKind},
    source,
    store::is_store,
};

/// Read and verify the operator log
///
/// Everything that operators do is an entry of this log, reading it included.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Both commands work beside a server: on DynamoDB by themselves, on a directory of the embedded store through the \
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
}

/// The log, and why it is read.
#[derive(Debug, clap::Args)]
struct LogArgs {
    /// A built-in system or a design file
    #[arg(value_name = "SYSTEM|DESIGN.toml")]
    system: String,
    /// Why the log is read: at least 10 characters. It becomes an entry of the log
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
        }
    })
}

impl LogArgs {
    /// An operator who may read the log, and the name of the system; `None` after showing what is wrong with the design.
    async fn open(&self) -> anyhow::Result<Option<(Operator, String)>> {
        if !is_reason(&self.reason) {
            bail!("give --reason with at least {MIN_REASON_CHARS} characters, and without control characters");
        }
        let store = &self.store;
        let Some(system) = source::system(&self.system, store.kind.engine(), &store.resources())? else {
            return Ok(None);
        };
        match store.kind {
            StoreKind::Memory => {
                bail!("memory keeps nothing, so there is no log; choose embedded or dynamodb with --store")
            }
            // A typo in the name must not create a store.
            StoreKind::Embedded if !is_store(&store.data)? => {
                bail!("{} is not the directory of a store; name it with --data", store.data.display())
            }
            _ => {}
        }
        let opened = store.open_beside_server().await;
        let opened = opened.with_context(|| format!("{} cannot be opened", store.describe()))?;
        let nagaya = Nagaya::open_with(system.design, opened, store.audited_settings(&system.name).await?);
        let unknown = || format!("there are no tables of {} in {}", system.name, store.describe());
        nagaya.ping_store().await.with_context(unknown)?;
        store.continue_log(&nagaya, &system.name).await?;
        // Not authenticated: anyone who can open the store.
        let user = std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "operator".to_owned());
        Ok(Some((nagaya.operator(self.reason.trim(), &Principal::new("", user.as_str())), system.name)))
    }
}
