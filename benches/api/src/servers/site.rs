//! An HTTP API with tasks: the same steps for each dialect.

use std::{net::SocketAddr, path::Path, thread};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value as Json;

use super::{Call, Counted, Server};
use crate::{
    client::Client,
    process::Process,
    task::{self, ITEMS, NEW, PAGE, USERS},
    wrk::Wrk,
};

/// Concurrent requests while loading.
const LOADERS: u64 = 16;

/// Paths, bodies and responses of an API.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    /// The path of a task.
    pub(super) read: fn(id: &str) -> String,
    /// The path of the newest tasks of a user.
    pub(super) list: fn(user: &str) -> String,
    /// The path that creates tasks.
    pub(super) create: &'static str,
    /// The body that creates a task; with an id only while loading.
    pub(super) body: fn(n: u64, id: Option<&str>) -> Json,
    /// The name of the id field.
    pub(super) id: &'static str,
    /// The task in a response.
    pub(super) item: fn(&Json) -> &Json,
    /// The tasks in a list.
    pub(super) items: fn(&Json) -> &Json,
    /// The number of tasks.
    pub(super) count: fn(&Client) -> anyhow::Result<u64>,
}

/// A running API.
#[derive(Debug)]
pub(super) struct Site {
    process: Process,
    client: Client,
    wrk: Wrk,
    dialect: Dialect,
    calls: &'static [Call],
}

impl Site {
    /// An empty API and the token of a caller.
    pub(super) fn new(
        process: Process,
        address: SocketAddr,
        token: &str,
        dialect: Dialect,
        folder: &Path,
        connections: u64,
    ) -> anyhow::Result<Self> {
        let client = Client::new(&format!("http://{address}"), token);
        let wrk = Wrk::new(&folder.join("load"), address, token, connections)?;
        // A bare handler supports only this; loading adds the others.
        wrk.gets(Call::Read, task::shuffled(ITEMS).map(|n| (dialect.read)(&task::id(n))))?;
        Ok(Site { process, client, wrk, dialect, calls: &[Call::Read] })
    }

    pub(super) fn token(&self) -> &str {
        self.client.token()
    }

    /// Creates the tasks, and prepares the calls.
    pub(super) fn load(mut self) -> anyhow::Result<Self> {
        let Site { dialect, client, wrk, .. } = &self;
        let load = |part: u64| -> anyhow::Result<()> {
            let client = client.with(client.token());
            for n in (1..=ITEMS).filter(|n| n % LOADERS == part) {
                client.post(dialect.create, &(dialect.body)(n, Some(&task::id(n))))?.json()?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let loaders: Vec<_> = (0..LOADERS).map(|part| scope.spawn(move || load(part))).collect();
            let joined = loaders.into_iter().map(|loader| loader.join().unwrap_or_else(|_| bail!("a loader panicked")));
            joined.collect::<anyhow::Result<()>>()
        })?;
        wrk.gets(Call::List, task::shuffled(USERS).map(|n| (dialect.list)(&task::user(n))))?;
        wrk.posts(Call::Create, dialect.create, task::shuffled(NEW).map(|n| (dialect.body)(n, None)))?;
        self.calls = &[Call::Read, Call::List, Call::Create];
        Ok(self)
    }

    /// Checks the responses to every call, and that another tenant has no access. Returns the response to a read.
    pub(super) fn check(&self, other: &str) -> anyhow::Result<String> {
        let Site { dialect, client, .. } = self;
        let path = (dialect.read)(&task::id(7));
        let answer = client.get(&path)?;
        let read = answer.json()?;
        ensure!((dialect.item)(&read)["title"] == task::title(7), "a read says {read}");

        let listed = client.get(&(dialect.list)(&task::user(7)))?.json()?;
        let tasks = (dialect.items)(&listed).as_array().context("a list is none")?;
        let fits = tasks.len() == PAGE && tasks.iter().all(|each| each["userId"] == task::user(7));
        ensure!(fits, "a list says {listed}");

        let created = client.post(dialect.create, &(dialect.body)(7, None))?.json()?;
        let id = (dialect.item)(&created)[dialect.id].as_str().context("what is created has no id")?;
        let found = client.get(&(dialect.read)(id))?.json()?;
        ensure!((dialect.item)(&found) == (dialect.item)(&created), "what is created reads {found}");
        ensure!(self.count()? == ITEMS + 1, "there are {} tasks", self.count()?);

        let other = client.with(other);
        ensure!(other.get(&path)?.status == 404, "another tenant reads a task");
        let listed = other.get(&(dialect.list)(&task::user(7)))?.json()?;
        ensure!((dialect.items)(&listed) == &Json::Array(Vec::new()), "another tenant lists {listed}");
        Ok(answer.body)
    }
}

impl Server for Site {
    fn process(&self) -> &Process {
        &self.process
    }

    fn has(&self, call: Call) -> bool {
        self.calls.contains(&call)
    }

    fn run(&self, call: Call, seconds: u64) -> anyhow::Result<Counted> {
        self.wrk.run(call, seconds)
    }

    fn count(&self) -> anyhow::Result<u64> {
        (self.dialect.count)(&self.client)
    }
}
