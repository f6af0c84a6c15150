//! Writing to the operator log beside other writers, and with changes that fill a write set.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use nagaya_store::{Error, ErrorKind, Key, Store, Write, WriteAction, limits};
use nagaya_tenancy::{List, Nagaya, Principal, Settings, Tenant};
use nagaya_testing::{Call, Fault, InstrumentedStore, parse_design};
use serde_json::json;

use crate::{
    common::{design, fields},
    fault_stores::{all, logged, meanwhile, memory, one_partition},
    log_chain::{Log, act, found, operator, server},
    studio,
    time::settings,
};

/// A store whose next writes fail because others write to the same items.
fn make_busy(store: &InstrumentedStore, writes: usize) {
    let left = AtomicUsize::new(writes);
    let is_busy = move |call: &Call| {
        call.is_write() && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    };
    store.inject(Fault::fail_before(|| ErrorKind::Busy.into()).matching(is_busy));
}

async fn open(name: &str, store: &Arc<InstrumentedStore>) -> Nagaya {
    let nagaya = Nagaya::open_with(design(name), Arc::clone(store) as Arc<dyn Store>, Settings::default());
    nagaya.ensure_tables().await.expect("the tables are made");
    nagaya
}

#[tokio::test]
async fn an_entry_is_tried_again_while_the_store_is_busy() {
    for one_partition in [false, true] {
        let store = logged();
        if one_partition {
            store.declare_one_partition_per_set();
        }
        let nagaya = open("todo/todo", &store).await;
        let within = operator(&nagaya).as_tenant("f-1").expect("a tenant");
        make_busy(&store, 19);
        within.list(&List::by("todos_active")).await.expect("the twentieth attempt succeeds");
        let report = operator(&nagaya).verify_log(None).await.expect("a report");
        assert_eq!((found(&report), report.entries), (vec![], 2), "{one_partition}");
        make_busy(&store, 20);
        let error = within.list(&List::by("todos_active")).await.expect_err("all attempts are used up");
        assert_eq!(error.code(), "contended", "{one_partition}");
    }
}

/// It is read again only if its key is unknown.
#[tokio::test]
async fn the_head_is_read_once_for_an_entry() {
    let store = logged();
    let nagaya = open("todo/todo", &store).await;
    let head = Key::new("%audit-head", "%audit-head");
    let is_head = |call: &Call| matches!(call, Call::Get(_, key) if *key == head);
    for _ in 0..2 {
        act(&nagaya).await;
        assert_eq!(store.take(is_head).len(), 1);
    }
}

/// The head of the log and the entries take no room from a change.
#[tokio::test]
async fn a_change_that_fills_a_write_set_is_logged_before_it() {
    let store = logged();
    let nagaya = open("aiagent/single", &store).await;
    let create = async |agents: std::ops::Range<usize>| {
        let within = operator(&nagaya).as_tenant("t1").expect("a tenant");
        let mut set = within.change_set();
        for agent in agents {
            set = set.create("agent", fields(json!({ "agentId": format!("a{agent}"), "name": "A" })));
        }
        set.commit().await
    };
    // Each is a put and an entry of the tenant's audit.
    assert_eq!(create(0..50).await.expect("100 writes are a set").len(), 50);
    let report = operator(&nagaya).verify_log(None).await.expect("a report");
    assert_eq!((found(&report), report.entries), (vec![], 51));
    // What cannot be written is not logged.
    let error = create(50..101).await.expect_err("too many");
    assert_eq!(error.code(), "limit", "{error}");
    let report = operator(&nagaya).verify_log(None).await.expect("a report");
    assert_eq!((found(&report), report.entries), (vec![], 52));
    let stored = all(&(store as Arc<dyn Store>), "aiagent-app").await;
    let agents = stored.iter().filter(|item| item.get("agentId").is_some() && item.get("name").is_some());
    assert_eq!(agents.count(), 50);
}

/// A change of nearly four megabytes, with an entry for each of its items.
#[tokio::test]
async fn a_change_that_has_no_room_for_its_entries_is_logged_before_it() {
    let design = parse_design(
        r#"
        name    = "desk"
        version = "1.0"
        [tenant]
        field = "shop"
        [table.main]
        name = "main"
        key  = ["PK", "SK"]
        [entity.note]
        table = "main"
        key   = { PK = "SHOP#{shop}", SK = "NOTE#{id}" }
        [entity.note.fields]
        shop = { type = "string", max = 20 }
        id   = { type = "string", max = 20 }
        text = { type = "string", max = 100000 }
        "#,
    );
    let store = logged();
    let nagaya = Nagaya::open(design, Arc::clone(&store) as Arc<dyn Store>);
    nagaya.ensure_tables().await.expect("the tables are made");
    let within = operator(&nagaya).as_tenant("s1").expect("a tenant");
    // Without the entries there would be room for the head.
    let (items, room) = (42, limits::MAX_WRITE_SET_BYTES - 5_000);
    let mut set = within.change_set();
    for item in 0..items {
        let note = json!({ "id": format!("n{item:02}"), "text": "x".repeat(room / items - 50) });
        set = set.create("note", fields(note));
    }
    store.take(Call::is_write);
    set.commit().await.expect("it is written");
    let sets: Vec<_> = store.take(Call::is_write).iter().map(|set| set.writes().len()).collect();
    assert_eq!(sets, [items + 1, items], "the entries with the head, and the change");
    let report = operator(&nagaya).verify_log(None).await.expect("a report");
    assert_eq!((found(&report), report.entries), (vec![], items as u64 + 1));
}

/// The operator of a studio's tenant, who writes to this store; and how many entries the log has.
async fn studio_operator(store: &Arc<InstrumentedStore>) -> (Tenant, impl AsyncFn() -> usize + use<>) {
    let nagaya = studio::open(&(Arc::clone(store) as Arc<dyn Store>)).await;
    let stored = Arc::clone(store) as Arc<dyn Store>;
    let entries =
        async move || all(&stored, studio::TABLE).await.iter().filter(|item| item.get("%action").is_some()).count();
    (operator(&nagaya).as_tenant("t1").expect("a tenant"), entries)
}

#[tokio::test]
async fn a_change_that_fails_has_no_entry() {
    let (within, entries) = studio_operator(&logged()).await;
    let folder = || fields(json!({ "folderId": "f" }));
    within.create("folder", folder()).await.expect("it is new");
    assert_eq!(entries().await, 1);
    assert_eq!(within.create("folder", folder()).await.expect_err("it is there").code(), "taken");
    assert_eq!(entries().await, 1);
}

/// Each folder is a put and an entry, and the head of the log is a put too.
#[tokio::test]
async fn a_change_and_its_entries_are_one_write_set_up_to_100_actions() {
    for (folders, sets) in [(49, vec![99]), (50, vec![51, 50])] {
        let store = logged();
        let (within, entries) = studio_operator(&store).await;
        store.take(Call::is_write);
        let folder = |at: usize| fields(json!({ "folderId": format!("f{at}") }));
        let set = (0..folders).fold(within.change_set(), |set, at| set.create("folder", folder(at)));
        assert_eq!(set.commit().await.expect("they are new").len(), folders);
        let written: Vec<_> = store.take(Call::is_write).iter().map(|set| set.writes().len()).collect();
        assert_eq!(written, sets);
        assert_eq!(entries().await, folders);
    }
}

/// Entries that have partitions of their own.
const LEDGER: &str = r##"
name    = "ledger"
version = "1.0"

[tenant]
field = "bank"

[audit]
entity = "audit"
action = "action"
target = "target"
actor  = "actor"
at     = "at"

[table.main]
name = "main"
key  = ["PK", "SK"]

[entity.account]
table = "main"
key   = { PK = "BANK#{bank}", SK = "ACCOUNT#{id}" }

[entity.account.fields]
bank = { type = "string", max = 20 }
id   = { type = "string", max = 20 }

[entity.audit]
table = "main"
key   = { PK = "BANK#{bank}#AUDIT#{target}", SK = "AUDIT#{at}#{uuid}" }

[entity.audit.fields]
bank   = { type = "string", max = 20 }
at     = { type = "timestamp", default = "now" }
uuid   = { type = "uuid", default = "new" }
target = { type = "string", min = 1, max = 200, immutable = true }
action = { type = "string", min = 1, max = 100, immutable = true }
actor  = { type = "string", min = 1, max = 64, immutable = true }
"##;

#[tokio::test]
async fn a_store_whose_write_sets_have_one_partition_writes_entries_one_by_one() {
    let store = memory();
    let nagaya = Nagaya::open(parse_design(LEDGER), one_partition(&store));
    nagaya.ensure_tables().await.expect("the tables are made");
    let within = operator(&nagaya).as_tenant("b1").expect("a tenant");
    for handle in [nagaya.tenant(&Principal::new("b1", "u-1")).expect("a tenant"), within] {
        let id = |at: usize| fields(json!({ "id": format!("{}-{at}", handle.principal().user) }));
        let set = handle.change_set().create("account", id(1)).create("account", id(2));
        set.commit().await.expect("they are new");
    }
    let stored = all(&store, "main").await;
    let with = |name: &str| stored.iter().filter(|item| item.get(name).is_some()).count();
    assert_eq!((with("action"), with("%action")), (4, 2));
}

/// 100 items are the most that are read at once; the head of the log is a write too.
#[tokio::test]
async fn an_operator_reads_100_items_at_once() {
    let (within, entries) = studio_operator(&logged()).await;
    let ids: Vec<_> = (0..100).map(|at| format!("f{at}")).collect();
    let ids: Vec<_> = ids.iter().map(|id| [id.as_str()]).collect();
    let wanted: Vec<_> = ids.iter().map(|id| ("folder", &id[..])).collect();
    assert_eq!(within.get_many(&wanted).await.expect("an answer").len(), 100);
    assert_eq!(entries().await, 100);
}

#[tokio::test]
async fn entries_about_what_is_read_at_once_are_written_at_once() {
    let store = logged();
    let nagaya = Nagaya::open(parse_design(LEDGER), Arc::clone(&store) as Arc<dyn Store>);
    nagaya.ensure_tables().await.expect("the tables are made");
    let within = operator(&nagaya).as_tenant("b1").expect("a tenant");
    let wanted: [(&str, &[&str]); 3] = [("account", &["a"]), ("account", &["b"]), ("account", &["c"])];
    within.get_many(&wanted).await.expect("an answer");
    let written: Vec<_> = store.take(Call::is_write).iter().map(|set| set.writes().len()).collect();
    assert_eq!(written, [4, 3], "the entries of the operator log with its head, and those of the tenant");
}

fn puts(name: &'static str) -> impl Fn(&Write) -> bool {
    move |write| matches!(&write.action, WriteAction::Put { item } if item.get(name).is_some())
}

/// The head holds an entry that is not stored: the next writer stores it.
#[tokio::test]
async fn an_entry_that_the_store_refuses_is_an_error_unless_the_store_is_busy() {
    for is_busy in [true, false] {
        let log = Log::open().await;
        let store = InstrumentedStore::new(Arc::clone(&log.store));
        store.declare_one_partition_per_set();
        let settings = Settings { audit_keys: [1; 32].into(), attempts: 3, ..settings(&log.clock) };
        let nagaya = Nagaya::open_with(design("todo/todo"), Arc::clone(&store) as Arc<dyn Store>, settings);
        let within = operator(&nagaya).as_tenant("f-1").expect("a tenant");
        let list = List::by("todos_active");
        let fails = move || if is_busy { ErrorKind::Busy.into() } else { Error::engine("a broken disk") };
        let of_entry = |call: &Call| call.writes().iter().any(puts("%action"));
        let fault = store.inject(Fault::fail_before(fails).matching(of_entry));
        let read = within.list(&list).await;
        // Now the entry of the head is in the way.
        let next = within.list(&list).await.expect_err("there is an entry to store before").code();
        match is_busy {
            true => assert_eq!((read.is_ok(), next), (true, "contended")),
            false => assert_eq!((read.expect_err("the disk is broken").code(), next), ("engine", "engine")),
        }
        fault.remove();
        within.list(&list).await.expect("the disk works");
        let report = operator(&nagaya).verify_log(None).await.expect("a report");
        assert_eq!((found(&report), report.entries), (vec![], 3), "{is_busy}");
    }
}

/// Another process appends to the log between the read of its head and the write.
#[tokio::test]
async fn an_entry_that_loses_the_race_for_the_head_follows_the_other_one() {
    for one_partition in [false, true] {
        let log = Log::open().await;
        let stores = [InstrumentedStore::new(Arc::clone(&log.store)), InstrumentedStore::new(Arc::clone(&log.store))];
        if one_partition {
            stores.iter().for_each(|store| store.declare_one_partition_per_set());
        }
        let [first, second] =
            [&stores[0], &stores[1]].map(|store| server(&(Arc::clone(store) as Arc<dyn Store>), &log.clock, &[1]));
        act(&first).await;
        let late = meanwhile(&stores[0], puts("%last"), async move { act(&second).await });
        act(&first).await;
        assert_eq!(late.hits(), 1);
        let report = operator(&first).verify_log(None).await.expect("a report");
        assert_eq!((found(&report), report.entries), (vec![], 4), "{one_partition}");
    }
}
