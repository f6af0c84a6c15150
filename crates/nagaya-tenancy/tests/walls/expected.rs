//! Changes of items without a version: what is expected is the record that was read.

use std::sync::Arc;

use nagaya_store::{Key, Store};
use nagaya_tenancy::{Expected, Nagaya, Tenant};
use nagaya_testing::{Call, InstrumentedStore};
use serde_json::json;

use crate::{
    common::{fields, open, tenant},
    fault_stores::{logged, meanwhile},
};

const DESIGN: &str = r##"
name    = "pantry"
version = "1.0"

[tenant]
field = "home"

[table.app]
name       = "app"
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]

[entity.jar]
table = "app"
key   = { PK = "HOME#{home}", SK = "JAR#{name}" }

[entity.jar.fields]
label = { type = "string", max = 20, optional = true }
home  = { type = "string", max = 20 }
name  = { type = "string", max = 20 }
grams = { type = "integer", min = 0, default = 0 }

[entity.jar.fields.place]
type     = "map"
optional = true

[entity.jar.fields.place.fields]
row    = { type = "string", max = 20, optional = true }
column = { type = "string", max = 20, optional = true }

[entity.box]
table      = "app"
key        = { PK = "HOME#{home}", SK = "BOX#{name}" }
index.GSI1 = { GSI1PK = "HOME#{home}#BOX", GSI1SK = "{place.row}#{label}" }
unique     = [{ fields = ["width", "height"] }]

[entity.box.fields]
home   = { type = "string", max = 20 }
name   = { type = "string", max = 20 }
label  = { type = "string", max = 20 }
width  = { type = "integer", min = 0 }
height = { type = "integer", min = 0 }

[entity.box.fields.place]
type = "map"

[entity.box.fields.place.fields]
row = { type = "string", max = 20 }

[entity.tin]
table = "app"
key   = { PK = "HOME#{home}", SK = "TIN#{name}" }

[entity.tin.fields]
home  = { type = "string", max = 20 }
name  = { type = "string", max = 20 }
grams = { type = "integer", min = 0, default = 0 }
"##;

async fn pantry() -> Nagaya {
    let nagaya = open(nagaya_testing::parse_design(DESIGN)).await;
    for home in ["h1", "h2"] {
        for name in ["rice", "beans"] {
            tenant(&nagaya, home).create("jar", fields(json!({ "name": name }))).await.expect("a jar");
            tenant(&nagaya, home).create("tin", fields(json!({ "name": name }))).await.expect("a tin");
        }
    }
    nagaya
}

#[tokio::test]
async fn a_change_expects_the_record_that_was_read() {
    let nagaya = pantry().await;
    let h1 = tenant(&nagaya, "h1");
    let read = h1.get("jar", &["rice"]).await.expect("a jar");
    let grams = |grams: i64| fields(json!({ "grams": grams }));
    let changed = h1.update("jar", &["rice"], grams(1), &read).await.expect("it is as it was read");
    assert_eq!(changed.json("grams"), Some(json!(1)));
    let refused = h1.update("jar", &["rice"], grams(2), &read).await.expect_err("it has changed");
    assert_eq!(refused.code(), "version_conflict");
    let refused = h1.delete("jar", &["rice"], &read).await.expect_err("it has changed");
    assert_eq!(refused.code(), "version_conflict");
    h1.delete("jar", &["rice"], &changed).await.expect("it is as it was read");
    let refused = h1.update("jar", &["rice"], grams(3), &changed).await.expect_err("it is gone");
    assert_eq!(refused.code(), "not_found");
}

#[tokio::test]
async fn a_record_of_another_item_entity_or_tenant_is_not_what_is_expected() {
    let nagaya = pantry().await;
    let (h1, h2) = (tenant(&nagaya, "h1"), tenant(&nagaya, "h2"));
    let records = [
        h1.get("jar", &["beans"]).await.expect("a jar"),
        h1.get("tin", &["rice"]).await.expect("a tin"),
        h2.get("jar", &["rice"]).await.expect("a jar"),
    ];
    for record in &records {
        let expected = || Expected::Unchanged(Box::new(record.clone()));
        let refused = h1.update("jar", &["rice"], fields(json!({ "grams": 5 })), expected()).await;
        assert_eq!(refused.expect_err("another record").code(), "version_conflict", "{record:?}");
        let refused = h1.delete("jar", &["rice"], expected()).await;
        assert_eq!(refused.expect_err("another record").code(), "version_conflict", "{record:?}");
    }
    for (home, entity, name) in
        [(&h1, "jar", "rice"), (&h1, "jar", "beans"), (&h1, "tin", "rice"), (&h2, "jar", "rice")]
    {
        let found = home.get(entity, &[name]).await.expect("it is there");
        assert_eq!(found.json("grams"), Some(json!(0)), "{entity} {name}");
    }
}

/// The write has the condition that the item is as it was read.
#[tokio::test]
async fn a_record_that_was_read_is_not_read_again() {
    let store = logged();
    let nagaya = Nagaya::open(nagaya_testing::parse_design(DESIGN), Arc::clone(&store) as Arc<dyn Store>);
    nagaya.ensure_tables().await.expect("the tables are made");
    let h1 = tenant(&nagaya, "h1");
    let jar = h1.create("jar", fields(json!({ "name": "rice" }))).await.expect("a jar");
    store.take(|_| true);
    let jar = h1.update("jar", &["rice"], fields(json!({ "grams": 1 })), &jar).await.expect("it is as it was read");
    h1.delete("jar", &["rice"], &jar).await.expect("it is as it was read");
    let calls = store.take(|_| true);
    assert!(calls.len() == 2 && calls.iter().all(Call::is_write), "{calls:?}");
}

#[tokio::test]
async fn a_change_that_changes_nothing_writes_nothing() {
    let store = logged();
    let nagaya = Nagaya::open(nagaya_testing::parse_design(DESIGN), Arc::clone(&store) as Arc<dyn Store>);
    nagaya.ensure_tables().await.expect("the tables are made");
    let h1 = tenant(&nagaya, "h1");
    h1.create("jar", fields(json!({ "name": "rice" }))).await.expect("a jar");
    store.take_writes();
    h1.update("jar", &["rice"], fields(json!({ "grams": 0 })), None).await.expect("it stays");
    assert_eq!(store.take_writes(), []);
}

/// The record that the caller gets tells what the removed value was.
#[tokio::test]
async fn a_field_that_changes_before_it_is_removed_is_read_again() {
    let store = logged();
    let nagaya = Nagaya::open(nagaya_testing::parse_design(DESIGN), Arc::clone(&store) as Arc<dyn Store>);
    nagaya.ensure_tables().await.expect("the tables are made");
    let h1 = tenant(&nagaya, "h1");
    h1.create("jar", fields(json!({ "name": "rice", "label": "old" }))).await.expect("a jar");
    store.take(|_| true);
    let other = h1.clone();
    let late = meanwhile(&store, |_| true, async move {
        other.update("jar", &["rice"], fields(json!({ "label": "new" })), None).await.expect("a change");
    });
    h1.update("jar", &["rice"], fields(json!({ "label": null })), None).await.expect("it is removed");
    assert_eq!(late.hits(), 1);
    let reads = store.take(|call| matches!(call, Call::Get(..)));
    assert_eq!(reads.len(), 3, "one for the other change, and two because the first one lost the race");
    assert!(h1.get("jar", &["rice"]).await.expect("a jar").get("label").is_none());
}

/// A home on a store whose calls are known, and what changes it before the next write.
async fn home_and_store() -> (Tenant, Arc<InstrumentedStore>) {
    let store = logged();
    let nagaya = Nagaya::open(nagaya_testing::parse_design(DESIGN), Arc::clone(&store) as Arc<dyn Store>);
    nagaya.ensure_tables().await.expect("the tables are made");
    (tenant(&nagaya, "h1"), store)
}

#[tokio::test]
async fn what_changes_meanwhile_inside_of_a_map_stays() {
    let (h1, store) = home_and_store().await;
    let place = json!({ "row": "1", "column": "1" });
    h1.create("jar", fields(json!({ "name": "rice", "place": place }))).await.expect("a jar");
    let other = h1.clone();
    let late = meanwhile(&store, |_| true, async move {
        other.update("jar", &["rice"], fields(json!({ "place": { "row": "2" } })), None).await.expect("a change");
    });
    h1.update("jar", &["rice"], fields(json!({ "place": { "column": "2" } })), None).await.expect("a change");
    assert_eq!(late.hits(), 1);
    let jar = h1.get("jar", &["rice"]).await.expect("a jar");
    assert_eq!(jar.json("place"), Some(json!({ "row": "2", "column": "2" })));
}

#[tokio::test]
async fn a_key_of_an_index_has_what_changes_meanwhile_inside_of_a_map() {
    let (h1, store) = home_and_store().await;
    let tea = json!({ "name": "tea", "label": "old", "width": 1, "height": 1, "place": { "row": "1" } });
    h1.create("box", fields(tea)).await.expect("a box");
    let other = h1.clone();
    let late = meanwhile(&store, |_| true, async move {
        other.update("box", &["tea"], fields(json!({ "place": { "row": "2" } })), None).await.expect("a change");
    });
    h1.update("box", &["tea"], fields(json!({ "label": "new" })), None).await.expect("a change");
    assert_eq!(late.hits(), 1);
    let stored = store.get("app", &Key::new("HOME#h1", "BOX#tea")).await.expect("a store").expect("a box");
    assert_eq!(stored.get("GSI1SK").and_then(|key| key.as_str()), Some("2#new"));
}

#[tokio::test]
async fn unique_numbers_do_not_run_into_each_other() {
    let (h1, _) = home_and_store().await;
    let sized = |name: &str, width: i64, height: i64| {
        let sized = json!({ "name": name, "label": "x", "width": width, "height": height, "place": { "row": "1" } });
        h1.create("box", fields(sized))
    };
    sized("a", 1, 23).await.expect("a box");
    sized("b", 12, 3).await.expect("a box of another size");
    assert_eq!(sized("c", 1, 23).await.expect_err("the same size").code(), "taken");
}
