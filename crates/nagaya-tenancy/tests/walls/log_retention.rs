//! Entries of the operator log expire, and the chain tells expired ones from removed ones.

use std::{sync::Arc, time::Duration};

use nagaya_embedded::EmbeddedStore;
use nagaya_store::{Item, Store, Value, Write, WriteSet};
use nagaya_tenancy::{List, Nagaya, Settings};
use nagaya_testing::{Call, InstrumentedStore, ManualClock};

use crate::{
    common::design,
    fault_stores::all,
    log_chain::{DAY, Log, TABLE, act, found, operator},
    time::{NOON, options},
};

#[tokio::test]
async fn an_entry_that_has_expired_is_not_taken_for_removed() {
    let log = Log::open().await;
    log.act(10).await;
    // A pause of more than a year: only the last entry knows when the ones before it expire.
    log.clock.advance(395 * DAY);
    log.act(1).await;
    let report = log.verify().await;
    assert_eq!((found(&report), report.expired, report.entries), (vec![], 7, 5));
    log.clock.advance(400 * DAY);
    let report = log.verify().await;
    assert_eq!((found(&report), report.expired, report.entries), (vec![], 12, 1));
    // Long after, an entry that is not so old is missing.
    log.clock.advance(399 * DAY);
    log.remove(&[log.entry(13).await]).await;
    assert_eq!(found(&log.verify().await), ["removed 1×13"]);
}

#[tokio::test]
async fn a_removed_entry_is_found_as_long_as_it_would_not_have_expired() {
    let log = Log::open().await;
    log.act(10).await;
    log.remove(&[log.entry(5).await]).await;
    log.clock.advance(393 * DAY);
    // Entries 1 to 4 have expired, and 5 has not.
    assert_eq!(found(&log.verify().await), ["removed 1×5"]);
    log.clock.advance(DAY);
    assert_eq!(found(&log.verify().await), [""; 0]);
}

/// A removed entry beside expired ones is found, although those expired before it.
#[tokio::test]
async fn a_shorter_retention_hides_no_removal() {
    let log = Log::open().await;
    log.act(10).await;
    let shorter = server(&log.store, &log.clock, "todo/todo", 10);
    for _ in 0..10 {
        act(&shorter).await;
    }
    log.clock.advance(20 * DAY);
    let report = log.verify().await;
    assert_eq!((found(&report), report.expired, report.entries), (vec![], 10, 11));
    log.remove(&[log.entry(9).await, log.entry(10).await]).await;
    assert_eq!(found(&log.verify().await), ["removed 9×12"]);
    log.remove(&[log.entry(21).await, log.entry(22).await]).await;
    assert_eq!(found(&log.verify().await), ["removed 9×14"]);
    log.clock.advance(379 * DAY);
    assert_eq!(found(&log.verify().await), ["removed 1×22"], "21 and 22 would still be there");
    log.clock.advance(30 * DAY);
    assert_eq!(found(&log.verify().await), [""; 0]);
}

/// The clock of the store may be ahead of the one that verifies.
#[tokio::test]
async fn an_entry_that_expires_in_a_moment_may_be_gone() {
    let log = Log::open().await;
    log.act(2).await;
    log.clock.advance(398 * DAY - Duration::from_secs(299));
    log.remove(&[log.entry(1).await]).await;
    let report = log.verify().await;
    assert_eq!((found(&report), report.expired), (vec![], 1));
    let log = Log::open().await;
    log.act(2).await;
    log.clock.advance(398 * DAY - Duration::from_secs(301));
    log.remove(&[log.entry(1).await]).await;
    assert_eq!(found(&log.verify().await), ["removed 1×1"]);
}

fn server(store: &Arc<dyn Store>, clock: &ManualClock, name: &str, retention_days: u32) -> Nagaya {
    let (clock, audit_keys) = (clock.clock(), [1; 32].into());
    let settings = Settings { clock, audit_keys, audit_retention: retention_days * DAY, ..Settings::default() };
    Nagaya::open_with(design(name), Arc::clone(store), settings)
}

/// A table of the management design has no expiry of its own.
async fn management(retention_days: u32) -> (Arc<dyn Store>, Nagaya, ManualClock) {
    let clock = ManualClock::at(NOON);
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory(options(&clock)).expect("memory"));
    let nagaya = server(&store, &clock, "management/management", retention_days);
    nagaya.ensure_tables().await.expect("the tables are made");
    for _ in 0..150 {
        operator(&nagaya).list(&List::by("tenants")).await.expect("a page");
        clock.advance(DAY);
    }
    (store, nagaya, clock)
}

async fn entries(store: &Arc<dyn Store>) -> usize {
    all(store, "auth").await.iter().filter(|item| item.get("%action").is_some()).count()
}

#[tokio::test]
async fn a_table_without_expiry_is_pruned() {
    let (store, nagaya, _) = management(100).await;
    let listed = operator(&nagaya).read_log(0, i64::MAX, None).await.expect("a page").entries;
    assert_eq!(listed[0].at, NOON + 51 * 24 * 60 * 60 * 1_000, "expired entries are not listed");
    assert_eq!(entries(&store).await, 151);
    assert_eq!(nagaya.prune_operator_log().await.expect("it is pruned"), 51);
    assert_eq!(nagaya.prune_operator_log().await.expect("nothing is left to prune"), 0);
    assert_eq!(entries(&store).await, 100);
    let report = operator(&nagaya).verify_log(None).await.expect("a report");
    assert_eq!((found(&report), report.expired, report.entries), (vec![], 51, 101));
}

/// A set of a store whose sets cannot span partitions has one action.
#[tokio::test]
async fn entries_are_removed_in_sets_if_the_store_has_sets() {
    for (one_partition, expected) in [(false, vec![17, 30, 4]), (true, vec![1; 51])] {
        let (store, _, clock) = management(100).await;
        let logged = InstrumentedStore::new(store);
        if one_partition {
            logged.declare_one_partition_per_set();
        }
        let nagaya = server(&(Arc::clone(&logged) as Arc<dyn Store>), &clock, "management/management", 100);
        assert_eq!(nagaya.prune_operator_log().await.expect("it is pruned"), 51);
        let sets: Vec<_> = logged.take(Call::is_write).iter().map(|set| set.writes().len()).collect();
        assert_eq!(sets, expected, "{one_partition}");
    }
}

/// Entries from before the chain, which expire by the retention of today.
#[tokio::test]
async fn a_call_removes_what_has_expired_from_the_beginning_and_goes_on_where_the_last_one_ended() {
    let clock = ManualClock::at(NOON);
    let store = InstrumentedStore::new(Arc::new(EmbeddedStore::in_memory(options(&clock)).expect("memory")));
    let nagaya = server(&(Arc::clone(&store) as Arc<dyn Store>), &clock, "management/management", 1);
    nagaya.ensure_tables().await.expect("the tables are made");
    let entry = |at: i64| {
        let key = Item::new().with("tenantId", "%audit-000694").with("id", format!("{at:014}"));
        Write::put("auth", key.with("%at", at).with("%action", "user.read"))
    };
    let all: Vec<_> = (NOON..NOON + 10_250).map(entry).collect();
    for set in all.chunks(100) {
        store.write(set.iter().cloned().collect::<WriteSet>()).await.expect("they are written");
    }
    store.take_queries();
    // The entries removed, and the pages read.
    let prune = async || {
        let removed = nagaya.prune_operator_log().await.expect("it is pruned");
        (removed, store.take_queries().len())
    };
    // Thirteen spans of time before that of the entries are empty.
    assert_eq!(prune().await, (0, 13 + 1 + 100), "the first page, and a hundred after it");
    assert_eq!(prune().await, (0, 13 + 1 + 2), "the first page, and the last two of 103");
    assert_eq!(prune().await, (0, 13 + 1 + 100), "and from the beginning again");
    clock.advance(DAY + Duration::from_secs(11));
    assert_eq!(prune().await, (10_250, 13 + 103 + 1), "all, and where the last call ended");
    assert_eq!(entries(&(store as Arc<dyn Store>)).await, 0);
}

#[tokio::test]
async fn entries_that_expire_before_older_ones_are_pruned() {
    let (store, nagaya, clock) = management(1_000).await;
    let shorter = server(&store, &clock, "management/management", 10);
    for _ in 0..120 {
        operator(&shorter).list(&List::by("tenants")).await.expect("a page");
    }
    assert_eq!(nagaya.prune_operator_log().await.expect("nothing"), 0);
    clock.advance(11 * DAY);
    assert_eq!(nagaya.prune_operator_log().await.expect("it is pruned"), 120);
    let report = operator(&nagaya).verify_log(None).await.expect("a report");
    assert_eq!((found(&report), report.expired, report.entries), (vec![], 120, 151));
}

/// A call reads a part of a long log, and the next one goes on after it.
#[tokio::test]
async fn pruning_reads_a_bounded_part_of_the_log() {
    let (store, for_ever, clock) = management(0).await;
    clock.advance(120 * 30 * DAY);
    operator(&server(&store, &clock, "management/management", 1)).list(&List::by("tenants")).await.expect("a page");
    clock.advance(60 * DAY);
    drop(for_ever);
    let logged = InstrumentedStore::new(store);
    let nagaya = server(&(Arc::clone(&logged) as Arc<dyn Store>), &clock, "management/management", 1);
    let prune = async || {
        let removed = nagaya.prune_operator_log().await.expect("it is pruned");
        (removed, logged.take_queries().len() <= 150)
    };
    assert_eq!(prune().await, (0, true));
    assert_eq!(prune().await, (1, true));
    assert_eq!(prune().await, (0, true));
}

#[tokio::test]
async fn without_a_retention_entries_stay_for_ever() {
    let (store, nagaya, clock) = management(0).await;
    clock.advance(10_000 * DAY);
    assert_eq!(nagaya.prune_operator_log().await.expect("nothing"), 0);
    assert_eq!(entries(&store).await, 150);
    let report = operator(&nagaya).verify_log(None).await.expect("a report");
    assert_eq!((found(&report), report.expired, report.entries), (vec![], 0, 151));
}

#[tokio::test]
async fn a_table_with_expiry_gets_the_time_of_each_entry() {
    let log = Log::open().await;
    act(&log.nagaya).await;
    let expires = log.entry(1).await.get("expiresAt").and_then(Value::as_number);
    assert_eq!(expires, Some((NOON / 1_000 + 400 * 24 * 60 * 60).into()));
    assert!(log.head().await.get("expiresAt").is_none(), "the head stays");
    log.clock.advance(401 * DAY);
    assert!(all(&log.store, TABLE).await.iter().all(|item| item.get("%action").is_none()));
}

/// A page that ends with a span of time has a cursor to the next one.
#[tokio::test]
async fn a_page_that_ends_with_a_span_is_followed_by_the_next_span() {
    let log = Log::open().await;
    for _ in 0..99 {
        act(&log.nagaya).await;
    }
    log.clock.advance(60 * DAY);
    let (from, to) = (0, log.clock.millis() + 1_000);
    let first = operator(&log.nagaya).read_log(from, to, None).await.expect("a page");
    assert_eq!(first.entries.len(), 100, "99 entries, and the reading");
    log.act(1).await;
    let log = Log::open().await;
    for _ in 0..100 {
        act(&log.nagaya).await;
    }
    log.clock.advance(60 * DAY);
    let first = operator(&log.nagaya).read_log(from, to, None).await.expect("a page");
    assert_eq!(first.entries.len(), 100);
    let next = first.next.expect("a cursor");
    let second = operator(&log.nagaya).read_log(from, to, Some(&next)).await.expect("a page");
    let actions: Vec<_> = second.entries.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!((actions, second.next), (vec!["audit.list", "audit.list"], None));
}

/// The entries lie in a partition for each thirty days, and a page of the log in one or more of them.
#[tokio::test]
async fn the_pages_of_the_log_go_on_from_one_partition_to_the_next() {
    for first in [99, 100, 101] {
        let log = Log::open().await;
        for _ in 0..first {
            act(&log.nagaya).await;
        }
        log.clock.advance(40 * DAY);
        log.act(3).await;
        let operator = operator(&log.nagaya);
        let mut listing = operator.list_log(0, i64::MAX).await.expect("a listing");
        let mut pages = Vec::new();
        while let Some(page) = listing.next_page().await.expect("a page") {
            pages.push(page);
        }
        // The listing is the last entry.
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [100, first + 4 - 100], "{first}");
        let entries = pages.concat();
        assert!(entries.is_sorted_by_key(|entry| entry.at));
        // One by one, each page an entry of the log itself.
        let (mut cursor, mut count) = (None::<String>, 0);
        loop {
            let page = operator.read_log(0, entries[first].at + 1, cursor.as_deref()).await.expect("a page");
            count += page.entries.len();
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(count, first + 1, "{first}");
    }
}

/// Not every store accepts a range that ends before it begins.
#[tokio::test]
async fn a_period_without_an_instant_is_empty_and_not_looked_for() {
    let clock = ManualClock::at(NOON);
    let store = InstrumentedStore::new(Arc::new(EmbeddedStore::in_memory(options(&clock)).expect("memory")));
    let log = Log::on(Arc::clone(&store) as Arc<dyn Store>, clock).await;
    log.act(1).await;
    for (from, to, queries) in [(NOON, NOON - 1, 0), (NOON, NOON, 0), (NOON, NOON + 1, 1)] {
        let mut listing = operator(&log.nagaya).list_log(from, to).await.expect("a listing");
        store.take_queries();
        let page = listing.next_page().await.expect("a page").expect("the first one");
        assert_eq!((page.len(), store.take_queries().len()), (queries, queries), "{from} {to}");
        assert_eq!(listing.next_page().await.expect("the end"), None);
    }
}

/// A head that was noted is of use as long as its entry is there.
#[tokio::test]
async fn a_noted_head_whose_entry_has_expired_has_to_be_noted_anew() {
    let log = Log::open().await;
    log.act(2).await;
    let noted = log.verify().await.head;
    let verify = async || operator(&log.nagaya).verify_log(Some(&noted)).await.expect("a report");
    assert_eq!(found(&verify().await), [""; 0]);
    log.clock.advance(401 * DAY);
    assert_eq!(found(&verify().await), ["notedExpired 3×1"]);
}
