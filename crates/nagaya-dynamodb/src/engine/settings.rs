//! The server's address, region and credentials, from the usual AWS environment.

use std::{env, time::Duration};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials as _, SharedCredentialsProvider, SharedHttpClient};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use nagaya_store::Error;
use tracing::{instrument::WithSubscriber as _, subscriber::NoSubscriber};

use super::{
    Dynamodb, error,
    meter::Meter,
    options::Options,
    retry::{self, RetryClassifier},
    streams::{EmptyMapTyper, StreamCache},
    table_cache::TableCache,
};

/// The environment variable with the base of a design's table names: `{base}` in the design.
pub const TABLE_NAME_VARIABLE: &str = "DYNAMODB_TABLE_NAME";

/// The region for servers on this machine, which accept any.
const LOCAL_REGION: &str = "us-east-1";

/// The base of a design's table names, if [`TABLE_NAME_VARIABLE`] is set.
pub fn table_name_from_env() -> Option<String> {
    variable(TABLE_NAME_VARIABLE)
}

/// The server and how to reach it.
///
/// Credentials, and a region that is `None`, come from where all AWS tools look: environment, profile files, single
/// sign-on, the role of the container or the machine.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The server's address; `None`: AWS in the region.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Allows plain HTTP to a server on another machine. Secrets are not sent, but others on the network can read the items.
    pub allows_plain_http: bool,
}

impl Settings {
    /// Reads the environment:
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | `DYNAMODB_ENDPOINT` | the server's address; else `AWS_ENDPOINT_URL_DYNAMODB`, else AWS |
    /// | `AWS_REGION` | the region; not needed for a server on this machine |
    /// | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, … | the credentials; not needed for a server on this machine |
    /// | `DYNAMODB_PLAIN_HTTP` | `true` allows `http://` to other machines, such as another container |
    pub fn from_env() -> Self {
        Settings {
            endpoint: variable("DYNAMODB_ENDPOINT").or_else(|| variable("AWS_ENDPOINT_URL_DYNAMODB")),
            region: variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")),
            allows_plain_http: variable("DYNAMODB_PLAIN_HTTP").is_some_and(|text| text == "true" || text == "1"),
        }
    }

    /// A server on this machine, such as DynamoDB Local.
    pub fn local(endpoint: impl Into<String>) -> Self {
        Settings { endpoint: Some(endpoint.into()), ..Settings::default() }
    }

    /// Whether the server is on this machine.
    fn is_local(&self) -> bool {
        self.endpoint.as_deref().and_then(host).is_some_and(is_loopback)
    }

    /// Rejects addresses that are malformed or would send items unencrypted to another machine.
    fn check(&self) -> Result<(), Error> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let encrypted = endpoint.starts_with("https://");
        if !(encrypted || endpoint.starts_with("http://")) || host(endpoint).is_none() {
            return Err(Error::invalid(format!("the endpoint `{endpoint}` is not an `http://` or `https://` address")));
        }
        if encrypted || self.allows_plain_http || self.is_local() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the endpoint `{endpoint}` is on another machine and not encrypted: use `https://`, or set \
             DYNAMODB_PLAIN_HTTP=true if you trust the network between"
        )))
    }

    /// The configuration of the SDK, or an error that names what is missing.
    async fn sdk_config(&self) -> Result<SdkConfig, Error> {
        self.check()?;
        let http = http_client();
        // A server on this machine accepts any credentials, so the machine's role is not looked for.
        let any_credentials =
            self.is_local() && ["AWS_ACCESS_KEY_ID", "AWS_PROFILE"].iter().all(|name| variable(name).is_none());
        if any_credentials {
            let credentials = Credentials::new("local", "local", None, None, "a server on this machine");
            return Ok(SdkConfig::builder()
                .behavior_version(BehaviorVersion::latest())
                .http_client(http)
                .region(Region::new(self.region.clone().unwrap_or_else(|| LOCAL_REGION.to_owned())))
                .credentials_provider(SharedCredentialsProvider::new(credentials))
                .build());
        }
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).http_client(http);
        if let Some(region) = &self.region {
            loader = loader.region(Region::new(region.clone()));
        }
        // The SDK logs each place that it searched; the error below says what to do instead.
        let (config, credentials) = async {
            let config = loader.load().await;
            let credentials = credentials(&config).await;
            (config, credentials)
        }
        .with_subscriber(NoSubscriber::default())
        .await;
        let region = match config.region() {
            None if self.is_local() => Some(Region::new(LOCAL_REGION)),
            region => region.cloned(),
        };
        check_found(credentials, region.is_some())?;
        Ok(config.into_builder().region(region).build())
    }
}

/// The error that says what is missing and how to set it.
fn check_found(credentials: Result<(), String>, has_region: bool) -> Result<(), Error> {
    let mut missing = Vec::new();
    if let Err(cause) = credentials {
        // The SDK lists the places that it searched on further lines.
        let cause = cause.lines().next().unwrap_or_default().trim_end_matches(". Attempted:");
        missing.push(format!(
            "there are no AWS credentials ({cause}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or \
             give the machine a role"
        ));
    }
    if !has_region {
        missing.push("there is no AWS region: set AWS_REGION".to_owned());
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{}; for a server on this machine, set only DYNAMODB_ENDPOINT, such as http://127.0.0.1:8000",
        missing.join("; ")
    )))
}

impl Dynamodb {
    /// Opens a store on DynamoDB. This loads credentials, and sends no request to DynamoDB.
    pub async fn open(settings: &Settings, options: Options) -> Result<Self, Error> {
        let config = settings.sdk_config().await?;
        let (budget, meter) = (retry::budget(&options), Meter::default());
        let client = |repeats_ambiguous: bool| {
            let mut builder = aws_sdk_dynamodb::config::Builder::from(&config);
            builder.set_endpoint_url(settings.endpoint.clone().or_else(|| config.endpoint_url().map(str::to_owned)));
            let classifier = RetryClassifier { repeats_ambiguous, meter: meter.clone() };
            aws_sdk_dynamodb::Client::from_conf(retry::configure(builder, &options, &budget, classifier).build())
        };
        let mut streams = aws_sdk_dynamodbstreams::config::Builder::from(&config)
            .retry_config(retry::retries(&options))
            .timeout_config(retry::timeouts(&options))
            .retry_partition(budget.clone());
        // AWS serves streams at an address of their own; other servers use the same one for tables and streams.
        let not_aws = settings.endpoint.clone().filter(|endpoint| !endpoint.contains(".amazonaws.com"));
        if not_aws.is_some() {
            streams.set_endpoint_url(not_aws);
            streams = streams.interceptor(EmptyMapTyper);
        }
        Ok(Dynamodb {
            client: client(true),
            once: client(false),
            streams: aws_sdk_dynamodbstreams::Client::from_conf(streams.build()),
            tables: TableCache::default(),
            stream_cache: StreamCache::default(),
            meter,
            options,
        })
    }
}

/// A client that drops idle connections before the server closes them. A write sent on a connection that the server is just
/// closing would get no response.
fn http_client() -> SharedHttpClient {
    Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .pool_idle_timeout(Duration::from_secs(20))
        .build_https()
}

async fn credentials(config: &SdkConfig) -> Result<(), String> {
    let provider = config.credentials_provider().ok_or("there is no provider")?;
    provider.provide_credentials().await.map(drop).map_err(|failure| error::with_causes(&failure))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// The host of a URL.
fn host(endpoint: &str) -> Option<&str> {
    let (_, rest) = endpoint.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next()?,
        None => authority.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(endpoint: &str, plain_http: bool) -> &'static str {
        let settings =
            Settings { endpoint: Some(endpoint.to_owned()), allows_plain_http: plain_http, ..Settings::default() };
        settings.check().map_or_else(|error| error.code(), |()| "fine")
    }

    #[test]
    fn plain_http_is_for_this_machine_only() {
        for endpoint in ["http://127.0.0.1:8000", "http://localhost:8000/", "http://[::1]:8000", "http://127.8.8.8"] {
            assert_eq!(code(endpoint, false), "fine", "{endpoint}");
            assert!(Settings::local(endpoint).is_local(), "{endpoint}");
        }
        for endpoint in ["http://dynamodb:8000", "http://localhost.example.com", "http://localhost@example.com/"] {
            assert_eq!(code(endpoint, false), "invalid", "{endpoint}");
            assert_eq!(code(endpoint, true), "fine", "{endpoint}");
            assert!(!Settings::local(endpoint).is_local(), "{endpoint}");
        }
        assert_eq!(code("https://example.com", false), "fine");
        assert_eq!(code("localhost:8000", true), "invalid");
        assert_eq!(code("http://", true), "invalid");
    }

    #[test]
    fn missing_credentials_are_reported_in_one_sentence_with_the_remedy() {
        let not_found = || Err("the credential provider was not enabled. Attempted:\nenvironment\nprofile".to_owned());
        let text = check_found(not_found(), false).expect_err("nothing is set").to_string();
        for remedy in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "DYNAMODB_ENDPOINT"] {
            assert!(text.contains(remedy), "{text}");
        }
        assert!(!text.contains('\n') && !text.contains("Attempted"), "{text}");
        let text = check_found(not_found(), true).expect_err("no credentials").to_string();
        assert!(!text.contains("AWS_REGION"), "{text}");
        assert!(check_found(Ok(()), true).is_ok());
    }
}
