//! Flags for the listeners, TLS and the issuer, and what they mean together.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::builder::FalseyValueParser;
use nagaya_server::{BadOrigin, Cors, LocalIssuer, Tls, TlsFiles};
use tokio::net::TcpListener;

use super::tokens::TokenArgs;

/// Network and identity.
#[derive(Debug, clap::Args)]
pub(crate) struct Network {
    /// The address to listen on, such as `127.0.0.1:8080`, `localhost:8080` or, for all interfaces, `:8080`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", env = "NAGAYA_LISTEN", value_parser = address)]
    listen: SocketAddr,
    /// The port to listen on, in place of that of --listen
    #[arg(long, value_name = "PORT", env = "NAGAYA_PORT")]
    port: Option<u16>,
    /// The address of health, readiness and metrics; by default the next port on the loopback interface
    #[arg(long, value_name = "ADDRESS", env = "NAGAYA_ADMIN_LISTEN", value_parser = address)]
    admin_listen: Option<SocketAddr>,
    /// The URL of the server as clients see it; by default its address
    #[arg(long, value_name = "URL", env = "NAGAYA_PUBLIC_URL")]
    pub(crate) public_url: Option<String>,
    /// Turn off what is for development: the local issuer, its tokens, and payments that cost nothing. Also turned on by
    /// --issuer, and by an address that others can reach
    #[arg(long, env = "NAGAYA_PRODUCTION", value_parser = FalseyValueParser::new())]
    production: bool,
    /// The certificate for TLS, with those between it and the root, in PEM; read again when it changes
    #[arg(long, value_name = "FILE", env = "NAGAYA_TLS_CERT", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = "NAGAYA_TLS_KEY", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The authorities that sign the certificates of clients, in PEM; with it, every client needs a certificate
    #[arg(long, value_name = "FILE", env = "NAGAYA_TLS_CLIENT_CA", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// A proxy in front does TLS: listen without it
    #[arg(long, env = "NAGAYA_BEHIND_PROXY", value_parser = FalseyValueParser::new())]
    pub(crate) behind_proxy: bool,
    #[command(flatten)]
    pub(crate) api: ApiArgs,
}

/// Who may call, and from where. It holds for functions too.
#[derive(Debug, clap::Args)]
pub(crate) struct ApiArgs {
    /// The issuer of the tokens, in place of the local one. There is one: items name users by `sub` alone
    #[arg(long, value_name = "URL", env = "NAGAYA_ISSUER", requires = "audience")]
    pub(crate) issuer: Option<String>,
    /// The audience that tokens of that issuer must have, for each system (may be given several times); `NAME` alone if one
    /// system is served
    #[arg(long, value_name = "SYSTEM=NAME", env = "NAGAYA_AUDIENCE", value_delimiter = ',')]
    pub(crate) audience: Vec<String>,
    /// A web origin that may call the API (CORS); none by default
    #[arg(long = "cors-origin", value_name = "ORIGIN", env = "NAGAYA_CORS_ORIGINS", value_delimiter = ',')]
    pub(crate) cors_origins: Vec<String>,
    /// Let pages of these origins send cookies; tokens in headers do not need it
    #[arg(long, env = "NAGAYA_CORS_CREDENTIALS", value_parser = FalseyValueParser::new(), requires = "cors_origins")]
    pub(crate) cors_credentials: bool,
    /// How many proxies in front add to `X-Forwarded-For`, to find the caller's address; by default 1 with --behind-proxy and
    /// on AWS Lambda, else 0
    #[arg(long, value_name = "N", env = "NAGAYA_TRUSTED_PROXIES")]
    pub(crate) trusted_proxies: Option<usize>,
    #[command(flatten)]
    pub(crate) tokens: TokenArgs,
}

impl ApiArgs {
    /// The origins whose pages may call.
    pub(crate) fn cors(&self) -> Result<Cors, BadOrigin> {
        Ok(Cors::new(&self.cors_origins)?.allow_credentials(self.cors_credentials))
    }
}

impl Network {
    /// The address to listen on.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.listen.ip(), self.port.unwrap_or(self.listen.port()))
    }

    /// How many proxies add to `X-Forwarded-For`. Without them, all clients of a proxy would share its address and its limits.
    pub(crate) fn trusted_proxies(&self) -> usize {
        self.api.trusted_proxies.unwrap_or(usize::from(self.behind_proxy))
    }

    fn is_loopback(&self) -> bool {
        IpAddr::to_canonical(&self.listen.ip()).is_loopback()
    }

    /// Whether what is for development is off.
    pub(crate) fn is_production(&self) -> bool {
        self.production || self.api.issuer.is_some() || !self.is_loopback()
    }

    /// Refuses settings that are not safe together.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if let Some(url) = &self.public_url {
            LocalIssuer::check_url(url)?;
        }
        if self.is_production() && self.api.issuer.is_none() {
            let (why, instead) = match (self.is_loopback(), self.production) {
                (true, _) => ("--production".to_owned(), "leave --production out"),
                (false, false) => (format!("others can reach {}", self.listen.ip()), "listen on 127.0.0.1"),
                (false, true) => {
                    (format!("others can reach {}", self.listen.ip()), "listen on 127.0.0.1 without --production")
                }
            };
            bail!(
                "{why}: tokens of the local issuer are for development and are not accepted. Name the issuer of your \
                 tokens with --issuer URL and --audience NAME, or {instead}"
            );
        }
        if !self.is_loopback() && self.tls_cert.is_none() && !self.behind_proxy {
            bail!(
                "without TLS, tokens and data can be read on their way to {}. Give a certificate with --tls-cert FILE and \
                 --tls-key FILE, or say with --behind-proxy that a proxy in front does TLS",
                self.listen.ip()
            );
        }
        Ok(())
    }

    /// The certificate, if there is one.
    pub(crate) fn tls(&self) -> anyhow::Result<Option<Tls>> {
        let (Some(certificates), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) else { return Ok(None) };
        let client_authorities = self.tls_client_ca.clone();
        Ok(Some(Tls::open(TlsFiles { certificates, key, client_authorities }).context("TLS cannot be set up")?))
    }

    /// The private key of the certificate, if there is one.
    pub(crate) fn tls_key(&self) -> Option<&Path> {
        self.tls_key.as_deref()
    }

    /// Whether the server does TLS itself.
    pub(crate) fn has_tls(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// Whether each client needs a certificate.
    pub(crate) fn wants_client_certificates(&self) -> bool {
        self.tls_client_ca.is_some()
    }

    /// The address of health, readiness and metrics, if one was chosen.
    pub(crate) fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_listen
    }

    /// The URL of the server that listens on this address.
    pub(super) fn url(&self, listener: &TcpListener) -> anyhow::Result<String> {
        let scheme = if self.has_tls() { "https" } else { "http" };
        Ok(match &self.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("{scheme}://{}", listener.local_addr()?),
        })
    }

    /// The listener of health, readiness and metrics.
    pub(super) async fn admin_listener(&self, public: &TcpListener) -> anyhow::Result<TcpListener> {
        if let Some(address) = self.admin_listen {
            let context = || format!("cannot listen on {address}; choose another address with --admin-listen");
            return TcpListener::bind(address).await.with_context(context);
        }
        let next = match self.address().port() {
            0 => 0,
            _ => public.local_addr()?.port().wrapping_add(1),
        };
        // Nobody chose that port: if it is taken, any other will do. The banner and the log name it.
        match TcpListener::bind((Ipv4Addr::LOCALHOST, next)).await {
            Ok(listener) => Ok(listener),
            Err(_) => Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen on 127.0.0.1")?),
        }
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        network: Network,
    }

    fn network(line: &str) -> Network {
        Cli::try_parse_from(line.split(' ')).expect("the line is fine").network
    }

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

    #[test]
    fn development_is_a_loopback_address_without_an_issuer() {
        let check = |line: &str, production: bool| assert_eq!(network(line).is_production(), production, "{line}");
        check("serve", false);
        check("serve --listen localhost:1", false);
        check("serve --listen [::ffff:127.0.0.1]:1", false);
        check("serve --production", true);
        check("serve --listen :8080", true);
        check("serve --issuer https://id.example.com --audience desk", true);
    }

    #[test]
    fn a_proxy_in_front_tells_the_address_of_the_caller_unless_the_settings_say_otherwise() {
        let check = |line: &str, proxies: usize| assert_eq!(network(line).trusted_proxies(), proxies, "{line}");
        check("serve", 0);
        check("serve --behind-proxy", 1);
        check("serve --behind-proxy --trusted-proxies 2", 2);
        check("serve --behind-proxy --trusted-proxies 0", 0);
        check("serve --trusted-proxies 1", 1);
    }

    #[test]
    fn a_server_has_one_issuer() {
        let line = "serve --audience desk --issuer https://id.example.com --issuer https://other.example.com";
        let refused = Cli::try_parse_from(line.split(' ')).expect_err("two issuers").to_string();
        assert!(refused.contains("--issuer <URL>"), "{refused}");
    }

    #[test]
    fn settings_that_are_not_safe_together_are_refused_with_the_remedy() {
        let check = |line: &str, remedy: &str| {
            let refused = network(line).check().expect_err(line).to_string();
            assert!(refused.contains(remedy), "{line}: {refused}");
        };
        check("serve --production", "--issuer URL");
        check("serve --production", "leave --production out");
        check("serve --production --listen :8080", "listen on 127.0.0.1 without --production");
        check("serve --listen :8080 --behind-proxy", "--issuer URL");
        check("serve --listen :8080 --issuer https://id.example.com --audience desk", "--tls-cert FILE");
        check("serve --public-url api.example.com", "`api.example.com` is not the URL of a server");
        network("serve").check().expect("development");
        network("serve --listen :8080 --issuer https://id.example.com --audience desk --behind-proxy")
            .check()
            .expect("a proxy does TLS");
    }

    #[tokio::test]
    async fn the_url_of_a_server_is_the_public_one_or_that_of_its_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let check = |line: &str, url: &str| assert_eq!(network(line).url(&listener).expect("a URL"), url, "{line}");
        check("serve", &format!("http://127.0.0.1:{port}"));
        check("serve --tls-cert server.pem --tls-key server.key.pem", &format!("https://127.0.0.1:{port}"));
        check("serve --public-url https://api.example.com/", "https://api.example.com");
    }
}
