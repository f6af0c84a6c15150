//! Messages are read, one or all of them.

use std::time::Duration;

use nagaya_tenancy::Principal;
use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{at_once, kitchen};

/// Proves the part of K15 about reading.
#[test]
fn messages_are_read_one_by_one_or_all() {
    reading_marks_one_or_all(&kitchen());
}

pub(crate) fn reading_marks_one_or_all(server: &TestServer) {
    let mio = server.user("u_mail", "u_mail");
    let read_all = |who: &Client<'_>| who.send("POST", "/v1/notifications/read", None).data(200);
    assert_eq!(read_all(&mio), json!({ "read": 0 }));
    let all: Vec<_> = (0..5).map(|n| tell(server, "u_mail", &n.to_string())).collect();
    let theirs = tell(server, "u_mai", "theirs");
    let titles = |path: &str| -> Vec<String> {
        mio.get(path).list().iter().map(|each| text(each, "title").to_owned()).collect()
    };
    assert_eq!(titles("/v1/notifications"), ["4", "3", "2", "1", "0"]);

    // One: when it was read first stays.
    server.clock.advance(Duration::from_secs(2));
    let read = mio.send("POST", &read_path(&all[1]), None).data(200);
    assert!(text(&read, "readAt") > text(&read, "createdAt"));
    server.clock.advance(Duration::from_secs(2));
    assert_eq!(mio.send("POST", &read_path(&all[1]), None).data(200), read);
    assert_eq!(titles("/v1/notifications-unread"), ["4", "3", "2", "0"]);
    assert_eq!(mio.get("/v1/notifications-unread-count").data(200)["count"], 4);
    mio.send("POST", &read_path(&theirs), None).problem(404, "not_found");
    for wrong in ["2030-01-01T00:00:00Z/n_01", "x/n_01"] {
        mio.send("POST", &format!("/v1/notifications/{wrong}/read"), None).problem(404, "not_found");
    }

    // All.
    assert_eq!(read_all(&mio), json!({ "read": 4 }));
    assert_eq!(read_all(&mio), json!({ "read": 0 }));
    assert_eq!(titles("/v1/notifications-unread"), Vec::<String>::new());
    assert_eq!(titles("/v1/notifications"), ["4", "3", "2", "1", "0"]);
    assert_eq!(mio.get(place(&read_path(&all[1]))).data(200), read);
    assert_eq!(server.user("u_mai", "u_mai").get("/v1/notifications-unread").list().len(), 1);

    // The system alone makes them, and nothing of them is changed but by reading.
    let made = json!({ "kind": "news", "title": "x" });
    assert!(matches!(mio.post("/v1/notifications", &made).status, 404 | 405));
    assert!(matches!(mio.patch(place(&read_path(&all[0])), &json!({ "readAt": null })).status, 404 | 405));
    assert_eq!(mio.delete(place(&read_path(&all[0]))).status, 204);
    mio.send("POST", &read_path(&all[0]), None).problem(404, "not_found");
}

/// Proves the part of K15 about reading many.
#[test]
fn many_messages_are_read_once() {
    reading_many_at_once_counts_each_once(&kitchen());
}

pub(crate) fn reading_many_at_once_counts_each_once(server: &TestServer) {
    let mio = server.user("u_spam", "u_spam");
    let all: Vec<_> = (0..200).map(|n| tell(server, "u_spam", &n.to_string())).collect();
    let counts = at_once(4, |n| match n {
        0 => {
            all.iter().step_by(20).for_each(|each| drop(mio.send("POST", &read_path(each), None).data(200)));
            0
        }
        _ => mio.send("POST", "/v1/notifications/read", None).data(200)["read"].as_u64().expect("a count"),
    });
    // What was read by itself is not counted.
    let counted: u64 = counts.iter().sum();
    assert!((190..=200).contains(&counted), "{counts:?}");
    assert_eq!(mio.get("/v1/notifications-unread-count").data(200)["count"], 0);
    // Nobody has marked one that was marked.
    let all = mio.get("/v1/notifications?limit=1000").list();
    assert!(all.len() == 200 && all.iter().all(|each| each["readAt"].is_string()));
}

fn read_path(notification: &Json) -> String {
    format!("/v1/notifications/{}/{}/read", text(notification, "createdAt"), text(notification, "notificationId"))
}

/// The path of a notification, from that by which it is read.
fn place(read: &str) -> &str {
    read.trim_end_matches("/read")
}

/// Tells somebody something, as the system does.
#[track_caller]
fn tell(server: &TestServer, user: &str, title: &str) -> Json {
    server.clock.advance(Duration::from_secs(1));
    let Json::Object(fields) = json!({ "kind": "news", "title": title }) else { panic!("no fields") };
    let tenant = server.nagaya.tenant_owned(Principal::new(user, user)).expect("a user");
    let made = server.block_on(tenant.create("notification", fields)).expect("a notification");
    Json::Object(made.to_json())
}
