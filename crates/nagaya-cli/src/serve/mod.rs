//! `nagaya serve`: designs become APIs.

mod directory;
mod existing;
mod keys;
mod limits;
mod listen;
mod network;
mod opened_store;
mod plans;
mod prune;
mod show;
mod store_args;
mod tokens;
mod watch;

use std::path::PathBuf;

use clap::{ValueEnum, builder::FalseyValueParser};
use nagaya_server::observe;
use nagaya_tenancy::DEFAULT_AUDIT_RETENTION_DAYS;

use self::limits::ShutdownArgs;
pub(super) use self::{
    directory::EmbeddedStoreArgs,
    existing::operator,
    keys::{AUDIT_KEY, CURSOR_KEY, KeyFiles, KeySource},
    limits::Limits,
    listen::stop_signal,
    network::{ApiArgs, Network},
    opened_store::OpenedStore,
    plans::PlanArgs,
    store_args::Tables,
    tokens::{Audiences, TokenAgeArgs},
};
use super::{Outcome, tables::KmsKey};

/// Serve systems as HTTP APIs
///
/// Without arguments, all built-in systems are served, each below a path of its own. A single system or design file is
/// served at the root; several are served below /<name>. A directory stands for all design files in it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya serve                      all built-in systems, below /<system>\n  nagaya serve \
                        todo                 one system, at /\n  nagaya serve my-design.toml       a design of your own, \
                        without any code\n  nagaya serve a.toml b.toml        several designs, below /<name>\n  nagaya serve --store dynamodb     on DynamoDB (AWS_REGION, \
                        DYNAMODB_ENDPOINT, DYNAMODB_TABLE_NAME)"
)]
pub(super) struct Args {
    /// Built-in systems, design files or directories of design files; all built-in systems by default
    #[arg(value_name = "SYSTEM|DESIGN.toml|DIR")]
    pub(crate) systems: Vec<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Reload design files when they change; a breaking change is refused. A file that is added to a directory later is not
    /// served until the next start
    #[arg(long, requires = "systems", env = "NAGAYA_WATCH", value_parser = FalseyValueParser::new())]
    watch: bool,
    /// Create missing tables on a store in the cloud; without this they must exist. The embedded store creates its own
    #[arg(long, env = "NAGAYA_CREATE_TABLES", value_parser = FalseyValueParser::new())]
    create_tables: bool,
    #[command(flatten)]
    kms_key: KmsKey,
    /// Print what is served as JSON in one line on the standard output
    #[arg(long, env = "NAGAYA_JSON", value_parser = FalseyValueParser::new())]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) plans: PlanArgs,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    logs: LogArgs,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    ending: ShutdownArgs,
}

impl Args {
    /// What to do about missing tables.
    fn tables(&self) -> Tables {
        if self.create_tables { Tables::Create(self.kms_key.clone()) } else { Tables::Require { creates: true } }
    }
}

/// The store.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct StoreArgs {
    /// The directory of the embedded store and of the keys
    #[arg(long, value_name = "DIR", default_value = "nagaya-data", env = "NAGAYA_DATA")]
    pub(super) data: PathBuf,
    /// The store
    #[arg(long = "store", value_name = "STORE", value_enum, default_value = "embedded", env = "DATA_STORE_DRIVER")]
    pub(super) kind: StoreKind,
    /// The value of `{base}` in table names; by default the design's name
    #[arg(long, value_name = "NAME", env = "DYNAMODB_TABLE_NAME")]
    pub(super) base: Option<String>,
    /// Days after which entries of the operator log expire; 0: never. It holds for entries that are written from now on
    #[arg(long, value_name = "DAYS", default_value_t = DEFAULT_AUDIT_RETENTION_DAYS, env = "NAGAYA_AUDIT_RETENTION")]
    #[arg(value_parser = clap::value_parser!(u64).range(..=36_500))]
    pub(super) audit_retention: u64,
    #[command(flatten)]
    pub(super) directory: EmbeddedStoreArgs,
    /// The embedded store, when it has been opened.
    #[arg(skip)]
    pub(crate) opened: OpenedStore,
}

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreKind {
    /// A directory on disk
    #[value(alias = "file")]
    Embedded,
    /// Memory: nothing is kept
    Memory,
    /// DynamoDB, DynamoDB Local or a compatible server
    #[value(alias = "dynamo")]
    Dynamodb,
    /// Azure Cosmos DB, for which there is no engine yet
    #[value(hide = true)]
    Cosmos,
}

/// What is logged, and how.
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// The format of logs; by default text on a terminal and JSON elsewhere
    #[arg(long, value_enum, env = "NAGAYA_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// What is logged, such as `info` or `nagaya=debug`
    #[arg(long, value_name = "FILTER", default_value = "info", env = "NAGAYA_LOG")]
    log: String,
}

impl LogArgs {
    /// Starts logging, until the result is dropped.
    pub(super) fn init(&self) -> anyhow::Result<observe::LogGuard> {
        Ok(observe::init(self.format(), &self.log)?)
    }

    /// The same without a thread: each line is written at once.
    #[cfg(feature = "lambda")]
    pub(super) fn init_unbuffered(&self) -> anyhow::Result<()> {
        Ok(observe::init_unbuffered(self.format(), &self.log)?)
    }

    /// The format of logs.
    pub(super) fn format(&self) -> observe::LogFormat {
        match self.log_format {
            Some(LogFormat::Text) => observe::LogFormat::Text,
            Some(LogFormat::Json) => observe::LogFormat::Json,
            None => observe::LogFormat::detect(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(listen::listen(args))
}
