//! `nagaya serve`: designs become APIs.

mod directory;
mod limits;
mod listen;
mod show;
mod store_args;
mod tokens;
mod watch;

use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
};

use clap::{ValueEnum, builder::FalseyValueParser};
use nagaya_server::observe;

use self::limits::{Limits, ShutdownArgs};
#[cfg(feature = "lambda")]
pub(super) use self::tokens::Audiences;
pub(super) use self::{
    directory::EmbeddedStoreArgs,
    listen::stop_signal,
    store_args::Tables,
    tokens::{TokenAgeArgs, TokenArgs},
};
use super::Outcome;

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
    systems: Vec<String>,
    #[command(flatten)]
    store: StoreArgs,
    /// Reload design files when they change; a breaking change is refused. A file that is added to a directory later is not
    /// served until the next start
    #[arg(long, requires = "systems", env = "NAGAYA_WATCH", value_parser = FalseyValueParser::new())]
    watch: bool,
    /// Create missing tables on a store in the cloud; without this they must exist. The embedded store creates its own
    #[arg(long, env = "NAGAYA_CREATE_TABLES", value_parser = FalseyValueParser::new())]
    create_tables: bool,
    /// Print what is served as JSON in one line on the standard output
    #[arg(long, env = "NAGAYA_JSON", value_parser = FalseyValueParser::new())]
    json: bool,
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    ending: ShutdownArgs,
}

impl Args {
    /// What to do about missing tables.
    fn tables(&self) -> Tables {
        if self.create_tables { Tables::Create } else { Tables::Require { creates: true } }
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
    #[command(flatten)]
    pub(super) directory: EmbeddedStoreArgs,
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

/// Network, identity and logs.
#[derive(Debug, clap::Args)]
struct Network {
    /// The address to listen on, such as `127.0.0.1:8080`, `localhost:8080` or, for all interfaces, `:8080`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", env = "NAGAYA_LISTEN", value_parser = address)]
    listen: SocketAddr,
    /// The port to listen on, in place of that of --listen
    #[arg(long, value_name = "PORT", env = "NAGAYA_PORT")]
    port: Option<u16>,
    /// The URL of the server as clients see it; by default its address
    #[arg(long, value_name = "URL", env = "NAGAYA_PUBLIC_URL")]
    public_url: Option<String>,
    /// An issuer whose tokens are accepted besides those of the local one
    #[arg(long, value_name = "URL", env = "NAGAYA_ISSUER", requires = "audience")]
    issuer: Option<String>,
    /// The audience that tokens of that issuer must have, for each system (may be given several times); `NAME` alone if one
    /// system is served
    #[arg(long, value_name = "SYSTEM=NAME", env = "NAGAYA_AUDIENCE", value_delimiter = ',')]
    audience: Vec<String>,
    /// Accept no tokens of the local issuer
    #[arg(long, requires = "issuer", env = "NAGAYA_NO_LOCAL_ISSUER", value_parser = FalseyValueParser::new())]
    no_local_issuer: bool,
    /// A web origin that may call the API (CORS); none by default
    #[arg(long = "cors-origin", value_name = "ORIGIN", env = "NAGAYA_CORS_ORIGINS", value_delimiter = ',')]
    cors_origins: Vec<String>,
    /// How many proxies are in front, to find the caller's address
    #[arg(long, value_name = "N", default_value = "0", env = "NAGAYA_TRUSTED_PROXIES")]
    trusted_proxies: usize,
    #[command(flatten)]
    tokens: TokenArgs,
    #[command(flatten)]
    logs: LogArgs,
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

impl Network {
    /// The address to listen on.
    fn address(&self) -> SocketAddr {
        SocketAddr::new(self.listen.ip(), self.port.unwrap_or(self.listen.port()))
    }
}

/// Reads an address to listen on: an IP address or a host name with a port, or a port alone.
fn address(text: &str) -> Result<SocketAddr, String> {
    const EXAMPLES: &str = "write it as 127.0.0.1:8080, localhost:8080, [::1]:8080 or :8080";
    let text = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let found: Vec<_> = text.to_socket_addrs().map_err(|error| format!("{error}; {EXAMPLES}"))?.collect();
    // A name may have several addresses; one of IPv4 is what most clients try.
    found.iter().find(|each| each.is_ipv4()).or(found.first()).copied().ok_or_else(|| EXAMPLES.to_owned())
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(listen::listen(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_people_do() {
        let port = |text: &str| address(text).map(|address| address.port());
        assert_eq!(address("127.0.0.1:8080").map(|address| address.to_string()), Ok("127.0.0.1:8080".to_owned()));
        assert_eq!(address(":8080").map(|address| address.to_string()), Ok("0.0.0.0:8080".to_owned()));
        assert!(address("localhost:8080").is_ok_and(|address| address.ip().is_loopback()));
        assert_eq!(port("[::1]:81"), Ok(81));
        for text in ["8080", "localhost", "127.0.0.1", "", ":x"] {
            assert!(address(text).is_err_and(|why| why.contains("localhost:8080")), "{text}");
        }
    }
}
