//! A server with one table and its stream. Shards split, are trimmed and disappear when a test says so; on real servers
//! that takes hours.

use std::sync::{Arc, Mutex, MutexGuard};

use nagaya_dynamodb::{Dynamodb, Options, Settings};
use nagaya_store::{KeySchema, TableSpec};
use serde_json::{Value, json};

use crate::server::{self, Failure};

/// The name of the table.
pub(crate) const TABLE: &str = "things";

/// The stream of the table.
#[derive(Default)]
pub(crate) struct Stream {
    label: u32,
    shards: Vec<Shard>,
    numbers: u64,
    /// Iterators of earlier generations have expired.
    generation: u32,
    /// The operations that were asked for.
    pub(crate) calls: Vec<String>,
}

struct Shard {
    id: String,
    parent: Option<String>,
    closed: bool,
    records: Vec<Value>,
    /// How many of its records are no longer kept.
    trimmed: usize,
}

impl Stream {
    /// Opens a shard, and closes its parent.
    pub(crate) fn open(&mut self, id: &str, parent: Option<&str>) {
        if let Some(parent) = parent {
            self.shard(parent).closed = true;
        }
        let (id, parent) = (id.to_owned(), parent.map(str::to_owned));
        // The newest first: readers must not rely on the order.
        self.shards.insert(0, Shard { id, parent, closed: false, records: Vec::new(), trimmed: 0 });
    }

    fn shard(&mut self, id: &str) -> &mut Shard {
        self.shards.iter_mut().find(|shard| shard.id == id).expect("a shard of the test")
    }

    /// Writes an item as a record of a shard.
    pub(crate) fn write(&mut self, shard: &str, sort: &str, n: u32) {
        self.put(shard, sort, n, seconds(), Value::Null);
    }

    /// Writes a record that is `age` seconds old.
    pub(crate) fn write_before(&mut self, shard: &str, sort: &str, n: u32, age: u64) {
        self.put(shard, sort, n, seconds() - age, Value::Null);
    }

    fn put(&mut self, shard: &str, sort: &str, n: u32, written: u64, identity: Value) {
        self.numbers += 1;
        let number = format!("{:021}", self.numbers);
        let key = json!({ "PK": { "S": "p" }, "SK": { "S": sort } });
        let image = json!({ "PK": { "S": "p" }, "SK": { "S": sort }, "n": { "N": n.to_string() } });
        self.shard(shard).records.push(json!({
            "eventName": "INSERT",
            "userIdentity": identity,
            "dynamodb": {
                "ApproximateCreationDateTime": written, "Keys": key, "NewImage": image, "SequenceNumber": number,
            },
        }));
    }

    /// Keeps only records of a shard from this one on.
    pub(crate) fn trim(&mut self, shard: &str, first: usize) {
        self.shard(shard).trimmed = first;
    }

    /// Forgets a shard.
    pub(crate) fn remove(&mut self, shard: &str) {
        self.shards.retain(|other| other.id != shard);
    }

    /// Lets all iterators expire.
    pub(crate) fn expire(&mut self) {
        self.generation += 1;
    }

    /// Turns the stream off and on again.
    pub(crate) fn replace(&mut self) {
        self.label += 1;
        self.shards.clear();
    }

    fn answer(&mut self, operation: &str, asked: &Value) -> Result<Value, &'static str> {
        let arn = format!("arn:aws:dynamodb:here:000000000000:table/{TABLE}/stream/{}", self.label);
        let table = TableSpec::new(TABLE, KeySchema::strings("PK", "SK"));
        match operation {
            "DescribeTable" => {
                let mut table = server::description(&table);
                table["StreamSpecification"] = json!({ "StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES" });
                table["LatestStreamArn"] = json!(arn);
                Ok(json!({ "Table": table }))
            }
            // Two shards a page, so that a description has several pages.
            "DescribeStream" => {
                let after = asked["ExclusiveStartShardId"].as_str();
                let first = after.and_then(|after| self.shards.iter().position(|shard| shard.id == after));
                let first = first.map_or(0, |at| at + 1);
                let page: Vec<_> = self.shards.iter().skip(first).take(2).collect();
                let more = first + page.len() < self.shards.len();
                let last = page.last().filter(|_| more).map(|shard| &shard.id);
                let shards: Vec<_> = page.iter().map(|shard| shard.described()).collect();
                Ok(json!({ "StreamDescription": {
                    "StreamArn": arn, "StreamViewType": "NEW_AND_OLD_IMAGES", "Shards": shards, "LastEvaluatedShardId": last,
                } }))
            }
            "GetShardIterator" => {
                let generation = self.generation;
                let shard = self.find(&asked["ShardId"])?;
                let at = shard.offset(asked["ShardIteratorType"].as_str(), &asked["SequenceNumber"])?;
                Ok(json!({ "ShardIterator": format!("{}|{at}|{generation}", shard.id) }))
            }
            "GetRecords" => {
                let generation = self.generation;
                let token: Vec<_> = asked["ShardIterator"].as_str().unwrap_or_default().split('|').collect();
                if token[2] != generation.to_string() {
                    return Err("ExpiredIteratorException");
                }
                let shard = self.find(&token[0].into())?;
                let at: usize = token[1].parse().map_err(|_| "ValidationException")?;
                if at < shard.trimmed {
                    return Err("TrimmedDataAccessException");
                }
                let limit = asked["Limit"].as_u64().unwrap_or(1_000) as usize;
                let records: Vec<_> = shard.records.iter().skip(at).take(limit).collect();
                let next = at + records.len();
                let open = !shard.closed || next < shard.records.len();
                let next = open.then(|| format!("{}|{next}|{generation}", shard.id));
                Ok(json!({ "Records": records, "NextShardIterator": next }))
            }
            _ => server::describe(operation, &table).ok_or("UnknownOperationException"),
        }
    }

    fn find(&self, id: &Value) -> Result<&Shard, &'static str> {
        self.shards.iter().find(|shard| id == shard.id.as_str()).ok_or("ResourceNotFoundException")
    }
}

impl Shard {
    fn described(&self) -> Value {
        let ending = self.closed.then_some("999999999999999999999");
        let range = json!({ "StartingSequenceNumber": "000000000000000000001", "EndingSequenceNumber": ending });
        json!({ "ShardId": self.id, "ParentShardId": self.parent, "SequenceNumberRange": range })
    }

    fn offset(&self, kind: Option<&str>, number: &Value) -> Result<usize, &'static str> {
        let found = || self.records.iter().position(|record| record["dynamodb"]["SequenceNumber"] == *number);
        let offset = match kind {
            Some("TRIM_HORIZON") => return Ok(self.trimmed),
            Some("LATEST") => return Ok(self.records.len()),
            Some("AT_SEQUENCE_NUMBER") => found(),
            // The record itself may be trimmed, as long as all that follow are kept.
            _ => found().map(|at| at + 1),
        };
        offset.filter(|at| *at >= self.trimmed).ok_or("TrimmedDataAccessException")
    }
}

/// The running server.
#[derive(Clone)]
pub(crate) struct StreamServer {
    stream: Arc<Mutex<Stream>>,
    endpoint: String,
}

impl StreamServer {
    /// Starts it with these open shards.
    pub(crate) async fn start(shards: &[&str]) -> Self {
        let stream: Arc<Mutex<Stream>> = Arc::default();
        let served = Arc::clone(&stream);
        let endpoint = server::start(move |operation, asked| {
            let mut stream = served.lock().expect("no test panics while it holds the lock");
            stream.calls.push(operation.to_owned());
            let answer = stream.answer(operation, asked);
            Some(answer.map_err(|code| Failure { status: "400 Bad Request", code }))
        });
        let server = StreamServer { endpoint: endpoint.await, stream };
        shards.iter().for_each(|shard| server.stream().open(shard, None));
        server
    }

    pub(crate) fn stream(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().expect("no test panics while it holds the lock")
    }

    /// A new store, with empty caches.
    pub(crate) async fn store(&self) -> Dynamodb {
        let settings = Settings { region: Some("here".to_owned()), ..Settings::local(&self.endpoint) };
        Dynamodb::open(&settings, Options::default()).await.expect("a server on this machine needs nothing")
    }
}

fn seconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
