//! A user reads their own items across tenants without being an operator.

use nagaya_tenancy::{List, Nagaya, Principal};
use serde_json::json;

use crate::common::{design, fields, open, tenant};

/// The person `ann` in two tenants, and `bob` in one.
async fn members(name: &str) -> Nagaya {
    let nagaya = open(design(name)).await;
    for (of, user) in [("t1", "ann"), ("t2", "ann"), ("t2", "bob")] {
        let user = json!({ "userId": user, "email": format!("{user}@example.com"), "name": user, "status": "active" });
        tenant(&nagaya, of).create("user", fields(user)).await.expect("a user");
    }
    nagaya
}

fn person(user: &str) -> Principal {
    Principal { issuer: Some("https://login.example.com".into()), ..Principal::new("", user) }
}

#[tokio::test]
async fn a_user_lists_their_own_items_and_leaves_no_entry() {
    for name in ["aiagent/single", "aiagent/multi"] {
        let nagaya = members(name).await;
        let list = List::by("tenants_of_user");
        let page = nagaya.list_own(&person("ann"), "userId", &list).await.expect("a page");
        let found: Vec<_> =
            page.records.iter().map(|record| (record.text("tenantId"), record.text("userId"))).collect();
        assert_eq!(found, [(Some("t1"), Some("ann")), (Some("t2"), Some("ann"))], "{name}");
        assert!(nagaya.list_own(&person(""), "userId", &list).await.expect("a page").records.is_empty());
        assert!(nagaya.list_own(&person("eve"), "userId", &list).await.expect("a page").records.is_empty());
        let operator = nagaya.operator("a look at the log", &Principal::new("", "op-1"));
        let log = operator.read_log(0, i64::MAX, None).await.expect("a page").entries;
        let actions: Vec<_> = log.iter().map(|entry| entry.action.as_str()).collect();
        assert_eq!(actions, ["audit.list"], "{name}");
    }
}

#[tokio::test]
async fn nobody_names_another_user() {
    let nagaya = members("aiagent/single").await;
    let list = List::by("tenants_of_user").with("userId", "bob");
    let refused = nagaya.list_own(&person("ann"), "userId", &list).await.expect_err("it comes from the token");
    assert_eq!(refused.to_string(), "`userId` comes from the token; leave it out");
    // A cursor of one user opens for that user only.
    let page = nagaya.list_own(&person("ann"), "userId", &List::by("tenants_of_user").limit(1)).await.expect("a page");
    let list = List::by("tenants_of_user").limit(1).cursor(page.next.expect("a second page"));
    assert_eq!(nagaya.list_own(&person("bob"), "userId", &list).await.expect_err("not theirs").code(), "bad_cursor");
    assert_eq!(nagaya.list_own(&person("ann"), "userId", &list).await.expect("a page").records.len(), 1);
}

/// Only a list behind a system wall whose partition is the user alone is one of own items.
#[tokio::test]
async fn other_lists_are_refused() {
    let nagaya = members("aiagent/single").await;
    for (access, field) in
        [("tenants", "userId"), ("users", "userId"), ("tenants_of_user", "tenantId"), ("sessions_of_user", "userId")]
    {
        let refused = nagaya.list_own(&person("ann"), field, &List::by(access)).await.expect_err("it is walled");
        assert_eq!(refused.code(), "walled", "{access}");
    }
}
