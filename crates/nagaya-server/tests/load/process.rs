//! A server in a process of its own, so that its memory is its own.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, Stdio},
};

use nagaya_embedded::{Embedded, Options};
use nagaya_server::Limits;
use serde_json::{Value as Json, json};
use tokio::net::TcpStream;

use crate::{client::Client, harness::TestServer};

/// Says to the process how many tenants it has.
const TENANTS: &str = "NAGAYA_TEST_LOAD_TENANTS";

/// A server in a process of its own. It ends with the test.
pub(crate) struct Process {
    child: Child,
    /// Kept, because it has more to say, and would fail if nobody heard it.
    _says: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    /// One of each tenant.
    pub(crate) tokens: Vec<String>,
}

impl Process {
    pub(crate) async fn start(tenants: usize) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "process::a_server_under_load", "--ignored", "--nocapture"])
            .env(TENANTS, tenants.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut says = BufReader::new(child.stdout.take().expect("it is piped"));
        let reading = tokio::task::spawn_blocking(move || {
            let mut lines = says.by_ref().lines().map(|line| line.expect("text"));
            let said = lines.find_map(|line| serde_json::from_str::<Json>(&line).ok().filter(Json::is_object));
            (said.expect("it says where it is"), says)
        });
        let (said, says) = reading.await.expect("no panic");
        let address = said["address"].as_str().expect("an address").parse().expect("an address");
        let tokens = serde_json::from_value(said["tokens"].clone()).expect("tokens");
        Process { child, _says: says, address, tokens }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::over(TcpStream::connect(self.address).await.expect("it listens")).await
    }

    /// Stops it, and waits until it has ended well.
    pub(crate) async fn stop(mut self) {
        drop(self.child.stdin.take());
        let ended = tokio::task::spawn_blocking(move || self.child.wait().expect("it ends").success());
        assert!(ended.await.expect("no panic"));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the test of the load runs it"]
async fn a_server_under_load() {
    let Some(tenants) = std::env::var(TENANTS).ok().and_then(|tenants| tenants.parse::<usize>().ok()) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { cache_bytes: 8 * 1024 * 1024, ..Options::default() };
    let store = Embedded::open(directory.path(), options).expect("a store");
    let mut server = TestServer::open_on(store, Limits::default(), |_| ()).await;
    server.nagaya.ensure().await.expect("the tables are created");
    let tokens: Vec<_> = (0..tenants).map(|at| server.token(&format!("tenant-{at}"), "ann")).collect();
    println!("\n{}", json!({ "address": server.address, "tokens": tokens }));
    // It runs until whoever started it has had enough.
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()))
        .await
        .expect("no panic")
        .expect("read");
    server.stop();
    server.stopped().await;
}
