//! Membership: a person is in a tenant from when they accept its invitation.

use nagaya_store::{Item, Write};
use nagaya_testing::{ManualClock, TestServer};
use serde_json::{Value as Json, json};

use crate::{
    harness::{Clients as _, SECRET, in_memory, invitation, invite},
    samples::user,
};

const NOTHING: [Json; 0] = [];

/// The tenants that a person and the operators see the person in.
fn memberships(server: &TestServer, user: &str) -> (Vec<Json>, Vec<Json>) {
    let of = |list: Vec<Json>| list.into_iter().map(|each| each["tenantId"].clone()).collect();
    let by_operator = server.client_of_operator("op-1").get(&format!("/tenants-of-user?userId={user}"));
    (of(server.user_without_tenant(user).get("/me/tenants").list()), of(by_operator.list()))
}

/// Proves A5.
#[test]
fn a_person_is_in_a_tenant_from_when_they_accept() {
    for design in ["single", "multi"] {
        let server = in_memory(design);
        let admin = server.admin("t1");
        // An admin can name anybody, and learns nothing about them.
        assert_eq!(admin.post("/users", &user("stranger")).expect_data(201)["status"], "invited");
        assert_eq!(memberships(&server, "stranger"), (vec![], vec![]));
        // Only acceptance makes it a membership.
        let mut forged = user("other");
        forged["status"] = json!("active");
        assert_eq!(admin.post("/users", &forged).expect_problem(422, "invalid"), ["/status"]);
        let active = json!({ "status": "active" });
        assert_eq!(admin.patch("/users/stranger", &active).expect_problem(422, "invalid"), ["/status"]);
        admin.patch("/users/stranger", &json!({ "role": "admin" })).expect_data(200);
        assert_eq!(memberships(&server, "stranger"), (vec![], vec![]));

        let accepted = invite(&server, "t1", "stranger");
        assert_eq!((&accepted["tenantId"], &accepted["status"]), (&json!("t1"), &json!("active")));
        assert_eq!(memberships(&server, "stranger"), (vec![json!("t1")], vec![json!("t1")]));
        // It is used up, and the tenant's audit says who accepted.
        let again = json!({ "tenantId": "t1", "secret": SECRET });
        let stranger = server.user_without_tenant("stranger");
        stranger.post("/invitations/invitation-t1-stranger/accept", &again).expect_problem(404, "not_found");
        let entries = admin.get("/audits").list();
        let accepted = entries.iter().find(|entry| entry["action"] == "user.update").expect("an entry");
        assert_eq!((&accepted["actorUserId"], &accepted["resource"]), (&json!("stranger"), &json!("stranger")));

        // A user who is removed and named again is only invited.
        admin.delete("/users/stranger").expect_data(204);
        admin.post("/users", &user("stranger")).expect_data(201);
        assert_eq!(memberships(&server, "stranger"), (vec![], vec![]));
    }
}

/// Proves A5.
#[test]
fn an_invitation_is_accepted_by_its_person_with_its_secret_only() {
    let server = in_memory("single");
    let admin = server.admin("t1");
    for id in ["u1", "u2"] {
        admin.post("/users", &user(id)).expect_data(201);
    }
    admin.post("/tokens", &invitation("k1", "u1")).expect_data(201);
    let mut reset = invitation("k2", "u1");
    reset["purpose"] = json!("password_reset");
    admin.post("/tokens", &reset).expect_data(201);
    let mut expired = invitation("k3", "u1");
    expired["expiresAt"] = json!(ManualClock::START / 1_000 + 60);
    admin.post("/tokens", &expired).expect_data(201);
    server.clock.advance(std::time::Duration::from_secs(120));

    // Nothing tells a wrong tenant, user, id or secret from another.
    let answer = |user: &str, id: &str, tenant: &str, secret: &str| {
        let body = json!({ "tenantId": tenant, "secret": secret });
        let answer = server.user_without_tenant(user).post(&format!("/invitations/{id}/accept"), &body);
        answer.expect_problem(404, "not_found");
        answer.body["detail"].clone()
    };
    let answers = [
        answer("u1", "k1", "t1", "another"),
        answer("u1", "k1", "t2", SECRET),
        answer("u1", "k9", "t1", SECRET),
        answer("u1", "k2", "t1", SECRET),
        answer("u1", "k3", "t1", SECRET),
        answer("u2", "k1", "t1", SECRET),
        answer("nobody", "k1", "t1", SECRET),
    ];
    assert!(answers.iter().all(|each| *each == answers[0]), "{answers:?}");
    // What cannot be a tenant's id is refused with and without an invitation.
    for id in ["k1", "k9"] {
        let body = json!({ "tenantId": "system", "secret": SECRET });
        let refused = server.user_without_tenant("u1").post(&format!("/invitations/{id}/accept"), &body);
        assert_eq!(refused.expect_problem(422, "invalid"), ["/tenantId"]);
    }
    assert_eq!(memberships(&server, "u1"), (vec![], vec![]));
    assert_eq!(admin.get("/users/u1").expect_data(200)["status"], "invited");

    // The token of the person may name another tenant.
    let body = json!({ "tenantId": "t1", "secret": SECRET });
    server.user_with("t7", "u1", &["viewer"]).post("/invitations/k1/accept", &body).expect_data(200);
    assert_eq!(memberships(&server, "u1").0, [json!("t1")]);
    assert_eq!(server.user_without_tenant("u2").get("/me/tenants").list(), NOTHING);
}

/// Users from before `status` are members; a change does not take that from them.
#[test]
fn users_without_a_status_are_members() {
    let server = in_memory("single");
    let item = Item::new().with("PK", "TENANT#t1").with("SK", "USER#old").with("tenantId", "t1").with("userId", "old");
    let item = item.with("GSI1PK", "USER").with("GSI1SK", "2020-01-01T00:00:00Z").with("GSI2PK", "USER#old");
    let item = item.with("GSI2SK", "TENANT#t1").with("email", "old@example.com").with("role", "member");
    let item = item.with("name", "Old").with("createdAt", "2020-01-01T00:00:00Z").with("version", 1);
    server.block_on(server.store.write(Write::put("aiagent-dev-app", item).into())).expect("it is written");
    assert_eq!(memberships(&server, "old").0, [json!("t1")]);
    server.admin("t1").patch("/users/old", &json!({ "name": "Older" })).expect_data(200);
    assert_eq!(memberships(&server, "old").0, [json!("t1")]);
}

#[test]
fn an_invitation_of_a_disabled_tenant_is_accepted_when_the_tenant_is_enabled_again() {
    let server = in_memory("single");
    let (admin, operator) = (server.admin("t1"), server.client_of_operator("op-1"));
    admin.post("/tenants", &json!({ "name": "One" })).expect_data(201);
    admin.post("/users", &user("u1")).expect_data(201);
    admin.post("/tokens", &invitation("k1", "u1")).expect_data(201);
    let accept = || {
        let body = json!({ "tenantId": "t1", "secret": SECRET });
        server.user_without_tenant("u1").post("/invitations/k1/accept", &body)
    };
    operator.patch("/all-tenants/t1", &json!({ "enabled": false })).expect_data(200);
    accept().expect_problem(404, "not_found");
    assert_eq!(memberships(&server, "u1"), (vec![], vec![]));
    operator.patch("/all-tenants/t1", &json!({ "enabled": true })).expect_data(200);
    accept().expect_data(200);
}
