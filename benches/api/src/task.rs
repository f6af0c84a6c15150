//! The data: tasks of a tenant, the same on every server.

use serde_json::{Value as Json, json};

/// Tasks that exist before the measurements.
pub(crate) const ITEMS: u64 = 10_000;
/// Users of these tasks, with equal shares.
pub(crate) const USERS: u64 = 50;
/// Tasks on a page.
pub(crate) const PAGE: usize = 20;
/// Bodies that are used in turn, each task with a new id.
pub(crate) const NEW: u64 = 1_000;
/// The tenant of all tasks.
pub(crate) const TENANT: &str = "t1";
/// A tenant without access to them.
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

/// The body that creates a task; the server adds the rest.
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

/// All numbers from 1 to `count`, shuffled.
pub(crate) fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    // A prime that does not divide any count here, so that every number occurs once.
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
