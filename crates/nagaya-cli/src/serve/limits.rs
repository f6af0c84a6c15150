//! Flags for limits, and for what happens when the server stops or its store fails.

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    time::Duration,
};

use clap::ValueEnum;

/// Below this many connections there is a warning.
const FEW_CONNECTIONS: usize = 1_000;
/// How long a load balancer takes to see that the server stops.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(5);

/// Limits of requests and connections.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct Limits {
    /// Maximum number of bytes of a request body
    #[arg(long, value_name = "BYTES", default_value = "1048576", value_parser = parse_positive, env = "NAGAYA_MAX_BODY")]
    max_body: usize,
    /// Maximum number of bytes of a request head: its first line and all headers
    #[arg(long, value_name = "BYTES", default_value = "32768", value_parser = parse_positive, env = "NAGAYA_MAX_HEAD")]
    max_head: usize,
    /// Maximum number of seconds for a request
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_positive_seconds, env = "NAGAYA_TIMEOUT")]
    timeout: Duration,
    /// Maximum number of concurrent requests, each from when its body has been read until its answer is there
    #[arg(long, value_name = "N", default_value = "1024", value_parser = parse_positive, env = "NAGAYA_MAX_REQUESTS")]
    max_requests: usize,
    /// Maximum number of connections; fewer if the process may not have as many open files. A further one closes the oldest
    /// without a request
    #[arg(long, value_name = "N", default_value = "10000", value_parser = parse_positive, env = "NAGAYA_MAX_CONNECTIONS", alias = "connections")]
    max_connections: usize,
    /// The same for one client address; no limit behind proxies, which share an address
    #[arg(long, value_name = "N", default_value = "1000", value_parser = parse_positive, env = "NAGAYA_ADDRESS_CONNECTIONS")]
    address_connections: usize,
    /// Maximum number of seconds for the head of a request
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_positive_seconds, env = "NAGAYA_HEAD_TIMEOUT")]
    head_timeout: Duration,
    /// Bytes per second that a client has to read of its answer
    #[arg(long, value_name = "BYTES", default_value = "4096", env = "NAGAYA_MIN_READ_RATE")]
    min_read_rate: NonZeroU32,
    /// Maximum number of seconds that a connection is without a request
    #[arg(long, value_name = "SECONDS", default_value = "75", value_parser = parse_positive_seconds, env = "NAGAYA_IDLE_TIMEOUT", alias = "idle")]
    idle_timeout: Duration,
    /// Maximum number of requests of a tenant per second, with bursts of twice as many; 0: no limit
    #[arg(long, value_name = "N", default_value = "200", env = "NAGAYA_TENANT_RATE")]
    tenant_rate: u32,
    /// The same for one tenant, such as `acme=1000`; several with commas
    #[arg(long, value_name = "TENANT=N", env = "NAGAYA_TENANT_RATES", value_delimiter = ',', value_parser = parse_tenant_rate)]
    tenant_rates: Vec<(String, u32)>,
    /// Maximum number of concurrent requests of a tenant, each until its client has read the answer
    #[arg(long, value_name = "N", default_value = "128", value_parser = parse_positive, env = "NAGAYA_TENANT_CONCURRENT")]
    tenant_concurrent: usize,
    /// Maximum number of bytes of large answers that clients have not read yet, and of large request bodies. Lists may read half as
    /// many from the store at the same time
    #[arg(long, value_name = "BYTES", default_value = "134217728", value_parser = parse_positive, env = "NAGAYA_MAX_BYTES_IN_FLIGHT")]
    max_bytes_in_flight: usize,
    /// The same for one tenant
    #[arg(long, value_name = "BYTES", default_value = "33554432", value_parser = parse_positive, env = "NAGAYA_TENANT_BYTES_IN_FLIGHT")]
    tenant_bytes_in_flight: usize,
    /// Maximum number of streams of events of a system
    #[arg(long, value_name = "N", default_value = "1000", value_parser = parse_positive, env = "NAGAYA_MAX_STREAMS")]
    max_streams: usize,
    /// The same for one tenant
    #[arg(long, value_name = "N", default_value = "100", value_parser = parse_positive, env = "NAGAYA_TENANT_STREAMS")]
    tenant_streams: usize,
    /// Maximum number of refused tokens per minute of one client address
    #[arg(long, value_name = "N", default_value = "300", env = "NAGAYA_MAX_FAILED_TOKENS")]
    max_failed_tokens: NonZeroU32,
    /// Seconds after which a request is logged as slow
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds, env = "NAGAYA_SLOW_REQUEST")]
    pub(crate) slow_request: Duration,
}

/// The rate of one tenant.
fn parse_tenant_rate(text: &str) -> Result<(String, u32), String> {
    let tenant_and_rate = text.trim().rsplit_once('=').filter(|(tenant, _)| !tenant.is_empty());
    let (tenant, rate) = tenant_and_rate.ok_or("write it as `acme=1000`")?;
    Ok((tenant.to_owned(), rate.parse().map_err(|_| "has to be a number of requests per second")?))
}

impl Limits {
    /// The limits of a process with this limit of open files.
    pub(crate) fn within(&self, open_files: Option<u64>) -> nagaya_server::Limits {
        let limits = nagaya_server::Limits {
            body_bytes: self.max_body,
            head_bytes: self.max_head,
            time: self.timeout,
            concurrent: self.max_requests,
            connections: self.max_connections,
            connections_per_address: self.address_connections,
            head_time: self.head_timeout,
            idle: self.idle_timeout,
            min_read_rate: self.min_read_rate,
            tenant_rate: self.tenant_rate,
            tenant_rates: self.tenant_rates.iter().cloned().collect(),
            tenant_concurrent: self.tenant_concurrent,
            bytes_in_flight: self.max_bytes_in_flight,
            tenant_bytes_in_flight: self.tenant_bytes_in_flight,
            streams: self.max_streams,
            tenant_streams: self.tenant_streams,
            failed_authentications: self.max_failed_tokens,
        };
        let Some(open_files) = open_files else { return limits };
        let limits = limits.within_open_files(open_files);
        let connections = limits.connections;
        if connections < self.max_connections && connections < FEW_CONNECTIONS {
            tracing::warn!(
                target: "nagaya::server",
                open_files,
                connections,
                wanted = self.max_connections,
                "the limit of open files allows only few connections: raise it (`ulimit -Hn`, `LimitNOFILE=`)"
            );
        }
        limits
    }
}

/// Shutdown and failures.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Stopping and failing")]
pub(super) struct ShutdownArgs {
    /// Seconds that connections are still accepted after SIGTERM, while /readyz answers 503; 5 by default, 0 on a loopback
    /// address
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, env = "NAGAYA_SHUTDOWN_DELAY", alias = "grace")]
    shutdown_delay: Option<Duration>,
    /// What to do when the store fails
    #[arg(long, value_enum, default_value = "reopen", env = "NAGAYA_ON_STORE_FAILURE")]
    pub(super) on_store_failure: OnStoreFailure,
    /// Seconds that the store may be unavailable before the process exits, with `--on-store-failure exit`
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "30",
        value_parser = parse_positive_seconds,
        env = "NAGAYA_STORE_FAILURE_TIMEOUT"
    )]
    pub(super) store_failure_timeout: Duration,
}

/// What happens when the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum OnStoreFailure {
    /// The store is reopened; meanwhile requests are answered 503
    Reopen,
    /// The process exits with 1, so that its supervisor restarts it
    Exit,
}

impl ShutdownArgs {
    /// How long connections are accepted after the server is told to stop. On a loopback address no load balancer reads
    /// `/readyz`, and Ctrl-C ends the server at once.
    pub(super) fn shutdown_delay(&self, address: SocketAddr) -> Duration {
        let usual = if IpAddr::to_canonical(&address.ip()).is_loopback() { Duration::ZERO } else { SHUTDOWN_DELAY };
        self.shutdown_delay.unwrap_or(usual)
    }
}

fn parse_positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("has to be at least 1".to_owned()),
        parsed => parsed.map_err(|error: std::num::ParseIntError| error.to_string()),
    }
}

fn parse_positive_seconds(text: &str) -> Result<Duration, String> {
    parse_seconds(text).and_then(|time| if time.is_zero() { Err("has to be more than 0".to_owned()) } else { Ok(time) })
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "not a time".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        limits: Limits,
        #[command(flatten)]
        ending: ShutdownArgs,
    }

    #[test]
    fn default_flags_equal_the_defaults_of_the_library() {
        let Cli { limits, .. } = Cli::try_parse_from(["serve"]).expect("nothing is needed");
        assert_eq!(format!("{:?}", limits.within(None)), format!("{:?}", nagaya_server::Limits::default()));
        assert_eq!(limits.within(Some(1_024)).connections, 512);
    }

    #[test]
    fn single_tenants_have_rates_of_their_own() {
        let rates = |text: &str| {
            let parsed = Cli::try_parse_from(["serve", "--tenant-rates", text]);
            parsed.map(|cli| format!("{:?}", cli.limits.within(None).tenant_rates))
        };
        let check = |text: &str, expected: &str| assert_eq!(rates(text).expect(text), expected, "{text}");
        check("acme=1000", r#"{"acme": 1000}"#);
        check("acme=1000, beta=0", r#"{"acme": 1000, "beta": 0}"#);
        // The name of a tenant may have `=`.
        check("a=b=7", r#"{"a=b": 7}"#);
        for (text, remedy) in [
            ("acme", "write it as `acme=1000`"),
            ("acme=", "a number of requests per second"),
            ("acme=-1", "a number of requests per second"),
            ("acme=1.5", "a number of requests per second"),
            ("acme=99999999999", "a number of requests per second"),
            ("=5", "write it as `acme=1000`"),
        ] {
            let refused = rates(text).expect_err(text).to_string();
            assert!(refused.contains(remedy), "{text}: {refused}");
        }
    }

    #[test]
    fn limits_of_zero_are_refused() {
        for flag in
            ["--max-body", "--max-head", "--max-requests", "--max-connections", "--tenant-concurrent", "--timeout"]
        {
            let refused = Cli::try_parse_from(["serve", flag, "0"]).expect_err("nobody could be served");
            assert!(refused.to_string().contains(flag), "{refused}");
        }
    }

    #[test]
    fn a_server_behind_a_load_balancer_delays_its_shutdown() {
        let delay = |words: &[&str], address: &str| {
            let Cli { ending, .. } = Cli::try_parse_from(words).expect("the line is fine");
            ending.shutdown_delay(address.parse().expect("an address")).as_secs()
        };
        assert_eq!(delay(&["serve"], "127.0.0.1:80"), 0);
        assert_eq!(delay(&["serve"], "[::ffff:127.0.0.1]:80"), 0);
        assert_eq!(delay(&["serve"], "0.0.0.0:80"), 5);
        assert_eq!(delay(&["serve", "--shutdown-delay", "0"], "0.0.0.0:80"), 0);
        assert_eq!(delay(&["serve", "--grace", "20"], "127.0.0.1:80"), 20);
    }

    #[test]
    fn every_flag_of_serve_can_come_from_a_variable() {
        let command = super::super::Args::augment_args(Command::new("serve"));
        let mut seen = Vec::new();
        for argument in command.get_arguments() {
            let Some(flag) = argument.get_long() else { continue };
            let variable = argument.get_env().and_then(|name| name.to_str()).map(str::to_owned);
            let variable = variable.unwrap_or_else(|| panic!("--{flag} has no variable"));
            assert!(!seen.contains(&variable), "--{flag} has the variable of another one, {variable}");
            seen.push(variable);
        }
        assert!(seen.len() > 20, "{seen:?}");
    }
}
