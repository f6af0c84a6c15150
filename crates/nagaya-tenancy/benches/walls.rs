//! The overhead of the walls: calls through a tenant's handle compared with the same calls on the bare store port.
//!
//! `cargo xtask bench walls`. Both sides work on an embedded store in memory with the same design, the same items and the
//! same keys.

use std::{
    fmt::Write as _,
    hint::black_box,
    time::{Duration, Instant},
};

use nagaya_design::{Design, check};
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Condition, Item, Key, Query, SortCondition, Store, Value, Write};
use nagaya_tenancy::{List, Nagaya, Principal, Tenant, table_specs};
use serde_json::{Map, Value as Json, json};

/// Rounds; each measures both sides.
const ROUNDS: usize = 15;
/// The duration of one side's measurement in a round.
const SLICE: Duration = Duration::from_millis(200);
/// Initial items of both sides.
const ITEMS: usize = 10_000;
const PAGE: usize = 20;

/// The task of the `aiagent` design, without an audit, because the bare port writes none.
const DESIGN: &str = r#"
name    = "bench"
version = "1.0"

[tenant]
field = "tenantId"

[table.app]
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]
index.GSI2 = ["GSI2PK", "GSI2SK"]

[entity.task]
table      = "app"
key        = { PK = "TENANT#{tenantId}", SK = "TASK#{taskId}" }
version    = "version"
index.GSI1 = { GSI1PK = "TENANT#{tenantId}#STATUS#{status}", GSI1SK = "TASK#{createdAt}#{taskId}" }
index.GSI2 = { GSI2PK = "TENANT#{tenantId}#USER#{userId}", GSI2SK = "TASK#{createdAt}#{taskId}" }

[entity.task.fields]
tenantId    = { type = "string", min = 1, max = 64 }
taskId      = { type = "string", min = 1, max = 64, default = "new" }
userId      = { type = "string", min = 1, max = 64 }
title       = { type = "string", min = 1, max = 500 }
description = { type = "string", max = 20000, optional = true }
status      = { type = "string", one_of = ["open", "in_progress", "waiting", "done"], default = "open" }
priority    = { type = "string", one_of = ["low", "normal", "high"], default = "normal" }
category    = { type = "string", max = 100, optional = true }
dueDate     = { type = "date", optional = true }
createdAt   = { type = "timestamp", default = "now", immutable = true }
updatedAt   = { type = "timestamp", default = "now" }

[access.tasks_of_user]
entity = "task"
index  = "GSI2"
order  = "desc"
"#;

fn design() -> Result<Design, String> {
    check(DESIGN, &[]).design.ok_or_else(|| "the design is not sound".to_owned())
}

/// A task: eleven fields, two indexes.
fn fields(n: usize) -> Map<String, Json> {
    let Json::Object(fields) = json!({
        "taskId": format!("task-{n:08}"),
        "userId": format!("user-{:04}", n % 50),
        "title": format!("Answer the mail of customer {n}"),
        "description": "They ask when the order will arrive, and whether it can be sent to another address.",
        "status": "open",
        "category": "mail",
        "dueDate": "2026-01-31",
    }) else {
        return Map::new();
    };
    fields
}

/// The same task as an item of the store.
fn item(n: usize) -> Item {
    let (task, user) = (format!("task-{n:08}"), format!("user-{:04}", n % 50));
    let created = "2026-01-31T09:30:00Z";
    Item::new()
        .with("PK", "TENANT#t1")
        .with("SK", format!("TASK#{task}"))
        .with("GSI1PK", "TENANT#t1#STATUS#open")
        .with("GSI1SK", format!("TASK#{created}#{task}"))
        .with("GSI2PK", format!("TENANT#t1#USER#{user}"))
        .with("GSI2SK", format!("TASK#{created}#{task}"))
        .with("tenantId", "t1")
        .with("taskId", task)
        .with("userId", user)
        .with("title", format!("Answer the mail of customer {n}"))
        .with("description", "They ask when the order will arrive, and whether it can be sent to another address.")
        .with("status", "open")
        .with("priority", "normal")
        .with("category", "mail")
        .with("dueDate", "2026-01-31")
        .with("createdAt", created)
        .with("updatedAt", created)
        .with("version", 1)
}

/// Both sides, each with a separate store.
struct Sides {
    tenant: Tenant,
    port: EmbeddedStore,
    table: String,
    /// The next item to create, on either side.
    next: [usize; 2],
}

impl Sides {
    async fn open() -> Result<Self, String> {
        let text = |error: &dyn std::error::Error| error.to_string();
        let memory = || EmbeddedStore::in_memory(Options::default()).map_err(|error| text(&error));
        let design = design()?;
        let tables = table_specs(&design, &design.name);
        let table = tables[0].name.clone();
        let port = memory()?;
        port.ensure_tables(&tables).await.map_err(|error| text(&error))?;
        let nagaya = Nagaya::open(design, memory()?);
        nagaya.ensure_tables().await.map_err(|error| text(&error))?;
        let tenant = nagaya.tenant(&Principal::new("t1", "u1")).map_err(|error| text(&error))?;
        let mut sides = Sides { tenant, port, table, next: [0, 0] };
        for _ in 0..ITEMS {
            sides.bare_create().await?;
            sides.create().await?;
        }
        Ok(sides)
    }

    async fn create(&mut self) -> Result<(), String> {
        self.next[0] += 1;
        let created = self.tenant.create("task", fields(self.next[0])).await;
        created.map(|record| drop(black_box(record))).map_err(|error| error.to_string())
    }

    async fn bare_create(&mut self) -> Result<(), String> {
        self.next[1] += 1;
        let write = Write::put(&self.table, item(self.next[1])).when(Condition::absent("PK"));
        self.port.write(write.into()).await.map(|written| drop(black_box(written))).map_err(|error| error.to_string())
    }

    async fn get(&mut self, n: usize) -> Result<(), String> {
        let record = self.tenant.get("task", &[&format!("task-{n:08}")]).await.map_err(|error| error.to_string())?;
        black_box(record.text("title"));
        Ok(())
    }

    async fn bare_get(&mut self, n: usize) -> Result<(), String> {
        let key = Key::new("TENANT#t1", format!("TASK#task-{n:08}"));
        let item = self.port.get(&self.table, &key).await.map_err(|error| error.to_string())?;
        black_box(item.as_ref().and_then(|item| item.get("title")).and_then(Value::as_str));
        item.map(drop).ok_or_else(|| "an item is missing".to_owned())
    }

    async fn list(&mut self, n: usize) -> Result<(), String> {
        let list = List::by("tasks_of_user").with("userId", format!("user-{:04}", n % 50)).limit(PAGE);
        let page = self.tenant.list(&list).await.map_err(|error| error.to_string())?;
        if page.records.len() == PAGE { Ok(()) } else { Err(format!("a page of {}", page.records.len())) }
    }

    async fn bare_list(&mut self, n: usize) -> Result<(), String> {
        let query = Query::index(&self.table, "GSI2", format!("TENANT#t1#USER#user-{:04}", n % 50));
        let query = query.sort(SortCondition::BeginsWith("TASK#".into())).descending().limit(PAGE);
        let page = self.port.query(query).await.map_err(|error| error.to_string())?;
        if page.items.len() == PAGE { Ok(()) } else { Err(format!("a page of {}", page.items.len())) }
    }
}

/// Calls per second of one side.
macro_rules! pace {
    ($sides:ident, $call:ident $(, $n:ident)?) => {{
        let (start, mut calls) = (Instant::now(), 0_usize);
        while start.elapsed() < SLICE {
            for _ in 0..20 {
                calls += 1;
                $(let $n = 1 + calls * 7919 % ITEMS;)?
                $sides.$call($($n)?).await?;
            }
        }
        calls as f64 / start.elapsed().as_secs_f64()
    }};
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn measure() -> Result<Vec<Figure>, String> {
    let mut sides = Sides::open().await?;
    let mut paces = [const { (Vec::new(), Vec::new(), Vec::new()) }; 3];
    for _ in 0..ROUNDS {
        let round = [
            (pace!(sides, get, n), pace!(sides, bare_get, n)),
            (pace!(sides, create), pace!(sides, bare_create)),
            (pace!(sides, list, n), pace!(sides, bare_list, n)),
        ];
        for ((walled, bare), (all_walled, all_bare, ratios)) in round.into_iter().zip(&mut paces) {
            all_walled.push(walled);
            all_bare.push(bare);
            ratios.push(walled / bare);
        }
    }
    let calls = [("get", 0.7), ("create with two indexes and validation", 0.6), ("list of 20", 0.7)];
    let figures = calls.into_iter().zip(&mut paces).map(|((call, bar), (walled, bare, ratios))| {
        let ratio = median(ratios);
        let range = (ratios[0], ratios[ratios.len() - 1]);
        Figure { call, bar, walled: median(walled), bare: median(bare), ratio, range }
    });
    Ok(figures.collect())
}

/// The result of one kind of call.
struct Figure {
    call: &'static str,
    bar: f64,
    walled: f64,
    bare: f64,
    ratio: f64,
    range: (f64, f64),
}

fn page(figures: &[Figure]) -> String {
    let mut out = format!(
        "## The walls\n\n\
         Written by `cargo xtask bench walls --write`; do not edit.\n\n\
         Calls through a tenant's handle (a dynamic entity: the `task` of `aiagent`, eleven fields, two indexes)\n\
         beside the same calls on the bare port, both on an embedded store in memory with {ITEMS} items and more, in one\n\
         run: {ROUNDS} rounds of {} ms for each side in turn, medians.\n\n\
         | call | needed | through the walls, /s | bare port, /s | ratio | range of rounds | |\n\
         |---|--:|--:|--:|--:|--:|---|\n",
        SLICE.as_millis()
    );
    for Figure { call, bar, walled, bare, ratio, range: (least, most) } in figures {
        let verdict = if ratio >= bar { "met" } else { "**not met**" };
        let sides = if (least >= bar) == (most >= bar) { "" } else { "; rounds are on both sides" };
        // Writing to a String does not fail.
        let _ = writeln!(
            out,
            "| {call} | ≥ {bar} | {walled:.0} | {bare:.0} | {ratio:.2} | {least:.2} – {most:.2} | {verdict}{sides} |"
        );
    }
    out
}

fn json(figures: &[Figure]) -> Json {
    let figure = |figure: &Figure| {
        json!({
            "call": figure.call, "needed": figure.bar, "walled_per_second": figure.walled,
            "bare_per_second": figure.bare, "ratio": figure.ratio, "range": [figure.range.0, figure.range.1],
        })
    };
    figures.iter().map(figure).collect()
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let figures = runtime.map_err(|error| error.to_string())?.block_on(measure())?;
    let page = page(&figures);
    if arguments.iter().any(|argument| argument == "--json") {
        println!("{:#}", json(&figures));
    } else {
        println!("{page}");
    }
    match arguments.iter().position(|argument| argument == "--page").and_then(|at| arguments.get(at + 1)) {
        Some(path) => std::fs::write(path, page).map_err(|error| format!("{path}: {error}")),
        None => Ok(()),
    }
}
