//! Mailboxes, their subscribers, and push subscriptions.

use serde_json::{Value, json};

use super::each;
use nagaya_testing::TestServer;

use crate::{
    harness::{Clients as _, WaitForLists as _},
    samples::account,
};

pub(super) fn run(server: &TestServer) {
    let member = server.user_with("t1", "u1", &["member"]);

    // A mailbox is connected once; its tokens can be written but not read.
    let made = member.post("/email-accounts", &account("m1", "aoi@example.com")).expect_data(201);
    assert_eq!(made["syncStatus"], "idle");
    assert_eq!(
        member.post("/email-accounts", &account("m2", "aoi@example.com")).expect_problem(409, "taken"),
        ["/email", "/provider"]
    );
    member.post("/email-accounts", &account("m2", "aoi2@example.com")).expect_data(201);
    // Found by address and provider, listed by user.
    let found = member.get("/email-account-by-address?email=aoi@example.com&provider=gmail").expect_data(200);
    assert_eq!(found["accountId"], "m1");
    member.get("/email-account-by-address?email=aoi@example.com&provider=outlook").expect_problem(404, "not_found");
    member.get("/email-account-by-address?email=aoi@example.com").expect_problem(400, "bad_parameter");
    assert_eq!(each(&member.wait_for_list("/email-accounts-of-user?userId=u1", 2), "accountId"), ["m1", "m2"]);
    assert_eq!(each(&member.get("/email-accounts").list(), "accountId"), ["m1", "m2"]);
    // Tokens and the synchronisation state can be updated.
    let synced = json!({
        "accessToken": "access-secret-2",
        "tokenExpiresAt": "2030-01-01T12:00:00Z",
        "syncStatus": "syncing",
        "syncCursor": "history-17",
        "lastSyncedAt": "2030-01-01T11:00:00Z",
    });
    let changed = member.patch("/email-accounts/m1", &synced).expect_data(200);
    assert_eq!((&changed["syncStatus"], &changed["syncCursor"]), (&json!("syncing"), &json!("history-17")));
    for path in ["/email-accounts/m1", "/email-accounts", "/email-accounts-of-user?userId=u1"] {
        let body = member.get(path).body.to_string();
        assert!(!body.contains("secret"), "{body}");
    }

    // A mailbox belongs to its user: for other members it does not exist. Admins see all.
    let other = server.user_with("t1", "u2", &["member"]);
    assert_eq!(
        other
            .post("/email-accounts", &json!({ "userId": "u1", "email": "x@example.com", "provider": "gmail" }))
            .expect_problem(422, "invalid"),
        ["/userId"]
    );
    other.get("/email-accounts/m1").expect_problem(404, "not_found");
    other.get("/email-account-by-address?email=aoi@example.com&provider=gmail").expect_problem(404, "not_found");
    other.patch("/email-accounts/m1", &json!({ "syncStatus": "idle" })).expect_problem(404, "not_found");
    other.delete("/email-accounts/m1").expect_problem(404, "not_found");
    for path in ["/email-accounts", "/email-accounts-of-user?userId=u1"] {
        assert_eq!(other.get(path).list(), [] as [Value; 0], "{path}");
        assert_eq!(each(&server.admin("t1").get(path).list(), "accountId"), ["m1", "m2"], "{path}");
    }
    // Addresses have no case.
    let found = member.get("/email-account-by-address?email=Aoi@Example.com&provider=gmail").expect_data(200);
    assert_eq!((&found["accountId"], &found["email"]), (&json!("m1"), &json!("aoi@example.com")));
    member.post("/email-accounts", &account("m3", "AOI@example.com")).expect_problem(409, "taken");

    // Email subscriptions: which user follows which mailbox.
    for id in ["m1", "m2"] {
        member.post("/user-email-subscriptions", &json!({ "accountId": id })).expect_data(201);
    }
    member.patch("/user-email-subscriptions/u1/m2", &json!({ "notify": false })).expect_data(200);
    let watched = member.wait_for_list("/email-subscriptions-of-user?userId=u1", 2);
    assert_eq!(each(&watched, "accountId"), ["m1", "m2"]);
    assert_eq!(each(&member.get("/email-subscriptions-of-account?accountId=m1").list(), "userId"), ["u1"]);
    // They belong to their user.
    belongs_to_its_user(server, "/user-email-subscriptions/u1/m1", &json!({ "notify": false }));
    for path in ["/user-email-subscriptions", "/email-subscriptions-of-account?accountId=m1"] {
        assert_eq!(other.get(path).list(), [] as [Value; 0], "{path}");
    }
    // Deleting a mailbox deletes its subscriptions.
    member.delete("/email-accounts/m2").expect_data(204);
    member.wait_for_list("/email-subscriptions-of-user?userId=u1", 1);
    member.get("/user-email-subscriptions/u1/m2").expect_problem(404, "not_found");

    // Push subscriptions: the browsers and devices of a user.
    for id in ["p1", "p2"] {
        let push = json!({
            "subscriptionId": id,
            "endpoint": format!("https://push.example.com/{id}"),
            "p256dh": "public",
            "auth": "secret",
        });
        let made = member.post("/push-subscriptions", &push).expect_data(201);
        assert_eq!(made.get("auth"), None);
    }
    let devices = member.wait_for_list("/push-subscriptions-of-user?userId=u1", 2);
    assert_eq!(each(&devices, "subscriptionId"), ["p1", "p2"]);
    // They belong to their owner.
    belongs_to_its_user(server, "/push-subscriptions/p1", &json!({ "userAgent": "a browser" }));
    for path in ["/push-subscriptions", "/push-subscriptions-of-user?userId=u1"] {
        assert_eq!(other.get(path).list(), [] as [Value; 0], "{path}");
    }
    member.delete("/push-subscriptions/p1").expect_data(204);
    member.wait_for_list("/push-subscriptions-of-user?userId=u1", 1);
}

/// For another member of the tenant an item of `u1` does not exist.
fn belongs_to_its_user(server: &TestServer, path: &str, patch: &Value) {
    let (owner, colleague) = (server.user_with("t1", "u1", &["member"]), server.user_with("t1", "u2", &["member"]));
    let before = owner.get(path).expect_data(200);
    colleague.get(path).expect_problem(404, "not_found");
    colleague.patch(path, patch).expect_problem(404, "not_found");
    colleague.delete(path).expect_problem(404, "not_found");
    assert_eq!(owner.get(path).expect_data(200), before, "{path}");
}
