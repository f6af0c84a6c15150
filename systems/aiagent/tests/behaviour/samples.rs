//! One item of each entity of a tenant, for tests that cover all entities.

use serde_json::{Value as Json, json};

/// A sample item of an entity.
pub(crate) struct Sample {
    pub(crate) entity: &'static str,
    /// The body that creates it.
    pub(crate) new: Json,
    /// The body that changes it.
    pub(crate) patch: Json,
}

/// Samples of all entities, in an order in which references resolve. The user `u1` creates them: some belong to their user.
pub(crate) fn samples() -> Vec<Sample> {
    let sample = |entity, new, patch| Sample { entity, new, patch };
    let when = "2030-01-01T00:00:00Z";
    let uuid = "0190a6e4-6b1c-7c3a-8f00-0123456789ab";
    vec![
        sample("tenant", json!({ "name": "Acme" }), json!({ "name": "Acme Ltd" })),
        sample("user", user("u1"), json!({ "name": "Aoi B." })),
        sample("permission_policy", json!({ "roles": {} }), json!({ "roles": {} })),
        sample("user_preferences", json!({}), json!({ "preferences": { "theme": "dark" } })),
        sample("agent", json!({ "agentId": "a1", "name": "Triage" }), json!({ "enabled": false })),
        sample(
            "execution",
            json!({ "executionId": "e1", "agentId": "a1", "inputSummary": "A mail", "traceId": "trace-1" }),
            json!({ "status": "running" }),
        ),
        sample(
            "session",
            json!({ "sessionId": "s1", "userId": "u1", "tokenHash": "h", "expiresAt": 2_000_000_000 }),
            json!({ "userAgent": "curl" }),
        ),
        sample(
            "token",
            json!({
                "tokenId": "k1",
                "purpose": "invitation",
                "tokenHash": "h",
                "userId": "u1",
                "expiresAt": 2_000_000_000,
            }),
            json!({ "purpose": "password_reset" }),
        ),
        sample("email_account", account("m1", "aoi@example.com"), json!({ "syncStatus": "syncing" })),
        sample("task", json!({ "taskId": "k1", "userId": "u1", "title": "Answer" }), json!({ "priority": "high" })),
        sample("email_message", message("x1", "2030-01-01T08:00:00Z"), json!({ "isRead": true })),
        sample("user_email_subscription", json!({ "accountId": "m1" }), json!({ "notify": false })),
        sample(
            "push_subscription",
            json!({
                "subscriptionId": "p1",
                "endpoint": "https://push.example.com/1",
                "p256dh": "key",
                "auth": "secret",
            }),
            json!({ "userAgent": "Firefox" }),
        ),
        sample("announcement_board", json!({ "markdown": "# Hello" }), json!({ "markdown": "# Hello again" })),
        sample(
            "log",
            json!({ "timestamp": when, "uuid": uuid, "message": "It runs", "traceId": "trace-1" }),
            json!({}),
        ),
        sample(
            "archived_audit",
            json!({
                "timestamp": when,
                "uuid": uuid,
                "action": "user.create",
                "resource": "u1",
                "actorUserId": "u1",
                "traceId": "trace-1",
            }),
            json!({}),
        ),
    ]
}

pub(crate) fn user(id: &str) -> Json {
    json!({ "userId": id, "email": format!("{id}@example.com"), "name": "Aoi" })
}

pub(crate) fn account(id: &str, email: &str) -> Json {
    json!({
        "accountId": id,
        "email": email,
        "provider": "gmail",
        "accessToken": "access-secret",
        "refreshToken": "refresh-secret",
    })
}

pub(crate) fn message(id: &str, received: &str) -> Json {
    json!({
        "messageId": id,
        "accountId": "m1",
        "externalId": format!("ext-{id}"),
        "taskId": "k1",
        "subject": "A question",
        "from": "ren@example.com",
        "receivedAt": received,
    })
}
