//! The stored tables, keys and index keys are those of the documents, byte for byte.

use nagaya_store::{Item, Key, KeySchema, Value};
use serde_json::{Value as Json, json};

use nagaya_testing::TestServer;

use crate::{
    harness::{BASE, Clients as _, create_sample, in_memory, invite},
    samples::samples,
};

/// Entity, its table in the multi-table design, and the keys of its sample; `{field}` stands for a field's value.
const STORED_KEYS: [(&str, &str, &str); 19] = [
    ("tenant", "tenants", "PK=TENANT#t1 SK=TENANT#t1 GSI1PK=TENANT GSI1SK={createdAt}"),
    ("user", "users", "PK=TENANT#t1 SK=USER#u1 GSI1PK=USER GSI1SK={createdAt} GSI2PK=USER#u1 GSI2SK=TENANT#t1"),
    (
        "tenant_application",
        "tenant_applications",
        "PK=TENANT#system SK=TENANT_APPLICATION#{applicationId} GSI1PK=TENANT_APPLICATION GSI1SK={createdAt}",
    ),
    ("permission_policy", "permission_policies", "PK=TENANT#t1 SK=POLICY#PERMISSIONS"),
    ("user_preferences", "user_preferences", "PK=TENANT#t1 SK=USER_PREFS#USER#u1"),
    (
        "email_account",
        "email_accounts",
        "PK=TENANT#t1 SK=EMAIL_ACCOUNT#m1 GSI1PK=TENANT#t1#EMAIL#aoi@example.com#gmail GSI1SK=EMAIL_ACCOUNT#m1 \
         GSI2PK=TENANT#t1#USER#u1 GSI2SK=EMAIL_ACCOUNT#{createdAt}#m1",
    ),
    (
        "email_message",
        "email_messages",
        "PK=TENANT#t1 SK=EMAIL_MESSAGE#x1 GSI2PK=TENANT#t1#TASK#k1 GSI2SK=EMAIL_MESSAGE#2030-01-01T08:00:00Z#x1",
    ),
    (
        "task",
        "tasks",
        "PK=TENANT#t1 SK=TASK#k1 GSI1PK=TENANT#t1#STATUS#open GSI1SK=TASK#{createdAt}#k1 \
         GSI2PK=TENANT#t1#USER#u1 GSI2SK=TASK#{createdAt}#k1",
    ),
    (
        "user_email_subscription",
        "user_email_subscriptions",
        "PK=TENANT#t1 SK=USER_EMAIL_SUB#USER#u1#ACCOUNT#m1 \
         GSI2PK=TENANT#t1#USER#u1 GSI2SK=USER_EMAIL_SUB#{createdAt}#m1",
    ),
    (
        "push_subscription",
        "push_subscriptions",
        "PK=TENANT#t1 SK=PUSH_SUB#p1 GSI2PK=TENANT#t1#USER#u1 GSI2SK=PUSH_SUB#{createdAt}#p1",
    ),
    ("announcement_board", "announcements", "PK=TENANT#t1 SK=ANNOUNCEMENTS#BOARD"),
    ("notice", "notices", "PK=GLOBAL SK=NOTICE#n1"),
    ("agent", "activity", "PK=TENANT#t1 SK=AGENT#a1 GSI1PK=AGENT GSI1SK={createdAt}"),
    ("execution", "activity", "PK=TENANT#t1 SK=EXEC#e1"),
    ("session", "activity", "PK=TENANT#t1 SK=SESSION#s1 GSI2PK=TENANT#t1#USER#u1 GSI2SK=SESSION#{createdAt}#s1"),
    ("token", "activity", "PK=TENANT#t1 SK=TOKEN#k1 GSI2PK=TENANT#t1#USER#u1 GSI2SK=TOKEN#{createdAt}#k1"),
    ("audit", "activity", "PK=TENANT#t1 SK=AUDIT#{timestamp}#{uuid}"),
    (
        "log",
        "log",
        "PK=TENANT#t1 SK=LOG#2030-01-01T00:00:00Z#0190a6e4-6b1c-7c3a-8f00-0123456789ab \
         GSI1PK=TRACE#trace-1 GSI1SK=2030-01-01T00:00:00Z GSI2PK=TENANT#t1#TRACE#trace-1 \
         GSI2SK=LOG#2030-01-01T00:00:00Z#0190a6e4-6b1c-7c3a-8f00-0123456789ab",
    ),
    (
        "archived_audit",
        "log",
        "PK=TENANT#t1 SK=AUDIT#2030-01-01T00:00:00Z#0190a6e4-6b1c-7c3a-8f00-0123456789ab \
         GSI1PK=TRACE#trace-1 GSI1SK=2030-01-01T00:00:00Z GSI2PK=TENANT#t1#TRACE#trace-1 \
         GSI2SK=AUDIT#2030-01-01T00:00:00Z#0190a6e4-6b1c-7c3a-8f00-0123456789ab",
    ),
];

/// Creates one item of each entity in a tenant; the responses.
fn filled(server: &TestServer) -> Vec<(String, Json)> {
    let admin = server.user_with("t1", "u1", &["admin"]);
    let mut made = Vec::new();
    for sample in samples() {
        made.push((sample.entity.to_owned(), create_sample(server, &admin, "t1", &sample)));
    }
    // A user is in the index of memberships from when they accept.
    if let Some((_, user)) = made.iter_mut().find(|(entity, _)| entity == "user") {
        *user = invite(server, "t1", "u1");
    }
    let application = json!({ "tenantName": "Beta", "applicantName": "Ren", "applicantEmail": "ren@example.com" });
    let application = server.user_without_tenant("sub-ren").post("/tenant-applications", &application).expect_data(201);
    made.push(("tenant_application".to_owned(), application));
    let notice = json!({ "noticeId": "n1", "title": "News", "body": "None." });
    made.push(("notice".to_owned(), server.client_of_operator("op-1").post("/notices", &notice).expect_data(201)));
    made.push(("audit".to_owned(), admin.get("/audits?limit=1").list().remove(0)));
    made
}

/// Replaces `{field}` by the field of an item.
fn fill_placeholders(place: &str, item: &Json) -> String {
    let fields = item.as_object().expect("an item");
    fields.iter().fold(place.to_owned(), |place, (name, value)| {
        place.replace(&format!("{{{name}}}"), value.as_str().unwrap_or_default())
    })
}

/// The keys of a stored item.
fn keys(item: &Item) -> String {
    let names = ["PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK"];
    let key = |name: &str| item.get(name).map(|value| format!("{name}={}", value.as_str().unwrap_or("not a text")));
    names.into_iter().filter_map(key).collect::<Vec<_>>().join(" ")
}

/// Asserts the stored keys of every item; `table` maps a table of the multi-table design to the one in use.
fn assert_stored_keys(server: &TestServer, table: impl Fn(&str) -> String) {
    let made = filled(server);
    for (entity, suffix, place) in STORED_KEYS {
        let (_, answered) = made.iter().find(|(each, _)| each == entity).expect("one of each kind");
        let expected = fill_placeholders(place, answered);
        let part = |name: &str| {
            let part = expected.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            part.expect("a key").to_owned()
        };
        let (table, key) = (table(suffix), Key::new(part("PK"), part("SK")));
        let item = server.block_on(server.store.get(&table, &key)).expect("the table is there");
        let item = item.unwrap_or_else(|| panic!("{entity} is not in {table} under {expected}"));
        assert_eq!(keys(&item), expected, "{entity} in {table}");
        // Text fields are stored in attributes of the same names.
        for (name, value) in answered.as_object().expect("an item") {
            if let Some(text) = value.as_str() {
                assert_eq!(item.get(name).and_then(Value::as_str), Some(text), "{name} of {entity}");
            }
        }
    }
}

/// Proves M1. Proves the API's part of A3.
#[test]
fn the_split_has_the_documented_tables_and_keys() {
    let server = in_memory("multi");
    assert_stored_keys(&server, |suffix| format!("{BASE}-{suffix}"));
    // The twelve tables of the document and two for entities that it does not name, all with the same attributes.
    let tables = nagaya_tenancy::table_specs(server.nagaya.design(), BASE);
    let mut documented: Vec<_> = STORED_KEYS[..12].iter().map(|(_, suffix, _)| format!("{BASE}-{suffix}")).collect();
    documented.extend(["activity", "log"].map(|suffix| format!("{BASE}-{suffix}")));
    assert_eq!(tables.iter().map(|table| table.name.clone()).collect::<Vec<_>>(), documented);
    let indexes = |suffix: &str| -> Vec<String> {
        let table = tables.iter().find(|table| table.name == format!("{BASE}-{suffix}")).expect("a table");
        assert_eq!(table.key, KeySchema::strings("PK", "SK"));
        for index in &table.indexes {
            assert_eq!(index.key, KeySchema::strings(&format!("{}PK", index.name), &format!("{}SK", index.name)));
        }
        table.indexes.iter().map(|index| index.name.clone()).collect()
    };
    for (suffix, documented) in [
        ("tenants", ["GSI1"].as_slice()),
        ("users", &["GSI1", "GSI2"]),
        ("tenant_applications", &["GSI1"]),
        ("permission_policies", &[]),
        ("user_preferences", &[]),
        ("email_accounts", &["GSI1", "GSI2"]),
        ("email_messages", &["GSI2"]),
        ("tasks", &["GSI1", "GSI2"]),
        ("user_email_subscriptions", &["GSI2"]),
        ("push_subscriptions", &["GSI2"]),
        ("announcements", &[]),
        ("notices", &[]),
    ] {
        assert_eq!(indexes(suffix), documented, "{suffix}");
    }
}

/// Proves A3 and A8. Proves the API's part of A4, A5 and A10.
#[test]
fn the_single_table_has_the_documented_keys_and_attributes() {
    let server = in_memory("single");
    assert_stored_keys(&server, |suffix| format!("{BASE}-{}", if suffix == "log" { "log" } else { "app" }));
    for (sort, attributes) in [
        ("TENANT#t1", ["name", "plan", "enabled"].as_slice()),
        ("USER#u1", &["email", "role", "name", "createdAt"]),
        ("EXEC#e1", &["agentId", "status", "traceId", "inputSummary", "createdAt"]),
    ] {
        let found = server.block_on(server.store.get("aiagent-dev-app", &Key::new("TENANT#t1", sort)));
        let item = found.expect("the table is there").expect("the item is there");
        let missing: Vec<_> = attributes.iter().filter(|name| item.get(name).is_none()).collect();
        assert!(missing.is_empty(), "{sort} lacks {missing:?}");
    }
    let entry = server.admin("t1").get("/audits?limit=1").list().remove(0);
    for name in ["action", "resource", "actorUserId", "traceId"] {
        assert!(entry[name].is_string(), "{entry}");
    }
}
