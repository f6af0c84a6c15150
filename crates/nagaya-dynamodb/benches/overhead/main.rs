//! Latency of calls through the engine compared with the bare SDK, on the same DynamoDB Local.
//!
//! Both sides alternate call by call, so that a slow moment of the machine or of the server affects both alike.

mod bare;
mod report;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use clap::Parser;
use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::{Condition, Item, Key, KeySchema, Query, SortCondition, Store as _, TableSpec, Write, WriteSet};

use self::{bare::Bare, report::Report};

/// Compares the DynamoDB engine with the bare SDK
#[derive(Debug, Parser)]
struct Args {
    /// Rounds; each measures every kind of call
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Calls of each kind and side in a round
    #[arg(long, default_value_t = 300)]
    calls: usize,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Also write the report to this file
    #[arg(long)]
    page: Option<PathBuf>,
    /// Passed by cargo to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

pub(crate) const TABLE: &str = "bench";
/// The number of items of a partition that queries read.
pub(crate) const QUERIED: usize = 20;
const PARTITIONS: usize = 50;
/// Bytes of a note, which makes an item about 300 bytes long.
pub(crate) const NOTE: usize = 173;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Get,
    Create,
    Query,
    Set,
}

impl Call {
    pub(crate) const ALL: [Call; 4] = [Call::Get, Call::Create, Call::Query, Call::Set];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::Get => "get",
            Call::Create => "put on absence",
            Call::Query => "query of 20",
            Call::Set => "write set of 3",
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    ensure!(args.rounds > 0 && args.calls > 0, "--rounds and --calls have to be more than nothing");
    let endpoint = std::env::var("NAGAYA_TEST_DYNAMODB_LOCAL")
        .context("NAGAYA_TEST_DYNAMODB_LOCAL is not set: run `cargo xtask bench dynamodb`")?;
    let prefix = format!("bench-{}-", std::process::id());
    let options = Options { prefix: prefix.clone(), ..Options::default() };
    let bare = Bare::open(&endpoint, &format!("{prefix}{TABLE}"), &options);
    let engine = Dynamodb::open(&Settings::local(&endpoint), options).await?;
    fill(&engine).await?;

    let mut bench = Bench { engine, bare, next: 0 };
    // Warm-up: the server compiles hot code.
    bench.round(args.calls.max(1_000)).await?;
    let mut report = Report::here(args.rounds, args.calls);
    for _ in 0..args.rounds {
        report.add(bench.round(args.calls).await?);
    }
    if args.json {
        println!("{:#}", report.json());
    } else {
        println!("{}", report.section());
    }
    if let Some(path) = &args.page {
        fs::write(path, report.section()).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    Ok(())
}

async fn fill(engine: &Dynamodb) -> anyhow::Result<()> {
    let spec = TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
        .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
        .with_ttl("expiresAt");
    engine.ensure_tables(&[spec]).await?;
    let items = (0..PARTITIONS).flat_map(|at| (0..QUERIED).map(move |sort| item(&partition(at), &sort_key(sort))));
    engine.put_all(TABLE, items.collect()).await?;
    Ok(())
}

pub(crate) fn partition(at: usize) -> String {
    format!("TENANT#{at:06}")
}

pub(crate) fn sort_key(at: usize) -> String {
    format!("ORDER#{at:06}")
}

/// A typical item: ten attributes, 300 bytes.
pub(crate) fn item(partition: &str, sort: &str) -> Item {
    Item::new()
        .with("PK", partition)
        .with("SK", sort)
        .with("GSI1PK", "STATUS#open")
        .with("GSI1SK", sort)
        .with("type", "order")
        .with("version", 1)
        .with("total", 4_200)
        .with("open", true)
        .with("createdAt", "2026-11-15T10:00:00Z")
        .with("note", "x".repeat(NOTE))
}

/// Microseconds of each call of one kind, through the engine and through the bare SDK.
pub(crate) type Times = (Call, Vec<f64>, Vec<f64>);

struct Bench {
    engine: Dynamodb,
    bare: Bare,
    /// The next unused key.
    next: usize,
}

impl Bench {
    async fn round(&mut self, calls: usize) -> anyhow::Result<Vec<Times>> {
        let mut round = Vec::new();
        for call in Call::ALL {
            let (mut engine, mut bare) = (Vec::with_capacity(calls), Vec::with_capacity(calls));
            for at in 0..calls {
                // Alternate which side is first.
                if at % 2 == 0 {
                    engine.push(self.engine(call).await?);
                    bare.push(self.bare(call).await?);
                } else {
                    bare.push(self.bare(call).await?);
                    engine.push(self.engine(call).await?);
                }
            }
            round.push((call, engine, bare));
        }
        Ok(round)
    }

    async fn engine(&mut self, call: Call) -> anyhow::Result<f64> {
        self.next += 1;
        let at = self.next;
        let create =
            |partition: &str| Write::put(TABLE, item(partition, &format!("NEW#{at:09}"))).when(Condition::absent("PK"));
        let partition = partition(at % PARTITIONS);
        let start;
        match call {
            Call::Get => {
                let key = Key::new(partition, sort_key(at % QUERIED));
                start = Instant::now();
                ensure!(self.engine.get(TABLE, &key).await?.is_some(), "{key} is not there");
            }
            Call::Create => {
                start = Instant::now();
                self.engine.write(create(&partition).into()).await?;
            }
            Call::Query => {
                start = Instant::now();
                let query = Query::table(TABLE, partition).sort(SortCondition::BeginsWith("ORDER#".into()));
                let page = self.engine.query(query).await?;
                ensure!(page.items.len() == QUERIED, "{} items instead of {QUERIED}", page.items.len());
            }
            Call::Set => {
                start = Instant::now();
                let set: WriteSet = ["A", "B", "C"].into_iter().map(create).collect();
                self.engine.write(set).await?;
            }
        }
        Ok(micros(start.elapsed()))
    }

    async fn bare(&mut self, call: Call) -> anyhow::Result<f64> {
        self.next += 1;
        let at = self.next;
        let partition = partition(at % PARTITIONS);
        let start;
        match call {
            Call::Get => {
                start = Instant::now();
                self.bare.get(&partition, &sort_key(at % QUERIED)).await?;
            }
            Call::Create => {
                start = Instant::now();
                self.bare.create(&partition, &format!("NEW#{at:09}")).await?;
            }
            Call::Query => {
                start = Instant::now();
                self.bare.query(&partition, "ORDER#").await?;
            }
            Call::Set => {
                start = Instant::now();
                self.bare.set(["A", "B", "C"], &format!("NEW#{at:09}")).await?;
            }
        }
        Ok(micros(start.elapsed()))
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
