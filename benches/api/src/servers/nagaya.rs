//! The release binary with a design.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::Context as _;
use bench_common::release;
use serde_json::Value as Json;

use super::site::{Dialect, Site};
use crate::{
    client::Client,
    process::{Process, free_address},
    task,
};

pub(super) const DIALECT: Dialect = Dialect {
    read: |id| format!("/tasks/{id}"),
    list: |user| format!("/tasks-of-user?userId={user}&limit={}", task::PAGE),
    create: "/tasks",
    body,
    id: "taskId",
    item: |answer| &answer["data"],
    items: |answer| &answer["data"],
    count,
};

fn body(n: u64, id: Option<&str>) -> Json {
    let mut fields = task::fields(n);
    if let Some(id) = id {
        fields["taskId"] = id.into();
    }
    fields
}

fn count(client: &Client) -> anyhow::Result<u64> {
    let answer = client.get("/count-of-tasks")?.json()?;
    answer["data"]["count"].as_u64().with_context(|| format!("a count says {answer}"))
}

/// Starts and loads it; also returns its response to a read.
pub(super) fn start(binary: &Path, folder: &Path, connections: u64) -> anyhow::Result<(Site, String)> {
    let (design, data) = (folder.join("bench.toml"), folder.join("data"));
    fs::create_dir_all(&data)?;
    fs::write(&design, include_str!("../../bench.toml"))?;
    let address = free_address()?;
    let mut serve = Command::new(binary);
    // All calls are of one tenant, so its rate limit is turned off.
    serve.arg("serve").arg(&design).args(["--listen", &address.to_string(), "--tenant-rate", "0", "--log", "warn"]);
    serve.arg("--data").arg(&data);
    let mut process = Process::start("nagaya", serve, &folder.join("log"))?;
    let client = Client::new(&format!("http://{address}"), "");
    process.wait_until(Duration::from_millis(20), || client.get("/readyz").is_ok_and(|answer| answer.status == 200))?;

    let token = |tenant: &str| release::token(binary, &design, tenant, &data);
    let site = Site::new(process, address, &token(task::TENANT)?, DIALECT, folder, connections)?.load()?;
    let answer = site.check(&token(task::OTHER)?)?;
    Ok((site, answer))
}
