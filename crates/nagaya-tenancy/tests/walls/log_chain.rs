//! The hash chain of the operator log reveals entries that were changed or removed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use nagaya_embedded::EmbeddedStore;
use nagaya_store::{Item, Key, Store, Value, Write, WriteSet};
use nagaya_tenancy::{KeySet, List, LogHead, LogReport, Nagaya, Operator, Principal, Settings};
use nagaya_testing::{InstrumentedStore, ManualClock};
use serde_json::json;

use crate::{
    common::{design, fields},
    fault_stores::{CrashPoint, all, crashing_at, interleaving, memory},
    time::{NOON, options},
};

pub(crate) const TABLE: &str = "EventsTable";

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
    let audit_keys = KeySet::new(keys.iter().map(|key| [*key; 32]).collect());
    let settings = Settings { audit_keys, clock: clock.clock(), attempts: 200, ..Settings::default() };
    Nagaya::open_with(design("todo/todo"), Arc::clone(store), settings)
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
    // One that is younger than the chain did not come from a server that has the chain.
    let younger = unchained(log.entry(1).await, NOON + 1);
    log.put(younger).await;
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
                    let sets = next.take(nagaya_testing::Call::is_write);
                    assert!(sets.iter().all(|set| set.writes().len() == 1));
                }
            }
        }
    }
}
