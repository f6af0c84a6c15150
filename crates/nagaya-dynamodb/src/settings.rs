//! Where the tables are, and who asks: from the ordinary AWS environment.

use std::{env, time::Duration};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials as _, SharedCredentialsProvider, SharedHttpClient};
use aws_smithy_http_client::{
    Builder,
    tls::{Provider, rustls_provider::CryptoMode},
};
use nagaya_store::Error;

use crate::{
    engine::Dynamodb,
    error::Failure,
    known::Known,
    meter::Meter,
    options::Options,
    retry::{self, Rule},
    streams::{Followed, Mend},
};

/// The variable with the base of the names of a design's tables: `{base}` in the design.
pub const TABLE_NAME: &str = "DYNAMODB_TABLE_NAME";

/// The region of servers on this machine, which do not care.
const LOCAL_REGION: &str = "us-east-1";

/// The base of the names of a design's tables, if [`TABLE_NAME`] says so.
pub fn table_name() -> Option<String> {
    variable(TABLE_NAME)
}

/// Where the tables are, and who asks.
///
/// What is `None` is found the way all AWS tools find it: environment, profile files, single sign-on, the container's or the
/// machine's role.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The server's address; `None`: AWS in the region.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// Lets a server on another machine be asked without encryption: keys are only signed, but items can be read on the way.
    pub plain_http: bool,
}

impl Settings {
    /// From the environment:
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | `DYNAMODB_ENDPOINT` | the server's address; else `AWS_ENDPOINT_URL_DYNAMODB`, else AWS |
    /// | `AWS_REGION` | the region; a server on this machine needs none |
    /// | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, … | who asks; a server on this machine needs nobody |
    /// | `DYNAMODB_PLAIN_HTTP` | `true` lets `http://` go to other machines, such as another container |
    pub fn from_env() -> Self {
        Settings {
            endpoint: variable("DYNAMODB_ENDPOINT").or_else(|| variable("AWS_ENDPOINT_URL_DYNAMODB")),
            region: variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")),
            plain_http: variable("DYNAMODB_PLAIN_HTTP").is_some_and(|text| text == "true" || text == "1"),
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

    /// Whether the address can be asked safely.
    fn check(&self) -> Result<(), Error> {
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let encrypted = endpoint.starts_with("https://");
        if !(encrypted || endpoint.starts_with("http://")) || host(endpoint).is_none() {
            return Err(Error::invalid(format!("the endpoint `{endpoint}` is no `http://` or `https://` address")));
        }
        if encrypted || self.plain_http || self.is_local() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the endpoint `{endpoint}` is on another machine and not encrypted: use `https://`, or set \
             DYNAMODB_PLAIN_HTTP=true if the network between is your own"
        )))
    }

    /// The settings with what the environment adds; an error that says what is missing.
    async fn resolved(&self) -> Result<SdkConfig, Error> {
        self.check()?;
        let http = http_client();
        // Nobody has to be anybody on this machine, and the machine's role need not be looked for.
        let anybody =
            self.is_local() && ["AWS_ACCESS_KEY_ID", "AWS_PROFILE"].iter().all(|name| variable(name).is_none());
        if anybody {
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
        let config = loader.load().await;
        let mut missing = Vec::new();
        if let Err(cause) = credentials(&config).await {
            // The list of everything that was tried in vain follows on further lines.
            let cause = cause.to_string();
            let cause = cause.lines().next().unwrap_or_default().trim_end_matches(". Attempted:");
            missing.push(format!(
                "who asks (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or a role; {cause})"
            ));
        }
        let region = match config.region() {
            Some(region) => Some(region.clone()),
            None if self.is_local() => Some(Region::new(LOCAL_REGION)),
            None => None,
        };
        if region.is_none() {
            missing.push("the region (AWS_REGION)".to_owned());
        }
        if missing.is_empty() {
            return Ok(config.into_builder().region(region).build());
        }
        Err(Error::invalid(format!(
            "DynamoDB needs to know {}; for a server on this machine, set DYNAMODB_ENDPOINT, such as \
             http://127.0.0.1:8000, and nothing else",
            missing.join(" and ")
        )))
    }
}

impl Dynamodb {
    /// Opens a store on DynamoDB. Nothing but credentials is asked for yet.
    pub async fn open(settings: &Settings, options: Options) -> Result<Self, Error> {
        let config = settings.resolved().await?;
        let (budget, meter) = (retry::budget(&options), Meter::default());
        let client = |repeats: bool| {
            let mut builder = aws_sdk_dynamodb::config::Builder::from(&config);
            builder.set_endpoint_url(settings.endpoint.clone().or_else(|| config.endpoint_url().map(str::to_owned)));
            let rule = Rule { repeats, meter: meter.clone() };
            aws_sdk_dynamodb::Client::from_conf(retry::configured(builder, &options, &budget, rule).build())
        };
        let mut streams = aws_sdk_dynamodbstreams::config::Builder::from(&config)
            .retry_config(retry::retries(&options))
            .timeout_config(retry::timeouts(&options))
            .retry_partition(budget.clone());
        // Other servers have the streams at the same address; AWS has them at another one.
        let elsewhere = settings.endpoint.clone().filter(|endpoint| !endpoint.contains(".amazonaws.com"));
        if elsewhere.is_some() {
            streams.set_endpoint_url(elsewhere);
            streams = streams.interceptor(Mend);
        }
        Ok(Dynamodb {
            client: client(true),
            once: client(false),
            streams: aws_sdk_dynamodbstreams::Client::from_conf(streams.build()),
            known: Known::default(),
            followed: Followed::default(),
            meter,
            options,
        })
    }
}

/// A client that forgets connections before the server closes them: a request on one that is just being closed is a
/// write without an answer.
fn http_client() -> SharedHttpClient {
    Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .pool_idle_timeout(Duration::from_secs(20))
        .build_https()
}

async fn credentials(config: &SdkConfig) -> Result<(), String> {
    let provider = config.credentials_provider().ok_or("there is no provider")?;
    provider.provide_credentials().await.map(drop).map_err(|failure| Failure::of(&failure).to_string())
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// The host of an address.
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
        let settings = Settings { endpoint: Some(endpoint.to_owned()), plain_http, ..Settings::default() };
        settings.check().map_or_else(|error| error.code(), |()| "fine")
    }

    #[test]
    fn only_this_machine_is_asked_without_encryption() {
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
}
