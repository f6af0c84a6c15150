//! The hash chain of the operator log reveals entries that were changed or removed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use nagaya_embedded::EmbeddedStore;
use nagaya_store::{Item, Key, Store, Value, Write, WriteSet};
use nagaya_tenancy::{KeySet, List, LogHead, LogReport, Nagaya, Operator, Principal, Settings};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock};
use serde_json::json;

use crate::{
    common::{design, fields},
    fault_stores::{CrashPoint, all, crashing_at, interleaving, memory, one_partition},
    time::{NOON, options},
};

pub(crate) const TABLE: &str = "EventsTable";
/// Milliseconds whose entries share a partition.
const PARTITION_MILLIS: i64 = 30 * 24 * 60 * 60 * 1_000;

/// The log of the todo design, and the store under it.
pub(crate) struct Log {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) nagaya: Nagaya,
    pub(crate) clock: ManualClock,
}

pub(crate) fn operator(nagaya: &Nagaya) -> Operator {
    nagaya.operator("ticket 4711: a complaint", &Principal::new("", "op-1"))
}

impl Log {
    pub(crate) async fn open() -> Self {
        let clock = ManualClock::at(NOON);
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory(options(&clock)).expect("memory"));
        Log::on(store, clock).await
    }

    pub(crate) async fn on(store: Arc<dyn Store>, clock: ManualClock) -> Self {
        let nagaya = server(&store, &clock, &[1]);
        nagaya.ensure_tables().await.expect("the tables are made");
        Log { store, nagaya, clock }
    }

    /// Entries, a day after each other.
    pub(crate) async fn act(&self, times: usize) {
        for _ in 0..times {
            act(&self.nagaya).await;
            self.clock.advance(DAY);
        }
    }

    pub(crate) async fn verify(&self) -> LogReport {
        operator(&self.nagaya).verify_log(None).await.expect("a report")
    }

    /// The stored entry with a number.
    pub(crate) async fn entry(&self, number: i64) -> Item {
        let has_number = |item: &Item| item.get("%number") == Some(&number.into()) && item.get("%action").is_some();
        all(&self.store, TABLE).await.into_iter().find(has_number).expect("an entry")
    }

    pub(crate) async fn head(&self) -> Item {
        self.store.get(TABLE, &Key::new("%audit-head", "%audit-head")).await.expect("a store").expect("a head")
    }

    pub(crate) async fn put(&self, item: Item) {
        self.store.write(Write::put(TABLE, item).into()).await.expect("it is written");
    }

    pub(crate) async fn remove(&self, items: &[Item]) {
        let set: WriteSet = items.iter().map(|item| Write::delete(TABLE, key(item))).collect();
        self.store.write(set).await.expect("they are gone");
    }
}

pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn key(item: &Item) -> Key {
    let text = |name: &str| item.get(name).and_then(Value::as_str).expect("a key").to_owned();
    Key::new(text("PK"), text("SK"))
}

/// A server with these keys, the newest first.
pub(crate) fn server(store: &Arc<dyn Store>, clock: &ManualClock, keys: &[u8]) -> Nagaya {
    Nagaya::open_with(design("todo/todo"), Arc::clone(store), settings(clock, keys))
}

fn settings(clock: &ManualClock, keys: &[u8]) -> Settings {
    let audit_keys = KeySet::new(keys.iter().map(|key| [*key; 32]).collect());
    Settings { audit_keys, clock: clock.clock(), attempts: 200, ..Settings::default() }
}

pub(crate) async fn act(nagaya: &Nagaya) {
    let within = operator(nagaya).as_tenant("f-1").expect("a tenant");
    within.list(&List::by("todos_active")).await.expect("a page");
}

/// What was found, each as `kind number×count`.
pub(crate) fn found(report: &LogReport) -> Vec<String> {
    let shown = |finding: &nagaya_tenancy::LogFinding| {
        let number = finding.number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        format!("{} {number}×{}", finding.kind.name(), finding.count)
    };
    report.findings.iter().map(shown).collect()
}

#[tokio::test]
async fn an_untouched_log_has_no_findings_and_its_last_entry_is_the_verification() {
    let log = Log::open().await;
    log.act(3).await;
    let report = log.verify().await;
    assert_eq!(found(&report), [""; 0]);
    assert_eq!((report.entries, report.expired, report.unchained), (4, 0, 0));
    let entries = operator(&log.nagaya).read_log(0, i64::MAX, None).await.expect("a page").entries;
    assert_eq!((entries[3].action.as_str(), entries[3].number), ("audit.verify", Some(4)));
    assert_eq!(report.head.number, 4);
    assert_eq!(report.head.to_string().parse::<LogHead>(), Ok(report.head));
}

#[tokio::test]
async fn a_changed_entry_is_found() {
    for (attribute, value) in [
        ("%reason", Value::from("another reason")),
        ("%at", Value::from(NOON)),
        ("%expires", Value::from(1)),
        ("%tenant", Value::from("f-2")),
        ("%added", Value::from("x")),
    ] {
        let log = Log::open().await;
        log.act(3).await;
        let mut entry = log.entry(2).await;
        entry.insert(attribute, value);
        log.put(entry).await;
        assert_eq!(found(&log.verify().await), ["changed 2×1"], "{attribute}");
    }
}

/// The hash is about names, values, and where they are.
#[tokio::test]
async fn a_changed_form_of_an_entry_is_found() {
    let log = Log::open().await;
    let ids = ["01JV5T3M9Q0000000000000001", "01JV5T3M9Q0000000000000002"];
    let head = json!({ "aggregateId": ids[0], "aggregateVersion": 1, "lastEventId": ids[1] });
    operator(&log.nagaya).as_tenant("f-1").expect("a tenant").create("head", fields(head)).await.expect("a head");
    let genuine = log.entry(1).await;
    let with_changes = |change: fn(&mut BTreeMap<String, Value>)| {
        let Some(Value::Map(mut changes)) = genuine.get("%changes").cloned() else { panic!("no changes") };
        change(&mut changes);
        genuine.clone().with("%changes", Value::Map(changes))
    };
    let mut renamed = genuine.clone();
    let tenant = renamed.remove("%tenant").expect("it is recorded");
    let reason = genuine.get("%reason").expect("it is recorded").clone();
    let forged = [
        ("an attribute of another name", renamed.with("%tenants", tenant)),
        ("a text in a list", genuine.clone().with("%reason", Value::List(vec![reason]))),
        (
            "a field of another name",
            with_changes(|changes| {
                let last = changes.remove("lastEventId").expect("it is recorded");
                changes.insert("lastEventNo".to_owned(), last);
            }),
        ),
        (
            "another value of a field",
            with_changes(|changes| {
                changes.insert("aggregateVersion".to_owned(), Value::Map([("new".to_owned(), 2.into())].into()));
            }),
        ),
        (
            "a value beside its field",
            with_changes(|changes| {
                let Some(Value::Map(last)) = changes.insert("lastEventId".to_owned(), Value::Map(BTreeMap::new()))
                else {
                    panic!("no last event")
                };
                changes.extend(last);
            }),
        ),
    ];
    for (forgery, forged) in forged {
        log.put(forged).await;
        assert_eq!(found(&log.verify().await), ["changed 1×1"], "{forgery}");
    }
    log.put(genuine).await;
    assert_eq!(found(&log.verify().await), [""; 0]);
}

#[tokio::test]
async fn an_entry_under_another_key_is_found() {
    let log = Log::open().await;
    log.act(3).await;
    let entry = log.entry(2).await;
    log.remove(std::slice::from_ref(&entry)).await;
    log.put(entry.with("SK", "01800000000000-moved")).await;
    assert_eq!(found(&log.verify().await), ["changed 2×1"]);
}

#[tokio::test]
async fn removed_entries_are_found_in_the_middle_and_at_the_beginning() {
    let log = Log::open().await;
    log.act(6).await;
    log.remove(&[log.entry(1).await, log.entry(3).await, log.entry(4).await]).await;
    let report = log.verify().await;
    assert_eq!(found(&report), ["removed 1×1", "removed 3×2"]);
    // The time is that of the next entry.
    assert_eq!(report.findings[1].at, Some(NOON + 4 * 24 * 60 * 60 * 1_000));
}

#[tokio::test]
async fn an_entry_removed_at_the_end_is_found() {
    let log = Log::open().await;
    log.act(3).await;
    log.remove(&[log.entry(3).await]).await;
    // The verification is an entry too, and follows the head.
    assert_eq!(found(&log.verify().await), ["removed 3×1"]);
}

#[tokio::test]
async fn a_removed_span_of_time_is_found() {
    let log = Log::open().await;
    log.act(95).await;
    let entries: Vec<_> =
        all(&log.store, TABLE).await.into_iter().filter(|item| item.get("%action").is_some()).collect();
    let spans: std::collections::BTreeSet<_> = entries.iter().map(|item| key(item).partition).collect();
    assert!(spans.len() >= 4, "{spans:?}");
    let span = spans.iter().nth(1).expect("a span");
    let removed: Vec<_> = entries.into_iter().filter(|item| key(item).partition == *span).collect();
    log.remove(&removed).await;
    let report = log.verify().await;
    assert_eq!((report.findings.len(), report.findings[0].kind.name()), (1, "removed"));
    assert_eq!(report.findings[0].count, 30);
}

#[tokio::test]
async fn a_head_that_is_removed_changed_or_put_back_is_found() {
    let log = Log::open().await;
    log.act(2).await;
    let old = log.head().await;
    log.act(3).await;
    log.put(old.clone()).await;
    let report = log.verify().await;
    // The verification has the number of an entry that is there already.
    assert_eq!(found(&report), ["repeated 3×1", "headReplaced 4×1"]);

    let log = Log::open().await;
    log.act(3).await;
    log.remove(&[log.head().await]).await;
    assert_eq!(found(&log.verify().await), ["repeated 1×1", "headReplaced 2×1"]);

    // Without the key nobody can make a head for fewer entries.
    let log = Log::open().await;
    log.act(4).await;
    let second = log.entry(2).await;
    let forged = log.head().await.with("%number", 2).with("%last", second.get("%hash").expect("a hash").clone());
    log.remove(&[log.entry(3).await, log.entry(4).await]).await;
    log.put(forged).await;
    log.act(1).await;
    // The entry that followed the forged head says so for ever.
    assert_eq!(found(&log.verify().await), ["headChanged 3×1"]);
    assert_eq!(found(&log.verify().await), ["headChanged 3×1"]);
}

/// Somebody who can write to the table but has no key cannot add or replace entries.
#[tokio::test]
async fn an_entry_that_is_made_without_the_key_is_found() {
    let log = Log::open().await;
    log.act(2).await;
    let forger = server(&log.store, &log.clock, &[9]);
    assert!(operator(&forger).continue_log().await.expect("an entry of another key"));
    // From then on everything is refused, until an operator has the log continued.
    let refused = operator(&log.nagaya).verify_log(None).await.expect_err("the head is of an unknown key");
    assert_eq!(refused.code(), "unknown_audit_key");
    assert!(operator(&log.nagaya).continue_log().await.expect("a log"));
    let report = log.verify().await;
    assert_eq!(found(&report), ["unknownKey 3×1", "headChanged 3×1", "headChanged 4×1"]);
}

#[tokio::test]
async fn entries_of_an_older_key_are_verified_as_long_as_it_is_kept() {
    let log = Log::open().await;
    log.act(2).await;
    let rotated = server(&log.store, &log.clock, &[2, 1]);
    act(&rotated).await;
    let report = operator(&rotated).verify_log(None).await.expect("a report");
    assert_eq!(found(&report), [""; 0]);
    let without = server(&log.store, &log.clock, &[2]);
    let report = operator(&without).verify_log(None).await.expect("a report");
    assert_eq!(found(&report), ["unknownKey 1×1", "unknownKey 2×1"]);
}

/// Who puts back an older state of the whole log is found by a head that was noted elsewhere.
#[tokio::test]
async fn a_noted_head_reveals_that_an_older_state_was_put_back() {
    let log = Log::open().await;
    log.act(2).await;
    let old = log.head().await;
    log.act(2).await;
    let noted = log.verify().await.head;
    log.act(1).await;
    let verify = || async { found(&operator(&log.nagaya).verify_log(Some(&noted)).await.expect("a report")) };
    assert_eq!(verify().await, [""; 0], "the log has grown since");
    let number = |item: &Item| item.get("%number").and_then(Value::as_number).is_some_and(|number| number > 2.into());
    let later: Vec<_> = all(&log.store, TABLE).await.into_iter().filter(number).collect();
    log.remove(&later).await;
    log.put(old).await;
    assert_eq!(found(&log.verify().await), [""; 0], "the rest is a valid chain");
    assert_eq!(verify().await, ["notAsNoted 5×1"]);
    log.act(3).await;
    assert_eq!(verify().await, ["notAsNoted 5×1"], "another entry has this number now");
}

#[tokio::test]
async fn entries_from_before_the_chain_are_read_and_not_taken_for_tampered() {
    let log = Log::open().await;
    log.act(2).await;
    // As earlier versions wrote them: without a chain.
    let unchained = |item: Item, at: i64| {
        let names = ["%number", "%hash", "%key", "%previous", "%previousExpiries", "%expires", "expiresAt"];
        let item = names.iter().fold(item, |mut item, name| {
            item.remove(name);
            item
        });
        item.with("%at", at).with("SK", format!("{at:014}-0-0"))
    };
    let older = unchained(log.entry(1).await, NOON - 1);
    log.put(older).await;
    let report = log.verify().await;
    assert_eq!((found(&report), report.unchained), (vec![], 1));
    let entries = operator(&log.nagaya).read_log(0, i64::MAX, None).await.expect("a page").entries;
    assert_eq!((entries[0].number, entries[0].at), (None, NOON - 1));
    // The time of an entry that was changed says nothing about when the chain began.
    let changed = log.entry(2).await;
    log.remove(std::slice::from_ref(&changed)).await;
    log.put(changed.clone().with("%at", NOON - 2).with("SK", format!("{:014}-2", NOON - 2))).await;
    let report = log.verify().await;
    assert_eq!((found(&report), report.unchained), (vec!["changed 2×1".to_owned()], 1));
    log.remove(&[changed.clone().with("SK", format!("{:014}-2", NOON - 2))]).await;
    log.put(changed).await;
    // One that is not older than the chain did not come from a server that has the chain.
    for at in [NOON, NOON + 1] {
        let younger = unchained(log.entry(1).await, at);
        log.put(younger.clone()).await;
        assert_eq!(found(&log.verify().await), ["unchained -×1"]);
        log.remove(&[younger]).await;
    }
    // Also in the next partition, where a server whose clock is ahead writes.
    let ahead = NOON + PARTITION_MILLIS;
    let younger = unchained(log.entry(1).await, ahead);
    log.put(younger.with("PK", format!("%audit-{:06}", ahead / PARTITION_MILLIS))).await;
    assert_eq!(found(&log.verify().await), ["unchained -×1"]);
}

#[tokio::test]
async fn several_servers_append_to_one_chain_at_once() {
    let log = Log::on(interleaving(), ManualClock::at(NOON)).await;
    let servers: Vec<_> = (0..4).map(|_| server(&log.store, &log.clock, &[1])).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for server in servers {
        for _ in 0..10 {
            let server = server.clone();
            tasks.spawn(async move { act(&server).await });
        }
    }
    tasks.join_all().await;
    let report = log.verify().await;
    assert_eq!((found(&report), report.entries), (vec![], 41));
}

/// The numbers of the entries are in another order than their times then.
#[tokio::test]
async fn servers_whose_clocks_differ_by_weeks_append_to_one_chain() {
    let log = Log::open().await;
    let [ahead, behind, lost] = [NOON + 70 * 86_400_000, NOON - 70 * 86_400_000, 0].map(ManualClock::at);
    let servers = [&ahead, &behind, &log.clock, &lost].map(|clock| server(&log.store, clock, &[1]));
    for _ in 0..5 {
        for server in &servers {
            act(server).await;
        }
    }
    let report = log.verify().await;
    assert_eq!((found(&report), report.entries, report.expired), (vec![], 16, 5), "those of 1970 have expired");
    log.remove(&[log.entry(6).await, log.entry(7).await]).await;
    assert_eq!(found(&log.verify().await), ["removed 6×3"]);
}

/// A process that ends at any write leaves a log that verifies, also on a store that cannot write an entry and the head at once.
#[tokio::test]
async fn a_crash_at_any_write_leaves_a_chain_that_verifies() {
    for one_partition in [false, true] {
        for ends in [CrashPoint::Before, CrashPoint::After] {
            for write in 1..=5 {
                let log = Log::on(memory(), ManualClock::at(NOON)).await;
                let (store, _) = crashing_at(&log.store, ends, write);
                let next = InstrumentedStore::new(Arc::clone(&log.store));
                if one_partition {
                    store.declare_one_partition_per_set();
                    next.declare_one_partition_per_set();
                }
                let crashing = server(&(store as Arc<dyn Store>), &log.clock, &[1]);
                let within = operator(&crashing).as_tenant("f-1").expect("a tenant");
                let mut done = 0;
                while within.list(&List::by("todos_active")).await.is_ok() {
                    done += 1;
                }
                let nagaya = server(&(Arc::clone(&next) as Arc<dyn Store>), &log.clock, &[1]);
                act(&nagaya).await;
                let report = operator(&nagaya).verify_log(None).await.expect("a report");
                assert_eq!(found(&report), [""; 0], "{one_partition} {ends:?} {write}");
                assert!(report.entries >= done + 2, "{one_partition} {ends:?} {write}");
                if one_partition {
                    let sets = next.take(Call::is_write);
                    assert!(sets.iter().all(|set| set.writes().len() == 1));
                }
            }
        }
    }
}

/// On a store that cannot write an entry and the head at once, the head tells of an entry that is not there yet.
#[tokio::test]
async fn another_process_that_ends_during_a_verification_is_no_finding() {
    let mut calls = 0;
    loop {
        let log = Log::open().await;
        log.act(2).await;
        let store = one_partition(&log.store);
        let verifying = server(&(Arc::clone(&store) as Arc<dyn Store>), &log.clock, &[1]);
        let (inner, clock) = (Arc::clone(&log.store), log.clock.clone());
        let crash = move |_: &Call| {
            let (inner, clock) = (Arc::clone(&inner), clock.clone());
            async move {
                // It stores the entry that the head tells of, and then the head.
                let (store, _) = crashing_at(&inner, CrashPoint::After, 2);
                store.declare_one_partition_per_set();
                let crashing = server(&(store as Arc<dyn Store>), &clock, &[1]);
                let within = operator(&crashing).as_tenant("f-1").expect("a tenant");
                drop(within.list(&List::by("todos_active")).await);
            }
        };
        let hook = store.inject(Fault::run_before(crash).skip(calls).once());
        let report = operator(&verifying).verify_log(None).await.expect("a report");
        assert_eq!(found(&report), [""; 0], "call {calls}");
        if hook.hits() == 0 {
            assert!(calls > 3, "only {calls} calls");
            break;
        }
        calls += 1;
    }
}

/// What others do to a log while it is verified, before its entries are read.
async fn verify_while<F>(
    retention: Duration,
    noted: Option<&LogHead>,
    act: impl Fn(Arc<dyn Store>, ManualClock) -> F + Send + Sync + 'static,
) -> LogReport
where
    F: Future<Output = ()> + Send + 'static,
{
    let log = Log::open().await;
    log.act(3).await;
    let store = InstrumentedStore::new(Arc::clone(&log.store));
    let settings = Settings { audit_retention: retention, ..settings(&log.clock, &[1]) };
    let verifying = Nagaya::open_with(design("todo/todo"), Arc::clone(&store) as Arc<dyn Store>, settings);
    let (inner, clock) = (Arc::clone(&log.store), log.clock.clone());
    let run = move |_: &Call| act(Arc::clone(&inner), clock.clone());
    store.inject(Fault::run_before(run).matching(|call| matches!(call, Call::Query(_))).once());
    operator(&verifying).verify_log(noted).await.expect("a report")
}

/// The entries with these numbers.
async fn numbered(store: &Arc<dyn Store>, numbers: &[i64]) -> Vec<Item> {
    let is_one = |item: &Item| numbers.iter().any(|number| item.get("%number") == Some(&(*number).into()));
    all(store, TABLE).await.into_iter().filter(|item| item.get("%action").is_some() && is_one(item)).collect()
}

async fn remove_numbered(store: Arc<dyn Store>, numbers: &[i64]) {
    let set: WriteSet = numbered(&store, numbers).await.iter().map(|item| Write::delete(TABLE, key(item))).collect();
    assert_eq!(set.actions().len(), numbers.len());
    store.write(set).await.expect("they are gone");
}

#[tokio::test]
async fn entries_that_are_written_during_a_verification_are_no_finding() {
    let report = verify_while(400 * DAY, None, |store, clock| async move {
        let other = server(&store, &clock, &[1]);
        act(&other).await;
        act(&other).await;
    })
    .await;
    assert_eq!((found(&report), report.entries, report.head.number), (vec![], 4, 4));
}

#[tokio::test]
async fn the_last_entries_are_missed_also_if_they_are_removed_during_a_verification() {
    let last = LogHead { number: 4, hash: "0".repeat(64) };
    let remove = |store, _| async move { remove_numbered(store, &[3, 4]).await };
    let report = verify_while(400 * DAY, None, remove).await;
    assert_eq!((found(&report), report.entries, report.expired), (vec!["removed 3×2".to_owned()], 2, 0));
    // A head that was noted before cannot be as new as the entry of the verification.
    let report = verify_while(400 * DAY, Some(&last), remove).await;
    assert_eq!(found(&report), ["removed 3×2", "notAsNoted 4×1"]);
    // With such a retention the store may remove an entry at once.
    let remove = |store, _| async move { remove_numbered(store, &[4]).await };
    let report = verify_while(Duration::from_secs(1), None, remove).await;
    assert_eq!((found(&report), report.entries, report.expired), (vec![], 3, 1));
}

#[tokio::test]
async fn a_last_entry_with_another_hash_is_not_the_one_of_the_head() {
    let report = verify_while(400 * DAY, None, |store, _| async move {
        let last = numbered(&store, &[4]).await.remove(0);
        store.write(Write::put(TABLE, last.with("%hash", "0".repeat(64))).into()).await.expect("it is written");
    })
    .await;
    assert_eq!(found(&report), ["changed 4×1", "headReplaced 4×1"]);
}

/// A verification keeps few entries in memory, also of a log that somebody fills with gaps.
#[tokio::test]
async fn every_gap_of_a_log_with_very_many_is_counted() {
    const ENTRIES: i64 = 10_100;
    let log = Log::open().await;
    log.act(1).await;
    let span = log.entry(1).await.get("PK").expect("a key").clone();
    for first in (1..=ENTRIES).step_by(100) {
        let entry = |number: i64| {
            let item = Item::new().with("PK", span.clone()).with("SK", format!("{NOON:014}-{number:016x}"));
            Write::put(TABLE, item.with("%number", number).with("%action", "x").with("%at", NOON))
        };
        // With the odd numbers from 3 on.
        let set: WriteSet = (first..first + 100).map(|at| entry(2 * at + 1)).collect();
        log.store.write(set).await.expect("entries");
    }
    log.put(log.head().await.with("%number", 2 * ENTRIES + 1)).await;
    let report = log.verify().await;
    assert_eq!((report.entries, report.head.number), (1 + ENTRIES as u64 + 1, 2 * ENTRIES as u64 + 2));
    let removed = report.findings.iter().filter(|finding| finding.kind.name() == "removed").count();
    assert_eq!(removed, 1_000);
    // Each of these entries is changed and has a gap before it. The verification follows a changed head, which is not about the entry
    // before it.
    assert_eq!(report.finding_count(), 2 * ENTRIES as u64 + 2);
}
