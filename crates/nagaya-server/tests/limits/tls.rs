//! TLS: certificates of the server and of clients, and certificates that are renewed.

use std::{fs, path::Path, sync::Arc, time::Duration};

use nagaya_server::{Limits, Tls, TlsFiles};
use nagaya_testing::{Connection, PausedTokioClock};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::desk::Desk;

/// A file of the test's certificates.
fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/limits/tls").join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(fixture(name)).expect("a certificate")
}

/// A server with a certificate in a directory, which can be replaced there.
async fn serve(client_authorities: bool) -> (Desk, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    install("server", directory.path());
    let files = TlsFiles {
        certificates: directory.path().join("cert.pem"),
        key: directory.path().join("key.pem"),
        client_authorities: client_authorities.then(|| fixture("ca.pem")),
    };
    let tls = Tls::open(files).expect("the files are fine");
    (Desk::open_with(Limits::default(), |server| server.tls(tls)).await, directory)
}

fn install(name: &str, directory: &Path) {
    fs::copy(fixture(&format!("{name}.pem")), directory.join("cert.pem")).expect("a copy");
    fs::copy(fixture(&format!("{name}.key.pem")), directory.join("key.pem")).expect("a copy");
}

/// A TLS connection of a client, with or without a certificate of its own.
async fn connect(desk: &Desk, with_certificate: bool) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.pem")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match with_certificate {
        false => config.with_no_client_auth(),
        true => {
            let key = PrivateKeyDer::from_pem_file(fixture("client.key.pem")).expect("a key");
            config.with_client_auth_cert(vec![certificate("client.pem")], key).expect("a certificate of the key")
        }
    };
    let stream = TcpStream::connect(desk.server.address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").expect("a name"), stream).await
}

#[tokio::test]
async fn requests_are_answered_over_tls_alone() {
    let (desk, _directory) = serve(false).await;
    let stream = connect(&desk, false).await.expect("a handshake");
    let mut client = Connection::over(stream).await.with_token(desk.server.token(Some("acme"), "ann", &[]));
    assert_eq!(client.get("/notes").await.status, 200);
    let mut plain = desk.connect("acme").await;
    let answered = plain.try_send(axum::http::Method::GET, "/notes", &[], axum::body::Body::empty()).await;
    assert!(answered.is_err(), "nothing is answered in plain text");
}

#[tokio::test]
async fn with_authorities_every_client_needs_a_certificate() {
    let (desk, _directory) = serve(true).await;
    let mut client = Connection::over(connect(&desk, true).await.expect("a handshake")).await;
    assert_eq!(client.get("/healthz").await.status, 200);
    // With TLS 1.3 a client learns of the refusal when it reads.
    if let Ok(stream) = connect(&desk, false).await {
        let mut client = Connection::over(stream).await;
        let answered = client.try_send(axum::http::Method::GET, "/healthz", &[], axum::body::Body::empty()).await;
        assert!(answered.is_err());
    }
}

#[tokio::test]
async fn a_renewed_certificate_is_used_without_a_restart_and_a_damaged_one_is_not() {
    let (desk, directory) = serve(false).await;
    let clock = PausedTokioClock::pause();
    let shown = async || {
        let stream = connect(&desk, false).await.expect("a handshake");
        stream.get_ref().1.peer_certificates().expect("a certificate")[0].clone().into_owned()
    };
    assert_eq!(shown().await, certificate("server.pem"));
    fs::write(directory.path().join("cert.pem"), "-----BEGIN CERTIFICATE-----\nAAAA").expect("written");
    clock.advance(Duration::from_secs(6)).await;
    assert_eq!(shown().await, certificate("server.pem"));
    install("renewed", directory.path());
    while shown().await != certificate("renewed.pem") {
        clock.advance(Duration::from_secs(6)).await;
    }
}
