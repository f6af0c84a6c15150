//! Routes and fields that a design leaves to the extension of the system.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use nagaya_server::{Answer, Call, CustomRoute, Extension, System, routes};
use serde_json::{Value as Json, json};

use nagaya_testing::{TestServer, parse_design};

const WALLET: &str = r#"
name    = "wallet"
version = "1.0"

[tenant]
field = "userId"

[table.main]
key = ["PK", "SK"]

[entity.card]
table   = "main"
key     = { PK = "USER#{userId}", SK = "CARD#{cardId}" }
version = "version"
routes  = ["update", "read"]

[entity.card.fields]
userId   = { type = "string", min = 1, max = 64 }
cardId   = { type = "string", min = 1, max = 64 }
provider = { type = "string", max = 50, readonly = true }
last4    = { type = "string", max = 4, optional = true, readonly = true }
label    = { type = "string", max = 50, optional = true }

[entity.note]
table   = "main"
key     = { PK = "USER#{userId}", SK = "NOTE#{noteId}" }
version = "version"

[entity.note.fields]
userId = { type = "string", min = 1, max = 64 }
noteId = { type = "string", min = 1, max = 64 }
views  = { type = "integer", min = 0, default = 0, readonly = true }
seenBy = { type = "string", max = 64, optional = true, readonly = true }
pinned = { type = "boolean", default = false }
pinAt  = { type = "timestamp", optional = true, since = "pinned = true" }

[entity.receipt]
table  = "main"
key    = { PK = "USER#{userId}", SK = "RECEIPT#{receiptId}" }
routes = []

[entity.receipt.fields]
userId    = { type = "string", min = 1, max = 64 }
receiptId = { type = "ulid", default = "new" }

[access.cards]
entity = "card"

[access.receipts]
entity = "receipt"
"#;

/// Creates cards, which callers cannot.
struct Provider;

impl Extension for Provider {
    fn routes(&self) -> Vec<CustomRoute> {
        let card = json!({ "cardId": "c1", "provider": "bank", "last4": "4242" });
        vec![CustomRoute::new(Method::POST, "/cards/register", "Make a card.", move |call: Arc<Call>| {
            let card = card.as_object().cloned().unwrap_or_default();
            async move {
                let mut answer = Answer::record(call.tenant()?.create("card", card).await?);
                answer.status = StatusCode::CREATED;
                Ok(answer)
            }
        })]
    }
}

fn wallet() -> TestServer {
    TestServer::in_memory(System::new("wallet", parse_design(WALLET), Provider))
}

/// The errors of a problem: pointer and detail.
fn field_errors(body: &Json) -> Vec<(&str, &str)> {
    let errors = body["errors"].as_array().expect("a list").iter();
    errors
        .map(|each| (each["pointer"].as_str().expect("a pointer"), each["detail"].as_str().expect("a text")))
        .collect()
}

#[test]
fn an_entity_has_the_routes_that_it_names_and_those_of_its_access_patterns() {
    let found: Vec<_> =
        routes(&parse_design(WALLET)).iter().map(|route| format!("{} {}", route.method, route.path)).collect();
    let expected = [
        "GET /cards/{cardId}",
        "PATCH /cards/{cardId}",
        "GET /notes/{noteId}",
        "POST /notes",
        "PATCH /notes/{noteId}",
        "DELETE /notes/{noteId}",
        "GET /cards",
        "GET /receipts",
        "GET /operator-log",
    ];
    assert_eq!(found, expected);

    let server = wallet();
    let u1 = server.user_with("u1", "u1", &["user"]);
    u1.post("/cards/register", &json!({})).expect_data(201);
    let other = u1.post("/cards", &json!({ "cardId": "c2" }));
    other.expect_problem(405, "no_such_method");
    assert_eq!(other.header("allow"), Some("GET,HEAD"));
    let other = u1.delete("/cards/c1");
    other.expect_problem(405, "no_such_method");
    assert_eq!(other.header("allow"), Some("GET,HEAD,PATCH"));
    u1.post("/receipts", &json!({})).expect_problem(405, "no_such_method");
    u1.get("/receipts/r1").expect_problem(404, "not_found");
    assert_eq!(u1.get("/cards").expect_data(200)[0]["cardId"], "c1");
}

#[test]
fn callers_cannot_set_read_only_fields() {
    let server = wallet();
    let u1 = server.user_with("u1", "u1", &["user"]);
    // The extension can.
    assert_eq!(u1.post("/cards/register", &json!({})).expect_data(201)["provider"], "bank");
    assert_eq!(u1.patch("/cards/c1", &json!({ "label": "Mine" })).expect_data(200)["last4"], "4242");

    let detail = "Is set by the system; leave it out.";
    let refused = u1.patch("/cards/c1", &json!({ "label": "x", "provider": "me", "last4": null }));
    refused.expect_problem(422, "invalid");
    assert_eq!(field_errors(&refused.body), [("/provider", detail), ("/last4", detail)]);
    assert_eq!(u1.get("/cards/c1").expect_data(200)["label"], "Mine", "nothing of it is written");

    let refused = u1.post("/notes", &json!({ "noteId": "n1", "views": 7, "seenBy": "me" }));
    refused.expect_problem(422, "invalid");
    assert_eq!(field_errors(&refused.body), [("/views", detail), ("/seenBy", detail)]);
    assert_eq!(u1.post("/notes", &json!({ "noteId": "n1" })).expect_data(201)["views"], 0);
}

#[test]
fn callers_cannot_set_fields_that_a_condition_sets() {
    let server = wallet();
    let u1 = server.user_with("u1", "u1", &["user"]);
    let detail = "Follows from `pinned = true`; leave it out.";
    let refused = u1.post("/notes", &json!({ "noteId": "n1", "pinned": true, "pinAt": "2020-01-01T00:00:00Z" }));
    refused.expect_problem(422, "invalid");
    assert_eq!(field_errors(&refused.body), [("/pinAt", detail)]);
    let pinned = u1.post("/notes", &json!({ "noteId": "n1", "pinned": true })).expect_data(201)["pinAt"].clone();
    assert!(pinned.is_string(), "{pinned}");
    let refused = u1.patch("/notes/n1", &json!({ "pinAt": pinned }));
    assert_eq!(field_errors(&refused.body), [("/pinAt", detail)]);
    assert_eq!(u1.patch("/notes/n1", &json!({ "pinned": false })).expect_data(200).get("pinAt"), None);
}
