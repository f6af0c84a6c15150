//! TTL deletions by the server, with the machine's clock.

use std::time::{Duration, Instant};

use nagaya_store::{ChangeCause, Clock, Item, Key, KeySchema, StartPosition, Store as _, TableSpec, Write};

use crate::test_server::Server;

const TABLE: &str = "mortal";

/// DynamoDB Local deletes expired items every ten seconds or so; the service takes days. The service also reports that it
/// deleted the item, which DynamoDB Local does not. When that changes, this test fails and should expect `Cause::Expiry`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ttl_deletion_is_a_change() {
    let store = Server::DynamodbLocal.open(Clock::system()).await;
    let spec = TableSpec::new(TABLE, KeySchema::strings("PK", "SK")).with_ttl("expiresAt");
    store.ensure_tables(&[spec]).await.expect("the table is made");
    let item = |sort: &str| Item::new().with("PK", "p").with("SK", sort);
    let expired = item("expired").with("expiresAt", Clock::system().seconds() - 10);
    for item in [expired.clone(), item("deleted"), item("stays")] {
        store.write(Write::put(TABLE, item).into()).await.expect("a put");
    }
    store.write(Write::delete(TABLE, Key::new("p", "deleted")).into()).await.expect("a delete");

    let start = Instant::now();
    let (mut gone, mut from) = (Vec::new(), StartPosition::Oldest);
    while gone.len() < 2 {
        assert!(start.elapsed() < Duration::from_secs(60), "only {gone:?} are deleted after a minute");
        let changes = store.changes(TABLE, from, 100).await.expect("changes");
        gone.extend(changes.records.into_iter().filter(|record| record.new.is_none()));
        from = StartPosition::After(changes.next);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let deleted: Vec<_> = gone.into_iter().map(|record| (record.cause, record.old)).collect();
    assert_eq!(deleted, [(ChangeCause::Write, Some(item("deleted"))), (ChangeCause::Write, Some(expired))]);
}
