//! An issuer elsewhere: its discovery document and its keys, by HTTPS.

use std::{sync::Arc, time::Duration};

use axum::http::{StatusCode, Uri};
use jsonwebtoken::jwk::Jwk;
use serde_json::Value as Json;
use ureq::{
    Agent,
    tls::{Certificate, RootCerts, TlsConfig},
};

use super::IssuerError;

/// How long one answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How large one answer may be. Real ones have some kilobytes.
const LARGEST: u64 = 256 * 1024;

/// An issuer elsewhere.
pub(super) struct Remote {
    issuer: String,
    /// Where its keys are, when that need not be discovered.
    keys: Option<String>,
}

impl Remote {
    pub(super) fn new(issuer: &str, keys: Option<&str>) -> Result<Self, IssuerError> {
        check(issuer, true)?;
        if issuer.contains(['?', '#']) {
            return Err(IssuerError::new(format!("{issuer} is not an issuer: its URL has no query and no fragment")));
        }
        keys.map_or(Ok(()), |keys| check(keys, true))?;
        Ok(Remote { issuer: issuer.to_owned(), keys: keys.map(str::to_owned) })
    }

    /// What it is called.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The keys that it publishes now. Blocks.
    pub(super) fn fetch(&self) -> Result<Vec<Jwk>, IssuerError> {
        let agent = http_agent(PATIENCE);
        let place = match &self.keys {
            Some(keys) => keys.clone(),
            None => self.discover(&agent)?,
        };
        let set = get(&agent, &place)?;
        let keys = set.get("keys").and_then(Json::as_array);
        let keys = keys.ok_or_else(|| IssuerError::new(format!("{place} is not a JWK set: it has no `keys`")))?;
        // Keys of kinds that are not known here are no obstacle to the others.
        Ok(keys.iter().filter_map(|key| serde_json::from_value(key.clone()).ok()).collect())
    }

    /// Where its discovery document says that its keys are.
    fn discover(&self, agent: &Agent) -> Result<String, IssuerError> {
        let place = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document = get(agent, &place)?;
        let said = |member| document.get(member).and_then(Json::as_str);
        // Otherwise one issuer could stand in for another (OpenID Connect Discovery, 4.3).
        match said("issuer") {
            Some(name) if name == self.issuer => {}
            name => {
                let name = name.unwrap_or_default();
                return Err(IssuerError::new(format!("{place} is of the issuer `{name}`, not of `{}`", self.issuer)));
            }
        }
        let keys = said("jwks_uri").ok_or_else(|| IssuerError::new(format!("{place} has no `jwks_uri`")))?;
        // Whoever is reached safely does not send us elsewhere unsafely.
        check(keys, self.issuer.starts_with("http:"))?;
        Ok(keys.to_owned())
    }
}

/// A URL is one of HTTPS, or of plain HTTP on this machine, where nobody is in between.
fn check(url: &str, plain: bool) -> Result<(), IssuerError> {
    let bad = |why: &str| Err(IssuerError::new(format!("{url} cannot be used as the URL of an issuer: {why}")));
    let Ok(uri) = url.parse::<Uri>() else { return bad("it is not a URL") };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return bad("it is not a URL") };
    if authority.as_str().contains('@') {
        return bad("it has a user");
    }
    match scheme {
        "https" => Ok(()),
        "http" if plain && is_loopback(authority.host()) => Ok(()),
        "http" => bad("it is not HTTPS, so that anybody on the way could replace the keys"),
        _ => bad("it is neither HTTPS nor HTTP"),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// What asks other servers: by HTTPS with the certificates that this machine trusts, never sent elsewhere.
pub fn http_agent(patience: Duration) -> Agent {
    // Those that cannot be read are left out; a server that needs one of them cannot be reached, and says so.
    let trusted = rustls_native_certs::load_native_certs().certs;
    let trusted = trusted.iter().map(|each| Certificate::from_der(each.as_ref()).to_owned()).collect();
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(trusted)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(patience))
        // An issuer says itself where its keys are; being sent elsewhere would go around the check of that.
        .max_redirects(0)
        .http_status_as_error(false);
    config.build().new_agent()
}

fn get(agent: &Agent, url: &str) -> Result<Json, IssuerError> {
    let failed = |why: String| IssuerError::new(format!("{url}: {why}"));
    let response = agent.get(url).header("accept", "application/json").call();
    let mut response = response.map_err(|error| failed(error.to_string()))?;
    if response.status() != StatusCode::OK {
        return Err(failed(format!("answered {}", response.status())));
    }
    let body = response.body_mut().with_config().limit(LARGEST).read_to_vec();
    let body = body.map_err(|error| failed(error.to_string()))?;
    serde_json::from_slice(&body).map_err(|error| failed(format!("is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::check;

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
