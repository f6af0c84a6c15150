//! The address of the server for clients.

use std::net::{Ipv4Addr, SocketAddr};

use nagaya_server::{http_agent, http_agent_at, without_credentials};
use ureq::{Agent, http::Uri};

use super::{
    super::{Check, Finding},
    TIMEOUT, get,
    metrics::is_ours,
};
use crate::serve::Network;

/// Where clients reach the server.
pub(super) struct PublicAddress {
    url: String,
    agent: Agent,
    /// Whether the server does TLS itself.
    has_tls: bool,
    wants_client_certificates: bool,
}

impl PublicAddress {
    /// A server that does TLS itself is asked at its listener, by the name of the public URL or of its certificate: that name need
    /// not lead to it from this machine.
    pub(super) fn of(network: &Network) -> Self {
        let listener = connectable(network.address());
        // What is wrong with the certificate is a finding about TLS.
        let tls = network.tls().ok().flatten().filter(|_| !network.behind_proxy);
        let url = network.public_url.as_deref();
        let name = tls.as_ref().and_then(|tls| url.map_or_else(|| tls.dns_name(), host));
        let (url, agent) = match (name, url) {
            (Some(name), _) => (format!("https://{name}:{}", listener.port()), http_agent_at(TIMEOUT, listener)),
            (None, Some(url)) => (url.to_owned(), http_agent(TIMEOUT)),
            (None, None) => {
                let scheme = if network.has_tls() { "https" } else { "http" };
                (format!("{scheme}://{listener}"), http_agent(TIMEOUT))
            }
        };
        let wants_client_certificates = network.wants_client_certificates() && tls.is_some();
        PublicAddress { url, agent, has_tls: tls.is_some(), wants_client_certificates }
    }

    /// What it shows to clients.
    pub(super) fn examine(&self) -> Option<Finding> {
        let shown = without_credentials(&self.url);
        if self.wants_client_certificates {
            let found = format!("{shown} wants a certificate of each client (--tls-client-ca), and was not asked");
            return Some(Check::Running.unknown(found));
        }
        match get(&self.agent, &format!("{}/metrics", self.url)) {
            Ok((200, metrics)) if is_ours(&metrics) => Some(Check::Running.problem(
                format!("{shown}/metrics shows the metrics to everybody"),
                "let the proxy forward to the public address only, and not to the admin listener",
            )),
            Ok(_) => None,
            Err(why) => {
                let remedy = match self.has_tls {
                    true => {
                        "verify the certificate: its dates, its names, and that this machine trusts its authority (SSL_CERT_FILE \
                         names the file of a private one)"
                    }
                    false => "verify from elsewhere that clients reach it",
                };
                Some(Check::Running.warning(format!("{shown} does not answer here: {why}"), remedy))
            }
        }
    }
}

/// The host of a URL.
fn host(url: &str) -> Option<String> {
    url.parse::<Uri>().ok()?.host().map(str::to_owned)
}

/// An address that can be connected to.
pub(super) fn connectable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    address
}
