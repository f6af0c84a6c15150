//! Settings: names of tables, time, ids, keys.

use std::{collections::BTreeMap, fmt, time::Duration};

use nagaya_design::{Design, Table};
use nagaya_store::Clock;

use crate::{ids::IdGenerator, key_set::KeySet};

/// Days that entries of the operator log are kept by default: a year, and time to look at it.
pub const DEFAULT_AUDIT_RETENTION_DAYS: u64 = 400;

/// How a design runs on a store.
#[derive(Clone)]
pub struct Settings {
    /// The value of `{base}` in table names; `None`: the design's name.
    pub base: Option<String>,
    /// The prefix of all table names, for systems that share a store.
    pub prefix: String,
    /// The generations of tables, by their names in the design, where it is not the first: another table with the same keys,
    /// built beside the one in use.
    pub generations: BTreeMap<String, u32>,
    /// The clock.
    pub clock: Clock,
    /// The generator of ids.
    pub ids: IdGenerator,
    /// The keys that encrypt cursors. Processes that serve the same callers need the same ones. By default there is a random one, so
    /// that cursors are valid for the life of the process.
    pub cursor_keys: KeySet,
    /// The keys that names of people are hashed with in logs, those of a server among them. By default there is a random one, so that
    /// hashes can be compared for the life of the process; processes with the same key log the same hash.
    pub log_keys: KeySet,
    /// The keys that the hash chain of the operator log is made with. Whoever verifies the log needs all that were used, so older
    /// ones have to be kept. Calls of operators are refused if the log ends with an entry of another key. By default there is a random
    /// one: the next process on the store could not write to the log.
    pub audit_keys: KeySet,
    /// How long entries of the operator log are kept; zero: for ever. It holds for entries that are written from now on.
    pub audit_retention: Duration,
    /// How often a write is tried that loses races against others.
    pub attempts: usize,
    /// How long the indexes of the store may lag behind its tables, where its capabilities say that they do. A deletion waits
    /// that long before it decides that nothing refers to an item.
    pub index_lag: Duration,
    /// How long an idempotency key is remembered.
    pub idempotency_retention: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let ids = IdGenerator::random();
        let random_key = || {
            let mut key = [0; 32];
            for half in key.chunks_mut(16) {
                half.copy_from_slice(&ids.bits().to_be_bytes());
            }
            KeySet::from(key)
        };
        let (cursor_keys, log_keys, audit_keys) = (random_key(), random_key(), random_key());
        Settings {
            base: None,
            prefix: String::new(),
            generations: BTreeMap::new(),
            clock: Clock::system(),
            ids,
            cursor_keys,
            log_keys,
            audit_keys,
            audit_retention: Duration::from_secs(DEFAULT_AUDIT_RETENTION_DAYS * 24 * 60 * 60),
            attempts: crate::retry::ATTEMPTS,
            index_lag: Duration::from_secs(1),
            idempotency_retention: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl Settings {
    /// The name of a table in the store.
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
