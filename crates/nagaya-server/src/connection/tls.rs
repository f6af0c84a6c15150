//! TLS of the public listener: certificates from files, which are read again when they change.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use webpki::EndEntityCert;

use crate::observe::TARGET;

/// How often the files are looked at.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The files of a certificate, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, and those between it and the root.
    pub certificates: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities that sign the certificates of clients. With it, every client needs one.
    pub client_authorities: Option<PathBuf>,
}

/// A file of a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct TlsError {
    path: String,
    reason: String,
}

/// The certificate of the public listener.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let current = RwLock::new(Arc::new(files.read()?));
        Ok(Tls { files, current })
    }

    /// A host name that the certificate is for; `None` if it is only for addresses. A pattern such as `*.example.com` stands for
    /// one of its hosts.
    pub fn dns_name(&self) -> Option<String> {
        let certificates = certificates(&self.files.certificates).ok()?;
        let certificate = EndEntityCert::try_from(certificates.first()?).ok()?;
        let name = certificate.valid_dns_names().next()?;
        Some(name.strip_prefix("*.").map_or_else(|| name.to_owned(), |domain| format!("www.{domain}")))
    }

    /// Does the handshake of a connection.
    pub(super) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        TlsAcceptor::from(config).accept(stream).await
    }

    /// Reads the files again whenever they change, for ever. Files that cannot be used change nothing: connections go on
    /// with the former certificate.
    pub(crate) async fn reload(&self) {
        let mut seen = self.files.modified();
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let modified = self.files.modified();
            if modified == seen {
                continue;
            }
            match self.files.read() {
                Ok(config) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
                    seen = modified;
                    tracing::info!(target: TARGET, "the TLS certificate was reloaded");
                }
                // A certificate is often replaced before its key: the next look may find both.
                Err(error) => tracing::warn!(target: TARGET, %error, "the new TLS certificate cannot be used"),
            }
        }
    }
}

impl TlsFiles {
    fn read(&self) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let certificates = certificates(&self.certificates)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unusable(&self.key, error))?;
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&self.certificates, error))?;
        let config = match &self.client_authorities {
            None => config.with_no_client_auth(),
            Some(path) => config.with_client_cert_verifier(client_verifier(path, provider)?),
        };
        let mut config = config
            .with_single_cert(certificates, key)
            .map_err(|error| unusable(&self.certificates, format!("it does not fit its key: {error}")))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// When the files were last changed.
    fn modified(&self) -> Vec<Option<SystemTime>> {
        let files = [Some(&self.certificates), Some(&self.key), self.client_authorities.as_ref()];
        files.into_iter().flatten().map(|path| path.metadata().and_then(|file| file.modified()).ok()).collect()
    }
}

fn client_verifier(
    path: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots.add(authority).map_err(|error| unusable(path, error))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| unusable(path, error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unusable(path, error))?;
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(|error| unusable(path, error))?;
    if certificates.is_empty() {
        return Err(unusable(path, "it has no certificate in PEM (`-----BEGIN CERTIFICATE-----`)"));
    }
    Ok(certificates)
}

fn unusable(path: &Path, reason: impl std::fmt::Display) -> TlsError {
    TlsError { path: path.display().to_string(), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/limits/tls").join(name)
    }

    fn server() -> TlsFiles {
        TlsFiles {
            certificates: fixture("server.pem"),
            key: fixture("server.key.pem"),
            client_authorities: Some(fixture("ca.pem")),
        }
    }

    #[test]
    fn the_name_of_a_certificate_is_known() {
        assert_eq!(Tls::open(server()).expect("the files are fine").dns_name().as_deref(), Some("localhost"));
    }

    #[test]
    fn a_file_without_a_certificate_is_named_with_what_it_needs() {
        let key = fixture("server.key.pem");
        for files in [
            TlsFiles { certificates: key.clone(), ..server() },
            TlsFiles { client_authorities: Some(key.clone()), ..server() },
        ] {
            let error = Tls::open(files).expect_err("it has a key").to_string();
            assert!(error.contains("server.key.pem: it has no certificate in PEM"), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_have_not_changed_are_not_read_again() {
        let tls = Tls::open(server()).expect("the files are fine");
        let current = || Arc::clone(&tls.current.read().unwrap_or_else(PoisonError::into_inner));
        let before = current();
        assert!(tokio::time::timeout(RELOAD_INTERVAL * 3, tls.reload()).await.is_err(), "it goes on for ever");
        assert!(Arc::ptr_eq(&before, &current()));
    }
}
