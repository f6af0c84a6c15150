//! The attack suite on the designs of the repository, on a store in memory.

use nagaya_attack::{self as attack, Engine};
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_store::{Clock, StoreFuture};

use crate::common::design;

/// The embedded engine in memory.
struct Memory;

impl Engine for Memory {
    type Store = EmbeddedStore;

    fn open(&self, clock: Clock) -> StoreFuture<'_, EmbeddedStore> {
        Box::pin(async { EmbeddedStore::in_memory(Options { clock, ..Options::default() }) })
    }
}

/// Attacks a design of the repository.
async fn attack(name: &str) {
    attack::run(&design(name), &Memory).await.assert();
}

/// Proves N3, A1 and A2.
#[tokio::test]
async fn no_attack_crosses_the_walls_of_aiagent_in_one_table() {
    attack("aiagent/single").await;
}

/// Proves N3.
#[tokio::test]
async fn no_attack_crosses_the_walls_of_aiagent_in_twelve_tables() {
    attack("aiagent/multi").await;
}

/// Proves N3. Proves the walls' part of T5.
#[tokio::test]
async fn no_attack_crosses_the_walls_of_todo() {
    attack("todo/todo").await;
}

/// Proves N3.
#[tokio::test]
async fn no_attack_crosses_the_walls_of_kondate() {
    attack("kondate/kondate").await;
}

/// Proves N3.
#[tokio::test]
async fn no_attack_crosses_the_walls_of_management() {
    attack("management/management").await;
}
