//! A remote issuer: its discovery document and its keys, by HTTPS.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::http::{StatusCode, Uri};
use jsonwebtoken::jwk::Jwk;
use serde_json::Value as Json;
use ureq::{
    Agent,
    config::Config,
    tls::{Certificate, RootCerts, TlsConfig},
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

use super::IssuerError;

/// The time limit of one request.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer, in bytes. Real ones have some kilobytes.
const MAX_ANSWER: u64 = 256 * 1024;

/// A remote issuer.
pub(super) struct RemoteIssuer {
    issuer: String,
    /// The URL of its keys, if it is configured.
    keys: Option<String>,
}

impl RemoteIssuer {
    pub(super) fn new(issuer: &str, keys: Option<&str>) -> Result<Self, IssuerError> {
        check(issuer, true)?;
        if issuer.contains(['?', '#']) {
            let shown = issuer.split(['?', '#']).next().unwrap_or_default();
            return Err(IssuerError::new(format!(
                "{shown} with a query or a fragment is not an issuer: its URL has neither"
            )));
        }
        keys.map_or(Ok(()), |keys| check(keys, true))?;
        Ok(RemoteIssuer { issuer: issuer.to_owned(), keys: keys.map(str::to_owned) })
    }

    /// Its name, as in `iss`.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Fetches the keys that it publishes. Blocks.
    pub(super) fn fetch(&self) -> Result<Vec<Jwk>, IssuerError> {
        let agent = http_agent(FETCH_TIMEOUT);
        let url = match &self.keys {
            Some(keys) => keys.clone(),
            None => self.discover(&agent)?,
        };
        let set = get(&agent, &url)?;
        let keys = set.get("keys").and_then(Json::as_array);
        let keys = keys.ok_or_else(|| IssuerError::new(format!("{url} is not a JWK set: it has no `keys`")))?;
        // Keys of unknown kinds are skipped.
        Ok(keys.iter().filter_map(|key| serde_json::from_value(key.clone()).ok()).collect())
    }

    /// The URL of its keys, from its discovery document.
    fn discover(&self, agent: &Agent) -> Result<String, IssuerError> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document = get(agent, &url)?;
        let member = |member| document.get(member).and_then(Json::as_str);
        // Otherwise one issuer could stand in for another (OpenID Connect Discovery, 4.3).
        match member("issuer") {
            Some(name) if name == self.issuer => {}
            name => {
                let name = name.unwrap_or_default();
                return Err(IssuerError::new(format!("{url} is of the issuer `{name}`, not of `{}`", self.issuer)));
            }
        }
        let keys = member("jwks_uri").ok_or_else(|| IssuerError::new(format!("{url} has no `jwks_uri`")))?;
        // An issuer that is reached by HTTPS must not have its keys at plain HTTP.
        check(keys, self.issuer.starts_with("http:"))?;
        Ok(keys.to_owned())
    }
}

/// Accepts HTTPS, and plain HTTP only on a loopback address.
fn check(url: &str, plain: bool) -> Result<(), IssuerError> {
    let bad = |why: &str| {
        let shown = without_credentials(url);
        Err(IssuerError::new(format!("{shown} cannot be used as the URL of an issuer: {why}")))
    };
    let Ok(uri) = url.parse::<Uri>() else { return bad("it is not a URL") };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return bad("it is not a URL") };
    if authority.as_str().contains('@') {
        return bad("it has a user or a password");
    }
    match scheme {
        "https" => Ok(()),
        "http" if plain && is_loopback(authority.host()) => Ok(()),
        "http" => bad("it is not HTTPS, so that an attacker on the network could replace the keys"),
        _ => bad("it is neither HTTPS nor HTTP"),
    }
}

/// A URL for messages: without the user and the password that it may have.
pub fn without_credentials(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    match url[start..end].rfind('@') {
        Some(at) => format!("{}…{}", &url[..start], &url[start + at..]),
        None => url.to_owned(),
    }
}

/// Whether a host is a name or an address of this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// An HTTP client that trusts the certificates of this machine and follows no redirects.
pub fn http_agent(timeout: Duration) -> Agent {
    http_config(timeout).new_agent()
}

/// The same, but it connects to this address whatever host a URL names.
pub fn http_agent_at(timeout: Duration, address: SocketAddr) -> Agent {
    Agent::with_parts(http_config(timeout), DefaultConnector::new(), FixedAddress(address))
}

fn http_config(timeout: Duration) -> Config {
    // Unreadable certificates are skipped.
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted = trusted.iter().map(|each| Certificate::from_der(each.as_ref()).to_owned()).collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(trusted)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(timeout))
        // A redirect would bypass the check of the URL.
        .max_redirects(0)
        .http_status_as_error(false);
    config.build()
}

/// Resolves every host to one address.
#[derive(Debug)]
struct FixedAddress(SocketAddr);

impl Resolver for FixedAddress {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        addresses.push(self.0);
        Ok(addresses)
    }
}

fn get(agent: &Agent, url: &str) -> Result<Json, IssuerError> {
    let failed = |why: String| IssuerError::new(format!("{url}: {why}"));
    let response = agent.get(url).header("accept", "application/json").call();
    let mut response = response.map_err(|error| failed(error.to_string()))?;
    if response.status() != StatusCode::OK {
        return Err(failed(format!("answered {}", response.status())));
    }
    let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
    let body = body.map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&body).map_err(|error| failed(format!("is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::{RemoteIssuer, check, without_credentials};

    #[test]
    fn a_refused_url_is_shown_without_its_password() {
        for url in ["https://ann:s3cret@a.example/x", "ann:s3cret@a.example", "https://a.example/?key=s3cret"] {
            let refused = RemoteIssuer::new(url, None).err().expect(url).to_string();
            assert!(refused.contains("a.example") && !refused.contains("s3cret"), "{refused}");
        }
        assert_eq!(without_credentials("https://a:b@c@d.example/@e"), "https://…@d.example/@e");
        assert_eq!(without_credentials("http://127.0.0.1:1/x@y"), "http://127.0.0.1:1/x@y");
    }

    #[test]
    fn plain_http_stays_on_this_machine() {
        let fine = |url| check(url, true).is_ok();
        for url in ["https://a.example", "http://127.0.0.1:8080", "http://localhost/x", "http://[::1]:1"] {
            assert!(fine(url), "{url}");
        }
        for url in [
            "http://a.example",
            "http://127.0.0.1.a.example",
            "http://localhost@a.example",
            "https://user@a.example",
            "http://10.0.0.1",
            "ftp://127.0.0.1",
            "a.example",
            "/x",
            "",
        ] {
            assert!(!fine(url), "{url}");
        }
        assert!(check("http://127.0.0.1", false).is_err());
    }
}
