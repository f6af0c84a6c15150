//! Writing to the operator log beside other writers, and with changes that fill a write set.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use nagaya_store::{ErrorKind, Key, Store, limits};
use nagaya_tenancy::{List, Nagaya, Settings};
use nagaya_testing::{Call, Fault, InstrumentedStore, parse_design};
use serde_json::json;

use crate::{
    common::{design, fields},
    fault_stores::{all, logged},
    log_chain::{act, found, operator},
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
