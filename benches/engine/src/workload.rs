//! The items of the benchmark, for the store port and as the bytes that the engine stores.

use std::{path::Path, sync::LazyLock};

use anyhow::Context as _;
use fjall::{Database, KeyspaceCreateOptions, Readable as _};
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{
    Clock, Condition, Item, Key, KeySchema, KeyValue, Query, SortCondition, Store as _, TableSpec, Write, WriteSet,
};
use serde::{Deserialize, Serialize};

/// The number of partitions.
pub(crate) const PARTITIONS: u64 = 1_000;
/// Items of a partition with the same prefix of the sort key: what a query reads.
pub(crate) const ITEMS_PER_DAY: u64 = 20;
/// Bytes of an item, as stores count them.
const ITEM_BYTES: usize = 300;

pub(crate) const TABLE: &str = "things";

pub(crate) fn table() -> TableSpec {
    TableSpec::new(TABLE, KeySchema::strings("PK", "SK"))
        .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
        .with_index("GSI2", KeySchema::strings("GSI2PK", "GSI2SK"))
}

/// The text attributes of an item.
struct Texts {
    /// Names and values, ordered by name.
    attributes: [(&'static str, String); 7],
}

impl Texts {
    fn new(number: u64) -> Self {
        let hash = mix(number);
        let mut attributes = [
            ("GSI1PK", format!("STATUS#{:04}#{}", number % PARTITIONS, hash % 3)),
            ("GSI1SK", format!("{hash:016x}")),
            ("GSI2PK", format!("OWNER#{:04}", hash % PARTITIONS)),
            ("GSI2SK", format!("{number:012}")),
            ("PK", partition(number)),
            ("SK", sort(number)),
            ("data", String::new()),
        ];
        let taken: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        let length = ITEM_BYTES - taken;
        let at = (hash >> 20) as usize % (POOL.len() - length);
        attributes[6].1.push_str(&POOL[at..at + length]);
        Texts { attributes }
    }

    fn value(&self, at: usize) -> &str {
        &self.attributes[at].1
    }
}

fn partition(number: u64) -> String {
    format!("TENANT#{:04}", number % PARTITIONS)
}

fn sort(number: u64) -> String {
    let place = number / PARTITIONS;
    format!("DAY#{:07}#ITEM#{:02}", place / ITEMS_PER_DAY, place % ITEMS_PER_DAY)
}

fn day(number: u64) -> String {
    format!("DAY#{:07}#", number / PARTITIONS / ITEMS_PER_DAY)
}

/// Random letters, which do not compress.
static POOL: LazyLock<String> = LazyLock::new(|| {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
    (0..1 << 20).map(|at| char::from(LETTERS[(mix(at) % 64) as usize])).collect()
});

/// A pseudo-random number: splitmix64.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Random numbers, the same in every run and for every engine.
pub(crate) struct Picks(u64);

impl Picks {
    pub(crate) fn new(seed: u64) -> Self {
        Picks(seed << 32)
    }

    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.0 += 1;
        mix(self.0) % count
    }
}

/// The creation of an item, through the port.
pub(crate) fn create(number: u64) -> Write {
    let item: Item =
        Texts::new(number).attributes.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    Write::put(TABLE, item).when(Condition::absent("PK"))
}

pub(crate) fn key(number: u64) -> Key {
    Key::new(partition(number), sort(number))
}

/// The query of an item's day: 20 items.
pub(crate) fn query(number: u64) -> Query {
    let day = SortCondition::BeginsWith(KeyValue::from(day(number)));
    Query::table(TABLE, partition(number)).sort(day).limit(ITEMS_PER_DAY as usize)
}

/// The bytes of one write: the item, its two index entries, and the change; the committing thread adds the change's key.
pub(crate) struct Entries {
    pub(crate) item_key: Vec<u8>,
    pub(crate) index_keys: [Vec<u8>; 2],
    /// The value of the item and of both index entries.
    pub(crate) item: Vec<u8>,
    pub(crate) change: Vec<u8>,
}

impl Entries {
    pub(crate) fn new(number: u64, millis: i64) -> Self {
        let texts = Texts::new(number);
        let (pk, sk) = (texts.value(4), texts.value(5));
        let mut item = Vec::with_capacity(ITEM_BYTES + 32);
        item.push(texts.attributes.len() as u8);
        for (name, value) in &texts.attributes {
            push_text(name, &mut item);
            item.push(3);
            push_text(value, &mut item);
        }
        let mut change = Vec::with_capacity(item.len() + 48);
        for part in [pk, sk] {
            change.push(0);
            push_text(part, &mut change);
        }
        change.extend([0, 1]);
        change.extend(&item);
        change.push(0);
        push_varint(((millis << 1) ^ (millis >> 63)) as u64, &mut change);
        let index_key = |index: u8| {
            let at = usize::from(index) * 2;
            ordered(&[0, 0, index], &[texts.value(at), texts.value(at + 1), pk, sk])
        };
        Entries { item_key: ordered(&[0, 0], &[pk, sk]), index_keys: [index_key(0), index_key(1)], item, change }
    }

    fn bytes(&self) -> usize {
        let keys = self.item_key.len() + self.index_keys[0].len() + self.index_keys[1].len() + change_key(0).len();
        keys + 3 * self.item.len() + self.change.len()
    }
}

pub(crate) fn item_key(number: u64) -> Vec<u8> {
    ordered(&[0, 0], &[&partition(number), &sort(number)])
}

/// The key prefix of the items of a day.
pub(crate) fn day_prefix(number: u64) -> Vec<u8> {
    let mut prefix = ordered(&[0, 0], &[&partition(number)]);
    prefix.extend(day(number).as_bytes());
    prefix
}

pub(crate) fn change_key(sequence: u64) -> Vec<u8> {
    [[0, 0].as_slice(), &sequence.to_be_bytes()].concat()
}

fn ordered(start: &[u8], parts: &[&str]) -> Vec<u8> {
    let mut key = Vec::with_capacity(96);
    key.extend(start);
    for part in parts {
        key.extend(part.as_bytes());
        key.extend([0, 1]);
    }
    key
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    push_varint(text.len() as u64, out);
    out.extend(text.as_bytes());
}

fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The size of one write in bytes of keys and values.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Bytes {
    /// The bytes that the engine stores for one item, read from its directory.
    pub(crate) engine: usize,
    /// The bytes that the other libraries store.
    pub(crate) references: usize,
    /// Whether both are equal.
    pub(crate) same: bool,
}

/// Writes an item with the engine and reads the stored bytes, so that the other libraries store the same.
pub(crate) fn probe(directory: &Path) -> anyhow::Result<Bytes> {
    const MILLIS: i64 = 1_790_000_000_000;
    let number = 123_456;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let options = Options { clock: Clock::new(|| MILLIS), ..Options::default() };
    let store = EmbeddedStore::open(directory, options)?;
    runtime.block_on(async {
        store.ensure_tables(&[table()]).await?;
        store.write(WriteSet::from(create(number))).await
    })?;
    drop(store);

    let database = Database::builder(directory.join("data")).open().context("the engine's data is not fjall's")?;
    let mut stored = Vec::new();
    for name in ["items", "index", "expiry", "changes"] {
        let keyspace = database.keyspace(name, KeyspaceCreateOptions::default)?;
        for entry in database.snapshot().iter(&keyspace) {
            let (key, value) = entry.into_inner()?;
            stored.push((key.to_vec(), value.to_vec()));
        }
    }
    let entries = Entries::new(number, MILLIS);
    let [first, second] = entries.index_keys.clone();
    let expected = [
        (entries.item_key.clone(), entries.item.clone()),
        (first, entries.item.clone()),
        (second, entries.item.clone()),
        (change_key(1), entries.change.clone()),
    ];
    let engine = stored.iter().map(|(key, value)| key.len() + value.len()).sum();
    Ok(Bytes { engine, references: entries.bytes(), same: stored == expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_others_are_given_the_bytes_that_the_engine_stores() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let bytes = probe(directory.path()).expect("the engine can be probed");
        assert!(bytes.same, "{bytes:?}");
    }

    #[test]
    fn an_item_has_300_bytes_and_a_day_20_items() {
        let nagaya_store::WriteAction::Put { item } = create(7_654_321).action else { panic!("a put") };
        assert_eq!(item.size(), 300);
        let same = (0..100_000).filter(|number| item_key(*number).starts_with(&day_prefix(54_321))).count();
        assert_eq!(same, 20);
    }
}
