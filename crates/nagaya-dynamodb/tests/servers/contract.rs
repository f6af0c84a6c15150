//! The contract of the store port, on each server.
//!
//! Where a server differs from the service, the contract follows the service. Each such case is listed here with its
//! reason and in `docs/reference/engines.md`, and must fail: a list with cases that pass would hide later failures.

use std::collections::BTreeSet;

use nagaya_contract::{self as contract, Engine, Outcome, Report};
use nagaya_dynamodb::Dynamodb;
use nagaya_store::{Clock, StoreFuture};

use crate::test_server::Server;

/// A case that fails because of the server: its name, and what the server does.
type Difference = (&'static str, &'static str);

const DYNAMODB_LOCAL: &[Difference] = &[(
    "tables: an index added later leaves out what does not fit",
    "fills a new index also with items whose key is of another kind or too long",
)];

const DYNOXIDE: &[Difference] = &[
    ("limits: index keys have a maximum length", "takes an update that makes an index key too long"),
    (
        "tables: an index added later leaves out what does not fit",
        "fills a new index also with items whose key is of another kind, empty or too long",
    ),
];

/// Why several cases fail on dynalite.
const NO_FOUND_ITEM: &str = "does not return the item that a condition failed on";
const NO_LATER_INDEX: &str = "cannot add an index to a table that is there";
const ONE_BY_ONE: &str = "removes elements one after the other, so that places shift in between";

const DYNALITE: &[Difference] = &[
    ("conditions: values of every kind can be equal", "does not find maps equal to each other"),
    ("conditions: a size counts units bytes or elements", "has no size for an empty text"),
    ("conditions: a failed condition answers with the found item", NO_FOUND_ITEM),
    ("conditions: a create on absence succeeds once", NO_FOUND_ITEM),
    ("updates: elements are removed by the places they had", ONE_BY_ONE),
    ("updates: places inside elements stay while others are removed", ONE_BY_ONE),
    ("updates: sums that no number can hold are refused", "stores sums of more than 38 digits"),
    ("indexes: an empty index key is refused", "takes an update that makes an index key empty"),
    ("limits: index keys have a maximum length", "takes an update that makes an index key too long"),
    ("limits: values are nested at most 32 levels deep", "has no limit"),
    ("expiry: a create succeeds over an expired item", NO_FOUND_ITEM),
    ("expiry: an update of an expired item starts anew", NO_FOUND_ITEM),
    ("tables: an index added later is filled", NO_LATER_INDEX),
    ("tables: an index added later follows what comes", NO_LATER_INDEX),
    ("tables: an index added later leaves out what does not fit", NO_LATER_INDEX),
    ("tables: an index added later has no expired items", NO_LATER_INDEX),
    ("concurrency: one of many creates wins", NO_FOUND_ITEM),
];

/// Proves the DynamoDB part of N2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamodb_local_keeps_the_contract() {
    check_failures(contract::run(&OnServer(Server::DynamodbLocal)).await, DYNAMODB_LOCAL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynoxide_keeps_the_contract() {
    check_failures(contract::run(&OnServer(Server::Dynoxide)).await, DYNOXIDE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynalite_keeps_the_contract() {
    check_failures(contract::run(&OnServer(Server::Dynalite)).await, DYNALITE);
}

struct OnServer(Server);

impl Engine for OnServer {
    type Store = Dynamodb;

    fn open(&self, clock: Clock) -> StoreFuture<'_, Dynamodb> {
        Box::pin(async { Ok(self.0.open(clock).await) })
    }
}

/// Checks that exactly the listed cases fail.
#[track_caller]
fn check_failures(report: Report, known: &[Difference]) {
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(_));
    let failing: BTreeSet<&str> =
        report.cases.iter().filter(|(_, outcome)| failed(outcome)).map(|(name, _)| name.as_str()).collect();
    let listed: BTreeSet<&str> = known.iter().map(|(name, _)| *name).collect();
    let unlisted: Vec<_> = failing.difference(&listed).collect();
    let outdated: Vec<_> = listed.difference(&failing).collect();
    assert!(unlisted.is_empty(), "{report}\nfailed and not listed: {unlisted:#?}");
    assert!(outdated.is_empty(), "{report}\nlisted, but passed: {outdated:#?}");
    eprintln!("{report}");
}

/// The reference page has the same table: server, case, what the server does.
#[test]
fn the_reference_names_each_difference() {
    let page = include_str!("../../../../docs/reference/engines.md");
    let (_, table) = page.split_once("<!-- differences -->").expect("the page marks its table");
    let (table, _) = table.split_once("<!-- /differences -->").expect("the table ends");
    let found: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let mut expected = Vec::new();
    for (server, known) in [("DynamoDB Local", DYNAMODB_LOCAL), ("dynoxide", DYNOXIDE), ("dynalite", DYNALITE)] {
        expected.extend(known.iter().map(|(case, does)| format!("| {server} | {case} | {does} |")));
    }
    assert_eq!(found, expected, "the table should be:\n{}", expected.join("\n"));
}
