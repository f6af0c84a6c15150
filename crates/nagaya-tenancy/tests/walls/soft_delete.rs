//! A soft-deleted item is not found by anyone, and its unique values are free again.

use std::sync::Arc;

use nagaya_store::{Store, Value};
use nagaya_tenancy::{ErrorKind, List, Nagaya, Principal, Tenant};
use serde_json::{Value as Json, json};

use crate::{
    common::{design, fields, tenant},
    fault_stores::{all, memory},
};

const HASH: &str = "$2b$12$abcdefghijklmnopqrstuuGzAlQ3Yt6eYx0ZbM4vJcPqRsTuVwXyZ";

/// The management system with the tenant acme.
pub(crate) async fn management() -> (Arc<dyn Store>, Nagaya, Tenant) {
    let store = memory();
    let nagaya = Nagaya::open(design("management/management"), store.clone());
    nagaya.ensure_tables().await.expect("the tables are made");
    let acme = nagaya
        .tenant(&Principal {
            request: Some("request-1".into()),
            address: Some("192.0.2.7".into()),
            ..Principal::new("tenant_acme", "u-1")
        })
        .expect("a tenant");
    acme.create("tenant", fields(json!({ "name": "acme", "displayName": "Acme" }))).await.expect("a tenant");
    (store, nagaya, acme)
}

pub(crate) fn user(name: &str) -> serde_json::Map<String, Json> {
    fields(json!({
        "username": name, "email": format!("{name}@example.com"), "passwordHash": HASH, "displayName": name,
    }))
}

/// Proves the deletion part of C3, and the soft-delete part of C14.
#[tokio::test]
async fn a_deleted_user_is_kept_but_not_found_and_so_are_its_roles() {
    let (store, _, acme) = management().await;
    let made = acme.create("user", user("ann")).await.expect("a user");
    let id = made.text("id").expect("an id").to_owned();
    for role in ["admin", "viewer"] {
        let assignment = json!({ "userId": id, "serviceId": "files", "roleName": role, "assignedBy": "u-1" });
        acme.create("role_assignment", fields(assignment)).await.expect("a role");
    }
    acme.delete("user", &[&id], None).await.expect("it is deleted");

    assert_eq!(acme.get("user", &[&id]).await.expect_err("it is gone").code(), "not_found");
    let change = acme.update("user", &[&id], fields(json!({ "displayName": "B" })), None).await;
    assert_eq!(change.expect_err("it is gone").code(), "not_found");
    assert_eq!(acme.delete("user", &[&id], None).await.expect_err("it is gone").code(), "not_found");
    assert!(acme.list(&List::by("users")).await.expect("a page").records.is_empty());
    assert!(acme.list(&List::by("roles_of_user").with("userId", &id)).await.expect("a page").records.is_empty());
    let new = json!({ "userId": id, "serviceId": "files", "roleName": "admin", "assignedBy": "u-1" });
    assert_eq!(acme.create("role_assignment", fields(new)).await.expect_err("no such user").code(), "no_reference");

    let items = all(&store, "auth").await;
    let kept = items.iter().find(|item| item.get("id").and_then(Value::as_str) == Some(&id)).expect("it is kept");
    assert_eq!(kept.get("isActive"), Some(&Value::Boolean(false)));
    assert_eq!(kept.get("deletedBy").and_then(Value::as_str), Some("u-1"));
    assert!(kept.get("deletedAt").is_some());
    assert!(kept.iter().all(|(name, _)| !name.starts_with('%')), "nothing of the layer's own is left: {kept:?}");

    let again = acme.create("user", user("ann")).await.expect("the name is free again");
    assert_ne!(again.text("id"), Some(id.as_str()));
}

/// Proves the reuse part of C5, and the reference part of C13.
#[tokio::test]
async fn a_tenant_with_users_cannot_be_deleted_and_a_deleted_ones_name_is_free() {
    let (_, nagaya, acme) = management().await;
    let user = acme.create("user", user("ann")).await.expect("a user");
    let refused = acme.delete("tenant", &[], None).await.expect_err("it has users");
    assert!(matches!(refused.kind(), ErrorKind::Referenced { by } if by == "user"), "{refused}");
    let other = tenant(&nagaya, "tenant_other");
    let same = || fields(json!({ "name": "acme", "displayName": "Acme" }));
    let taken = other.create("tenant", same()).await.expect_err("one has it");
    assert!(matches!(taken.kind(), ErrorKind::NotUnique { fields } if fields == &["name"]), "{taken}");

    acme.delete("user", &[user.text("id").expect("an id")], None).await.expect("it is deleted");
    acme.delete("tenant", &[], None).await.expect("a deleted user does not count");
    assert_eq!(acme.get("tenant", &[]).await.expect_err("it is gone").code(), "not_found");
    other.create("tenant", same()).await.expect("the name is free");
    assert_eq!(acme.create("user", self::user("bob")).await.expect_err("no such tenant").code(), "no_reference");
}

#[tokio::test]
async fn only_delete_sets_the_soft_delete_mark() {
    let (_, _, acme) = management().await;
    let ann = acme.create("user", user("ann")).await.expect("a user");
    let id = ann.text("id").expect("an id");
    let refused = acme.update("user", &[id], fields(json!({ "isActive": false })), None).await.expect_err("a deletion");
    assert!(matches!(refused.kind(), ErrorKind::Invalid(problems) if problems[0].path == "isActive"), "{refused}");
    let mut gone = user("bea");
    gone.insert("isActive".to_owned(), false.into());
    let refused = acme.create("user", gone).await.expect_err("it would be gone at once");
    assert!(matches!(refused.kind(), ErrorKind::Invalid(problems) if problems[0].path == "isActive"), "{refused}");
}

/// By it a reader knows which changes of the design an item has seen.
#[tokio::test]
async fn a_new_item_has_the_schema_version_of_its_entity() {
    let (store, _, acme) = management().await;
    let made = acme.create("user", user("ann")).await.expect("a user");
    let id = made.text("id").expect("an id");
    let items = all(&store, "auth").await;
    let stored = items.iter().find(|item| item.get("id").and_then(Value::as_str) == Some(id)).expect("it is stored");
    assert_eq!(stored.get("schemaVersion").and_then(Value::as_str), Some("1.1"));
}
