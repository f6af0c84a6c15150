//! The OpenAPI document of the product.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use nagaya_testing::ManualClock;

use crate::harness::{design, in_memory};

/// The OpenAPI document of the product on a design.
fn document(name: &str) -> Json {
    nagaya_server::document(&nagaya_aiagent::system("aiagent", design(name)), "", ManualClock::START)
}

/// All `$ref` values in a document.
fn references<'j>(value: &'j Json, found: &mut BTreeSet<&'j str>) {
    match value {
        Json::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Json::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Json::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Proves the documentation's part of M2.
#[test]
fn both_designs_have_the_same_api() {
    let (single, multi) = (document("single"), document("multi"));
    assert_eq!(single["paths"], multi["paths"]);
    assert_eq!(single["components"], multi["components"]);
}

#[test]
fn the_routes_of_the_product_are_documented_with_resolvable_references() {
    let document = document("single");
    for (path, method) in [
        ("/v1/tenant-applications", "post"),
        ("/v1/tenant-applications/{applicationId}/approve", "post"),
        ("/v1/tenant-applications/{applicationId}/reject", "post"),
        ("/v1/all-tenants/{tenantId}", "get"),
        ("/v1/all-tenants/{tenantId}", "patch"),
        ("/v1/all-tenants/{tenantId}", "delete"),
        ("/v1/invitations/{tokenId}/accept", "post"),
        ("/v1/me/tenants", "get"),
    ] {
        assert!(document["paths"][path][method].is_object(), "{method} {path}");
    }
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let missing = |reference: &&&str| document.pointer(reference.trim_start_matches('#')).is_none();
    assert_eq!(found.iter().filter(missing).collect::<Vec<_>>(), [] as [&&str; 0]);
    let submitted = &document["paths"]["/v1/tenant-applications"]["post"];
    assert_eq!(submitted["x-nagaya-reach"], "anyone");
}

#[test]
fn a_tenant_id_in_a_body_is_documented_as_it_is_checked() {
    let document = document("single");
    let body = |path: &str| {
        let operation = &document["paths"][path]["post"];
        operation["requestBody"]["content"]["application/json"]["schema"]["properties"]["tenantId"].clone()
    };
    let id = json!({ "type": "string", "minLength": 1, "maxLength": 64, "not": { "enum": [".", "..", "system"] } });
    assert_eq!(body("/v1/invitations/{tokenId}/accept"), id);
    assert_eq!(
        body("/v1/tenant-applications/{applicationId}/approve"),
        json!({ "anyOf": [id, { "type": "null" }] }),
        "without an id, the tenant gets a new one"
    );

    let server = in_memory("single");
    let operator = server.client_of_operator("op-1");
    let asked = json!({ "tenantName": "Ren", "applicantName": "Ren", "applicantEmail": "ren@example.com" });
    let application = server.user_without_tenant("ren").post("/tenant-applications", &asked).expect_data(201);
    let path = format!("/tenant-applications/{}/approve", application["applicationId"].as_str().expect("an id"));
    for id in ["", ".", "..", "system", &"x".repeat(65)] {
        assert_eq!(operator.post(&path, &json!({ "tenantId": id })).expect_problem(422, "invalid"), ["/tenantId"]);
    }
    assert_eq!(operator.post(&path, &json!({ "tenantId": null })).expect_data(200)["status"], "approved");
}

#[test]
fn a_permission_policy_is_documented_with_the_roles_and_permissions_that_it_can_name() {
    let document = document("single");
    let all = "tenant|user|tenant_application|permission_policy|user_preferences|agent|execution|audit|session|token|\
               email_account|email_message|task|user_email_subscription|push_subscription|announcement_board|notice|log|\
               archived_audit";
    let owned = "user_preferences|email_account|email_message|task|user_email_subscription|push_subscription";
    let verbs = "create|read|update|delete";
    let permission = format!(r"^(?:\*|\*\.(?:{verbs})|(?:{all})\.(?:\*|{verbs})|(?:{owned})\.(?:\*|{verbs}):own)$");
    for body in ["NewPermissionPolicy", "PermissionPolicyPatch"] {
        let roles = &document["components"]["schemas"][body]["properties"]["roles"];
        assert_eq!(roles["propertyNames"], json!({ "enum": ["admin", "member", "viewer"] }), "{body}");
        let permissions = json!({ "type": ["array", "null"], "items": { "type": "string", "pattern": permission } });
        assert_eq!(roles["additionalProperties"], permissions, "{body}");
    }
}
