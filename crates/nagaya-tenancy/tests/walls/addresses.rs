//! E-mail addresses: compared without case, stored as they are typed.

use std::sync::Arc;

use nagaya_store::{Item, Key, Store, Value as Stored, Write};
use nagaya_tenancy::{List, Nagaya, Tenant};
use nagaya_testing::parse_design;
use serde_json::json;

use crate::{
    common::{fields, tenant},
    fault_stores::memory,
};

const DESIGN: &str = r##"
name    = "club"
version = "1.0"

[tenant]
field = "clubId"

[table.main]
name       = "main"
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]

[entity.member]
table      = "main"
key        = { PK = "CLUB#{clubId}", SK = "MEMBER#{memberId}" }
version    = "version"
unique     = [{ fields = ["email"] }]
# NG0110: members are looked up by their address.
index.GSI1 = { GSI1PK = "CLUB#{clubId}#EMAIL#{email}", GSI1SK = "MEMBER#{memberId}" }

[entity.member.fields]
clubId   = { type = "string", max = 64 }
memberId = { type = "string", max = 64 }
email    = { type = "string", format = "email", max = 100, personal = true }

# Invitations are found by their address alone.
[entity.invitation]
table = "main"
# NG0110: an invitation is its address.
key   = { PK = "CLUB#{clubId}", SK = "INVITATION#{email}" }

[entity.invitation.fields]
clubId = { type = "string", max = 64 }
email  = { type = "string", format = "email", max = 100, personal = true }

[access.member_by_address]
entity  = "member"
index   = "GSI1"
returns = "one"

[access.invitations]
entity = "invitation"
"##;

async fn open() -> (Arc<dyn Store>, Nagaya) {
    let store = memory();
    let nagaya = Nagaya::open(parse_design(DESIGN), Arc::clone(&store));
    nagaya.ensure_tables().await.expect("the tables are made");
    (store, nagaya)
}

async fn by_address(tenant: &Tenant, email: &str) -> Option<String> {
    let page = tenant.list(&List::by("member_by_address").with("email", email)).await.expect("a page");
    page.records.first()?.text("memberId").map(str::to_owned)
}

#[tokio::test]
async fn an_address_is_unique_and_found_without_case_and_stored_as_typed() {
    let (_, nagaya) = open().await;
    let t1 = tenant(&nagaya, "t1");
    let member = |id: &str, email: &str| fields(json!({ "memberId": id, "email": email }));
    let made = t1.create("member", member("m1", "Hanako@Example.COM")).await.expect("it is free");
    assert_eq!(made.text("email"), Some("Hanako@Example.COM"));
    let taken = t1.create("member", member("m2", "hanako@example.com")).await.expect_err("it is taken");
    assert_eq!(taken.code(), "taken");
    for email in ["hanako@example.com", "HANAKO@EXAMPLE.COM", "Hanako@Example.COM"] {
        assert_eq!(by_address(&t1, email).await.as_deref(), Some("m1"), "{email}");
    }

    // Another way of writing it is no other address; another address frees it.
    t1.update("member", &["m1"], fields(json!({ "email": "hanako@Example.com" })), None).await.expect("its own");
    assert_eq!(t1.create("member", member("m2", "HANAKO@example.com")).await.expect_err("taken").code(), "taken");
    t1.update("member", &["m1"], fields(json!({ "email": "h@example.com" })), None).await.expect("it is free");
    t1.create("member", member("m2", "HANAKO@example.com")).await.expect("it is free again");
    t1.delete("member", &["m2"], None).await.expect("it is there");
    t1.create("member", member("m3", "hanako@example.com")).await.expect("it is free again");
}

#[tokio::test]
async fn an_address_in_a_key_is_one_item_in_any_case() {
    let (_, nagaya) = open().await;
    let t1 = tenant(&nagaya, "t1");
    t1.create("invitation", fields(json!({ "email": "Ren@Example.com" }))).await.expect("it is new");
    let twin = t1.create("invitation", fields(json!({ "email": "ren@example.com" }))).await.expect_err("it is there");
    assert_eq!(twin.code(), "taken");
    assert_eq!(
        t1.get("invitation", &["REN@example.com"]).await.expect("it is there").text("email"),
        Some("Ren@Example.com")
    );
    assert_eq!(t1.list(&List::by("invitations")).await.expect("a page").records.len(), 1);
    assert_eq!(nagaya.breaches(), 0);
}

/// Items that were stored when addresses were compared with case.
#[tokio::test]
async fn older_items_with_capital_letters_can_be_read_changed_and_deleted() {
    let (store, nagaya) = open().await;
    let t1 = tenant(&nagaya, "t1");
    let invitation = Item::new().with("PK", "CLUB#t1").with("SK", "INVITATION#Ren@example.com");
    let invitation = invitation.with("clubId", "t1").with("email", "Ren@example.com");
    let member = |id: &str, email: &str| {
        let item = Item::new().with("PK", "CLUB#t1").with("SK", format!("MEMBER#{id}")).with("clubId", "t1");
        let item = item.with("memberId", id).with("email", email).with("version", 1);
        item.with("GSI1PK", format!("CLUB#t1#EMAIL#{email}")).with("GSI1SK", format!("MEMBER#{id}"))
    };
    for item in [invitation, member("m1", "Aoi@example.com"), member("m2", "Mio@example.com")] {
        store.write(Write::put("main", item).into()).await.expect("it is written");
    }
    assert_eq!(t1.list(&List::by("invitations")).await.expect("a page").records.len(), 1);
    assert_eq!(nagaya.breaches(), 0);

    // Writing the address in another case takes its unique value and moves it in the index.
    t1.update("member", &["m1"], fields(json!({ "email": "aoi@example.com" })), None).await.expect("it is changed");
    assert_eq!(by_address(&t1, "AOI@example.com").await.as_deref(), Some("m1"));
    let twin = fields(json!({ "memberId": "m3", "email": "AOI@example.com" }));
    assert_eq!(t1.create("member", twin).await.expect_err("it is taken").code(), "taken");
    t1.delete("member", &["m2"], None).await.expect("it is deleted");
    let stored = store.get("main", &Key::new("CLUB#t1", "MEMBER#m2")).await.expect("a read");
    assert_eq!(stored.and_then(|item| item.get("email").and_then(Stored::as_str).map(str::to_owned)), None);
}
