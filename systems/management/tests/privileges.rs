//! The management design over HTTP: nobody grants themselves anything, and what belongs to a person stays theirs.

use nagaya_design::check;
use nagaya_server::System;
use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

const TENANT: &str = "tenant_acme";

fn management() -> TestServer {
    let source = include_str!("../design/management.toml");
    let design = check(source, &[]).design.expect("the design is sound");
    let server = TestServer::in_memory(System::named("management", design));
    let admin = admin(&server);
    admin.post("/v1/tenants", &json!({ "name": "acme", "displayName": "Acme" })).expect_data(201);
    server
}

fn admin(server: &TestServer) -> Client<'_> {
    server.user_with(TENANT, "boss", &["admin"])
}

fn user<'s>(server: &'s TestServer, name: &str) -> Client<'s> {
    server.user_with(TENANT, name, &["user"])
}

/// Proves the part of C10 that a read position belongs to its reader.
#[test]
fn members_of_a_channel_move_only_their_own_read_position() {
    let server = management();
    let (admin, hana, ren) = (admin(&server), user(&server, "hana"), user(&server, "ren"));
    let channel = admin.post("/v1/channels", &json!({ "name": "general", "displayName": "General" })).expect_data(201);
    let add = |name: &str| {
        let member = json!({ "channelId": channel["id"], "userId": name });
        let added = admin.post("/v1/channel-members", &member).expect_data(201);
        assert_eq!((&added["userId"], &added["role"]), (&json!(name), &json!("member")));
        format!("/v1/channel-members/{}", text(&added, "id"))
    };
    let (hanas, rens) = (add("hana"), add("ren"));

    let read = json!({ "lastReadAt": "2026-01-20T15:30:00Z" });
    assert_eq!(hana.patch(&hanas, &read).expect_data(200)["lastReadAt"], read["lastReadAt"]);
    ren.patch(&hanas, &read).expect_problem(404, "not_found");
    hana.patch(&rens, &json!({ "lastReadAt": null })).expect_problem(404, "not_found");
    // Nobody becomes somebody else, or more than a member.
    for (field, value) in [("userId", "ren"), ("role", "owner"), ("channelId", "channel_other")] {
        let mut patch = json!({});
        patch[field] = json!(value);
        for client in [&hana, &admin] {
            assert_eq!(client.patch(&hanas, &patch).expect_problem(422, "invalid"), [format!("/{field}")]);
        }
    }
    // Users neither add nor remove members.
    let member = json!({ "channelId": channel["id"], "userId": "eve" });
    ren.post("/v1/channel-members", &member).expect_problem(403, "forbidden");
    hana.delete(&hanas).expect_problem(403, "forbidden");
    assert_eq!(admin.delete(&rens).status, 204);
}

/// Proves the part of C5, C7, C8 and C11 that no body decides what only the system decides.
#[test]
fn nobody_writes_what_the_system_decides() {
    let server = management();
    let (admin, hana) = (admin(&server), user(&server, "hana"));
    let refused = |client: &Client<'_>, method: &str, path: &str, body: &Json, field: &str, value: &Json| {
        let mut body = body.clone();
        body[field] = value.clone();
        let answer = client.send(method, path, Some(&body));
        assert_eq!(answer.expect_problem(422, "invalid"), [format!("/{field}")], "{method} {path}");
    };
    let at = json!("2026-01-01T00:00:00Z");
    let created = |path: &str, body: &Json| text(&admin.post(path, body).expect_data(201), "id").to_owned();

    // The tenant and its domains.
    for (field, value) in [
        ("isPrivileged", json!(true)),
        ("plan", json!("privileged")),
        ("status", json!("suspended")),
        ("maxUsers", json!(10_000)),
        ("userCount", json!(0)),
        ("deletedAt", at.clone()),
        ("deletedBy", json!("ren")),
        ("createdBy", json!("ren")),
    ] {
        refused(&admin, "PATCH", "/v1/tenants", &json!({}), field, &value);
    }
    let domain = json!({ "domain": "acme.example" });
    let path = format!("/v1/domains/{}", created("/v1/domains", &domain));
    for (field, value) in
        [("verified", json!(true)), ("verifiedAt", at.clone()), ("verificationToken", json!("token_1"))]
    {
        refused(&admin, "POST", "/v1/domains", &json!({ "domain": "b.example" }), field, &value);
        refused(&admin, "PATCH", &path, &json!({}), field, &value);
    }

    // Messages: sent by oneself, under one's own name.
    let channel = json!({ "name": "general", "displayName": "General" });
    refused(&admin, "POST", "/v1/channels", &channel, "memberCount", &json!(9));
    let channel = created("/v1/channels", &channel);
    let message = json!({ "channelId": channel, "content": "hello" });
    for (field, value) in [
        ("senderId", json!("boss")),
        ("senderName", json!("The boss")),
        ("sentAt", at.clone()),
        ("reactions", json!({ "👍": ["boss"] })),
    ] {
        refused(&hana, "POST", "/v1/messages", &message, field, &value);
    }
    assert_eq!(hana.post("/v1/messages", &message).expect_data(201)["senderId"], "hana");

    // Keys and backups: what was used, and what runs next.
    let key = json!({ "name": "key", "keyHash": format!("sha256:{}", "0".repeat(64)) });
    refused(&admin, "POST", "/v1/api-keys", &key, "lastUsedAt", &at);
    refused(&admin, "POST", "/v1/api-keys", &key, "createdBy", &json!("ren"));
    let job = json!({ "name": "nightly", "schedule": "0 3 * * *" });
    for field in ["lastRunAt", "nextRunAt"] {
        refused(&admin, "POST", "/v1/backup-jobs", &job, field, &at);
    }
    created("/v1/api-keys", &key);
    created("/v1/backup-jobs", &job);
}

/// Proves the part of C8, C11, C12 and C20 that bills, limits, restores and audits follow from what the system recorded.
#[test]
fn what_the_system_records_is_read_only() {
    let server = management();
    let admin = admin(&server);
    for path in [
        "/v1/service-assignments",
        "/v1/service-usages",
        "/v1/api-usages",
        "/v1/api-usage-aggregates",
        "/v1/backup-histories",
        "/v1/audit-logs",
    ] {
        let item = format!("{path}/x_1");
        for method in ["PATCH", "DELETE"] {
            admin.send(method, &item, Some(&json!({}))).expect_problem(405, "no_such_method");
        }
        // Where the collection is not listed, there is no route at all.
        let made = admin.post(path, &json!({}));
        assert!(matches!(made.status, 404 | 405), "{path}: {:#}", made.body);
    }
    // Services and role definitions are the operators'.
    let service = json!({ "id": "x", "name": "X", "version": "1.0.0", "baseUrl": "https://x.example" });
    admin.post("/v1/services", &service).expect_problem(403, "forbidden");
    let role = json!({ "id": "service_role_x_admin", "serviceId": "x", "roleName": "admin" });
    admin.post("/v1/service-role-definitions", &role).expect_problem(403, "forbidden");
}
