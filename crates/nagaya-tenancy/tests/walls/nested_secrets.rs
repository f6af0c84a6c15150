//! Secrets inside maps and lists are left out wherever a record is read.

use nagaya_tenancy::{Record, Tenant};
use serde_json::{Value as Json, json};

use crate::common::{fields, open, tenant};

const DESIGN: &str = r#"
name    = "accounts"
version = "1.0"

[tenant]
field = "tenantId"

[table.app]
key = ["PK", "SK"]

[entity.account]
table = "app"
key   = { PK = "TENANT#{tenantId}", SK = "ACCOUNT#{accountId}" }

[entity.account.fields]
tenantId  = { type = "string", min = 1, max = 64 }
accountId = { type = "ulid", default = "new" }
label     = { type = "string", max = 100 }
pin       = { type = "string", max = 10, secret = true }

[entity.account.fields.login]
type   = "map"
fields = { user = { type = "string", max = 100 }, password = { type = "string", max = 100, secret = true }, device = { type = "map", optional = true, fields = { model = { type = "string", max = 100 }, key = { type = "string", max = 100, secret = true } } } }

[entity.account.fields.contacts]
type  = "list"
items = { type = "map", fields = { name = { type = "string", max = 100 }, code = { type = "string", max = 100, secret = true } } }

[entity.account.fields.codes]
type  = "list"
items = { type = "string", max = 100, secret = true }

[access.accounts]
entity = "account"
"#;

async fn account() -> (Tenant, Record) {
    let nagaya = open(nagaya_testing::parse_design(DESIGN)).await;
    let acme = tenant(&nagaya, "acme");
    let created = acme
        .create(
            "account",
            fields(json!({
                "label": "Bank", "pin": "s3cret-1", "codes": ["s3cret-2"],
                "login": { "user": "ann", "password": "s3cret-3", "device": { "model": "M1", "key": "s3cret-4" } },
                "contacts": [{ "name": "Bob", "code": "s3cret-5" }],
            })),
        )
        .await
        .expect("an account");
    let id = created.text("accountId").expect("an id").to_owned();
    let read = acme.get("account", &[&id]).await.expect("the account");
    (acme, read)
}

fn open_fields() -> [(&'static str, Json); 4] {
    [
        ("label", json!("Bank")),
        ("login", json!({ "user": "ann", "device": { "model": "M1" } })),
        ("contacts", json!([{ "name": "Bob" }])),
        ("codes", json!([])),
    ]
}

#[tokio::test]
async fn no_way_to_read_a_record_shows_what_is_secret_in_its_maps_and_lists() {
    let (_, mut read) = account().await;
    for shown in [Json::Object(read.to_json()), serde_json::to_value(&read).expect("JSON")] {
        assert!(!shown.to_string().contains("s3cret"), "{shown}");
        for (field, value) in open_fields() {
            assert_eq!(shown[field], value, "{field}");
        }
        assert!(shown.get("pin").is_none(), "{shown}");
    }
    for (field, value) in open_fields() {
        assert_eq!(read.json(field), Some(value.clone()), "{field}");
    }
    // As it is stored, a field with a secret is not shown at all.
    for field in ["login", "contacts", "codes", "pin"] {
        assert!(read.get(field).is_none(), "{field}");
    }
    assert_eq!((read.text("label"), read.json("pin")), (Some("Bank"), None));
    for (field, value) in open_fields() {
        assert_eq!(read.take(field), Some(value), "{field}");
    }
    assert_eq!((read.take("pin"), read.take("label")), (None, None), "a secret, and what was taken");
}

#[tokio::test]
async fn what_a_record_does_not_show_cannot_be_taken_from_it() {
    let (_, mut read) = account().await;
    assert!(!read.is_adapted());
    read.restrict(&["label".to_owned()].into(), fields(json!({ "hint": "ask the owner" })));
    assert_eq!((read.json("login"), read.take("login")), (None, None));
    assert!(read.is_adapted());
    let shown = json!({ "label": "Bank", "hint": "ask the owner" });
    assert_eq!(Json::Object(read.to_json()), shown);
    assert_eq!(serde_json::to_value(&read).expect("JSON"), shown);
    assert_eq!(read.take("label"), Some(json!("Bank")));
}

/// An `ETag` is made of the digest: it must change with what the caller sees, and say nothing of what they do not see.
#[tokio::test]
async fn the_digest_of_a_record_does_not_depend_on_secrets() {
    let (acme, read) = account().await;
    let id = read.text("accountId").expect("an id").to_owned();
    let update = async |patch: Json| acme.update("account", &[&id], fields(patch), None).await.expect("an account");
    let with_pin = update(json!({ "pin": "s3cret-9" })).await;
    assert_eq!(with_pin.digest(), read.digest());
    assert_ne!(with_pin, read, "records are equal with their secrets only");
    let with_label = update(json!({ "label": "Shop" })).await;
    let with_longer_label = update(json!({ "label": "Shop of Bob" })).await;
    assert_eq!(with_longer_label.size(), with_label.size() + " of Bob".len());
    assert_ne!(with_label.digest(), read.digest());
    assert_ne!(with_label, with_pin);
}
