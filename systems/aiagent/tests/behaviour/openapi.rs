//! The OpenAPI document of the product.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use nagaya_testing::ManualClock;

use crate::harness::design;

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
