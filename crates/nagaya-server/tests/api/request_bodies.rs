//! Request bodies of custom routes, whose values the design checks.

use std::sync::Arc;

use axum::http::Method;
use nagaya_server::{Answer, Call, CustomRoute, Extension, RequestBody as _, System, request_body};
use nagaya_testing::{Client, TestServer, parse_design};
use serde_json::{Value as Json, json};

use crate::desk::DESK;

request_body! {
    /// Tickets that come from elsewhere.
    struct Import of "ticket" {
        tenant: Option<String> = "tenantId",
        subject: String = "subject",
        team: Option<String> = "team" as "teamId",
        states: Vec<String> = "states" as "status" max 2,
    }
}

request_body! {
    /// The tenant that gets them, and the team, which a ticket need not have.
    struct Move of "ticket" {
        tenant: String = "tenantId",
        team: String = "team" as "teamId",
    }
}

request_body! {
    /// A memo in somebody's name.
    struct Dictation of "memo" {
        author: String = "author" as "createdBy",
    }
}

struct Imports;

impl Extension for Imports {
    fn routes(&self) -> Vec<CustomRoute> {
        let import = CustomRoute::new(Method::POST, "/import", "Import.", async |call: Arc<Call>| {
            Ok(Answer::data(call.parse_body::<Import>()?.fields().into()))
        });
        let transfer = CustomRoute::new(Method::POST, "/move", "Move.", async |call: Arc<Call>| {
            Ok(Answer::data(call.parse_body::<Move>()?.fields().into()))
        });
        vec![import.body(json!({})), transfer.body(json!({}))]
    }
}

/// Pointers and messages of a refused body.
fn errors(client: &Client<'_>, path: &str, body: &Json) -> Vec<(String, String)> {
    let refused = client.post(path, body);
    refused.expect_problem(422, "invalid");
    let text = |error: &Json, name: &str| error[name].as_str().expect("a text").to_owned();
    let errors = refused.body["errors"].as_array().expect("a list").iter();
    errors.map(|error| (text(error, "pointer"), text(error, "detail"))).collect()
}

#[test]
fn the_values_of_a_body_are_those_of_the_fields_of_the_design() {
    let server = TestServer::in_memory(System::new("desk", parse_design(DESK), Imports));
    let t1 = server.user_with("t1", "u1", &["admin"]);
    let whole = json!({ "tenantId": "t9", "subject": "a", "team": "red", "states": ["open", "closed"] });
    assert_eq!(t1.post("/v1/import", &whole).expect_data(200), whole);
    let fewest = json!({ "subject": "a", "states": ["open"] });
    assert_eq!(t1.post("/v1/import", &fewest).expect_data(200), fewest);
    // What may be left out may be null.
    let nulls = json!({ "tenantId": null, "subject": "a", "team": null, "states": ["open"] });
    assert_eq!(t1.post("/v1/import", &nulls).expect_data(200), fewest);

    let check = |body: Json, expected: &[(&str, &str)]| {
        let found = errors(&t1, "/v1/import", &body);
        let found: Vec<_> = found.iter().map(|(pointer, detail)| (pointer.as_str(), detail.as_str())).collect();
        assert_eq!(found, expected, "{body}");
    };
    check(json!({}), &[("/subject", "Is missing."), ("/states", "Is missing.")]);
    check(json!({ "subject": "a", "states": ["open"], "colour": 1 }), &[("/colour", "Is not a field.")]);
    check(json!({ "subject": null, "states": "open" }), &[("/subject", "Is null."), ("/states", "Is not a list.")]);
    check(json!({ "subject": "a", "states": [] }), &[("/states", "Has 0 elements, allowed are 1 to 2.")]);
    let three = json!({ "subject": "a", "states": ["open", "open", "open"], "colour": 1 });
    check(three, &[("/colour", "Is not a field."), ("/states", "Has 3 elements, allowed are 1 to 2.")]);
    let lost = t1.post("/v1/import", &json!({ "subject": "a", "states": ["open", "lost"] }));
    assert_eq!(lost.expect_problem(422, "invalid"), ["/states/1"]);
    for tenant in [json!(""), json!(7), json!("system"), json!("x".repeat(65))] {
        let body = json!({ "tenantId": tenant, "subject": "a", "states": ["open"] });
        check(body, &[("/tenantId", "Cannot be a tenant's id.")]);
    }
}

#[test]
fn what_is_required_is_not_null() {
    let server = TestServer::in_memory(System::new("desk", parse_design(DESK), Imports));
    let t1 = server.user_with("t1", "u1", &["admin"]);
    let whole = json!({ "tenantId": "t2", "team": "red" });
    assert_eq!(t1.post("/v1/move", &whole).expect_data(200), whole);
    let refused = errors(&t1, "/v1/move", &json!({ "tenantId": null, "team": null }));
    let expected = [("/tenantId", "Cannot be a tenant's id."), ("/team", "Is null.")];
    assert_eq!(refused, expected.map(|(field, detail)| (field.to_owned(), detail.to_owned())));
    // Neither does the document say so.
    let schema = Move::schema(&parse_design(DESK));
    assert_eq!(schema["properties"]["team"]["type"], "string");
}

#[test]
fn the_schema_of_a_body_says_what_it_takes() {
    let design = parse_design(DESK);
    let ticket = design.entity("ticket").expect("an entity");
    let field = |name: &str| ticket.field(name).expect("a field").json_schema();
    let tenant = design.tenant_id_schema();
    let expected = json!({
        "type": "object",
        "properties": {
            "tenantId": { "anyOf": [tenant, { "type": "null" }] },
            "subject": field("subject"),
            "team": field("teamId"),
            "states": { "type": "array", "minItems": 1, "maxItems": 2, "items": field("status") },
        },
        "required": ["subject", "states"],
        "additionalProperties": false,
    });
    assert_eq!(Import::schema(&design), expected);
    assert_eq!(Move::schema(&design)["properties"]["tenantId"], tenant);
    // Derived routes set this field, and this route takes it.
    let author = design.entity("memo").and_then(|memo| memo.field("createdBy")).expect("a field").json_schema();
    assert_eq!(author["readOnly"], true);
    assert_eq!(Dictation::schema(&design)["properties"]["author"].get("readOnly"), None);
}
