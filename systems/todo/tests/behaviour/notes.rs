//! Short notes are stored in their event, long ones as objects; readers see no difference.

use std::path::Path;

use nagaya_store::files;
use nagaya_todo::LongNoteStorage;
use serde_json::{Value as Json, json};

use crate::harness::{TestServer, TodoClient as _, design, path, text, todo_server};

/// Proves T4.
#[test]
fn long_notes_are_stored_as_objects() {
    notes_of_any_length_are_read_back(&todo_server());
}

pub(crate) fn notes_of_any_length_are_read_back(server: &TestServer) {
    let mio = server.client_of_user("f-notes", "mio");
    let (short, long) = ("two litres", "牛乳を買う。".repeat(3_000));
    let todo = mio.post("/todos", &json!({ "title": "Buy milk", "note": short })).expect_data(201);
    assert_eq!(todo["version"], 2, "a note is an event of its own");
    assert_eq!(todo["note"], short);
    assert_eq!(mio.synced(&todo).expect_data(200), todo, "the list has the same");
    let note = |todo: &Json| mio.get(&format!("{}/note", path(todo))).expect_data(200);
    assert_eq!(note(&todo), json!({ "note": short }));

    let todo = mio.patch(&path(&todo), &json!({ "note": long })).expect_data(200);
    assert_eq!(note(&todo), json!({ "note": long }));
    assert_eq!(
        mio.patch(&path(&todo), &json!({ "note": long })).expect_data(200)["version"],
        3,
        "the same again is no change"
    );
    let listed = mio.synced(&todo).expect_data(200);
    assert_eq!((listed.get("note"), &listed["noteSize"]), (None, &json!(long.len())));
    assert_eq!(listed, todo, "the list has the same");
    let events = mio.get(&format!("{}/history", path(&todo))).list();
    assert!(events.iter().all(|event| event.to_string().len() < 1_000), "{events:?}");
    assert_eq!(text(&events[2], "eventType"), "TodoNoteChanged");

    let todo = mio.patch(&path(&todo), &json!({ "note": null })).expect_data(200);
    assert_eq!(note(&todo), json!({ "note": null }));
    let listed = mio.synced(&todo).expect_data(200);
    assert!(["note", "noteObject", "noteSize"].iter().all(|name| listed.get(name).is_none()), "{listed}");
    assert_eq!(listed, todo);

    // A note that is too long is refused, and other families cannot read one.
    let pointers = mio.patch(&path(&todo), &json!({ "note": "x".repeat(100_001) })).expect_problem(422, "invalid");
    assert_eq!(pointers, ["/note"]);
    let pointers = mio.post("/todos", &json!({ "title": "x".repeat(501) })).expect_problem(422, "invalid");
    assert_eq!(pointers, ["/title"]);
    let stranger = server.client_of_user("f-other", "eve");
    stranger.get(&format!("{}/note", path(&todo))).expect_problem(404, "not_found");
    stranger.patch(&path(&todo), &json!({ "note": "y".repeat(2_000) })).expect_problem(404, "not_found");
}

/// Proves the deletion part of T4: a long note is deleted with its todo, also if that has to wait for a backup.
#[test]
fn the_long_notes_of_a_deleted_todo_are_deleted() {
    let directory = tempfile::tempdir().expect("a directory");
    let objects = directory.path().join("objects");
    let notes = LongNoteStorage::in_directory(objects.clone());
    let server = TestServer::in_memory(nagaya_todo::system("todo", design(), notes).expect("the aggregate is there"));
    let mio = server.client_of_user("f-notes", "mio");
    let create =
        |title: &str| mio.post("/todos", &json!({ "title": title, "note": "x".repeat(2_000) })).expect_data(201);
    let (milk, bread, tea) = (create("milk"), create("bread"), create("tea"));
    mio.patch(&path(&milk), &json!({ "note": "y".repeat(2_000) })).expect_data(200);
    assert_eq!(count_files(&objects), 4);

    assert_eq!(mio.delete(&path(&milk)).status, 204);
    assert_eq!(count_files(&objects), 2, "the note and the one before it are deleted");

    // A backup needs the notes that its snapshot refers to.
    let backup = files::lock_objects_shared(&objects).expect("a lock");
    assert_eq!(mio.delete(&path(&bread)).status, 204);
    assert_eq!(count_files(&objects), 2);
    drop(backup);
    let mut waited = 0;
    while count_files(&objects) > 1 {
        waited += 1;
        assert!(waited < 3_000, "the note of a deleted todo is still there");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    mio.get(&format!("{}/note", path(&tea))).expect_data(200);
}

pub(crate) fn count_files(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let entries = entries.map(|entry| entry.expect("an entry").path());
    entries.map(|path| if path.is_dir() { count_files(&path) } else { 1 }).sum()
}
