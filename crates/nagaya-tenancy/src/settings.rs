//! What is passed in from outside: time, ids, keys.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nagaya_design::{Design, Table};
use nagaya_store::Clock;

/// Settings of a house.
#[derive(Clone)]
pub struct Settings {
    /// What `{base}` in table names stands for; `None`: the design's name.
    pub base: Option<String>,
    /// What all table names start with, so that systems which share a store share no table.
    pub prefix: String,
    /// Tables, by their names in the design, of which another generation than the first is used: the same keys and items
    /// under another name, built beside the one that is in use.
    pub generations: BTreeMap<String, u32>,
    /// Tells the time.
    pub clock: Clock,
    /// Makes ids.
    pub ids: Ids,
    /// The key that cursors are sealed with. Processes that serve the same callers need the same one; by default it is
    /// made anew, so that cursors end with the process.
    pub cursor_key: [u8; 32],
    /// How often a write that lost a race against another is tried.
    pub attempts: usize,
    /// How long the indexes of the store may lag behind its tables, where its capabilities say that they do: a deletion waits
    /// so long before it believes that nothing refers to an item.
    pub index_lag: Duration,
    /// How long the key of a set that happens once is remembered.
    pub remember: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let ids = Ids::random();
        let mut cursor_key = [0; 32];
        for half in cursor_key.chunks_mut(16) {
            half.copy_from_slice(&ids.bits().to_be_bytes());
        }
        Settings {
            base: None,
            prefix: String::new(),
            generations: BTreeMap::new(),
            clock: Clock::system(),
            ids,
            cursor_key,
            attempts: crate::retry::ATTEMPTS,
            index_lag: Duration::from_secs(1),
            remember: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl Settings {
    /// What a table is called in the store.
    pub(crate) fn table_name(&self, design: &Design, table: &Table) -> String {
        let base = self.base.as_deref().unwrap_or(&design.name);
        let name = format!("{}{}", self.prefix, table.physical_name(base));
        match self.generations.get(&table.id) {
            Some(generation @ 2..) => format!("{name}-g{generation}"),
            _ => name,
        }
    }
}

impl fmt::Debug for Settings {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { base, prefix, attempts, .. } = self;
        let mut shown = f.debug_struct("Settings");
        shown.field("base", base).field("prefix", prefix).field("attempts", attempts).finish_non_exhaustive()
    }
}

/// Makes 128 random bits at a time.
#[derive(Clone)]
pub struct Ids(Arc<dyn Fn() -> u128 + Send + Sync>);

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ids")
    }
}

impl Ids {
    /// From the operating system.
    pub fn random() -> Self {
        Ids::new(|| {
            let mut bits = [0; 16];
            // Without randomness there is nothing left to do: every id would be a guess.
            getrandom::fill(&mut bits).expect("the operating system gives random bits");
            u128::from_be_bytes(bits)
        })
    }

    /// Of one's own making, for tests.
    pub fn new(bits: impl Fn() -> u128 + Send + Sync + 'static) -> Self {
        Ids(Arc::new(bits))
    }

    /// The same ids every time, for tests.
    pub fn counted() -> Self {
        let next = Mutex::new(0_u128);
        Ids::new(move || {
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            *next += 1;
            *next
        })
    }

    /// 128 bits.
    pub(crate) fn bits(&self) -> u128 {
        (self.0)()
    }

    /// A UUID.
    pub fn uuid(&self) -> String {
        uuid::Builder::from_random_bytes(self.bits().to_be_bytes()).into_uuid().to_string()
    }

    /// A ULID of this moment (milliseconds since 1970).
    pub fn ulid(&self, millis: i64) -> String {
        ulid::Ulid::from_parts(u64::try_from(millis).unwrap_or(0), self.bits()).to_string()
    }
}
