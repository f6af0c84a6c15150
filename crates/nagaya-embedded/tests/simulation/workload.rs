//! What the client does: write sets, reads and maintenance by seed.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::LazyLock};

use nagaya_store::{Condition, Item, Key, KeySchema, TableSpec, Write, WriteSet};

use crate::random::Random;

pub(crate) const TABLES: [&str; 2] = ["things", "others"];
const SLOTS: u64 = 8;
/// The second at which the clock starts.
pub(crate) const START: i64 = 1_800_000_000;

/// The tables as they are made first.
pub(crate) fn specs() -> Vec<TableSpec> {
    let spec = |name: &&str| {
        TableSpec::new(*name, KeySchema::strings("PK", "SK"))
            .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
            .with_ttl("expiresAt")
    };
    TABLES.iter().map(spec).collect()
}

/// The tables with the index that comes later.
pub(crate) fn grown() -> Vec<TableSpec> {
    specs().into_iter().map(|spec| spec.with_index("GSI2", KeySchema::strings("GSI2PK", "GSI2SK"))).collect()
}

/// Where an item lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) table: usize,
    pub(crate) slot: u64,
}

impl Place {
    pub(crate) fn all() -> impl Iterator<Item = Place> {
        (0..TABLES.len()).flat_map(|table| (0..SLOTS).map(move |slot| Place { table, slot }))
    }

    pub(crate) fn key(self) -> Key {
        Key::new(format!("P{}", self.slot % 3), format!("S{}", self.slot))
    }
}

/// What lies there: by the write that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stored {
    /// The number of the write.
    pub(crate) stamp: u64,
    pub(crate) large: bool,
    /// The second at which it expires.
    pub(crate) expiry: Option<i64>,
}

impl Stored {
    pub(crate) fn is_alive(&self, now: i64) -> bool {
        self.expiry.is_none_or(|expiry| expiry > now)
    }

    pub(crate) fn item(&self, place: Place) -> Item {
        let Key { partition, sort } = place.key();
        let stamp = i64::try_from(self.stamp).unwrap_or(i64::MAX);
        let length = if self.large { 20_000 } else { 40 + self.stamp as usize % 300 };
        let start = (self.stamp as usize * 7919 + place.slot as usize * 31) % (NOISE.len() - length);
        let item = Item::new().with("PK", partition).with("SK", sort.clone()).with("stamp", stamp);
        let item =
            item.with("GSI1PK", "all").with("GSI1SK", sort.clone()).with("GSI2PK", format!("G{}", self.stamp % 2));
        let item = item.with("GSI2SK", sort).with("noise", &NOISE[start..start + length]);
        match self.expiry {
            Some(expiry) => item.with("expiresAt", expiry),
            None => item,
        }
    }
}

/// Letters that do not compress.
static NOISE: LazyLock<String> = LazyLock::new(|| {
    let mut random = Random::new(1);
    (0..100_000).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
});

/// One action of a write set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) place: Place,
    pub(crate) expected: Expected,
    /// `None`: it is deleted.
    pub(crate) new: Option<Stored>,
}

/// What has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Anything,
    Nothing,
    Stamp(u64),
}

impl Change {
    pub(crate) fn write(&self) -> Write {
        let table = TABLES[self.place.table];
        let write = match &self.new {
            Some(stored) => Write::put(table, stored.item(self.place)),
            None => Write::delete(table, self.place.key()),
        };
        match self.expected {
            Expected::Anything => write,
            Expected::Nothing => write.when(Condition::absent("PK")),
            Expected::Stamp(stamp) => write.when(Condition::equal("stamp", i64::try_from(stamp).unwrap_or(i64::MAX))),
        }
    }
}

pub(crate) fn write_set(changes: &[Change]) -> WriteSet {
    changes.iter().map(Change::write).collect()
}

/// What the client does next.
#[derive(Debug)]
pub(crate) enum Step {
    Write(Vec<Change>),
    Get(Place),
    /// Everything goes to sorted files, which are merged.
    Compact,
    /// What a store does by itself every second.
    Maintain,
    /// The tables get their second index.
    Index,
    Reopen,
}

/// The steps of a seed.
pub(crate) struct Workload {
    random: Random,
    /// What the client believes to be there.
    pub(crate) known: BTreeMap<Place, u64>,
    pub(crate) steps: u64,
    /// One item in so many is large. Batches of many pages are where a page can be missing from the middle.
    large: u64,
}

impl Workload {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::of(seed, "workload");
        let steps = 20 + random.below(60);
        Workload { random, known: BTreeMap::new(), steps, large: if seed.is_multiple_of(2) { 2 } else { 5 } }
    }

    pub(crate) fn step(&mut self, number: u64, now: i64) -> Step {
        match self.random.below(40) {
            0..=1 => Step::Compact,
            2..=4 => Step::Maintain,
            5 => Step::Index,
            6 => Step::Reopen,
            7..=10 => Step::Get(self.place()),
            _ => Step::Write(self.changes(number, now)),
        }
    }

    fn place(&mut self) -> Place {
        Place { table: self.random.below(TABLES.len() as u64) as usize, slot: self.random.below(SLOTS) }
    }

    fn changes(&mut self, number: u64, now: i64) -> Vec<Change> {
        let count = *self.random.pick(&[1, 1, 2, 2, 3, 4]);
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..count {
            let place = self.place();
            if changes.iter().any(|change| change.place == place) {
                continue;
            }
            let large = self.random.once_in(self.large);
            let expiry = self.random.once_in(6).then(|| now + 1 + self.random.below(200) as i64);
            let new = Some(Stored { stamp: number, large, expiry });
            let known = self.known.get(&place).copied();
            let expected = known.map_or(Expected::Nothing, Expected::Stamp);
            changes.push(match self.random.below(10) {
                0..=6 => Change { place, expected, new },
                7 => Change { place, expected: Expected::Anything, new },
                _ => Change { place, expected, new: known.is_none().then_some(new).flatten() },
            });
        }
        changes
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.table, self.slot)
    }
}

impl FromStr for Place {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (table, slot) = text.split_once('/').ok_or(())?;
        Ok(Place { table: number(table)?, slot: number(slot)? })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        match self.expected {
            Expected::Anything => write!(f, ":any")?,
            Expected::Nothing => write!(f, ":none")?,
            Expected::Stamp(stamp) => write!(f, ":{stamp}")?,
        }
        match &self.new {
            None => write!(f, ":delete"),
            Some(Stored { stamp, large, expiry }) => {
                write!(f, ":{stamp}:{}:{}", u8::from(*large), expiry.unwrap_or(0))
            }
        }
    }
}

impl FromStr for Change {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split(':');
        let mut part = || parts.next().ok_or(());
        let place = part()?.parse()?;
        let expected = match part()? {
            "any" => Expected::Anything,
            "none" => Expected::Nothing,
            stamp => Expected::Stamp(number(stamp)?),
        };
        let new = match part()? {
            "delete" => None,
            stamp => {
                let (stamp, large, expiry) = (number(stamp)?, part()? == "1", number(part()?)?);
                Some(Stored { stamp, large, expiry: Some(expiry).filter(|expiry| *expiry != 0) })
            }
        };
        Ok(Change { place, expected, new })
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, ()> {
    text.parse().map_err(|_| ())
}
