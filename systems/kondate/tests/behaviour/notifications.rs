//! Notifications are marked as read, one or all of them.

use std::time::Duration;

use nagaya_tenancy::Principal;
use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{kondate_server, run_concurrently};

/// Proves the part of K15 about reading.
#[test]
fn notifications_are_marked_as_read() {
    one_or_all_notifications_are_marked_as_read(&kondate_server());
}

pub(crate) fn one_or_all_notifications_are_marked_as_read(server: &TestServer) {
    let mio = server.client_of_user("u_mail", "u_mail");
    let read_all = |who: &Client<'_>| who.send("POST", "/v1/notifications/read", None).expect_data(200);
    assert_eq!(read_all(&mio), json!({ "read": 0 }));
    let all: Vec<_> = (0..5).map(|n| notify(server, "u_mail", &n.to_string())).collect();
    let theirs = notify(server, "u_mai", "theirs");
    let titles = |path: &str| -> Vec<String> {
        mio.get(path).list().iter().map(|each| text(each, "title").to_owned()).collect()
    };
    assert_eq!(titles("/v1/notifications"), ["4", "3", "2", "1", "0"]);

    // Marking one again keeps the first time.
    server.clock.advance(Duration::from_secs(2));
    let read = mio.send("POST", &read_path(&all[1]), None).expect_data(200);
    assert!(text(&read, "readAt") > text(&read, "createdAt"));
    server.clock.advance(Duration::from_secs(2));
    assert_eq!(mio.send("POST", &read_path(&all[1]), None).expect_data(200), read);
    assert_eq!(titles("/v1/notifications-unread"), ["4", "3", "2", "0"]);
    assert_eq!(mio.get("/v1/notifications-unread-count").expect_data(200)["count"], 4);
    mio.send("POST", &read_path(&theirs), None).expect_problem(404, "not_found");
    for wrong in ["2030-01-01T00:00:00Z/n_01", "x/n_01"] {
        mio.send("POST", &format!("/v1/notifications/{wrong}/read"), None).expect_problem(404, "not_found");
    }

    assert_eq!(read_all(&mio), json!({ "read": 4 }));
    assert_eq!(read_all(&mio), json!({ "read": 0 }));
    assert_eq!(titles("/v1/notifications-unread"), Vec::<String>::new());
    assert_eq!(titles("/v1/notifications"), ["4", "3", "2", "1", "0"]);
    assert_eq!(mio.get(notification_path(&read_path(&all[1]))).expect_data(200), read);
    assert_eq!(server.client_of_user("u_mai", "u_mai").get("/v1/notifications-unread").list().len(), 1);

    // Callers cannot create or change notifications.
    let made = json!({ "kind": "news", "title": "x" });
    assert!(matches!(mio.post("/v1/notifications", &made).status, 404 | 405));
    assert!(matches!(mio.patch(notification_path(&read_path(&all[0])), &json!({ "readAt": null })).status, 404 | 405));
    assert_eq!(mio.delete(notification_path(&read_path(&all[0]))).status, 204);
    mio.send("POST", &read_path(&all[0]), None).expect_problem(404, "not_found");
}

/// Proves the part of K15 about reading many.
#[test]
fn many_notifications_are_marked_once() {
    concurrent_marking_counts_each_notification_once(&kondate_server());
}

pub(crate) fn concurrent_marking_counts_each_notification_once(server: &TestServer) {
    let mio = server.client_of_user("u_spam", "u_spam");
    let all: Vec<_> = (0..200).map(|n| notify(server, "u_spam", &n.to_string())).collect();
    let counts = run_concurrently(4, |n| match n {
        0 => {
            all.iter().step_by(20).for_each(|each| drop(mio.send("POST", &read_path(each), None).expect_data(200)));
            0
        }
        _ => mio.send("POST", "/v1/notifications/read", None).expect_data(200)["read"].as_u64().expect("a count"),
    });
    // One that was already read is not counted.
    let counted: u64 = counts.iter().sum();
    assert!((190..=200).contains(&counted), "{counts:?}");
    assert_eq!(mio.get("/v1/notifications-unread-count").expect_data(200)["count"], 0);
    // No notification is marked twice.
    let all = mio.get("/v1/notifications?limit=1000").list();
    assert!(all.len() == 200 && all.iter().all(|each| each["readAt"].is_string()));
}

fn read_path(notification: &Json) -> String {
    format!("/v1/notifications/{}/{}/read", text(notification, "createdAt"), text(notification, "notificationId"))
}

/// The path of a notification, from the path that marks it as read.
fn notification_path(read: &str) -> &str {
    read.trim_end_matches("/read")
}

/// Creates a notification, as the system does.
#[track_caller]
fn notify(server: &TestServer, user: &str, title: &str) -> Json {
    server.clock.advance(Duration::from_secs(1));
    let Json::Object(fields) = json!({ "kind": "news", "title": title }) else { panic!("no fields") };
    let tenant = server.nagaya.tenant_owned(Principal::new(user, user)).expect("a user");
    let made = server.block_on(tenant.create("notification", fields)).expect("a notification");
    Json::Object(made.to_json())
}
