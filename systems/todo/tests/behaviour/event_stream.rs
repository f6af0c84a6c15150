//! `GET /events`: server-sent events.

use std::io::{BufRead as _, BufReader};

use serde_json::{Value as Json, json};

use crate::harness::{Client, TestServer, TodoClient as _, path, text, todo_server};

/// Proves the subscription part of T25.
#[test]
fn events_are_streamed() {
    events_are_streamed_and_replayed_after_a_reconnect(&todo_server());
}

/// An open stream of server-sent events.
struct EventStream {
    lines: std::io::Lines<BufReader<ureq::BodyReader<'static>>>,
}

impl EventStream {
    /// Opens the stream, and waits until the server has subscribed.
    fn new(client: &Client<'_>) -> Self {
        let response = client.open_response("GET", "/events", None);
        assert_eq!(response.status().as_u16(), 200);
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
        assert_eq!(header("cache-control").as_deref(), Some("no-store"));
        let mut lines = BufReader::new(response.into_body().into_reader()).lines();
        assert_eq!(lines.next().expect("a line").expect("a text"), "retry: 1000");
        EventStream { lines }
    }

    /// The next event: its id, its kind and its data.
    fn next(&mut self) -> (String, String, Json) {
        let mut event = (String::new(), String::new(), json!(null));
        for line in self.lines.by_ref() {
            let line = line.expect("a text");
            match line.split_once(": ") {
                Some(("id", id)) => event.0 = id.to_owned(),
                Some(("event", kind)) => event.1 = kind.to_owned(),
                Some(("data", data)) => event.2 = serde_json::from_str(data).expect("JSON"),
                _ if line.is_empty() && !event.0.is_empty() => return event,
                _ => {}
            }
        }
        panic!("it has ended after {event:?}");
    }
}

pub(crate) fn events_are_streamed_and_replayed_after_a_reconnect(server: &TestServer) {
    let mio = server.client_of_user("f-listens", "mio");
    let other = server.client_of_user("f-listens-not", "mio");
    let before = mio.post("/todos", &json!({ "title": "before" })).expect_data(201);
    let mut stream = EventStream::new(&mio);
    other.post("/todos", &json!({ "title": "theirs" })).expect_data(201);
    let todo = mio.post("/todos", &json!({ "title": "now" })).expect_data(201);
    let changed = mio.patch(&path(&todo), &json!({ "completed": true })).expect_data(200);
    // Events are delivered at least once, and only those of the caller's family.
    let mut next = || loop {
        let event = stream.next();
        assert_eq!(event.2["metadata"]["actor"]["familyId"], "f-listens");
        if event.0 != text(&before, "lastEventId") {
            return event;
        }
    };
    let (id, kind, data) = next();
    assert_eq!((id.as_str(), kind.as_str()), (text(&todo, "lastEventId"), "TodoCreated"));
    assert_eq!((&data["aggregateId"], &data["aggregateVersion"]), (&todo["todoId"], &json!(1)));
    assert_eq!((&data["data"], &data["eventId"]), (&json!({ "title": "now" }), &todo["lastEventId"]));
    let (id, kind, _) = next();
    assert_eq!((id.as_str(), kind.as_str()), (text(&changed, "lastEventId"), "TodoCompleted"));

    // A client that reconnects gets the missed events, at least once.
    let missed = mio.patch(&path(&todo), &json!({ "completed": false })).expect_data(200);
    mio.synced(&missed).expect_data(200);
    let mut again = EventStream::new(&mio.with_header("last-event-id", text(&changed, "lastEventId")));
    let mut ids = Vec::new();
    while ids.last().map(String::as_str) != Some(text(&missed, "lastEventId")) {
        let (id, _, data) = again.next();
        assert_eq!(data["metadata"]["actor"]["familyId"], "f-listens");
        ids.push(id);
    }
    // The stream continues after them.
    let more = mio.post("/todos", &json!({ "title": "more" })).expect_data(201);
    while again.next().0 != text(&more, "lastEventId") {}
    assert_eq!(server.anonymous_client().get("/events").status, 401);
}
