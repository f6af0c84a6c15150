//! `nagaya serve`: designs become APIs.

mod directory;
mod limits;
mod listen;
mod place;
mod show;
mod watch;

use std::{net::SocketAddr, path::PathBuf};

use clap::{ValueEnum, builder::FalseyValueParser};
use nagaya_server::observe;

use self::limits::{Ending, Limits};
pub(super) use self::{directory::Directory, listen::stop, place::Tables};
use super::Outcome;

/// Serve systems as HTTP APIs
///
/// Without a name, every built-in system is served, each below its own path. With a name or a design file, that one is
/// served at the root.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya serve                      every system of the house, below /<system>\n  nagaya serve \
                        todo                 one system, at /\n  nagaya serve my-design.toml       a design of your own, \
                        without any code\n  nagaya serve --store dynamodb     on DynamoDB (AWS_REGION, \
                        DYNAMODB_ENDPOINT, DYNAMODB_TABLE_NAME)"
)]
pub(super) struct Args {
    /// A built-in system, or the file of a design; without it, all built-in systems
    #[arg(value_name = "SYSTEM|DESIGN.toml")]
    system: Option<String>,
    #[command(flatten)]
    place: Place,
    /// Take over changes of the design file while serving; a breaking change is refused
    #[arg(long, requires = "system", env = "NAGAYA_WATCH", value_parser = FalseyValueParser::new())]
    watch: bool,
    /// Make tables that are missing on a store in the cloud; without this they have to be there. A directory and memory
    /// have theirs made anyway
    #[arg(long, env = "NAGAYA_CREATE_TABLES", value_parser = FalseyValueParser::new())]
    create_tables: bool,
    /// Write what is served, as JSON in one line, to the standard output
    #[arg(long, env = "NAGAYA_JSON", value_parser = FalseyValueParser::new())]
    json: bool,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    ending: Ending,
}

impl Args {
    /// What to do about tables that are not there.
    fn tables(&self) -> Tables {
        if self.create_tables { Tables::Create } else { Tables::Require { creates: true } }
    }
}

/// Where the data is.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Place {
    /// The directory with the embedded store of all systems, and with the keys
    #[arg(long, value_name = "DIR", default_value = "nagaya-data", env = "NAGAYA_DATA")]
    pub(super) data: PathBuf,
    /// The store
    #[arg(long, value_enum, default_value = "embedded", env = "DATA_STORE_DRIVER")]
    pub(super) store: Kind,
    /// What `{base}` in table names stands for; the design's name otherwise
    #[arg(long, value_name = "NAME", env = "DYNAMODB_TABLE_NAME")]
    pub(super) base: Option<String>,
    #[command(flatten)]
    pub(super) directory: Directory,
}

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A directory on disk
    #[value(alias = "file")]
    Embedded,
    /// Nothing is kept
    Memory,
    /// DynamoDB, DynamoDB Local or what is compatible with them
    #[value(alias = "dynamo")]
    Dynamodb,
    /// Azure Cosmos DB
    Cosmos,
}

/// Who reaches the server, and how.
#[derive(Debug, clap::Args)]
struct Reach {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", env = "NAGAYA_LISTEN")]
    listen: SocketAddr,
    /// How the server is called from outside; by default its address
    #[arg(long, value_name = "URL", env = "NAGAYA_PUBLIC_URL")]
    public_url: Option<String>,
    /// An issuer whose tokens are taken besides those of the local one
    #[arg(long, value_name = "URL", env = "NAGAYA_ISSUER", requires = "audience")]
    issuer: Option<String>,
    /// What tokens of that issuer have to be for
    #[arg(long, value_name = "NAME", env = "NAGAYA_AUDIENCE")]
    audience: Option<String>,
    /// Take no tokens of the local issuer
    #[arg(long, requires = "issuer", env = "NAGAYA_NO_LOCAL_ISSUER", value_parser = FalseyValueParser::new())]
    no_local_issuer: bool,
    /// A web page's origin that may call the API; none by default
    #[arg(long = "cors-origin", value_name = "ORIGIN", env = "NAGAYA_CORS_ORIGINS", value_delimiter = ',')]
    cors_origins: Vec<String>,
    /// How many proxies stand in front, for the caller's address
    #[arg(long, value_name = "N", default_value = "0", env = "NAGAYA_TRUSTED_PROXIES")]
    trusted_proxies: usize,
    #[command(flatten)]
    logs: Logs,
}

/// What is logged, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Logs {
    /// How logs are written: text on a terminal and JSON elsewhere by default
    #[arg(long, value_enum, env = "NAGAYA_LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// What is logged, such as `info` or `nagaya=debug`
    #[arg(long, value_name = "FILTER", default_value = "info", env = "NAGAYA_LOG")]
    log: String,
}

impl Logs {
    /// Begins to log, until what this gives is dropped.
    pub(super) fn begin(&self) -> anyhow::Result<observe::Logs> {
        let format = match self.log_format {
            Some(LogFormat::Text) => observe::LogFormat::Text,
            Some(LogFormat::Json) => observe::LogFormat::Json,
            None => observe::LogFormat::detect(),
        };
        Ok(observe::init(format, &self.log)?)
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
