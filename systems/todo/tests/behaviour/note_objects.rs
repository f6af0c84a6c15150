//! The object of a long note exists as long as an event names it, whatever happens to the requests.

use std::{path::PathBuf, sync::Arc, thread, time::Duration};

use nagaya_store::{Error, ErrorKind, FailedCondition, Item, WriteAction, files};
use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock, eventually, memory_store};
use nagaya_todo::LongNoteStorage;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    harness::{TestServer, design, path, text},
    notes::count_files,
};

/// A server with notes in a directory.
struct Served {
    server: TestServer,
    store: Arc<InstrumentedStore>,
    objects: PathBuf,
    _directory: TempDir,
}

fn serve() -> Served {
    let directory = tempfile::tempdir().expect("a directory");
    let objects = directory.path().join("objects");
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let notes = LongNoteStorage::in_directory(objects.clone());
    let system = nagaya_todo::system("todo", design(), notes).expect("the aggregate is there");
    let server = TestServer::builder(system).store(store.clone(), &clock).start();
    Served { server, store, objects, _directory: directory }
}

impl Served {
    /// Lets the next write of events fail without an effect, and gives what it would have written later.
    fn lose_next_append(&self) -> impl FnOnce() {
        self.store.take(|_| true);
        let unreachable = || Error::engine("no answer");
        self.store.inject(Fault::fail_before(unreachable).matching(is_append).once());
        || {
            let lost = self.store.take(is_append).into_iter().next();
            let Some(Call::Write(set)) = lost else { panic!("nothing was lost") };
            self.server.block_on(nagaya_store::Store::write(&*self.store, set)).expect("it arrives late");
        }
    }

    /// Waits until so many objects are there.
    fn wait_for_objects(&self, count: usize) {
        eventually(|| match count_files(&self.objects) {
            found if found == count => Ok(()),
            found => Err(format!("{found} objects instead of {count}")),
        });
    }
}

/// Whether a call appends events.
fn is_append(call: &Call) -> bool {
    let is_event =
        |item: &Item| item.get("SK").and_then(|sort| sort.as_str()).is_some_and(|sort| sort.starts_with("EVENT#"));
    call.writes().iter().any(|write| matches!(&write.action, WriteAction::Put { item } if is_event(item)))
}

fn long(text: &str) -> Json {
    json!({ "note": text.repeat(2_000) })
}

#[test]
fn a_note_is_there_when_its_event_is_stored_after_the_answer() {
    let served = serve();
    let mio = served.server.client_of_user("f-1", "mio");
    let arrive = served.lose_next_append();
    mio.post("/todos", &json!({ "title": "milk", "note": "x".repeat(2_000) })).expect_problem(500, "internal");
    arrive();
    let todo = mio.get_until("/todos", |answer| answer.list().len() == 1).list().remove(0);
    assert_eq!(mio.get(&format!("{}/note", path(&todo))).expect_data(200), long("x"));

    let arrive = served.lose_next_append();
    mio.patch(&path(&todo), &long("y")).expect_problem(500, "internal");
    arrive();
    assert_eq!(mio.get(&format!("{}/note", path(&todo))).expect_data(200), long("y"));
}

#[test]
fn a_refused_change_does_not_take_the_note_from_one_with_the_same_text() {
    let served = serve();
    let mio = served.server.client_of_user("f-1", "mio");
    for round in 0..40 {
        let todo = mio.post("/todos", &json!({ "title": round.to_string() })).expect_data(201);
        let stale = mio.with_header("if-match", "\"v99\"");
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| stale.patch(&path(&todo), &long("x")).expect_problem(412, "version_conflict"));
            }
            scope.spawn(|| mio.patch(&path(&todo), &long("x")).expect_data(200));
        });
        assert_eq!(mio.get(&format!("{}/note", path(&todo))).expect_data(200), long("x"), "round {round}");
    }
}

/// The ways in which a write fails that may have happened, or still happen.
const AMBIGUOUS: [fn() -> Error; 3] =
    [|| Error::outcome_unknown("no answer"), || Error::engine("no answer"), || Error::unavailable("no answer")];

#[test]
fn a_note_is_there_when_the_answer_to_its_write_is_lost() {
    for lost in AMBIGUOUS {
        let served = serve();
        let mio = served.server.client_of_user("f-1", "mio");
        let todo = mio.post("/todos", &json!({ "title": "milk" })).expect_data(201);
        served.store.inject(Fault::fail_after(lost).matching(is_append).once());
        let keyed = mio.with_header("idempotency-key", "1");
        let status = keyed.patch(&path(&todo), &long("x")).status;
        assert!(matches!(status, 500 | 503 | 504), "{status}");
        let note = || mio.get(&format!("{}/note", path(&todo))).expect_data(200);
        assert_eq!(note(), long("x"));

        // The client tries it again, and gets the result: what the second request has stored is deleted.
        keyed.patch(&path(&todo), &long("x")).expect_data(200);
        mio.with_header("if-match", "\"v1\"").patch(&path(&todo), &long("y")).expect_problem(412, "version_conflict");
        assert_eq!(note(), long("x"));
        assert_eq!(count_files(&served.objects), 1);
    }
}

/// The second attempt finds the note as the first one has written it, and has nothing to do.
#[test]
fn a_note_is_there_when_its_write_is_taken_for_a_lost_race() {
    let served = serve();
    let mio = served.server.client_of_user("f-1", "mio");
    let todo = mio.post("/todos", &json!({ "title": "milk" })).expect_data(201);
    let lost = || ErrorKind::ConditionFailed(vec![FailedCondition { action: 0, current: None }]).into();
    served.store.inject(Fault::fail_after(lost).matching(is_append).once());
    assert_eq!(mio.patch(&path(&todo), &long("x")).expect_data(200)["version"], 2);
    assert_eq!(mio.get(&format!("{}/note", path(&todo))).expect_data(200), long("x"));
}

#[test]
fn requests_that_are_refused_or_repeated_leave_no_object() {
    let served = serve();
    let mio = served.server.client_of_user("f-1", "mio");
    let keyed = mio.with_header("idempotency-key", "1");
    let soup = json!({ "title": "soup", "note": "z".repeat(2_000) });
    let todo = keyed.post("/todos", &soup).expect_data(201);
    let changing = mio.with_header("idempotency-key", "2");
    let changed = changing.patch(&path(&todo), &long("y")).expect_data(200);
    mio.patch(&path(&todo), &long("x")).expect_data(200);
    assert_eq!(count_files(&served.objects), 3, "the note and those before it");

    // Repeated.
    assert_eq!(text(&keyed.post("/todos", &soup).expect_data(201), "todoId"), text(&todo, "todoId"));
    assert_eq!(changing.patch(&path(&todo), &long("y")).expect_data(200), changed);
    // The key of another request, a version of the past, one of several that are, and a head that is wrong.
    keyed
        .post("/todos", &json!({ "title": "x", "note": "q".repeat(2_000) }))
        .expect_problem(422, "idempotency_key_reused");
    keyed.patch(&path(&todo), &long("q")).expect_problem(422, "idempotency_key_reused");
    mio.with_header("if-match", "\"v1\"").patch(&path(&todo), &long("q")).expect_problem(412, "version_conflict");
    mio.with_header("if-match", "\"v1\", \"v2\"")
        .patch(&path(&todo), &long("q"))
        .expect_problem(412, "version_conflict");
    let bad_key = "k".repeat(256);
    mio.with_header("idempotency-key", &bad_key)
        .patch(&path(&todo), &long("q"))
        .expect_problem(400, "bad_idempotency_key");
    // The store says that it has written nothing.
    for refusal in [|| ErrorKind::OutOfSpace("the disk is full".to_owned()).into(), || ErrorKind::Busy.into()] {
        served.store.inject(Fault::fail_before(refusal).matching(is_append).once());
        let status = mio.patch(&path(&todo), &long("q")).status;
        assert!(matches!(status, 503 | 507), "{status}");
    }
    assert_eq!(count_files(&served.objects), 3);
    assert_eq!(mio.get(&format!("{}/note", path(&todo))).expect_data(200), long("x"));
    assert_eq!(mio.delete(&path(&todo)).status, 204);
    keyed.post("/todos", &soup).expect_problem(410, "result_deleted");
    assert_eq!(count_files(&served.objects), 0);
}

#[test]
fn a_note_whose_todo_is_deleted_meanwhile_leaves_no_object() {
    let served = serve();
    let mio = served.server.client_of_user("f-1", "mio");
    let todo = mio.post("/todos", &json!({ "title": "milk" })).expect_data(201);
    let is_head = |call: &Call| matches!(call, Call::Get(_, key) if format!("{key:?}").contains("HEAD#"));
    let looked = served.store.inject(Fault::pause_after().matching(is_head).once());
    thread::scope(|scope| {
        let late = scope.spawn(|| mio.patch(&path(&todo), &long("late")));
        served.server.block_on(looked.wait_for_hit());
        assert_eq!(mio.delete(&path(&todo)).status, 204);
        looked.remove();
        late.join().expect("no panic").expect_problem(404, "not_found");
    });
    assert_eq!(count_files(&served.objects), 0);
}

#[test]
fn what_no_event_names_is_deleted_a_day_later() {
    let served = serve();
    let mio = served.server.client_of_user("f-1", "mio");
    let todo = mio.post("/todos", &json!({ "title": "soup", "note": "z".repeat(2_000) })).expect_data(201);
    mio.patch(&path(&todo), &long("y")).expect_data(200);
    assert_eq!(count_files(&served.objects), 2, "the note and the one before it");

    // A request whose outcome is unknown, and one that is refused during a backup.
    drop(served.lose_next_append());
    mio.patch(&path(&todo), &long("lost")).expect_problem(500, "internal");
    let backup = files::lock_objects_shared(&served.objects).expect("a lock");
    mio.with_header("if-match", "\"v99\"").patch(&path(&todo), &long("stale")).expect_problem(412, "version_conflict");
    drop(backup);
    assert_eq!(count_files(&served.objects), 4);

    // The sweep waits for a backup.
    let backup = files::lock_objects_shared(&served.objects).expect("a lock");
    served.server.clock.advance(Duration::from_hours(25));
    drop(backup);
    served.server.clock.advance(Duration::from_hours(2));
    served.wait_for_objects(2);
    assert_eq!(mio.get(&format!("{}/note", path(&todo))).expect_data(200), long("y"));
}

#[test]
fn nothing_is_stored_for_a_todo_that_does_not_exist() {
    let served = serve();
    let mio = served.server.client_of_user("f-1", "mio");
    let todo = mio.post("/todos", &json!({ "title": "milk" })).expect_data(201);
    let keyed = mio.with_header("idempotency-key", "1");
    keyed.patch(&path(&todo), &long("x")).expect_data(200);
    assert_eq!(count_files(&served.objects), 1);
    assert_eq!(mio.delete(&path(&todo)).status, 204);
    mio.patch(&path(&todo), &long("late")).expect_problem(404, "not_found");
    mio.with_header("idempotency-key", "2").patch(&path(&todo), &long("late")).expect_problem(404, "not_found");
    keyed.patch(&path(&todo), &long("x")).expect_problem(410, "result_deleted");
    served.server.client_of_user("f-2", "eve").patch(&path(&todo), &long("x")).expect_problem(404, "not_found");
    assert_eq!(count_files(&served.objects), 0);
}
