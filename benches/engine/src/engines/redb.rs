//! redb: a B-tree in one file.

use std::{hint::black_box, ops::Range, path::Path, sync::Arc};

use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::{Engine, cache_bytes};
use crate::{
    queue::{Commit, Queue, now},
    settings::Settings,
    workload::{self, Entries, ITEMS_PER_DAY},
};

type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;

const ITEMS: Table = TableDefinition::new("items");
const INDEX: Table = TableDefinition::new("index");
const CHANGES: Table = TableDefinition::new("changes");

pub(crate) struct Redb {
    library: Library,
    queue: Queue,
}

#[derive(Clone)]
struct Library(Arc<Database>);

impl Engine for Redb {
    async fn open(directory: &Path, _settings: Settings) -> anyhow::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let database = Database::builder().set_cache_size(cache_bytes() as usize).create(directory.join("data"))?;
        let library = Library(Arc::new(database));
        // Creates the tables.
        library.clone().commit(Vec::new(), 0)?;
        let changes = library.0.begin_read()?.open_table(CHANGES)?;
        let newest = changes.last()?;
        let sequence =
            newest.map_or(0, |(key, _)| u64::from_be_bytes(key.value()[2..10].try_into().unwrap_or_default()));
        let queue = Queue::start(library.clone(), sequence);
        Ok(Redb { library, queue })
    }

    async fn create(&self, number: u64) -> anyhow::Result<()> {
        self.queue.write(number).await
    }

    async fn load(&self, numbers: Range<u64>) -> anyhow::Result<()> {
        let first = numbers.start + 1;
        let group = numbers.map(|number| Entries::new(number, now())).collect();
        self.library.clone().commit(group, first)
    }

    async fn read(&self, number: u64) -> anyhow::Result<bool> {
        let items = self.library.0.begin_read()?.open_table(ITEMS)?;
        let found = items.get(workload::item_key(number).as_slice())?;
        Ok(found.is_some_and(|value| !black_box(value.value()).is_empty()))
    }

    async fn query(&self, number: u64) -> anyhow::Result<usize> {
        let items = self.library.0.begin_read()?.open_table(ITEMS)?;
        let prefix = workload::day_prefix(number);
        let mut count = 0;
        for entry in items.range(prefix.as_slice()..)?.take(ITEMS_PER_DAY as usize) {
            let (key, value) = entry?;
            if !key.value().starts_with(&prefix) {
                break;
            }
            black_box(value.value());
            count += 1;
        }
        Ok(count)
    }
}

impl Commit for Library {
    fn commit(&mut self, group: Vec<Entries>, sequence: u64) -> anyhow::Result<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut items = transaction.open_table(ITEMS)?;
            let mut index = transaction.open_table(INDEX)?;
            let mut changes = transaction.open_table(CHANGES)?;
            for (entries, sequence) in group.iter().zip(sequence..) {
                items.insert(entries.item_key.as_slice(), entries.item.as_slice())?;
                for key in &entries.index_keys {
                    index.insert(key.as_slice(), entries.item.as_slice())?;
                }
                changes.insert(workload::change_key(sequence).as_slice(), entries.change.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }
}
