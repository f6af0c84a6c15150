//! Old audit entries move to the archive of the design.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use nagaya_embedded::EmbeddedStore;
use nagaya_store::{Error, Item, Store, Value, Write, WriteAction};
use nagaya_tenancy::{ArchiveStep, AuditArchiver, ErrorKind, List, Nagaya, Record, Tenant};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock, parse_design};
use serde_json::{Value as Json, json};

use crate::{
    common::{design, fields, tenant},
    fault_stores::{CrashPoint, all, crashing_at},
    guards::LogBuffer,
    log_chain::operator,
    time::{NOON, options, settings},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A store in memory with this clock; write sets cannot span partitions if `together` is false.
fn store(clock: &ManualClock, together: bool) -> Arc<InstrumentedStore> {
    let store = InstrumentedStore::new(Arc::new(EmbeddedStore::in_memory(options(clock)).expect("memory")));
    if !together {
        store.declare_one_partition_per_set();
    }
    store
}

/// A process with a design on a store.
async fn process(name: &str, store: Arc<dyn Store>, clock: &ManualClock) -> Nagaya {
    let nagaya = Nagaya::open_with(design(name), store, settings(clock));
    nagaya.ensure_tables().await.expect("the tables are made");
    nagaya
}

async fn entries(of: &Tenant, access: &str) -> Vec<Json> {
    let page = of.list(&List::by(access).limit(1000)).await.expect("a page");
    page.records.iter().map(Record::to_json).map(Json::Object).collect()
}

async fn create_agents(of: &Tenant, ids: impl Iterator<Item = usize>) {
    for id in ids {
        of.create("agent", fields(json!({ "agentId": format!("a{id}"), "name": "A" }))).await.expect("an agent");
    }
}

/// Proves A10.
#[tokio::test]
async fn old_entries_move_and_stay_with_their_tenant() {
    for (name, together) in [("aiagent/single", true), ("aiagent/multi", true), ("aiagent/single", false)] {
        let clock = ManualClock::at(NOON);
        let store = store(&clock, together);
        let nagaya = process(name, store.clone(), &clock).await;
        let (t1, t2) = (tenant(&nagaya, "t1"), tenant(&nagaya, "t2"));
        create_agents(&t1, 0..2).await;
        create_agents(&t2, 2..3).await;
        let (of_t1, of_t2) = (entries(&t1, "audits").await, entries(&t2, "audits").await);
        assert_eq!((of_t1.len(), of_t2.len()), (2, 1));

        // Before their time, nothing moves.
        clock.advance(30 * DAY - Duration::from_secs(1));
        create_agents(&t1, 3..4).await;
        assert_eq!(nagaya.archive_audits().await.expect("a run"), 0);
        assert_eq!(entries(&t1, "archived_audits").await, [] as [Json; 0]);

        clock.advance(Duration::from_secs(1));
        assert_eq!(nagaya.archive_audits().await.expect("a run"), 3, "{name}");
        assert_eq!(entries(&t1, "archived_audits").await, of_t1, "{name}: unchanged");
        assert_eq!(entries(&t2, "archived_audits").await, of_t2, "{name}: unchanged");
        let recent = entries(&t1, "audits").await;
        assert_eq!((recent.len(), &recent[0]["resource"]), (1, &json!("a3")));
        assert_eq!(entries(&t2, "audits").await, [] as [Json; 0]);
        assert_eq!(nagaya.archive_audits().await.expect("a run"), 0, "{name}: once");
        assert_eq!(nagaya.breaches(), 0);

        // They live as long as the archive says.
        clock.advance(90 * DAY);
        assert_eq!(entries(&t1, "archived_audits").await, [] as [Json; 0]);
    }
}

#[tokio::test]
async fn nobody_creates_changes_or_deletes_entries_recent_or_archived() {
    let clock = ManualClock::at(NOON);
    let nagaya = process("aiagent/single", store(&clock, true), &clock).await;
    let t1 = tenant(&nagaya, "t1");
    create_agents(&t1, 0..2).await;
    clock.advance(31 * DAY);
    assert_eq!(nagaya.archive_audits().await.expect("a run"), 2);
    create_agents(&t1, 2..4).await;
    for (entity, access) in [("audit", "audits"), ("archived_audit", "archived_audits")] {
        let before = entries(&t1, access).await;
        assert_eq!(before.len(), 2);
        let id = ["timestamp", "uuid"].map(|field| before[0][field].as_str().expect("a text"));
        let mut forged = fields(before[0].clone());
        forged.remove("tenantId");
        forged.insert("uuid".to_owned(), json!("0190a6e4-6b1c-7c3a-8f00-0123456789ab"));
        let of_operator = operator(&nagaya).as_tenant("t1").expect("a tenant");
        for handle in [&t1, &of_operator] {
            let created = handle.create(entity, forged.clone()).await.map(drop);
            let changed = handle.update(entity, &id, fields(json!({ "action": "x" })), None).await.map(drop);
            let deleted = handle.delete(entity, &id, None).await;
            for refused in [created, changed, deleted] {
                assert!(matches!(refused.expect_err("refused").kind(), ErrorKind::Walled(_)), "{entity}");
            }
        }
        assert_eq!(entries(&t1, access).await, before, "{entity}");
    }
}

/// Somebody who can write to the tables has put something where an entry would move. Neither of the two is lost.
#[tokio::test]
async fn an_entry_does_not_replace_what_is_in_its_place_in_the_archive() {
    for together in [true, false] {
        let log = LogBuffer::default();
        let _log = tracing::subscriber::set_default(log.subscriber());
        let clock = ManualClock::at(NOON);
        let store = store(&clock, together);
        let nagaya = process("aiagent/single", store.clone(), &clock).await;
        let t1 = tenant(&nagaya, "t1");
        create_agents(&t1, 0..3).await;
        let genuine = entries(&t1, "audits").await.remove(1);
        let store: Arc<dyn Store> = store;
        let is_genuine = |item: &Item| item.get("uuid").and_then(Value::as_str) == genuine["uuid"].as_str();
        let stored = all(&store, "aiagent-app").await.into_iter().find(is_genuine).expect("it is stored");
        for (attribute, value) in [("actorUserId", "somebody-else"), ("traceId", "t-1")] {
            let forged = stored.clone().with("type", "archived_audit").with(attribute, value);
            store.write(Write::put("aiagent-log", forged).into()).await.expect("it is written");
            clock.advance(31 * DAY);
            nagaya.archive_audits().await.expect("a run");
            assert_eq!(entries(&t1, "audits").await, std::slice::from_ref(&genuine), "{together}: it stays");
            let archived = entries(&t1, "archived_audits").await;
            let there: Vec<_> = archived.iter().filter(|entry| entry["uuid"] == genuine["uuid"]).collect();
            assert_eq!((archived.len(), there.len(), &there[0][attribute]), (3, 1, &json!(value)), "{together}");
        }
        assert_eq!(log.text().matches(TAKEN).count(), 2, "{together}: once in each run, for this entry only");
        // Once the place is free, it moves.
        let text = |name: &str| stored.get(name).and_then(Value::as_str).expect("a key");
        let key = nagaya_store::Key::new(text("PK"), text("SK"));
        store.write(Write::delete("aiagent-log", key).into()).await.expect("it is gone");
        assert_eq!(nagaya.archive_audits().await.expect("a run"), 1);
        assert!(entries(&t1, "archived_audits").await.contains(&genuine));
        assert_eq!(log.text().matches(TAKEN).count(), 2, "{together}");
    }
}

/// What the log says where something else has the place of an entry.
const TAKEN: &str = "something else has the place of an audit entry";

#[tokio::test]
async fn an_entry_that_another_process_moves_meanwhile_is_not_reported_as_taken() {
    for together in [true, false] {
        let log = LogBuffer::default();
        let _log = tracing::subscriber::set_default(log.subscriber());
        let clock = ManualClock::at(NOON);
        let store = store(&clock, together);
        let faster = process("aiagent/single", store.clone(), &clock).await;
        create_agents(&tenant(&faster, "t1"), 0..2).await;
        clock.advance(31 * DAY);
        let between = InstrumentedStore::new(store.clone());
        let slower = process("aiagent/single", between.clone(), &clock).await;
        let moves_first = move |_: &Call| {
            let faster = faster.clone();
            async move { assert_eq!(faster.archive_audits().await.expect("a run"), 2) }
        };
        between.inject(Fault::run_before(moves_first).matching(Call::is_write).once());
        assert_eq!(slower.archive_audits().await.expect("a run"), 0, "{together}");
        let store: Arc<dyn Store> = store;
        let after = stored(&store).await;
        assert!(after.len() == 2 && after.values().all(|count| *count == (0, 1)), "{together}: {after:?}");
        assert!(!log.text().contains(TAKEN), "{together}: {}", log.text());
    }
}

/// A write set holds a hundred actions, and an entry that moves is two of them.
#[tokio::test]
async fn entries_move_in_as_few_write_sets_as_the_store_accepts() {
    let clock = ManualClock::at(NOON);
    let store = store(&clock, true);
    let nagaya = process("aiagent/single", store.clone(), &clock).await;
    create_agents(&tenant(&nagaya, "t1"), 0..51).await;
    clock.advance(31 * DAY);
    store.take(Call::is_write);
    assert_eq!(nagaya.archive_audits().await.expect("a run"), 51);
    let sets: Vec<_> = store.take(Call::is_write).iter().map(|call| call.writes().len()).collect();
    assert_eq!(sets, [100, 2]);
}

#[tokio::test]
async fn an_operator_hears_how_many_entries_have_moved_after_each_page() {
    let clock = ManualClock::at(NOON);
    let nagaya = process("aiagent/single", store(&clock, true), &clock).await;
    create_agents(&tenant(&nagaya, "t1"), 0..260).await;
    clock.advance(31 * DAY);
    let heard = Mutex::new(Vec::new());
    let progress = |moved| heard.lock().expect("no panic").push(moved);
    assert_eq!(operator(&nagaya).archive_audits(&progress).await.expect("a run"), 260);
    let heard = heard.into_inner().expect("no panic");
    assert!(matches!(heard[..], [1..260, 260]), "522 items are two pages: {heard:?}");
}

/// A failure that may pass is not taken for an entry that cannot be written.
#[tokio::test]
async fn a_run_that_the_store_interrupts_fails_and_moves_nothing() {
    for count in [1, 3] {
        let clock = ManualClock::at(NOON);
        let store = store(&clock, true);
        let nagaya = process("aiagent/single", store.clone(), &clock).await;
        create_agents(&tenant(&nagaya, "t1"), 0..count).await;
        clock.advance(31 * DAY);
        store.inject(Fault::fail_before(|| Error::engine("the disk failed")).matching(Call::is_write).once());
        let error = nagaya.archive_audits().await.expect_err("the store fails");
        assert!(matches!(error.kind(), ErrorKind::Store(_)), "{count}: {error:?}");
        assert_eq!(entries(&tenant(&nagaya, "t1"), "audits").await.len(), count);
        assert_eq!(nagaya.archive_audits().await.expect("a run"), count);
    }
}

#[tokio::test]
async fn a_design_without_an_archive_has_no_archiver() {
    for name in ["management/management", "todo/todo"] {
        let clock = ManualClock::at(NOON);
        let nagaya = process(name, store(&clock, true), &clock).await;
        assert!(AuditArchiver::new(&nagaya).is_none(), "{name}");
    }
}

#[tokio::test]
async fn a_step_logs_how_many_entries_it_has_moved_if_there_were_any() {
    let log = LogBuffer::default();
    let _log = tracing::subscriber::set_default(log.subscriber());
    let clock = ManualClock::at(NOON);
    let nagaya = process("aiagent/single", store(&clock, true), &clock).await;
    create_agents(&tenant(&nagaya, "t1"), 0..2).await;
    let archiver = AuditArchiver::new(&nagaya).expect("an archive");
    archiver.step().await.expect("a step");
    assert!(!log.text().contains("moved="), "{}", log.text());
    clock.advance(31 * DAY);
    archiver.step().await.expect("a step");
    assert!(log.text().contains("moved=2"), "{}", log.text());
}

/// The record of the run keeps its position while a page is moved.
#[tokio::test]
async fn a_process_that_ends_within_a_page_leaves_its_position_to_the_next_one() {
    let clock = ManualClock::at(NOON);
    let store = store(&clock, true);
    let nagaya = process("aiagent/single", store.clone(), &clock).await;
    create_agents(&tenant(&nagaya, "t1"), 0..260).await;
    clock.advance(31 * DAY);
    let [one, other] = [(); 2].map(|()| AuditArchiver::new(&nagaya).expect("an archive"));
    assert_eq!(one.step().await.expect("a step"), ArchiveStep::More);
    let is_scan = |call: &Call| matches!(call, Call::Scan(_));
    store.inject(Fault::fail_before(|| Error::engine("the process has ended")).matching(is_scan).once());
    one.step().await.expect_err("it has taken the lease");
    clock.advance(Duration::from_secs(61));
    assert!(matches!(other.step().await.expect("a step"), ArchiveStep::Wait(_)), "it was the last page");
    let scans = store.take(is_scan);
    let positions: Vec<_> =
        scans.iter().filter_map(|call| if let Call::Scan(scan) = call { Some(&scan.after) } else { None }).collect();
    assert!(matches!(positions[..], [None, Some(_), Some(_)]) && positions[1] == positions[2], "{positions:?}");
}

/// How often each entry of the tenants is stored: in the table of the entries, and in the archive.
async fn stored(store: &Arc<dyn Store>) -> BTreeMap<String, (usize, usize)> {
    let text = |item: &Item, name: &str| item.get(name).and_then(Value::as_str).map(str::to_owned);
    let mut found: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (table, in_archive) in [("aiagent-app", false), ("aiagent-log", true)] {
        for item in all(store, table).await {
            let Some(key) = text(&item, "SK").filter(|key| key.starts_with("AUDIT#")) else { continue };
            let count = found.entry(format!("{} {key}", text(&item, "PK").expect("a partition"))).or_default();
            *(if in_archive { &mut count.1 } else { &mut count.0 }) += 1;
        }
    }
    found
}

/// Proves A10.
#[tokio::test]
async fn a_process_that_is_killed_loses_no_entry_and_leaves_none_twice() {
    for (together, ends) in
        [true, false].into_iter().flat_map(|each| [CrashPoint::Before, CrashPoint::After].map(|ends| (each, ends)))
    {
        let mut crashes = 0;
        for write in 1.. {
            let clock = ManualClock::at(NOON);
            let survivor = store(&clock, together);
            let nagaya = process("aiagent/single", survivor.clone(), &clock).await;
            for name in ["t1", "t2"] {
                create_agents(&tenant(&nagaya, name), 0..2).await;
            }
            clock.advance(31 * DAY);
            let survivor: Arc<dyn Store> = survivor;
            let (killed, last) = crashing_at(&survivor, ends, write);
            let archiver = AuditArchiver::new(&process("aiagent/single", killed, &clock).await).expect("an archive");
            let ended = archiver.step().await;
            let between = stored(&survivor).await;
            assert_eq!(between.len(), 4, "{between:?}");

            // Another process takes over when the lease has ended.
            clock.advance(Duration::from_secs(61));
            let archiver = AuditArchiver::new(&nagaya).expect("an archive");
            assert!(matches!(archiver.step().await.expect("a step"), ArchiveStep::Wait(_)));
            let after = stored(&survivor).await;
            assert_eq!(after.len(), 4);
            assert!(after.values().all(|count| *count == (0, 1)), "write {write} of {together}: {after:?}");
            if last.hits() == 0 {
                assert!(ended.is_ok());
                break;
            }
            crashes += 1;
        }
        assert!(crashes >= if together { 3 } else { 10 }, "{crashes} crashes");
    }
}

#[tokio::test]
async fn processes_share_a_run() {
    let clock = ManualClock::at(NOON);
    let store = store(&clock, true);
    let nagaya = process("aiagent/single", store.clone(), &clock).await;
    let t1 = tenant(&nagaya, "t1");
    create_agents(&t1, 0..700).await;
    clock.advance(31 * DAY);
    let [one, other] = [(); 2].map(|()| AuditArchiver::new(&nagaya).expect("an archive"));
    let scans = || store.take(|call| matches!(call, Call::Scan(_))).len();
    scans();

    assert_eq!(one.step().await.expect("a step"), ArchiveStep::More);
    // The other one waits as long as the first one works.
    assert!(matches!(other.step().await.expect("a step"), ArchiveStep::Wait(_)));
    assert_eq!(scans(), 1);
    assert_eq!(one.step().await.expect("a step"), ArchiveStep::More);
    // The first one has ended; the other one continues where it was.
    clock.advance(Duration::from_secs(61));
    let mut steps = 0;
    let wait = loop {
        steps += 1;
        match other.step().await.expect("a step") {
            ArchiveStep::More => {}
            ArchiveStep::Wait(wait) => break wait,
        }
    };
    assert_eq!((scans(), steps), (2, 1), "1401 items are three pages");
    assert_eq!(wait, DAY, "a run a day is enough");
    let mut archived = List::by("archived_audits").limit(1000);
    assert_eq!(t1.list(&archived).await.expect("a page").records.len(), 700);
    archived = List::by("audits").limit(1000);
    assert_eq!(t1.list(&archived).await.expect("a page").records.len(), 0);

    // The next run is due a day later.
    assert!(matches!(one.step().await.expect("a step"), ArchiveStep::Wait(_)));
    assert_eq!(scans(), 0);
    clock.advance(DAY);
    one.step().await.expect("a step");
    assert_eq!(scans(), 1);
}

#[tokio::test]
async fn concurrent_runs_move_each_entry_once() {
    let clock = ManualClock::at(NOON);
    let store = crate::fault_stores::interleaving();
    let nagaya = process("aiagent/single", Arc::clone(&store), &clock).await;
    create_agents(&tenant(&nagaya, "t1"), 0..120).await;
    clock.advance(31 * DAY);
    let (one, other) = tokio::join!(nagaya.archive_audits(), nagaya.archive_audits());
    assert_eq!(one.expect("a run") + other.expect("a run"), 120);
    let found = stored(&store).await;
    assert!(found.len() == 120 && found.values().all(|count| *count == (0, 1)), "{found:?}");
}

#[tokio::test]
async fn an_entry_that_cannot_move_stays_and_stops_no_other() {
    let clock = ManualClock::at(NOON);
    let store = store(&clock, true);
    let nagaya = process("aiagent/single", store.clone(), &clock).await;
    create_agents(&tenant(&nagaya, "t1"), 0..2).await;
    let store: Arc<dyn Store> = store;
    let log = LogBuffer::default();
    let _log = tracing::subscriber::set_default(log.subscriber());
    // One that is not where its fields say, one without a time, and one that has no key in the archive.
    let item = Item::new().with("PK", "TENANT#t0").with("tenantId", "t1").with("action", "x").with("resource", "x");
    let item = item.with("SK", "AUDIT#2020-01-01T00:00:00Z#0190a6e4-6b1c-7c3a-8f00-0123456789ab");
    let item = item.with("uuid", "0190a6e4-6b1c-7c3a-8f00-0123456789ab").with("actorUserId", "x");
    let (misplaced, timeless) = (item.clone().with("timestamp", "2020-01-01T00:00:00Z"), item.with("PK", "TENANT#t1"));
    let keyless = misplaced.clone().with("PK", "TENANT#t2").with("tenantId", "t2").with("traceId", Value::List(vec![]));
    for item in [misplaced, timeless, keyless] {
        store.write(Write::put("aiagent-app", item).into()).await.expect("it is written");
    }
    clock.advance(31 * DAY);
    assert_eq!(nagaya.archive_audits().await.expect("a run"), 2);
    let stayed = stored(&store).await;
    assert_eq!(stayed.values().filter(|count| **count == (1, 0)).count(), 3, "{stayed:?}");
    assert_eq!(log.text().matches("an audit entry cannot be archived").count(), 1, "{}", log.text());
}

/// One entry whose copy the store refuses for good does not keep the others from moving.
#[tokio::test]
async fn an_entry_that_cannot_be_written_stays_and_the_others_move() {
    for (together, refusal) in
        [(true, Error::limit_exceeded as fn(String) -> Error), (false, Error::limit_exceeded), (true, Error::invalid)]
    {
        let clock = ManualClock::at(NOON);
        let store = store(&clock, together);
        let nagaya = process("aiagent/single", store.clone(), &clock).await;
        create_agents(&tenant(&nagaya, "t1"), 0..5).await;
        clock.advance(31 * DAY);
        let is_copy = |write: &Write| {
            let WriteAction::Put { item } = &write.action else { return false };
            write.table.ends_with("-log") && item.get("resource").and_then(Value::as_str) == Some("a2")
        };
        let has_copy = move |call: &Call| call.writes().iter().any(is_copy);
        let refused = store.inject(Fault::fail_before(move || refusal("too large".to_owned())).matching(has_copy));
        let archiver = AuditArchiver::new(&nagaya).expect("an archive");
        assert!(matches!(archiver.step().await.expect("it is skipped"), ArchiveStep::Wait(_)));
        assert!(refused.hits() > 0, "{together}");
        let left = entries(&tenant(&nagaya, "t1"), "audits").await;
        assert_eq!((left.len(), &left[0]["resource"]), (1, &json!("a2")), "{together}");
        assert_eq!(entries(&tenant(&nagaya, "t1"), "archived_audits").await.len(), 4, "{together}");
        // Once it can be written, it moves too.
        refused.remove();
        assert_eq!(nagaya.archive_audits().await.expect("a run"), 1);
    }
}

#[tokio::test]
async fn an_archived_entry_has_the_first_version_where_the_archive_has_versions() {
    let clock = ManualClock::at(NOON);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../systems/aiagent/design/single.toml");
    let source = std::fs::read_to_string(path).expect("the design is there");
    let source = source.replace("[entity.archived_audit]\n", "[entity.archived_audit]\nversion = \"version\"\n");
    let nagaya = Nagaya::open_with(parse_design(&source), store(&clock, true), settings(&clock));
    nagaya.ensure_tables().await.expect("the tables are made");
    let t1 = tenant(&nagaya, "t1");
    create_agents(&t1, 0..1).await;
    clock.advance(31 * DAY);
    assert_eq!(nagaya.archive_audits().await.expect("a run"), 1);
    let page = t1.list(&List::by("archived_audits")).await.expect("a page");
    assert_eq!(page.records.iter().map(Record::version).collect::<Vec<_>>(), [Some(1)]);
}
