//! Stored items are those of the document, byte for byte.

use std::time::Duration;

use nagaya_store::{Item, Key, Value, Write};
use serde_json::{Value as Json, json};

use crate::harness::{TestServer, TodoClient as _, path, text, todo_server};

fn stored(server: &TestServer, table: &str, key: Key) -> Option<Json> {
    let item = server.block_on(server.store.get(table, &key)).expect("the table is there");
    item.as_ref().map(to_json)
}

/// An item as JSON; it keeps the type of every attribute.
fn to_json(item: &Item) -> Json {
    fn value(stored: &Value) -> Json {
        match stored {
            Value::String(text) => json!(text.as_str()),
            Value::Boolean(truth) => json!(truth),
            Value::Number(number) => serde_json::from_str(&number.to_string()).expect("a number"),
            Value::Map(map) => map.iter().map(|(name, each)| (name.to_string(), value(each))).collect(),
            other => panic!("the document has no {other:?}"),
        }
    }
    item.iter().map(|(name, each)| (name.to_owned(), value(each))).collect()
}

/// Proves T2.
#[test]
fn events_have_the_documented_format() {
    stored_events_have_the_documented_format(&todo_server());
}

pub(crate) fn stored_events_have_the_documented_format(server: &TestServer) {
    let mio = server
        .client_of_user("f-123", "u-1")
        .with_header("x-correlation-id", "c-7")
        .with_header("x-causation-id", "k-8");
    let todo = mio.post("/todos", &json!({ "title": "Buy milk" })).expect_data(201);
    mio.patch(&path(&todo), &json!({ "title": "Buy bread" })).expect_data(200);
    let completed = mio.patch(&path(&todo), &json!({ "completed": true })).expect_data(200);
    let (id, event) = (text(&todo, "todoId"), text(&completed, "lastEventId"));
    let found = stored(server, "EventsTable", Key::new(format!("TODO#{id}"), format!("EVENT#{event}")));
    assert_eq!(
        found.expect("the event is there"),
        json!({
            "PK": format!("TODO#{id}"),
            "SK": format!("EVENT#{event}"),
            "GSI1PK": "FAMILY#f-123",
            "GSI1SK": event,
            "aggregateType": "Todo",
            "aggregateId": id,
            "aggregateVersion": 3,
            "eventId": event,
            "eventType": "TodoCompleted",
            "data": { "completed": true },
            "metadata": {
                "correlationId": "c-7",
                "causationId": "k-8",
                "actor": { "userId": "u-1", "familyId": "f-123" },
                "timestamp": completed["updatedAt"],
            },
        })
    );
    // The head in the same partition has the version that the next command expects.
    let mut head = stored(server, "EventsTable", Key::new(format!("TODO#{id}"), "HEAD#")).expect("the head is there");
    let hash = head.as_object_mut().and_then(|head| head.remove("hash")).expect("the end of the chain");
    assert_eq!(hash.as_str().map(str::len), Some(64));
    let expected = json!({
        "PK": format!("TODO#{id}"), "SK": "HEAD#", "aggregateId": id, "familyId": "f-123",
        "aggregateVersion": 3, "lastEventId": event,
    });
    assert_eq!(head, expected);
}

/// Proves T3.
#[test]
fn the_projection_has_the_documented_format() {
    stored_projections_have_the_documented_format(&todo_server());
}

pub(crate) fn stored_projections_have_the_documented_format(server: &TestServer) {
    let mio = server.client_of_user("f-124", "u-1");
    let todo = mio.create("Buy milk");
    let id = text(&todo, "todoId").to_owned();
    let is = |answered: &Json, active: bool| {
        mio.synced(answered).expect_data(200);
        let found = stored(server, "TodosProjection", Key::new("FAMILY#f-124", format!("TODO#{id}")));
        let mut expected = json!({
            "PK": "FAMILY#f-124",
            "SK": format!("TODO#{id}"),
            "familyId": "f-124",
            "todoId": id,
            "title": "Buy milk",
            "completed": !active,
            "lastEventId": answered["lastEventId"],
            "version": answered["version"],
            "updatedAt": answered["updatedAt"],
        });
        if active {
            expected["GSI1PK"] = "FAMILY#f-124#ACTIVE".into();
            expected["GSI1SK"] = id.as_str().into();
        }
        assert_eq!(found, Some(expected));
    };
    is(&todo, true);
    is(&mio.patch(&path(&todo), &json!({ "completed": true })).expect_data(200), false);
    is(&mio.patch(&path(&todo), &json!({ "completed": false })).expect_data(200), true);
    mio.delete(&path(&todo));
    for _ in 0..200 {
        if stored(server, "TodosProjection", Key::new("FAMILY#f-124", format!("TODO#{id}"))).is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("it is still listed");
}

/// The document allows `updatedAt` as the sort key of the active list; projections of earlier versions have it.
#[test]
fn a_todo_with_the_other_documented_sort_key_is_listed_until_a_change_gives_it_its_place() {
    let server = todo_server();
    let mio = server.client_of_user("f-125", "u-1");
    let milk = mio.create("Buy milk");
    mio.create("Buy bread");
    let key = Key::new("FAMILY#f-125", format!("TODO#{}", text(&milk, "todoId")));
    let item = server.block_on(server.store.get("TodosProjection", &key)).expect("the table").expect("the todo");
    let item = item.with("GSI1SK", text(&milk, "updatedAt"));
    server.block_on(server.store.write(Write::put("TodosProjection", item).into())).expect("it is written");

    mio.wait_for_list("/todos", &["Buy bread", "Buy milk"]);
    let first = mio.get("/todos?limit=1");
    let next = format!("/todos?limit=1&cursor={}", text(&first.body, "nextCursor"));
    mio.wait_for_list(&next, &["Buy milk"]);
    mio.synced(&mio.patch(&path(&milk), &json!({ "title": "Buy oat milk" })).expect_data(200)).expect_data(200);
    mio.wait_for_list("/todos", &["Buy oat milk", "Buy bread"]);
}
