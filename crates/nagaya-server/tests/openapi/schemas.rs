//! The schemas of an entity accept what the server accepts.

use nagaya_server::{System, document};
use serde_json::{Value as Json, json};

use super::{NOW, design, fits};

const DESIGN: &str = r#"
name    = "club"
version = "1.0"

[tenant]
field  = "clubId"
system = "system"

[table.app]
key           = ["clubId", "id"]
index.name    = ["clubId", "name"]
discriminator = "type"
ttl           = "endsAt"

[table.open]
key = ["PK", "SK"]

[entity.member]
table       = "app"
key         = { clubId = "{clubId}", id = "{id}" }
version     = "version"
soft_delete = { field = "state", value = "gone", at = "goneAt" }
index.name  = { clubId = "{clubId}", name = "{name}" }

[entity.member.fields]
clubId  = { type = "string", pattern = "[a-z]{1,20}", max = 20 }
id      = { type = "ulid", default = "new" }
name    = { type = "string", max = 100 }
state   = { type = "string", one_of = ["here", "away", "gone"], default = "here" }
goneAt  = { type = "timestamp", optional = true }
pin     = { type = "string", max = 10, secret = true, optional = true }
born    = { type = "date", immutable = true }
endsAt  = { type = "timestamp", precision = "epoch", optional = true }
visits  = { type = "integer", min = 0, default = 0, readonly = true }
awayAt  = { type = "timestamp", optional = true, since = "state = 'away'" }

[entity.member.fields.address]
type = "map"

[entity.member.fields.address.fields]
town  = { type = "string", min = 1, max = 50 }
code  = { type = "string", max = 10, optional = true }
since = { type = "date", immutable = true, optional = true }

[entity.notice]
table  = "open"
key    = { PK = "NOTICE", SK = "{noticeId}" }
wall   = "public"
tenant = false

[entity.notice.fields]
noticeId = { type = "ulid", default = "new" }
text     = { type = "string", max = 100 }

[entity.link]
table  = "open"
key    = { PK = "LINK#{linkId}", SK = "LINK#" }
wall   = "public"
tenant = "owner.clubId"

[entity.link.fields]
linkId = { type = "ulid", default = "new" }
url    = { type = "string", format = "uri" }

[entity.link.fields.owner]
type = "map"

[entity.link.fields.owner.fields]
clubId = { type = "string", max = 20 }
"#;

#[track_caller]
fn check(schema: &str, fine: &[Json], wrong: &[Json]) {
    let document = document(&System::plain(design(DESIGN)), "", NOW);
    let reference = json!({ "$ref": format!("#/components/schemas/{schema}") });
    for value in fine {
        assert_eq!(fits(&document, &reference, value), Ok(()));
    }
    for value in wrong {
        assert!(fits(&document, &reference, value).is_err(), "{schema} takes {value}");
    }
}

/// An object with some of its fields replaced; null removes one.
fn with(object: &Json, changes: Json) -> Json {
    let mut object = object.clone();
    for (name, value) in changes.as_object().expect("changes") {
        object[name] = value.clone();
    }
    object
}

#[test]
fn the_body_that_creates_has_required_fields_and_no_generated_ones() {
    let least = json!({ "name": "Ann", "born": "2000-02-29", "address": { "town": "Uji" } });
    check(
        "NewMember",
        &[
            least.clone(),
            with(&least, json!({ "id": "01KG9S5Q60T4N2Y8ZC3M7VXR1E", "state": "away", "pin": "1234", "endsAt": NOW })),
            with(&least, json!({ "goneAt": null, "pin": null })),
        ],
        &[
            json!({}),
            with(&least, json!({ "clubId": "abc" })),
            with(&least, json!({ "version": 1 })),
            with(&least, json!({ "visits": 1 })),
            with(&least, json!({ "state": "away", "awayAt": "2026-01-31T09:30:00Z" })),
            with(&least, json!({ "other": 1 })),
            with(&least, json!({ "name": null })),
            with(&least, json!({ "address": {} })),
            with(&least, json!({ "address": { "town": "Uji", "other": 1 } })),
            // Only DELETE sets the soft-delete mark.
            with(&least, json!({ "state": "gone" })),
            // The item would expire at once.
            with(&least, json!({ "endsAt": NOW - 1 })),
            // The field is the whole key.
            with(&least, json!({ "name": "" })),
            with(&least, json!({ "name": "a#b" })),
            with(&least, json!({ "name": "50%" })),
        ],
    );
}

#[test]
fn ids_of_public_items_are_generated_unless_an_operator_creates_them() {
    check("NewNotice", &[json!({ "text": "Hi", "noticeId": "01KG9S5Q60T4N2Y8ZC3M7VXR1E" })], &[json!({})]);
    let link = json!({ "url": "https://example.com" });
    check(
        "NewLink",
        // The tenancy layer creates the map around the tenant.
        &[link.clone(), with(&link, json!({ "owner": {} }))],
        &[
            with(&link, json!({ "linkId": "01KG9S5Q60T4N2Y8ZC3M7VXR1E" })),
            with(&link, json!({ "owner": { "clubId": "a" } })),
        ],
    );
}

#[test]
fn the_body_that_updates_has_only_mutable_fields() {
    check(
        "MemberPatch",
        &[
            json!({}),
            json!({ "name": "Bea", "goneAt": null, "pin": null, "endsAt": NOW }),
            json!({ "address": {} }),
            json!({ "address": { "code": null } }),
        ],
        &[
            json!({ "name": null }),
            json!({ "id": "01KG9S5Q60T4N2Y8ZC3M7VXR1E" }),
            json!({ "clubId": "abc" }),
            json!({ "born": "2000-01-01" }),
            json!({ "address": { "since": "2000-01-01" } }),
            json!({ "address": { "town": null } }),
            json!({ "state": "gone" }),
            json!({ "endsAt": NOW - 1 }),
            json!({ "name": "a#b" }),
            json!({ "other": null }),
            json!({ "visits": 1 }),
            json!({ "awayAt": null }),
        ],
    );
}

#[test]
fn the_body_that_is_read_has_an_id_a_version_and_no_secrets() {
    let item = json!({
        "clubId": "abc", "id": "01KG9S5Q60T4N2Y8ZC3M7VXR1E", "name": "Ann", "born": "2000-02-29",
        "address": { "town": "Uji", "left over": true }, "version": 3,
    });
    check(
        "Member",
        // Expired and marked items fit the schema of stored items.
        &[
            item.clone(),
            with(&item, json!({ "endsAt": NOW - 1, "state": "gone" })),
            with(&item, json!({ "visits": 7, "awayAt": "2026-01-31T09:30:00Z" })),
        ],
        &[
            with(&item, json!({ "pin": "1234" })),
            with(&item, json!({ "version": 0 })),
            with(&item, json!({ "type": "member" })),
            json!({ "clubId": "abc", "name": "Ann", "born": "2000-02-29", "address": { "town": "Uji" }, "version": 3 }),
        ],
    );
}

#[test]
fn fields_that_callers_cannot_set_are_read_only() {
    let document = document(&System::plain(design(DESIGN)), "", NOW);
    let properties = &document["components"]["schemas"]["Member"]["properties"];
    let marked: Vec<_> =
        properties.as_object().expect("fields").iter().filter(|(_, each)| each["readOnly"] == true).collect();
    let names: Vec<_> = marked.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["awayAt", "visits"]);
}
