//! Short notes are stored in their event, long ones as objects; readers see no difference.

use serde_json::{Value as Json, json};

use crate::harness::{TestServer, TodoClient as _, path, text, todo_server};

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
    let events = mio.get(&format!("{}/history", path(&todo))).list();
    assert!(events.iter().all(|event| event.to_string().len() < 1_000), "{events:?}");
    assert_eq!(text(&events[2], "eventType"), "TodoNoteChanged");

    let todo = mio.patch(&path(&todo), &json!({ "note": null })).expect_data(200);
    assert_eq!(note(&todo), json!({ "note": null }));
    let listed = mio.synced(&todo).expect_data(200);
    assert!(["note", "noteObject", "noteSize"].iter().all(|name| listed.get(name).is_none()), "{listed}");

    // A note that is too long is refused, and other families cannot read one.
    let pointers = mio.patch(&path(&todo), &json!({ "note": "x".repeat(100_001) })).expect_problem(422, "invalid");
    assert_eq!(pointers, ["/note"]);
    let pointers = mio.post("/todos", &json!({ "title": "x".repeat(501) })).expect_problem(422, "invalid");
    assert_eq!(pointers, ["/title"]);
    let stranger = server.client_of_user("f-other", "eve");
    stranger.get(&format!("{}/note", path(&todo))).expect_problem(404, "not_found");
    stranger.patch(&path(&todo), &json!({ "note": "y".repeat(2_000) })).expect_problem(404, "not_found");
}
