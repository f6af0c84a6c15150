//! Drafts: generated instants, defaults, immutable and required fields.

use std::{sync::Arc, time::Duration};

use nagaya_store::{Item, Key, Scan, Store as _, Value as Stored, Write};
use nagaya_tenancy::{Error, ErrorKind, List, Nagaya, Settings, Tenant};
use nagaya_testing::{InstrumentedStore, ManualClock, memory_store, parse_design};
use serde_json::{Value, json};

use crate::common::{fields, tenant};

const DESIGN: &str = r##"
name    = "diary"
version = "1.0"

[tenant]
field = "home"

[table.main]
name       = "main"
key        = ["PK", "SK"]
index.GSI1 = ["GSI1PK", "GSI1SK"]
ttl        = "gone"

[entity.entry]
table     = "main"
key       = { PK = "HOME#{home}", SK = "ENTRY#{at}#{id}" }
ttl_after = "1h"
# NG0602: its marker goes when it goes.
unique    = [{ fields = ["id"] }]

[entity.entry.fields]
home    = { type = "string", max = 20, immutable = true }
at      = { type = "timestamp", default = "now" }
id      = { type = "string", max = 20, immutable = true }
uuid    = { type = "uuid", default = "new" }
ulid    = { type = "ulid", prefix = "e_", default = "new" }
made    = { type = "timestamp", default = "now", immutable = true }
changed = { type = "timestamp", default = "now" }
due     = { type = "timestamp", optional = true }
mood    = { type = "string", one_of = ["fine", "bad"], default = "fine" }
fixed   = { type = "string", max = 20, optional = true, immutable = true }

[entity.entry.fields.place]
type     = "map"
optional = true

[entity.entry.fields.place.fields]
town   = { type = "string", max = 20, default = "here" }
street = { type = "string", max = 20, immutable = true, optional = true }
note   = { type = "string", max = 20, optional = true }

[entity.shelf]
table = "main"
key   = { PK = "HOME#{home}", SK = "SHELF#{id}" }

[entity.shelf.fields]
home  = { type = "string", max = 20 }
id    = { type = "string", max = 20 }
label = { type = "string", max = 20 }
color = { type = "string", max = 20, optional = true, default = "red" }
extra = { type = "map", optional = true }

[entity.book]
table       = "main"
key         = { PK = "HOME#{home}", SK = "BOOK#{id}" }
former_keys = [{ PK = "HOME#{home}", SK = "OLDBOOK#{id}" }]
soft_delete = { field = "state", value = "gone", at = "goneAt", by = "goneBy" }
index.GSI1  = { GSI1PK = "HOME#{home}#SHELF#{shelf}", GSI1SK = "BOOK#{id}" }

[entity.book.fields]
home   = { type = "string", max = 20 }
id     = { type = "string", max = 20 }
shelf  = { type = "string", max = 20, references = { entity = "shelf", on_delete = "cascade" } }
state  = { type = "string", one_of = ["here", "gone"], default = "here" }
goneAt = { type = "timestamp", optional = true }
goneBy = { type = "string", max = 20, optional = true }

[access.entries]
entity = "entry"

[access.books_of_shelf]
entity = "book"
index  = "GSI1"
"##;

/// 2027-01-15T08:00:00Z
const START: i64 = 1_800_000_000_000;

async fn open() -> (Tenant, Arc<InstrumentedStore>, ManualClock) {
    let clock = ManualClock::at(START);
    let store = InstrumentedStore::new(memory_store(&clock));
    let settings = Settings { clock: clock.clock(), ..Settings::default() };
    let nagaya = Nagaya::open_with(parse_design(DESIGN), store.clone(), settings);
    nagaya.ensure_tables().await.expect("the tables are made");
    (tenant(&nagaya, "h1"), store, clock)
}

/// The invalid fields, each with its message.
fn problems(error: &Error) -> Vec<String> {
    let ErrorKind::Invalid(problems) = error.kind() else { panic!("{error}") };
    problems.iter().map(|problem| format!("{} {}", problem.path, problem.message)).collect()
}

#[tokio::test]
async fn generated_instants_are_set_once_or_by_every_change() {
    let (h1, _, clock) = open().await;
    let made = h1.create("entry", fields(json!({ "id": "1", "due": null }))).await.expect("an entry");
    let start = "2027-01-15T08:00:00Z";
    for field in ["at", "made", "changed"] {
        assert_eq!(made.text(field), Some(start), "{field}");
    }
    assert_eq!(made.get("due"), None);
    assert!(made.text("ulid").is_some_and(|id| id.starts_with("e_") && id.len() == 28));
    assert!(made.text("uuid").is_some_and(|id| id.len() == 36));

    clock.advance(Duration::from_secs(60));
    let changed = h1.update("entry", &[start, "1"], fields(json!({ "mood": "bad" })), None).await.expect("a change");
    assert_eq!(changed.text("changed"), Some("2027-01-15T08:01:00Z"));
    for field in ["at", "made"] {
        assert_eq!(changed.text(field), Some(start), "{field}");
    }
    assert_eq!(changed.get("due"), None);

    let given = json!({ "changed": "2020-01-01T00:00:00Z", "due": "2028-01-01T00:00:00Z" });
    let given = h1.update("entry", &[start, "1"], fields(given), None).await.expect("a change");
    assert_eq!(given.text("changed"), Some("2020-01-01T00:00:00Z"));
    let due = h1.update("entry", &[start, "1"], fields(json!({ "mood": "fine" })), None).await.expect("a change");
    assert_eq!(due.text("due"), Some("2028-01-01T00:00:00Z"));
}

/// The time to live starts with the last write.
#[tokio::test]
async fn expiry_follows_the_last_write() {
    let (h1, store, clock) = open().await;
    let at = "2027-01-15T08:00:00Z";
    h1.create("entry", fields(json!({ "id": "1" }))).await.expect("an entry");
    let key = Key::new("HOME#h1", format!("ENTRY#{at}#1"));
    let stored = store.get("main", &key).await.expect("a read").expect("it is there");
    assert_eq!(stored.get("gone"), Some(&Stored::from(START / 1000 + 3600)));
    clock.advance(Duration::from_secs(60));
    h1.update("entry", &[at, "1"], fields(json!({ "mood": "bad" })), None).await.expect("a change");
    let stored = store.get("main", &key).await.expect("a read").expect("it is there");
    assert_eq!(stored.get("gone"), Some(&Stored::from(START / 1000 + 3660)));
    // The unique marker expires with the item, not before.
    let all = store.scan(Scan::table("main")).await.expect("a scan").items;
    assert_eq!(all.len(), 2, "{all:?}");
    for item in all {
        assert_eq!(item.get("gone"), Some(&Stored::from(START / 1000 + 3660)), "{item:?}");
    }
}

#[tokio::test]
async fn optional_fields_can_be_left_out_and_removed() {
    let (h1, store, _) = open().await;
    let new = json!({ "id": "1", "due": null, "place": { "note": null } });
    h1.create("entry", fields(new)).await.expect("an entry");
    let all = store.scan(Scan::table("main")).await.expect("a scan").items;
    let entry = all.iter().find(|item| item.get("mood").is_some()).expect("the entry");
    assert_eq!(entry.get("due"), None);
    assert_eq!(entry.get("place").map(|place| format!("{place:?}").contains("note")), Some(false));

    let shelf = h1.create("shelf", fields(json!({ "id": "s", "label": "l" }))).await.expect("a shelf");
    assert_eq!(shelf.text("color"), Some("red"));
    let shelf = h1.update("shelf", &["s"], fields(json!({ "color": null })), None).await.expect("a change");
    assert_eq!(shelf.text("color"), None);
    let refused = h1.update("shelf", &["s"], fields(json!({ "label": null })), None).await.expect_err("it is required");
    assert_eq!(problems(&refused), ["label is missing"]);

    // The content of a map without declared fields is up to the caller.
    for (patch, left) in [
        (json!({ "wide": 3, "old": 1 }), json!({ "wide": 3, "old": 1 })),
        (json!({ "old": null }), json!({ "wide": 3 })),
    ] {
        let shelf = h1.update("shelf", &["s"], fields(json!({ "extra": patch })), None).await.expect("a change");
        assert_eq!(shelf.to_json().get("extra"), Some(&left));
    }
}

/// Other programs write null where a field is left out.
#[tokio::test]
async fn a_stored_null_is_a_field_that_is_left_out() {
    let (h1, store, _) = open().await;
    h1.create("shelf", fields(json!({ "id": "s", "label": "l" }))).await.expect("a shelf");
    let mut item = store.get("main", &Key::new("HOME#h1", "SHELF#s")).await.expect("a read").expect("it is there");
    item.insert("color", Stored::Null);
    store.write(Write::put("main", item).into()).await.expect("it is stored");
    let shelf = h1.update("shelf", &["s"], fields(json!({ "label": "m" })), None).await.expect("a change");
    assert_eq!((shelf.text("label"), shelf.text("color")), (Some("m"), None));
}

#[tokio::test]
async fn all_problems_are_reported_at_once() {
    let (h1, ..) = open().await;
    let new = json!({
        "home": "h2", "id": "x".repeat(21), "mood": null, "due": null, "place": { "town": 1, "more": 1 }, "GSI1PK": "x",
    });
    let refused = h1.create("entry", fields(new)).await.expect_err("wrong in many ways");
    assert_eq!(
        problems(&refused),
        [
            "home comes from the token; leave it out",
            "id is not a text of at most 20 characters",
            "mood is null",
            "place.town is not a text of at most 20 characters",
            "place.more is not a field",
            "GSI1PK is not a field",
        ],
    );

    let at = "2027-01-15T08:00:00Z";
    let new = json!({ "id": "1", "fixed": "f", "place": { "street": "s" } });
    let made = h1.create("entry", fields(new)).await.expect("an entry");
    assert_eq!(made.to_json()["place"], json!({ "town": "here", "street": "s" }));
    let patch = json!({
        "home": "h2", "id": "2", "at": null, "made": null, "fixed": null, "mood": null, "more": null,
        "place": { "town": null, "street": "t", "note": null, "other": null }, "PK": "HOME#h2",
    });
    let refused = h1.update("entry", &[at, "1"], fields(patch), None).await.expect_err("wrong in many ways");
    assert_eq!(
        problems(&refused),
        [
            "more is not a field",
            "place.other is not a field",
            "home comes from the token; leave it out",
            "at is part of the key and cannot be changed",
            "id is part of the key and cannot be changed",
            "made cannot be changed",
            "fixed cannot be changed",
            "place.street cannot be changed",
            "at is missing",
            "made is missing",
            "mood is missing",
            "place.town is missing",
            "PK is not a field",
        ],
    );
    assert_eq!(h1.get("entry", &[at, "1"]).await.expect("it is there"), made);
}

/// Maps are merged, other values are replaced, null removes.
#[tokio::test]
async fn a_patch_changes_only_the_fields_that_it_names() {
    let (h1, ..) = open().await;
    let at = "2027-01-15T08:00:00Z";
    h1.create("entry", fields(json!({ "id": "1", "place": { "street": "s" } }))).await.expect("an entry");
    let change = async |patch: Value| {
        let changed = h1.update("entry", &[at, "1"], fields(patch), None).await.expect("a change");
        changed.to_json().get("place").cloned()
    };
    assert_eq!(
        change(json!({ "place": { "note": "n" } })).await,
        Some(json!({ "town": "here", "street": "s", "note": "n" }))
    );
    assert_eq!(change(json!({ "place": { "note": null } })).await, Some(json!({ "town": "here", "street": "s" })));
    let gone =
        h1.update("entry", &[at, "1"], fields(json!({ "place": null })), None).await.expect_err("it has a street");
    assert_eq!(problems(&gone), ["place.street cannot be changed"]);

    h1.create("entry", fields(json!({ "id": "2" }))).await.expect("an entry");
    let change = async |patch: Value| {
        let changed = h1.update("entry", &[at, "2"], fields(patch), None).await.expect("a change");
        changed.to_json().get("place").cloned()
    };
    assert_eq!(change(json!({ "place": { "town": "x", "note": null } })).await, Some(json!({ "town": "x" })));
    assert_eq!(change(json!({ "place": null })).await, None);
}

/// Lists find an item under a key of an older form, and a cascade deletes it there.
#[tokio::test]
async fn an_item_under_an_older_key_keeps_it() {
    let (h1, store, _) = open().await;
    h1.create("shelf", fields(json!({ "id": "s", "label": "l" }))).await.expect("a shelf");
    let book = |sort: &str| {
        Item::new()
            .with("PK", "HOME#h1")
            .with("SK", sort)
            .with("GSI1PK", "HOME#h1#SHELF#s")
            .with("GSI1SK", "BOOK#1")
            .with("home", "h1")
            .with("id", "1")
            .with("shelf", "s")
            .with("state", "here")
    };
    store.write(Write::put("main", book("OLDBOOK#1")).into()).await.expect("planted");
    let list = List::by("books_of_shelf").with("shelf", "s");
    assert_eq!(h1.list(&list).await.expect("a page").records.len(), 1);
    h1.delete("shelf", &["s"], None).await.expect("it goes with its books");
    let kept = store.get("main", &Key::new("HOME#h1", "OLDBOOK#1")).await.expect("a read").expect("it is kept");
    assert_eq!(kept.get("state").and_then(Stored::as_str), Some("gone"));
    assert_eq!(kept.get("goneAt").and_then(Stored::as_str), Some("2027-01-15T08:00:00Z"));
    assert_eq!(kept.get("goneBy").and_then(Stored::as_str), Some("u-1"));

    // Under the older key of another home it is a breach.
    let foreign = book("OLDBOOK#2").with("id", "2").with("home", "h2");
    store.write(Write::put("main", foreign).into()).await.expect("planted");
    assert_eq!(h1.list(&list).await.expect_err("planted").code(), "breach");
}

/// The tenant is in a map of the item, which a patch could remove as a whole.
#[tokio::test]
async fn a_patch_cannot_remove_the_map_that_the_tenant_is_in() {
    let design = parse_design(
        r##"
        name    = "desk"
        version = "1.0"

        [tenant]
        field = "home"

        [table.main]
        key = ["PK", "SK"]

        [entity.note]
        table  = "main"
        tenant = "made.home"
        key    = { PK = "HOME#{made.home}", SK = "NOTE#{id}" }

        [entity.note.fields]
        id   = { type = "string", max = 20 }
        text = { type = "string", max = 20, optional = true }

        [entity.note.fields.made]
        type = "map"

        [entity.note.fields.made.fields]
        home = { type = "string", max = 20 }
        room = { type = "string", max = 20, optional = true }
        "##,
    );
    let nagaya = Nagaya::open(design, memory_store(&ManualClock::at(START)));
    nagaya.ensure_tables().await.expect("the tables are made");
    let h1 = tenant(&nagaya, "h1");
    let note = json!({ "id": "1", "made": { "room": "hall" }, "text": "Buy milk" });
    let note = h1.create("note", fields(note)).await.expect("a note");
    let id: Vec<_> = note.id();
    let id: Vec<&str> = id.iter().map(|part| &**part).collect();
    let removed = h1.update("note", &id, fields(json!({ "made": null })), None).await.expect_err("it is the tenant's");
    assert!(problems(&removed).iter().any(|problem| problem.contains("cannot be changed")), "{removed:?}");
    let changed = h1.update("note", &id, fields(json!({ "made": { "room": null } })), None).await.expect("a change");
    assert_eq!(changed.to_json()["made"], json!({ "home": "h1" }));
}
