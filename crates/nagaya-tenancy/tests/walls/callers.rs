//! Fields that the token gives, and values that no caller can give.

use std::sync::Arc;

use nagaya_tenancy::{ErrorKind, Nagaya, Principal, Tenant};
use nagaya_testing::parse_design;
use serde_json::json;

use crate::{
    common::{fields, tenant},
    fault_stores::{logged, memory},
};

const DESIGN: &str = r##"
name    = "notes"
version = "1.0"

[tenant]
field = "teamId"

[table.main]
name = "main"
key  = ["PK", "SK"]

[entity.note]
table = "main"
key   = { PK = "TEAM#{teamId}", SK = "NOTE#{noteId}" }

[entity.note.fields]
teamId    = { type = "string", max = 64 }
noteId    = { type = "string", max = 64 }
text      = { type = "string", max = 100, default = "" }
createdBy = { type = "string", max = 64, default = "caller", immutable = true }
updatedBy = { type = "string", max = 64, default = "caller" }

[entity.draft]
table = "main"
key   = { PK = "DRAFT#{draftId}", SK = "DRAFT#" }
# NG0105: a link knows only the draft's id; every item read is checked.
wall  = "attribute"

[entity.draft.fields]
teamId  = { type = "string", max = 64 }
draftId = { type = "ulid", default = "new" }

[entity.copy]
table = "main"
key   = { PK = "TEAM#{teamId}", SK = "COPY#{copyId}" }

[entity.copy.fields]
teamId  = { type = "string", max = 64 }
copyId  = { type = "string", max = 64 }
draftId = { type = "ulid", references = { entity = "draft" } }

[access.copies_of_draft]
entity = "copy"
filter = "draftId = {draftId}"
"##;

async fn open() -> Nagaya {
    let nagaya = Nagaya::open(parse_design(DESIGN), memory());
    nagaya.ensure_tables().await.expect("the tables are made");
    nagaya
}

fn user(nagaya: &Nagaya, name: &str) -> Tenant {
    nagaya.tenant(&Principal::new("t1", name)).expect("a tenant")
}

#[tokio::test]
async fn a_new_item_has_its_creator_and_each_change_its_author() {
    let nagaya = open().await;
    let (hana, ren) = (user(&nagaya, "hana"), user(&nagaya, "ren"));
    let made = hana.create("note", fields(json!({ "noteId": "n1" }))).await.expect("it is new");
    assert_eq!((made.text("createdBy"), made.text("updatedBy")), (Some("hana"), Some("hana")));
    let changed = ren.update("note", &["n1"], fields(json!({ "text": "b" })), None).await.expect("it is there");
    assert_eq!((changed.text("createdBy"), changed.text("updatedBy")), (Some("hana"), Some("ren")));
    let operator = nagaya.operator("support case 17", &Principal::new("", "op-1"));
    let acting = operator.as_tenant("t1").expect("a tenant");
    let changed = acting.update("note", &["n1"], fields(json!({ "text": "c" })), None).await.expect("it is there");
    assert_eq!(changed.text("updatedBy"), Some("op-1"));
}

#[tokio::test]
async fn a_user_who_does_not_fit_the_field_is_refused() {
    let nagaya = open().await;
    let long = user(&nagaya, &"u".repeat(65));
    let refused = long.create("note", fields(json!({ "noteId": "n1" }))).await.expect_err("it is too long");
    let ErrorKind::Invalid(problems) = refused.kind() else { panic!("{refused}") };
    assert!(problems.iter().any(|problem| problem.path == "createdBy"), "{problems:?}");
}

#[tokio::test]
async fn a_patch_cannot_name_the_tenant_even_the_right_one() {
    let nagaya = open().await;
    let t1 = tenant(&nagaya, "t1");
    t1.create("note", fields(json!({ "noteId": "n1" }))).await.expect("it is new");
    for value in [json!("t1"), json!("t2"), json!(null)] {
        let patch = fields(json!({ "teamId": value, "text": "b" }));
        let refused = t1.update("note", &["n1"], patch, None).await.expect_err("it is refused");
        let ErrorKind::Invalid(problems) = refused.kind() else { panic!("{refused}") };
        assert_eq!(problems[0].path, "teamId");
    }
    assert_eq!(t1.get("note", &["n1"]).await.expect("it is there").text("text"), Some(""));
}

#[tokio::test]
async fn ids_that_paths_resolve_are_refused() {
    let nagaya = open().await;
    let t1 = tenant(&nagaya, "t1");
    for id in [".", ".."] {
        let refused = t1.create("note", fields(json!({ "noteId": id }))).await.expect_err("it is refused");
        let ErrorKind::Invalid(problems) = refused.kind() else { panic!("{refused}") };
        assert_eq!(problems[0].path, "noteId");
        assert_eq!(t1.get("note", &[id]).await.expect_err("there is none").code(), "not_found");
    }
    t1.create("note", fields(json!({ "noteId": "..." }))).await.expect("no path resolves it");
}

/// A reference to another tenant's item and one to no item: the same error, and the same calls to the store.
#[tokio::test]
async fn a_reference_to_anothers_item_is_refused_like_one_to_nothing() {
    let store = logged();
    let nagaya = Nagaya::open(parse_design(DESIGN), Arc::clone(&store) as Arc<dyn nagaya_store::Store>);
    nagaya.ensure_tables().await.expect("the tables are made");
    let (t1, t2) = (tenant(&nagaya, "t1"), tenant(&nagaya, "t2"));
    let anothers = t2.create("draft", fields(json!({}))).await.expect("it is new").id().concat();
    let mut answers = Vec::new();
    for id in [anothers.as_str(), "01KG9S5Q60T4N2Y8ZC3M7VXR1E"] {
        store.take(|_| true);
        let before = store.calls();
        let copy = fields(json!({ "copyId": "c1", "draftId": id }));
        let refused = t1.create("copy", copy).await.expect_err("there is no such draft for it");
        answers.push((refused.code(), refused.to_string(), store.calls() - before));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].0, "no_reference");
}
