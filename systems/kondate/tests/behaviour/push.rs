//! Devices that receive push messages.

use std::time::Duration;

use nagaya_testing::{TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::{create_items, instrumented_server, kondate_server, run_concurrently};

/// Proves the part of K15 about push tokens.
#[test]
fn devices_are_identified_by_a_hash() {
    registration_stores_a_hash_and_never_returns_the_token(&kondate_server());
}

pub(crate) fn registration_stores_a_hash_and_never_returns_the_token(server: &TestServer) {
    let mio = server.client_of_user("u_push", "u_push");
    let register = |body: &Json| mio.post("/v1/push-tokens", body);
    let body = json!({ "platform": "ios", "token": "abc", "deviceName": "電話" });
    let made = register(&body);
    // SHA-256 of `abc`, from FIPS 180-2.
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let path = format!("/v1/push-tokens/ios/{hash}");
    assert_eq!(made.header("location"), Some(path.as_str()));
    let made = made.expect_data(201);
    assert_eq!((text(&made, "tokenHash"), text(&made, "platform"), text(&made, "deviceName")), (hash, "ios", "電話"));
    assert_eq!(made.get("token"), None);

    // Registering again updates the same device.
    server.clock.advance(Duration::from_secs(2));
    let again = register(&json!({ "platform": "ios", "token": "abc" })).expect_data(200);
    assert_eq!((text(&again, "createdAt"), text(&again, "deviceName")), (text(&made, "createdAt"), "電話"));
    assert!(text(&again, "updatedAt") > text(&made, "updatedAt"));
    let renamed = json!({ "platform": "ios", "token": "abc", "deviceName": "板" });
    assert_eq!(text(&register(&renamed).expect_data(200), "deviceName"), "板");
    // The same token on another platform or of another user is a different device.
    register(&json!({ "platform": "web", "token": "abc" })).expect_data(201);
    let yui = server.client_of_user("u_pus", "u_pus");
    yui.post("/v1/push-tokens", &body).expect_data(201);
    let listed = mio.get("/v1/push-tokens");
    assert_eq!(listed.list().len(), 2);
    assert!(!listed.body.to_string().contains("\"abc\""));
    assert!(!mio.get(&path).body.to_string().contains("\"abc\""));

    for (body, at) in [
        (json!({}), vec!["/platform", "/token"]),
        (json!({ "platform": "ios", "token": "" }), vec!["/token"]),
        (json!({ "platform": "ios", "token": "x".repeat(4_097) }), vec!["/token"]),
        (json!({ "platform": "tv", "token": "abc" }), vec!["/platform"]),
        (json!({ "platform": "ios", "token": "abc", "tokenHash": hash }), vec!["/tokenHash"]),
        (json!({ "platform": "ios", "token": "abc", "userId": "u_pus" }), vec!["/userId"]),
    ] {
        assert_eq!(register(&body).expect_problem(422, "invalid"), at, "{body}");
    }

    assert_eq!(mio.delete(&path).status, 204);
    mio.delete(&path).expect_problem(404, "not_found");
    yui.get(&path).expect_data(200);
    assert!(matches!(yui.patch(&path, &json!({ "deviceName": "x" })).status, 404 | 405));
    register(&body).expect_data(201);
}

/// Proves the part of K15 about push tokens.
#[test]
fn the_oldest_device_is_replaced() {
    the_least_recently_registered_device_is_removed(&kondate_server());
}

pub(crate) fn the_least_recently_registered_device_is_removed(server: &TestServer) {
    let mio = server.client_of_user("u_many", "u_many");
    let register = |n: usize| {
        server.clock.advance(Duration::from_secs(1));
        let name = n.to_string();
        mio.post("/v1/push-tokens", &json!({ "platform": "android", "token": format!("t{n}"), "deviceName": name }))
    };
    let names = || -> Vec<usize> {
        let listed = mio.get("/v1/push-tokens?limit=100").list();
        let mut names: Vec<_> = listed.iter().map(|each| text(each, "deviceName").parse().expect("a number")).collect();
        names.sort();
        names
    };
    (0..20).for_each(|n| drop(register(n).expect_data(201)));
    // The first device registers again; now the second one is the oldest.
    register(0).expect_data(200);
    assert_eq!(names(), (0..20).collect::<Vec<_>>());
    register(20).expect_data(201);
    register(21).expect_data(201);
    assert_eq!(names(), [vec![0], (3..22).collect()].concat());

    // Concurrent registrations of one device give one device.
    let answers = run_concurrently(6, |_| register(22).status);
    assert_eq!(answers.iter().filter(|status| **status == 201).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|status| matches!(status, 200 | 201)));
    // Concurrent registrations of different devices replace one device each.
    let answers = run_concurrently(6, |n| register(30 + n).status);
    assert_eq!(answers, [201; 6]);
    assert_eq!(names().len(), 20);
}

/// Nobody registers so many devices, but they can be there from before.
#[test]
fn further_devices_than_allowed_are_removed_with_each_registration() {
    let (server, store) = instrumented_server();
    let mio = server.client_of_user("u_lot", "u_lot");
    let device = |n: usize| json!({ "platform": "web", "token": format!("t{n}"), "tokenHash": format!("{n:064x}") });
    create_items(&server, "u_lot", "push_token", &(0..150).map(device).collect::<Vec<_>>());
    let count = || mio.get("/v1/push-tokens?limit=1000").list().len();
    let left = [150, 151 - 71, 20, 20].map(|left| {
        assert_eq!(count(), left);
        store.take_queries();
        mio.post("/v1/push-tokens", &json!({ "platform": "ios", "token": format!("new {left}") })).status
    });
    assert_eq!(left, [201, 201, 201, 200]);
}
