//! Secrets can be verified but not read.

use serde_json::json;

use crate::{
    common::{fields, tenant},
    soft_delete::{management, user},
};

/// Proves the secret part of C2, and the secret part of C20.
#[tokio::test]
async fn a_password_is_verified_without_being_read() {
    let (_, nagaya, acme) = management().await;
    let user = acme.create("user", user("ann")).await.expect("a user");
    let id = user.text("id").expect("an id").to_owned();
    assert!(user.get("passwordHash").is_none());
    assert!(!user.to_json().contains_key("passwordHash"));

    let is_bcrypt = |stored: &str| stored.starts_with("$2b$12$");
    assert!(acme.verify_secret("user", &[&id], "passwordHash", is_bcrypt).await.expect("a user"));
    assert!(!acme.verify_secret("user", &[&id], "passwordHash", |_| false).await.expect("a user"));
    let open = acme.verify_secret("user", &[&id], "username", |_| true).await.expect_err("no secret");
    assert_eq!(open.code(), "invalid");
    let other = tenant(&nagaya, "tenant_other");
    let foreign = other.verify_secret("user", &[&id], "passwordHash", |_| panic!("it is not shown")).await;
    assert_eq!(foreign.expect_err("not theirs").code(), "not_found");
    acme.delete("user", &[&id], None).await.expect("it is deleted");
    let gone = acme.verify_secret("user", &[&id], "passwordHash", |_| panic!("it is not shown")).await;
    assert_eq!(gone.expect_err("it is gone").code(), "not_found");
}

#[tokio::test]
async fn a_missing_secret_passes_no_test() {
    let nagaya = crate::common::open(crate::common::design("aiagent/single")).await;
    let t1 = tenant(&nagaya, "t1");
    t1.create("user", fields(json!({ "userId": "u", "email": "a@example.com", "name": "A" }))).await.expect("a user");
    let account = json!({ "accountId": "a", "userId": "u", "email": "a@example.com", "provider": "gmail" });
    t1.create("email_account", fields(account)).await.expect("an account");
    assert!(!t1.verify_secret("email_account", &["a"], "accessToken", |_| true).await.expect("an account"));
}

#[tokio::test]
async fn debug_output_of_a_change_set_has_no_fields() {
    let (_, _, acme) = management().await;
    let shown = format!("{:?}", acme.change_set().create("user", user("ann")));
    assert!(shown.contains("create user") && !shown.contains("ann") && !shown.contains("$2"), "{shown}");
}
