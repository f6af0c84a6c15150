//! Roles that are limited to own items: another user's item does not exist.

use std::sync::Arc;

use nagaya_design::Verb;
use nagaya_store::{Key, Page, Store, Write};
use nagaya_tenancy::{Expected, List, Nagaya, Principal, Tenant};
use nagaya_testing::{InstrumentedStore, parse_design};
use serde_json::json;

use crate::{
    common::fields,
    fault_stores::{all, meanwhile, memory},
};

const DESIGN: &str = r##"
name    = "notes"
version = "1.0"

[tenant]
field = "teamId"

[role.writer]
may = ["note.create", "note.read", "note.update:own", "note.delete:own", "diary.*:own", "page.*"]

[role.editor]
may = ["*"]

[table.main]
name = "main"
key  = ["PK", "SK"]

[entity.note]
table   = "main"
key     = { PK = "TEAM#{teamId}", SK = "NOTE#{noteId}" }
version = "version"
owner   = "authorId"

[entity.note.fields]
teamId   = { type = "string", max = 64 }
noteId   = { type = "string", max = 64 }
authorId = { type = "string", max = 64, default = "caller", immutable = true }
text     = { type = "string", max = 100, default = "" }

# Others do not even read it; pages refer to it.
[entity.diary]
table = "main"
key   = { PK = "TEAM#{teamId}", SK = "DIARY#{diaryId}" }
owner = "userId"

[entity.diary.fields]
teamId  = { type = "string", max = 64 }
diaryId = { type = "string", max = 64 }
userId  = { type = "string", max = 64, default = "caller", immutable = true }
lock    = { type = "string", max = 64, secret = true, default = "1234" }

[entity.page]
table = "main"
key   = { PK = "TEAM#{teamId}", SK = "PAGE#{pageId}" }

[entity.page.fields]
teamId  = { type = "string", max = 64 }
pageId  = { type = "string", max = 64 }
diaryId = { type = "string", max = 64, references = { entity = "diary" } }

[access.diaries]
entity = "diary"

[access.diary_count]
entity  = "diary"
returns = "count"

[access.notes]
entity = "note"

[access.pages_of_diary]
entity = "page"
filter = "diaryId = {diaryId}"
"##;

async fn open() -> Nagaya {
    let nagaya = Nagaya::open(parse_design(DESIGN), memory());
    nagaya.ensure_tables().await.expect("the tables are made");
    nagaya
}

fn user(nagaya: &Nagaya, name: &str, roles: &[&str]) -> Tenant {
    let roles = roles.iter().map(|&role| role.to_owned()).collect();
    let principal = Principal { roles, ..Principal::new("t1", name) };
    nagaya.tenant(&principal).expect("a tenant").limited_by_roles()
}

async fn diary(tenant: &Tenant, id: &str) {
    tenant.create("diary", fields(json!({ "diaryId": id }))).await.expect("it is new");
}

async fn listed(tenant: &Tenant, list: List) -> Vec<String> {
    let page = tenant.list(&list).await.expect("a page");
    page.records.iter().map(|record| record.id().concat()).collect()
}

#[tokio::test]
async fn an_item_of_another_user_cannot_be_changed_or_deleted() {
    let nagaya = open().await;
    let (hana, ren) = (user(&nagaya, "hana", &["writer"]), user(&nagaya, "ren", &["writer"]));
    hana.create("note", fields(json!({ "noteId": "n1" }))).await.expect("it is new");
    let read = ren.get("note", &["n1"]).await.expect("everybody reads notes");
    let patch = || fields(json!({ "text": "b" }));
    for expected in [Expected::Any, Expected::Version(1), Expected::Version(7), Expected::from(&read)] {
        let refused = ren.update("note", &["n1"], patch(), expected.clone()).await.expect_err("it is not ren's");
        let missing = ren.update("note", &["n2"], patch(), Expected::Any).await.expect_err("there is none");
        assert_eq!((refused.code(), refused.to_string()), (missing.code(), missing.to_string()));
        assert_eq!(ren.delete("note", &["n1"], expected).await.expect_err("it is not ren's").code(), "not_found");
    }
    hana.update("note", &["n1"], patch(), None).await.expect("it is hana's");
    // A second role may widen the first.
    user(&nagaya, "ren", &["writer", "editor"]).update("note", &["n1"], patch(), None).await.expect("an editor may");
    hana.delete("note", &["n1"], None).await.expect("it is hana's");
}

#[tokio::test]
async fn an_item_of_another_user_cannot_be_read_listed_counted_or_referred_to() {
    let nagaya = open().await;
    let (hana, ren) = (user(&nagaya, "hana", &["writer"]), user(&nagaya, "ren", &["writer"]));
    for id in ["d1", "d3", "d5"] {
        diary(&hana, id).await;
    }
    for id in ["d2", "d4"] {
        diary(&ren, id).await;
    }
    assert_eq!(ren.get("diary", &["d1"]).await.expect_err("it is hana's").code(), "not_found");
    let many = ren.get_many(&[("diary", &["d1"]), ("diary", &["d2"])]).await.expect("an answer");
    assert_eq!(many.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    let test = |lock: &str| lock == "1234";
    assert_eq!(ren.verify_secret("diary", &["d1"], "lock", test).await.expect_err("hana's").code(), "not_found");
    assert!(ren.verify_secret("diary", &["d2"], "lock", test).await.expect("it is ren's"));
    assert_eq!(listed(&ren, List::by("diaries")).await, ["d2", "d4"]);
    assert_eq!(listed(&user(&nagaya, "editor", &["editor"]), List::by("diaries")).await.len(), 5);
    assert_eq!(ren.list(&List::by("diary_count")).await.expect("a count").count, Some(2));

    // A page ends where the caller's own items end, however many of others follow.
    let first = ren.list(&List::by("diaries").limit(1)).await.expect("a page");
    let cursor = first.next.expect("d4 follows");
    let last = ren.list(&List::by("diaries").limit(1).cursor(&cursor)).await.expect("a page");
    assert_eq!((last.records.len(), last.next), (1, None), "d5 is not ren's");
    assert!(hana.list(&List::by("diaries").limit(1).cursor(&cursor)).await.is_err(), "the cursor is ren's");

    for n in 0..110 {
        diary(&hana, &format!("e{n}")).await;
    }
    let both = ren.list(&List::by("diaries").limit(2)).await.expect("a page");
    assert_eq!((both.records.len(), both.next), (2, None));

    let page = |id: &str| fields(json!({ "pageId": "p", "diaryId": id }));
    let hidden = ren.create("page", page("d1")).await.expect_err("it is hana's");
    let missing = ren.create("page", page("d9")).await.expect_err("there is none");
    assert_eq!((hidden.code(), hidden.to_string()), (missing.code(), missing.to_string()));
    ren.create("page", page("d2")).await.expect("it is ren's");
    // An item that others can refer to is deleted in another way.
    assert_eq!(ren.delete("diary", &["d1"], None).await.expect_err("it is hana's").code(), "not_found");
    ren.delete("diary", &["d4"], None).await.expect("it is ren's");
}

/// The store leaves out what is another user's; this is the second check.
#[tokio::test]
async fn an_item_of_another_user_that_the_store_returns_is_left_out() {
    let inner = memory();
    let store = InstrumentedStore::new(Arc::clone(&inner));
    let nagaya = Nagaya::open(parse_design(DESIGN), Arc::clone(&store) as Arc<dyn Store>);
    nagaya.ensure_tables().await.expect("the tables are made");
    let (hana, ren) = (user(&nagaya, "hana", &["writer"]), user(&nagaya, "ren", &["writer"]));
    diary(&hana, "d1").await;
    diary(&ren, "d2").await;
    diary(&ren, "d3").await;
    let mut returned = all(&inner, "main").await;
    // It is about to be deleted.
    returned[2].insert("%deleting", "now");
    store.rewrite_pages(move |_, _| Page { items: returned.clone(), ..Page::default() });
    assert_eq!(listed(&ren, List::by("diaries")).await, ["d2"]);
    assert_eq!(ren.list(&List::by("diary_count")).await.expect("a count").count, Some(1));
}

/// Between the read and the write the item is deleted, and another user creates one under the same id.
#[tokio::test]
async fn an_item_that_changes_its_owner_meanwhile_is_not_changed() {
    for (version, expected) in [(1, None), (1, Some(1)), (7, Some(1))] {
        let inner = memory();
        let store = InstrumentedStore::new(Arc::clone(&inner));
        let nagaya = Nagaya::open(parse_design(DESIGN), Arc::clone(&store) as Arc<dyn Store>);
        nagaya.ensure_tables().await.expect("the tables are made");
        let hana = user(&nagaya, "hana", &["writer"]);
        hana.create("note", fields(json!({ "noteId": "n1" }))).await.expect("it is new");
        let item = inner.get("main", &Key::new("TEAM#t1", "NOTE#n1")).await.expect("a read").expect("an item");
        let item = item.with("authorId", "ren").with("version", version);
        let late = meanwhile(&store, |_| true, async move {
            inner.write(Write::put("main", item).into()).await.expect("it is written");
        });
        let patch = fields(json!({ "text": "b" }));
        let refused = hana.update("note", &["n1"], patch, expected).await.expect_err("it is ren's now");
        assert_eq!((refused.code(), late.hits()), ("not_found", 1), "{version} {expected:?}");
    }
}

/// The answer to a repeated request shows nothing of another user's item.
#[tokio::test]
async fn a_repeated_request_does_not_find_an_item_of_another_user() {
    let store = memory();
    let nagaya = Nagaya::open(parse_design(DESIGN), Arc::clone(&store));
    nagaya.ensure_tables().await.expect("the tables are made");
    let hana = user(&nagaya, "hana", &["writer"]);
    let create =
        || hana.change_set().create("diary", fields(json!({ "diaryId": "d1" }))).idempotent("k", b"d1").commit();
    create().await.expect("it is new");
    let item = store.get("main", &Key::new("TEAM#t1", "DIARY#d1")).await.expect("a read").expect("an item");
    store.write(Write::put("main", item.with("userId", "ren")).into()).await.expect("it is written");
    assert_eq!(create().await.expect_err("it is ren's now").code(), "result_deleted");
}

#[test]
fn only_own_permissions_are_limited() {
    let design = parse_design(DESIGN);
    let writer = ["writer".to_owned()];
    assert!(design.permits(&writer, "diary", Verb::Read));
    assert_eq!(design.roles_permitting("note", Verb::Update, false), ["writer", "editor"]);
}

/// The code of a system may name the owner of a new item; a handle that is limited to own items may not name another one.
#[tokio::test]
async fn a_handle_for_own_items_creates_no_items_of_others() {
    let nagaya = open().await;
    let diary = |id: &str, user: &str| fields(json!({ "diaryId": id, "userId": user }));
    let note = |id: &str, user: &str| fields(json!({ "noteId": id, "authorId": user }));
    let refused = |error: nagaya_tenancy::Error| {
        assert_eq!(error.code(), "invalid");
        assert!(error.to_string().contains("has to be the user of the token"), "{error}");
    };
    // A role for own diaries, and for all notes.
    let ren = user(&nagaya, "ren", &["writer"]);
    refused(ren.create("diary", diary("d1", "hana")).await.expect_err("it is not ren's"));
    ren.create("diary", diary("d1", "ren")).await.expect("it is ren's");
    ren.create("note", note("n1", "hana")).await.expect("writers create all notes");
    // A handle for own items of every entity.
    let own = user(&nagaya, "ren", &["editor"]).limited_to_own_items();
    refused(own.create("note", note("n2", "hana")).await.expect_err("it is not ren's"));
    own.create("note", note("n2", "ren")).await.expect("it is ren's");
    user(&nagaya, "ren", &["editor"]).create("diary", diary("d2", "hana")).await.expect("an editor may");
}
