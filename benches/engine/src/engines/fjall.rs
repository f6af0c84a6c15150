//! The bare library below the engine, with the engine's sizes of cache, write buffers and journals.

use std::{hint::black_box, ops::Range, path::Path};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Slice};
use nagaya_store::limits;

use super::{Engine, cache_bytes};
use crate::{
    queue::{Commit, Queue, now},
    settings::Settings,
    workload::{self, Entries, ITEMS_PER_DAY},
};

pub(crate) struct Fjall {
    library: Library,
    queue: Queue,
}

#[derive(Clone)]
struct Library {
    database: Database,
    items: Keyspace,
    index: Keyspace,
    changes: Keyspace,
}

impl Engine for Fjall {
    async fn open(directory: &Path, settings: Settings) -> anyhow::Result<Self> {
        let builder = Database::builder(directory).cache_size(cache_bytes());
        let database = builder.max_journaling_size(settings.journal_bytes()).open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(settings.write_buffer_bytes());
        let keyspace = |name| database.keyspace(name, options);
        let (items, index, changes) = (keyspace("items")?, keyspace("index")?, keyspace("changes")?);
        let library = Library { database, items, index, changes };
        let newest = library.changes.last_key_value().map(|entry| entry.key()).transpose()?;
        let sequence = newest.map_or(0, |key| u64::from_be_bytes(key[2..10].try_into().unwrap_or_default()));
        let queue = Queue::start(library.clone(), sequence);
        Ok(Fjall { library, queue })
    }

    async fn create(&self, number: u64) -> anyhow::Result<()> {
        self.queue.write(number).await
    }

    async fn load(&self, numbers: Range<u64>) -> anyhow::Result<()> {
        // The engine's size of write sets, so that journals and levels are alike.
        for first in numbers.clone().step_by(limits::MAX_ACTIONS) {
            let group = first..numbers.end.min(first + limits::MAX_ACTIONS as u64);
            let group = group.map(|number| Entries::new(number, now())).collect();
            self.library.clone().commit(group, first + 1)?;
        }
        Ok(())
    }

    async fn read(&self, number: u64) -> anyhow::Result<bool> {
        Ok(black_box(self.library.items.get(workload::item_key(number))?).is_some())
    }

    async fn query(&self, number: u64) -> anyhow::Result<usize> {
        let mut count = 0;
        for entry in self.library.items.prefix(workload::day_prefix(number)).take(ITEMS_PER_DAY as usize) {
            black_box(entry.into_inner()?);
            count += 1;
        }
        Ok(count)
    }
}

impl Commit for Library {
    fn commit(&mut self, group: Vec<Entries>, sequence: u64) -> anyhow::Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (entries, sequence) in group.into_iter().zip(sequence..) {
            // One buffer for all three.
            let item = Slice::from(entries.item);
            batch.insert(&self.items, entries.item_key, item.clone());
            for key in entries.index_keys {
                batch.insert(&self.index, key, item.clone());
            }
            batch.insert(&self.changes, workload::change_key(sequence), entries.change);
        }
        Ok(batch.commit()?)
    }
}
