//! A server in a separate process, so that its memory can be measured.

use std::{io::Read as _, net::SocketAddr, process::Command, sync::Arc};

use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_server::System;
use nagaya_testing::{Connection, ManualClock, Process, TestServer, parse_design};
use serde_json::json;
use tokio::net::TcpStream;

use crate::desk::DESIGN;

/// The number of tenants of the process.
const TENANTS: &str = "NAGAYA_TEST_LOAD_TENANTS";

/// A server in a separate process.
pub(crate) struct Server {
    process: Process,
    pub(crate) address: SocketAddr,
    admin_address: SocketAddr,
    /// One token for each tenant.
    pub(crate) tokens: Vec<String>,
}

impl Server {
    pub(crate) async fn start(tenants: usize) -> Server {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let args = ["--exact", "process::load_server_process", "--ignored", "--nocapture"];
        let mut process = Process::start(command.args(args).env(TENANTS, tenants.to_string()));
        let starting = tokio::task::spawn_blocking(move || (process.wait_until_ready(), process));
        let (ready, process) = starting.await.expect("no panic");
        let address = ready["address"].as_str().expect("an address").parse().expect("an address");
        let admin_address = ready["adminAddress"].as_str().expect("an address").parse().expect("an address");
        let tokens = serde_json::from_value(ready["tokens"].clone()).expect("tokens");
        Server { process, address, admin_address, tokens }
    }

    pub(crate) async fn connect_admin(&self) -> Connection {
        Connection::over(TcpStream::connect(self.admin_address).await.expect("it listens")).await
    }

    /// Stops the process, and waits until it has exited successfully.
    pub(crate) async fn stop(mut self) {
        self.process.close_stdin();
        let ended = tokio::task::spawn_blocking(move || self.process.wait());
        assert_eq!(ended.await.expect("no panic"), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the test of the load runs it"]
async fn load_server_process() {
    let Some(tenants) = std::env::var(TENANTS).ok().and_then(|tenants| tenants.parse::<usize>().ok()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { cache_bytes: 8 * 1024 * 1024, ..Options::default() };
    let store = EmbeddedStore::open(directory.path(), options).expect("a store");
    let server = TestServer::builder(System::plain(parse_design(DESIGN)));
    let mut server = server.store(Arc::new(store), &ManualClock::default()).serve().await;
    let tokens: Vec<_> = (0..tenants).map(|at| server.token(Some(&format!("tenant-{at}")), "ann", &[])).collect();
    println!("\n{}", json!({ "address": server.address, "adminAddress": server.admin_address, "tokens": tokens }));
    // It runs until its standard input ends.
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()))
        .await
        .expect("no panic")
        .expect("read");
    server.stop();
    server.wait_until_stopped().await;
}
