//! The data: tasks of a tenant, the same on every server.

use serde_json::{Value as Json, json};

/// Tasks that are there before anything is measured.
pub(crate) const ITEMS: u64 = 10_000;
/// Users that they belong to, each with as many.
pub(crate) const USERS: u64 = 50;
/// Tasks of a list.
pub(crate) const PAGE: usize = 20;
/// Tasks that are created over and over, each under a new id.
pub(crate) const NEW: u64 = 1_000;
/// The tenant that everything belongs to.
pub(crate) const TENANT: &str = "t1";
/// The tenant that is to see nothing of it.
pub(crate) const OTHER: &str = "t2";

pub(crate) fn id(n: u64) -> String {
    format!("task-{n:08}")
}

pub(crate) fn user(n: u64) -> String {
    format!("user-{:04}", n % USERS)
}

pub(crate) fn title(n: u64) -> String {
    format!("Answer the mail of customer {n}")
}

/// What a caller sends to create a task; the server gives the rest.
pub(crate) fn fields(n: u64) -> Json {
    json!({
        "userId": user(n),
        "title": title(n),
        "description": "They ask when the order will arrive, and whether it can be sent to another address.",
        "status": "open",
        "category": "mail",
        "dueDate": "2026-01-31",
    })
}

/// All numbers from 1 to `count`, in an order that jumps about.
pub(crate) fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    // A prime that no count here is a multiple of, so that every number comes once.
    (0..count).map(move |at| 1 + at * 7919 % count)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_number_comes_once() {
        for count in [USERS, NEW, ITEMS] {
            assert_eq!(shuffled(count).collect::<BTreeSet<_>>(), (1..=count).collect());
        }
    }
}
