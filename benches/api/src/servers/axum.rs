//! The upper limit: an axum handler that only returns a constant response.

use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

use anyhow::ensure;
use axum::{Router, body::Bytes, http::header::CONTENT_TYPE, routing::get};
use tokio::net::TcpListener;

use super::{nagaya, site::Site};
use crate::{
    client::Client,
    process::{Process, free_address},
    task,
};

/// Serves the content of a file for every read, until it is killed.
pub(crate) fn serve(listen: SocketAddr, answer: &Path) -> anyhow::Result<()> {
    let answer = Bytes::from(fs::read(answer)?);
    let read = async move || ([(CONTENT_TYPE, "application/json")], answer.clone());
    let router = Router::new().route("/tasks/{taskId}", get(read));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async { Ok(axum::serve(TcpListener::bind(listen).await?, router).await?) })
}

/// Starts it with nagaya's response.
pub(super) fn start(answer: &str, folder: &Path, token: &str, connections: u64) -> anyhow::Result<Site> {
    fs::create_dir_all(folder)?;
    let file = folder.join("answer.json");
    fs::write(&file, answer)?;
    let address = free_address()?;
    // Not by its path: a later build may have replaced the file there.
    let mut serve = Command::new("/proc/self/exe");
    serve.args(["axum", &address.to_string()]).arg(&file);
    let mut process = Process::start("bare axum", serve, &folder.join("log"))?;
    let client = Client::new(&format!("http://{address}"), token);
    let read = || client.get(&(nagaya::DIALECT.read)(&task::id(1)));
    process.wait_until(Duration::from_millis(20), || read().is_ok())?;
    let response = read()?;
    ensure!(response.status == 200 && response.body == answer, "the bare handler responds {response:?}");
    Site::new(process, address, token, nagaya::DIALECT, folder, connections)
}
