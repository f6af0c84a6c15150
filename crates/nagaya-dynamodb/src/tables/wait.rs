//! Waiting until the server has done what it was asked.

use std::time::Duration;

use aws_sdk_dynamodb::types::{IndexStatus, TableStatus};
use nagaya_store::{Error, ErrorKind};

use super::actual::{self, Actual};
use crate::engine::Dynamodb;

/// Pauses between looks: short at first, longer and longer.
#[derive(Debug)]
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Pauses(Duration::from_millis(50))
    }

    pub(super) async fn next(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 3 / 2).min(Duration::from_secs(5));
    }
}

/// How often a table that has just been made may be missing from the answers, which lag a little.
const MOST_MISSES: usize = 12;

/// Waits until a table and all of its indexes can be used and changed. Tells what it waits for.
pub(super) async fn settled(
    engine: &Dynamodb,
    table: &str,
    waits: &mut (dyn FnMut(String) + Send),
) -> Result<(), Error> {
    let mut pauses = Pauses::new();
    let mut misses = 0;
    loop {
        match actual::describe(engine, table).await? {
            Some(described) => match unsettled(&actual::of(table, &described)) {
                None => {
                    engine.known.forget(table);
                    return Ok(());
                }
                Some(what) => waits(what),
            },
            None if misses < MOST_MISSES => misses += 1,
            None => return Err(ErrorKind::NoTable(table.to_owned()).into()),
        }
        pauses.next().await;
    }
}

/// Waits until a table is gone.
pub(super) async fn gone(engine: &Dynamodb, table: &str) -> Result<(), Error> {
    let mut pauses = Pauses::new();
    while actual::describe(engine, table).await?.is_some() {
        pauses.next().await;
    }
    engine.known.forget(table);
    Ok(())
}

/// What is still going on at a table.
fn unsettled(table: &Actual) -> Option<String> {
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
