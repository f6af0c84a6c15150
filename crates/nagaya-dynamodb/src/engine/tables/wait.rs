//! Waiting until the server has applied a change.

use std::time::Duration;

use aws_sdk_dynamodb::types::{IndexStatus, TableStatus};
use nagaya_store::{Error, ErrorKind};

use super::existing::{self, ExistingTable};
use crate::engine::Dynamodb;

/// The interval between polls, which grows.
#[derive(Debug)]
pub(super) struct PollInterval(Duration);

impl PollInterval {
    pub(super) fn new() -> Self {
        PollInterval(Duration::from_millis(50))
    }

    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 3 / 2).min(Duration::from_secs(5));
    }
}

/// How often a new table may be missing, because descriptions lag a little.
const MAX_MISSES: usize = 12;

/// Waits until a table and all of its indexes are active. Reports what it waits for.
pub(super) async fn until_active(
    engine: &Dynamodb,
    table: &str,
    report_wait: &mut (dyn FnMut(String) + Send),
) -> Result<(), Error> {
    let mut interval = PollInterval::new();
    let mut misses = 0;
    loop {
        match existing::describe(engine, table).await? {
            Some(described) => match pending_change(&existing::from_description(table, &described)) {
                None => {
                    engine.tables.forget(table);
                    return Ok(());
                }
                Some(what) => report_wait(what),
            },
            None if misses < MAX_MISSES => misses += 1,
            None => return Err(ErrorKind::NoTable(table.to_owned()).into()),
        }
        interval.wait().await;
    }
}

/// Waits until a table is deleted.
pub(super) async fn until_deleted(engine: &Dynamodb, table: &str) -> Result<(), Error> {
    let mut interval = PollInterval::new();
    while existing::describe(engine, table).await?.is_some() {
        interval.wait().await;
    }
    engine.tables.forget(table);
    Ok(())
}

/// What the server is still changing at a table.
fn pending_change(table: &ExistingTable) -> Option<String> {
    if !matches!(table.status, TableStatus::Active | TableStatus::InaccessibleEncryptionCredentials) {
        return Some(format!("the table is {}", table.status.as_str().to_lowercase()));
    }
    let index = table.indexes.iter().find(|index| index.status != IndexStatus::Active)?;
    let filled = match index.items {
        Some(items) if index.backfilling => format!(", about {items} of {} items are in it", table.items),
        _ => String::new(),
    };
    Some(format!("index {} is {}{filled}", index.name, index.status.as_str().to_lowercase()))
}
