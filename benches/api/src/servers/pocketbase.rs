//! PocketBase with a collection that has an access rule for tenants.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use serde_json::{Value as Json, json};

use super::site::{Dialect, Site};
use crate::{
    client::Client,
    process::{Process, free_address},
    task,
};

/// The password of all users: the server is only reachable from this machine, and is removed after the run.
const PASSWORD: &str = "only-for-this-run";
const ADMIN: &str = "admin@example.com";
const RECORDS: &str = "/api/collections/tasks/records";
/// Only users of a task's tenant may read and create it.
const RULE: &str = "@request.auth.tenantId = tenantId";

const DIALECT: Dialect = Dialect {
    read: |id| format!("{RECORDS}/{id}"),
    // Without the total count, as PocketBase recommends.
    list: |user| {
        let page = task::PAGE;
        format!("{RECORDS}?perPage={page}&skipTotal=1&sort=-createdAt&filter=(userId%3D%27{user}%27)")
    },
    create: RECORDS,
    body,
    id: "id",
    item: |answer| answer,
    items: |answer| &answer["items"],
    count,
};

fn body(n: u64, id: Option<&str>) -> Json {
    let mut fields = task::fields(n);
    // It neither takes these from the token nor has default values.
    fields["tenantId"] = task::TENANT.into();
    fields["priority"] = "normal".into();
    if let Some(id) = id {
        fields["id"] = id.into();
    }
    fields
}

fn count(client: &Client) -> anyhow::Result<u64> {
    let answer = client.get(&format!("{RECORDS}?perPage=1&fields=id"))?.json()?;
    answer["totalItems"].as_u64().with_context(|| format!("a count says {answer}"))
}

pub(super) fn start(program: &Path, folder: &Path, connections: u64) -> anyhow::Result<Site> {
    let data = folder.join("data");
    fs::create_dir_all(&data)?;
    let mut admin = Command::new(program);
    admin.args(["superuser", "upsert", ADMIN, PASSWORD, "--dir"]).arg(&data).stdin(Stdio::null());
    let made = admin.output().context("PocketBase does not start")?;
    ensure!(made.status.success(), "PocketBase has no administrator: {}", String::from_utf8_lossy(&made.stderr));
    let address = free_address()?;
    let mut serve = Command::new(program);
    serve.args(["serve", "--http", &address.to_string(), "--dir"]).arg(&data);
    // By default these are beside the program.
    serve.arg("--migrationsDir").arg(folder.join("migrations")).arg("--publicDir").arg(folder.join("public"));
    serve.arg("--hooksDir").arg(folder.join("hooks"));
    let mut process = Process::start("PocketBase", serve, &folder.join("log"))?;
    let client = Client::new(&format!("http://{address}"), "");
    process
        .wait_until(Duration::from_millis(20), || client.get("/api/health").is_ok_and(|answer| answer.status == 200))?;

    let admin = client.with(&token(&client, "_superusers", ADMIN)?);
    set_up(&admin)?;
    let member = |tenant: &str| -> anyhow::Result<String> {
        let email = format!("{tenant}@example.com");
        let fields = json!({ "email": email, "password": PASSWORD, "passwordConfirm": PASSWORD, "tenantId": tenant });
        admin.post("/api/collections/members/records", &fields)?.json()?;
        token(&client, "members", &email)
    };
    let site = Site::new(process, address, &member(task::TENANT)?, DIALECT, folder, connections)?.load()?;
    site.check(&member(task::OTHER)?)?;
    Ok(site)
}

fn token(client: &Client, collection: &str, email: &str) -> anyhow::Result<String> {
    let path = format!("/api/collections/{collection}/auth-with-password");
    let answer = client.post(&path, &json!({ "identity": email, "password": PASSWORD }))?.json()?;
    Ok(answer["token"].as_str().context("there is no token")?.to_owned())
}

fn set_up(admin: &Client) -> anyhow::Result<()> {
    // By default it writes a row for each request to a second database. The benchmark needs no access log.
    admin.patch("/api/settings", &json!({ "logs": { "maxDays": 0 } }))?.json()?;
    let members = json!({
        "name": "members",
        "type": "auth",
        "fields": [{ "name": "tenantId", "type": "text", "required": true, "min": 1, "max": 64 }],
    });
    admin.post("/api/collections", &members)?.json()?;
    let text = |name: &str, required: bool, max: u32| json!({ "name": name, "type": "text", "required": required, "max": max });
    let one_of = |name: &str, values: &[&str]| json!({ "name": name, "type": "select", "required": true, "maxSelect": 1, "values": values });
    let now =
        |name: &str, update: bool| json!({ "name": name, "type": "autodate", "onCreate": true, "onUpdate": update });
    let tasks = json!({
        "name": "tasks",
        "type": "base",
        "listRule": RULE,
        "viewRule": RULE,
        "createRule": RULE,
        "fields": [
            {
                "name": "id", "type": "text", "system": true, "primaryKey": true, "required": true, "min": 1, "max": 64,
                "pattern": "^[a-z0-9-]+$", "autogeneratePattern": "[a-z0-9]{15}",
            },
            text("tenantId", true, 64),
            text("userId", true, 64),
            text("title", true, 500),
            text("description", false, 20_000),
            one_of("status", &["open", "in_progress", "waiting", "done"]),
            one_of("priority", &["low", "normal", "high"]),
            text("category", false, 100),
            { "name": "dueDate", "type": "date" },
            now("createdAt", false),
            now("updatedAt", true),
        ],
        "indexes": [
            "CREATE INDEX tasks_by_status ON tasks (status, createdAt)",
            "CREATE INDEX tasks_by_user ON tasks (userId, createdAt)",
        ],
    });
    // Without the tenant as the first column: the rule becomes a comparison of expressions (`COALESCE(tenantId, '')`), which
    // no index on the field supports, and a list would read every task of the collection.
    admin.post("/api/collections", &tasks)?.json()?;
    Ok(())
}
