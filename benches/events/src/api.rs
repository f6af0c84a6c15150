//! The API of the release binary under load: its maximum throughput, and the latency at 80 % of that.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bench_common::{
    process::{Process, free_address},
    release::token,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::{
    client::{Connection, Load, Speed, load, request},
    times::Times,
};

/// The number of families.
pub(crate) const FAMILIES: usize = 8;
/// The number of todos of all families.
pub(crate) const TODOS: u64 = 4_000;
/// The constant rate, as a part of the maximum.
pub(crate) const PART: f64 = 0.8;
/// The time limit for the projection to have all events.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The results of reads, or of writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Loaded {
    /// The maximum number of responses per second.
    pub(crate) most: f64,
    /// At 80 % of that: responses per second, and latencies of all requests, of the first kind and of the second kind.
    pub(crate) rate: f64,
    pub(crate) all: Latency,
    pub(crate) kinds: [Latency; 2],
    /// Seconds until the projection had all events, after the maximum and after 80 %.
    pub(crate) behind: [f64; 2],
}

/// Milliseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
}

impl Latency {
    fn from_times(times: impl Iterator<Item = u32>) -> Self {
        let times = Times::new(times.collect());
        let at = |part| times.quantile(part) / 1_000.0;
        Latency { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
    }
}

/// The server, with todos.
pub(crate) struct Site {
    process: Process,
    address: SocketAddr,
    made: Arc<RequestData>,
}

/// The data of requests.
struct RequestData {
    /// The token of each family.
    tokens: Vec<String>,
    /// The todos of each family.
    todos: Vec<Vec<String>>,
}

/// The kind of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Lists of 20 and single todos, in turn.
    Reads,
    /// New todos and changes of titles, in turn.
    Writes,
}

impl RequestData {
    fn request(&self, kind: Kind, number: u64) -> Vec<u8> {
        let (turn, even) = (number / 2, number.is_multiple_of(2));
        let family = turn as usize % FAMILIES;
        let (token, todos) = (&self.tokens[family], &self.todos[family]);
        // A prime that does not divide the number of todos, so that all are requested in a shuffled order.
        let todo = &todos[(turn / FAMILIES as u64 * 7919) as usize % todos.len()];
        match (kind, even) {
            (Kind::Reads, true) => request("GET", "/todos?limit=20", token, None),
            (Kind::Reads, false) => request("GET", &format!("/todos/{todo}"), token, None),
            (Kind::Writes, true) => request("POST", "/todos", token, Some(&title(number))),
            (Kind::Writes, false) => request("PATCH", &format!("/todos/{todo}"), token, Some(&title(unique()))),
        }
    }
}

/// A unique number, so that a change of title is never a no-op.
fn unique() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64
}

fn title(number: u64) -> Json {
    json!({ "title": format!("Buy milk, bread and {number:020} eggs") })
}

impl Site {
    pub(crate) async fn start(binary: &Path, folder: &Path) -> anyhow::Result<Self> {
        let data = folder.join("data");
        fs::create_dir_all(&data)?;
        let address = free_address()?;
        let mut serve = Command::new(binary);
        // A few families make all calls, so the rate limit is turned off.
        serve.args(["serve", "todo", "--listen", &address.to_string(), "--tenant-rate", "0", "--log", "warn"]);
        serve.arg("--data").arg(&data);
        let mut process = Process::start("nagaya", serve, &folder.join("log"))?;
        process.wait_until(Duration::from_millis(20), || std::net::TcpStream::connect(address).is_ok())?;
        let token = |family: usize| token(binary, Path::new("todo"), &format!("family-{family}"), &data);
        let tokens = (0..FAMILIES).map(token).collect::<Result<Vec<_>, _>>()?;
        let todos = seed(address, &tokens).await?;
        let mut site = Site { process, address, made: Arc::new(RequestData { tokens, todos }) };
        site.wait_for_projection().await?;
        site.check().await?;
        Ok(site)
    }

    /// Checks the response to every request, and that another family has no access.
    async fn check(&mut self) -> anyhow::Result<()> {
        let mut connection = Connection::open(self.address).await?;
        let RequestData { tokens, todos } = &*self.made;
        let listed = connection.send(&self.made.request(Kind::Reads, 0)).await?.json()?;
        ensure!(listed["data"].as_array().is_some_and(|list| list.len() == 20), "a list says {listed}");
        let read = connection.send(&self.made.request(Kind::Reads, 1)).await?.json()?;
        ensure!(read["data"]["todoId"] == todos[0][0], "a read says {read}");
        let made = connection.send(&self.made.request(Kind::Writes, 0)).await?.json()?;
        ensure!(made["data"]["version"] == 1, "a new todo is {made}");
        let changed = connection.send(&self.made.request(Kind::Writes, 1)).await?.json()?;
        ensure!(changed["data"]["version"] == 2, "a change says {changed}");
        let other = request("GET", &format!("/todos/{}", todos[0][0]), &tokens[1], None);
        ensure!(connection.send(&other).await?.status == 404, "another family reads a todo");
        Ok(())
    }

    /// Waits until the projection has all events; the seconds that it took.
    async fn wait_for_projection(&mut self) -> anyhow::Result<f64> {
        let start = Instant::now();
        let mut connection = Connection::open(self.address).await?;
        for token in &self.made.tokens {
            loop {
                let answer = connection.send(&request("GET", "/todos?limit=1", token, None)).await?;
                answer.json()?;
                if answer.header("nagaya-projection-lag").context("a list does not say how far it is behind")? == "0" {
                    break;
                }
                ensure!(start.elapsed() < TIMEOUT, "the list does not have all events after {TIMEOUT:?}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        Ok(start.elapsed().as_secs_f64())
    }

    /// The maximum load, then 80 % of that.
    pub(crate) async fn measure(&mut self, kind: Kind, seconds: f64) -> anyhow::Result<Loaded> {
        let most = self.load(kind, Speed::Most(seconds)).await?.per_second;
        let first = self.wait_for_projection().await?;
        self.process.settle()?;
        let Load { per_second, times } = self.load(kind, Speed::Constant(most * PART, seconds)).await?;
        let behind = [first, self.wait_for_projection().await?];
        self.process.settle()?;
        let of = |odd| Latency::from_times(times.iter().filter(|(number, _)| number % 2 == odd).map(|(_, time)| *time));
        let all = Latency::from_times(times.iter().map(|(_, time)| *time));
        Ok(Loaded { most, rate: per_second, all, kinds: [of(0), of(1)], behind })
    }

    async fn load(&self, kind: Kind, speed: Speed) -> anyhow::Result<Load> {
        let made = Arc::clone(&self.made);
        load(self.address, speed, move |number| made.request(kind, number)).await
    }
}

/// Creates the initial todos.
async fn seed(address: SocketAddr, tokens: &[String]) -> anyhow::Result<Vec<Vec<String>>> {
    let loaders = tokens.iter().map(|token| {
        let token = token.clone();
        tokio::spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut todos = Vec::new();
            for number in 0..TODOS / FAMILIES as u64 {
                let made = connection.send(&request("POST", "/todos", &token, Some(&title(number)))).await?.json()?;
                todos.push(made["data"]["todoId"].as_str().context("a todo has no id")?.to_owned());
            }
            anyhow::Ok(todos)
        })
    });
    let loaders: Vec<_> = loaders.collect();
    let mut todos = Vec::new();
    for loader in loaders {
        todos.push(loader.await??);
    }
    Ok(todos)
}
