//! SQLite: write-ahead log, every commit synced.

use std::{
    hint::black_box,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Engine, cache_bytes};
use crate::{
    queue::{Commit, Queue, now},
    settings::Settings,
    workload::{self, Entries, ITEMS_PER_DAY},
};

const ITEM: &str = "SELECT value FROM items WHERE key = ?1";
const DAY_OF_ITEM: &str = "SELECT key, value FROM items WHERE key >= ?1 ORDER BY key LIMIT ?2";

pub(crate) struct Sqlite {
    path: PathBuf,
    reader: Mutex<Connection>,
    queue: Queue,
}

struct Writer(Connection);

impl Engine for Sqlite {
    async fn open(directory: &Path, _settings: Settings) -> anyhow::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let path = directory.join("data");
        let writer = connect(&path)?;
        // Clustered by key, like the others.
        writer.execute_batch(
            "CREATE TABLE IF NOT EXISTS items (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS indexes (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS changes (sequence INTEGER PRIMARY KEY, value BLOB NOT NULL);",
        )?;
        let newest: Option<i64> = writer.query_row("SELECT max(sequence) FROM changes", [], |row| row.get(0))?;
        let reader = Mutex::new(connect(&path)?);
        let queue = Queue::start(Writer(writer), newest.unwrap_or(0) as u64);
        Ok(Sqlite { path, reader, queue })
    }

    async fn create(&self, number: u64) -> anyhow::Result<()> {
        self.queue.write(number).await
    }

    async fn load(&self, numbers: Range<u64>) -> anyhow::Result<()> {
        let first = numbers.start + 1;
        let group = numbers.map(|number| Entries::new(number, now())).collect();
        Writer(connect(&self.path)?).commit(group, first)
    }

    async fn read(&self, number: u64) -> anyhow::Result<bool> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = reader.prepare_cached(ITEM)?;
        let found: Option<Vec<u8>> =
            statement.query_row(params![workload::item_key(number)], |row| row.get(0)).optional()?;
        Ok(black_box(found).is_some())
    }

    async fn query(&self, number: u64) -> anyhow::Result<usize> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = reader.prepare_cached(DAY_OF_ITEM)?;
        let prefix = workload::day_prefix(number);
        let mut rows = statement.query(params![prefix, ITEMS_PER_DAY as i64])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            if !row.get_ref(0)?.as_blob()?.starts_with(&prefix) {
                break;
            }
            black_box(row.get::<_, Vec<u8>>(1)?);
            count += 1;
        }
        Ok(count)
    }
}

fn connect(path: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Kibibytes, when negative.
    connection.pragma_update(None, "cache_size", -((cache_bytes() / 1024) as i64))?;
    Ok(connection)
}

impl Commit for Writer {
    fn commit(&mut self, group: Vec<Entries>, sequence: u64) -> anyhow::Result<()> {
        let transaction = self.0.transaction()?;
        {
            let mut item = transaction.prepare_cached("INSERT INTO items VALUES (?1, ?2)")?;
            let mut index = transaction.prepare_cached("INSERT INTO indexes VALUES (?1, ?2)")?;
            let mut change = transaction.prepare_cached("INSERT INTO changes VALUES (?1, ?2)")?;
            for (entries, sequence) in group.iter().zip(sequence..) {
                item.execute(params![entries.item_key, entries.item])?;
                for key in &entries.index_keys {
                    index.execute(params![key, entries.item])?;
                }
                change.execute(params![sequence as i64, entries.change])?;
            }
        }
        Ok(transaction.commit()?)
    }
}
