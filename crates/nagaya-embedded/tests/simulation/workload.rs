//! The steps of the client: write sets, reads and maintenance by seed.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::LazyLock};

use nagaya_store::{Condition, Item, Key, KeySchema, TableSpec, Write, WriteSet};

use crate::random::Random;

pub(crate) const TABLES: [&str; 2] = ["things", "others"];
const SLOTS: u64 = 8;
/// The second at which the clock starts.
pub(crate) const START: i64 = 1_800_000_000;

/// The tables as they are created first.
pub(crate) fn specs() -> Vec<TableSpec> {
    let spec = |name: &&str| {
        TableSpec::new(*name, KeySchema::strings("PK", "SK"))
            .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
            .with_ttl("expiresAt")
    };
    TABLES.iter().map(spec).collect()
}

/// The tables with the index that is added later.
pub(crate) fn specs_with_second_index() -> Vec<TableSpec> {
    specs().into_iter().map(|spec| spec.with_index("GSI2", KeySchema::strings("GSI2PK", "GSI2SK"))).collect()
}

/// One of the items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ItemId {
    pub(crate) table: usize,
    pub(crate) slot: u64,
}

impl ItemId {
    pub(crate) fn all() -> impl Iterator<Item = ItemId> {
        (0..TABLES.len()).flat_map(|table| (0..SLOTS).map(move |slot| ItemId { table, slot }))
    }

    pub(crate) fn key(self) -> Key {
        Key::new(format!("P{}", self.slot % 3), format!("S{}", self.slot))
    }
}

/// A stored item, described by the write that stored it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stored {
    /// The number of the write.
    pub(crate) version: u64,
    pub(crate) large: bool,
    /// The second at which it expires.
    pub(crate) expiry: Option<i64>,
}

impl Stored {
    pub(crate) fn is_unexpired(&self, now: i64) -> bool {
        self.expiry.is_none_or(|expiry| expiry > now)
    }

    pub(crate) fn item(&self, id: ItemId) -> Item {
        let Key { partition, sort } = id.key();
        let version = i64::try_from(self.version).unwrap_or(i64::MAX);
        let length = if self.large { 20_000 } else { 40 + self.version as usize % 300 };
        let start = (self.version as usize * 7919 + id.slot as usize * 31) % (NOISE.len() - length);
        let item = Item::new().with("PK", partition).with("SK", sort.clone()).with("version", version);
        let item =
            item.with("GSI1PK", "all").with("GSI1SK", sort.clone()).with("GSI2PK", format!("G{}", self.version % 2));
        let item = item.with("GSI2SK", sort).with("noise", &NOISE[start..start + length]);
        match self.expiry {
            Some(expiry) => item.with("expiresAt", expiry),
            None => item,
        }
    }
}

/// Random letters, which do not compress.
static NOISE: LazyLock<String> = LazyLock::new(|| {
    let mut random = Random::new(1);
    (0..100_000).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
});

/// One action of a write set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) id: ItemId,
    pub(crate) expected: Expected,
    /// `None` for a delete.
    pub(crate) new: Option<Stored>,
}

/// The condition of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Anything,
    Nothing,
    Version(u64),
}

impl Change {
    pub(crate) fn write(&self) -> Write {
        let table = TABLES[self.id.table];
        let write = match &self.new {
            Some(stored) => Write::put(table, stored.item(self.id)),
            None => Write::delete(table, self.id.key()),
        };
        match self.expected {
            Expected::Anything => write,
            Expected::Nothing => write.when(Condition::absent("PK")),
            Expected::Version(version) => {
                write.when(Condition::equal("version", i64::try_from(version).unwrap_or(i64::MAX)))
            }
        }
    }
}

pub(crate) fn write_set(changes: &[Change]) -> WriteSet {
    changes.iter().map(Change::write).collect()
}

/// The next step of the client.
#[derive(Debug)]
pub(crate) enum Step {
    Write(Vec<Change>),
    Get(ItemId),
    /// Flushes and compacts everything.
    Compact,
    /// Runs the work of the background thread.
    Maintain,
    /// Adds the second index.
    Index,
    Reopen,
}

/// The steps of a seed.
pub(crate) struct Workload {
    random: Random,
    /// The versions that the client expects.
    pub(crate) known: BTreeMap<ItemId, u64>,
    pub(crate) steps: u64,
    /// One in this many items is large. Only batches of several pages can miss a page in the middle.
    large: u64,
}

impl Workload {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::for_purpose(seed, "workload");
        let steps = 20 + random.below(60);
        Workload { random, known: BTreeMap::new(), steps, large: if seed.is_multiple_of(2) { 2 } else { 5 } }
    }

    pub(crate) fn step(&mut self, number: u64, now: i64) -> Step {
        match self.random.below(40) {
            0..=1 => Step::Compact,
            2..=4 => Step::Maintain,
            5 => Step::Index,
            6 => Step::Reopen,
            7..=10 => Step::Get(self.id()),
            _ => Step::Write(self.changes(number, now)),
        }
    }

    fn id(&mut self) -> ItemId {
        ItemId { table: self.random.below(TABLES.len() as u64) as usize, slot: self.random.below(SLOTS) }
    }

    fn changes(&mut self, number: u64, now: i64) -> Vec<Change> {
        let count = *self.random.pick(&[1, 1, 2, 2, 3, 4]);
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..count {
            let id = self.id();
            if changes.iter().any(|change| change.id == id) {
                continue;
            }
            let large = self.random.once_in(self.large);
            let expiry = self.random.once_in(6).then(|| now + 1 + self.random.below(200) as i64);
            let new = Some(Stored { version: number, large, expiry });
            let known = self.known.get(&id).copied();
            let expected = known.map_or(Expected::Nothing, Expected::Version);
            changes.push(match self.random.below(10) {
                0..=6 => Change { id, expected, new },
                7 => Change { id, expected: Expected::Anything, new },
                _ => Change { id, expected, new: known.is_none().then_some(new).flatten() },
            });
        }
        changes
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.table, self.slot)
    }
}

impl FromStr for ItemId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (table, slot) = text.split_once('/').ok_or(())?;
        Ok(ItemId { table: number(table)?, slot: number(slot)? })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        match self.expected {
            Expected::Anything => write!(f, ":any")?,
            Expected::Nothing => write!(f, ":none")?,
            Expected::Version(version) => write!(f, ":{version}")?,
        }
        match &self.new {
            None => write!(f, ":delete"),
            Some(Stored { version, large, expiry }) => {
                write!(f, ":{version}:{}:{}", u8::from(*large), expiry.unwrap_or(0))
            }
        }
    }
}

impl FromStr for Change {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(':');
        let mut part = || parts.next().ok_or(());
        let id = part()?.parse()?;
        let expected = match part()? {
            "any" => Expected::Anything,
            "none" => Expected::Nothing,
            version => Expected::Version(number(version)?),
        };
        let new = match part()? {
            "delete" => None,
            version => {
                let (version, large, expiry) = (number(version)?, part()? == "1", number(part()?)?);
                Some(Stored { version, large, expiry: Some(expiry).filter(|expiry| *expiry != 0) })
            }
        };
        Ok(Change { id, expected, new })
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, ()> {
    text.parse().map_err(|_| ())
}
