//! What a forged head of the operator log says is not believed, and keeps no operator from working.

use std::{collections::BTreeMap, sync::Arc};

use nagaya_embedded::EmbeddedStore;
use nagaya_store::{Error, Item, Store, Value};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock};

use crate::{
    fault_stores::all,
    log_chain::{Log, TABLE, found},
    time::{NOON, options},
};

/// A log of three entries, on a store that counts calls.
async fn log(one_partition: bool) -> (Log, Arc<InstrumentedStore>) {
    let clock = ManualClock::at(NOON);
    let store = InstrumentedStore::new(Arc::new(EmbeddedStore::in_memory(options(&clock)).expect("memory")));
    if one_partition {
        store.declare_one_partition_per_set();
    }
    let log = Log::on(Arc::clone(&store) as Arc<dyn Store>, clock).await;
    log.act(3).await;
    (log, store)
}

/// Makes a verification that would read practically for ever fail after this many queries.
fn end_after(store: &InstrumentedStore, queries: u64) {
    let fault = Fault::fail_before(|| Error::engine("too many queries"));
    store.inject(fault.matching(|call| matches!(call, Call::Query(_))).skip(queries));
}

fn without(mut item: Item, names: &[&str]) -> Item {
    names.iter().for_each(|name| drop(item.remove(name)));
    item
}

/// A head, changed, and what is found then besides the change: its fourth entry follows another number or another hash.
type Forgery = (&'static str, fn(Item) -> Item, &'static [&'static str]);

const FORGERIES: [Forgery; 14] = [
    ("a span far away", |head| head.with("%span", 1_000_000_000_000_000), &[]),
    ("no span", |head| without(head, &["%span"]), &[]),
    ("a start in the future", |head| head.with("%started", NOON * 2), &[]),
    ("no start", |head| without(head, &["%started"]), &[]),
    ("entries that have expired", |head| head.with("%expiries", expired_up_to(9)), &[]),
    ("another hash", |head| head.with("%hash", "x"), &[]),
    ("no hash", |head| without(head, &["%hash"]), &[]),
    ("a key of no form", |head| head.with("%key", "\u{1b}[2J"), &[]),
    ("no last entry", |head| without(head, &["%last"]), &["unlinked 4×1"]),
    ("a number as the last entry", |head| head.with("%last", 7), &["unlinked 4×1"]),
    ("a last entry as large as an item", as_large_as_an_item, &["unlinked 4×1"]),
    (
        "no attributes",
        |head| Item::new().with("PK", text(&head, "PK")).with("SK", text(&head, "SK")),
        &["repeated 1×1"],
    ),
    ("the largest number", |head| head.with("%number", i64::MAX), &["removed 4×4611686018427387901"]),
    ("a number that is none", |head| head.with("%number", "3"), &["repeated 1×1"]),
];

/// The entry that follows would be too large with this hash in it.
fn as_large_as_an_item(head: Item) -> Item {
    without(head, &["%entry"]).with("%last", "a".repeat(409_300))
}

fn text(item: &Item, name: &str) -> String {
    item.get(name).and_then(Value::as_str).expect("a text").to_owned()
}

/// As if all entries up to this one had expired.
fn expired_up_to(number: i64) -> Value {
    Value::List(vec![number.into(), 1.into()])
}

#[tokio::test]
async fn whatever_the_head_is_calls_go_on_and_a_verification_ends_and_finds_it() {
    for (forgery, forge, also) in FORGERIES {
        for one_partition in [false, true] {
            let (log, store) = log(one_partition).await;
            log.put(forge(log.head().await)).await;
            log.act(2).await;
            end_after(&store, 40);
            let report = log.verify().await;
            let (changed, others): (Vec<_>, Vec<_>) =
                found(&report).into_iter().partition(|finding| finding.starts_with("headChanged"));
            assert_eq!(changed.len(), 1, "{forgery} {one_partition}: {report:?}");
            let others: Vec<_> = others.iter().map(String::as_str).collect();
            assert!(others.starts_with(also), "{forgery} {one_partition}: {others:?}");
            assert!(!also.is_empty() || others.is_empty(), "{forgery} {one_partition}: {others:?}");
            // The finding stays.
            assert!(found(&log.verify().await).contains(&changed[0]), "{forgery} {one_partition}");
        }
    }
}

#[tokio::test]
async fn a_forged_start_hides_no_inserted_entry() {
    let (log, _) = log(false).await;
    let names = ["%number", "%hash", "%key", "%previous", "%previousExpiries", "%expires", "expiresAt"];
    let at = NOON + 1_000;
    log.put(without(log.entry(1).await, &names).with("%at", at).with("SK", format!("{at:014}-0"))).await;
    assert_eq!(found(&log.verify().await), ["unchained -×1"]);
    for started in [NOON * 2, i64::MAX] {
        log.put(log.head().await.with("%started", started)).await;
        let findings = found(&log.verify().await);
        assert!(findings.contains(&"unchained -×1".to_owned()), "{findings:?}");
    }
}

#[tokio::test]
async fn forged_expiries_hide_no_removal() {
    let (log, _) = log(false).await;
    log.remove(&[log.entry(2).await, log.entry(3).await]).await;
    log.put(log.head().await.with("%expiries", expired_up_to(3))).await;
    log.act(2).await;
    assert_eq!(found(&log.verify().await), ["removed 2×2", "headChanged 4×1"]);
}

/// The head may hold an entry that is not stored yet.
#[tokio::test]
async fn an_entry_in_a_forged_head_keeps_nobody_from_working_and_is_stored_nowhere() {
    let (log, _) = log(true).await;
    let entry = log.entry(3).await;
    let elsewhere = Item::new().with("PK", "TENANT#f-1").with("SK", "FORGED");
    let unknown = "0123456789abcdef";
    let forged = [
        Item::new(),
        Item::new().with("%key", unknown),
        elsewhere.clone(),
        elsewhere.with("%key", unknown),
        without(entry.clone(), &["PK"]).with("%key", unknown),
        without(entry.clone(), &["SK"]).with("%key", unknown),
        entry.with("SK", "x").with("%reason", "another reason"),
    ];
    let before = all(&log.store, TABLE).await.len();
    for (round, forged) in forged.into_iter().enumerate() {
        let forged: BTreeMap<_, _> = forged.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        log.put(log.head().await.with("%entry", Value::Map(forged))).await;
        log.act(1).await;
        assert_eq!(all(&log.store, TABLE).await.len(), before + round + 1, "{round}");
    }
    assert_eq!(found(&log.verify().await), [""; 0], "the entry is no part of what the head's hash is about");
}

/// The clock of a server may be far ahead.
#[tokio::test]
async fn a_clock_that_is_ahead_by_an_age_does_not_keep_a_verification_from_ending() {
    let (log, store) = log(false).await;
    log.clock.set(i64::MAX / 2);
    log.act(1).await;
    log.clock.set(NOON);
    end_after(&store, 40_000);
    let report = log.verify().await;
    assert_eq!((found(&report), report.entries), (vec![], 5));
}
