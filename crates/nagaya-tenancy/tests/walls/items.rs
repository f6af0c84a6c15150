//! Single items: create, read, update, delete, list.

use crate::common::{design, fields, open, tenant};
use nagaya_tenancy::{ErrorKind, List, Principal};
use serde_json::json;

/// Proves A14.
#[tokio::test]
async fn an_item_is_created_read_updated_and_deleted() {
    let nagaya = open(design("aiagent/single")).await;
    let t1 = tenant(&nagaya, "t1");
    let user = t1.create("user", fields(json!({ "email": "a@example.com", "name": "A" }))).await.expect("a user");
    let id = user.text("userId").expect("an id").to_owned();
    assert_eq!(user.text("role"), Some("member"));
    assert_eq!(user.version(), Some(1));
    assert_eq!(t1.get("user", &[&id]).await.expect("it is there"), user);

    let changed = t1.update("user", &[&id], fields(json!({ "role": "admin" })), Some(1)).await.expect("a change");
    assert_eq!((changed.text("role"), changed.version()), (Some("admin"), Some(2)));
    let late = t1.update("user", &[&id], fields(json!({ "role": "viewer" })), Some(1)).await.expect_err("too late");
    let ErrorKind::VersionConflict { current } = late.kind() else { panic!("{late}") };
    assert_eq!(current, &changed);

    t1.delete("user", &[&id], Some(2)).await.expect("it goes");
    assert_eq!(t1.get("user", &[&id]).await.expect_err("it is gone").code(), "not_found");
}

#[tokio::test]
async fn a_unique_value_can_be_taken_once_by_each_tenant() {
    let nagaya = open(design("aiagent/single")).await;
    let (t1, t2) = (tenant(&nagaya, "t1"), tenant(&nagaya, "t2"));
    let new = || fields(json!({ "email": "a@example.com", "name": "A" }));
    let first = t1.create("user", new()).await.expect("the first");
    let second = t1.create("user", new()).await.expect_err("the second");
    assert!(matches!(second.kind(), ErrorKind::NotUnique { fields } if fields == &["email"]), "{second}");
    t2.create("user", new()).await.expect("another tenant's");

    let id = first.text("userId").expect("an id").to_owned();
    t1.update("user", &[&id], fields(json!({ "email": "b@example.com" })), None).await.expect("a change");
    let again = t1.create("user", new()).await.expect("the address is free again");
    t1.delete("user", &[again.text("userId").expect("an id")], None).await.expect("it goes");
    t1.create("user", new()).await.expect("the address is free again");
}

#[tokio::test]
async fn a_cursor_works_for_its_own_caller_only() {
    let nagaya = open(design("aiagent/single")).await;
    let (t1, t2) = (tenant(&nagaya, "t1"), tenant(&nagaya, "t2"));
    for n in 0..25 {
        let new = json!({ "email": format!("u{n}@example.com"), "name": "A", "userId": format!("u{n:02}") });
        t1.create("user", fields(new)).await.expect("a user");
    }
    let first = t1.list(&List::by("users").limit(10)).await.expect("a page");
    assert_eq!(first.records.len(), 10);
    let cursor = first.next.expect("there is more");
    let second = t1.list(&List::by("users").limit(10).cursor(&cursor)).await.expect("a page");
    assert_eq!(second.records[0].text("userId"), Some("u10"));
    let caller = |principal: Principal| nagaya.tenant(&principal).expect("a tenant");
    let colleague = caller(Principal::new("t1", "u-2"));
    let namesake = caller(Principal { issuer: Some("https://id.example.com".into()), ..Principal::new("t1", "u-1") });
    for (tenant, access) in [(&t2, "users"), (&t1, "agents"), (&colleague, "users"), (&namesake, "users")] {
        let refused = tenant.list(&List::by(access).cursor(&cursor)).await.expect_err("not yours");
        assert_eq!(refused.code(), "bad_cursor");
    }
    assert!(t2.list(&List::by("users")).await.expect("a page").records.is_empty());
    assert_eq!(t1.list(&List::by("all_users")).await.expect_err("operators only").code(), "walled");
}
