//! Audit entries are written with the change, and cannot be avoided.

use nagaya_store::Value;
use nagaya_tenancy::{List, Nagaya, Operator, Principal, Record, RecordOwner};
use serde_json::{Value as Json, json};

use crate::{
    common::{design, fields, open, tenant},
    fault_stores::{all, memory},
    soft_delete::{management, user},
};

/// The entries of a list, as JSON.
async fn entries(of: &nagaya_tenancy::Tenant, access: &str) -> Vec<Json> {
    let page = of.list(&List::by(access).limit(1000)).await.expect("a page");
    page.records.iter().map(Record::to_json).map(Json::Object).collect()
}

fn operator(nagaya: &Nagaya, reason: &str) -> Operator {
    nagaya.operator(reason, &Principal::new("ops", "op-1"))
}

/// Proves the audit part of C20.
#[tokio::test]
async fn an_audit_entry_has_old_and_new_values_actor_time_and_address() {
    let (_, nagaya, acme) = management().await;
    let made = acme.create("user", user("ann")).await.expect("a user");
    let id = made.text("id").expect("an id").to_owned();
    acme.update("user", &[&id], fields(json!({ "displayName": "Ann", "metadata": { "team": "blue" } })), None)
        .await
        .expect("a change");
    acme.delete("user", &[&id], None).await.expect("it is deleted");

    let page = acme.list(&List::by("audit_logs_of_target").with("targetId", &id)).await.expect("a page");
    let found: Vec<_> = page.records.iter().map(Record::to_json).collect();
    let mut actions: Vec<_> = found.iter().filter_map(|entry| entry["action"].as_str()).collect();
    actions.sort_unstable();
    assert_eq!(actions, ["user.create", "user.delete", "user.update"]);
    for entry in &found {
        assert_eq!(entry["performedBy"], "u-1");
        assert_eq!(entry["ipAddress"], "192.0.2.7");
        assert_eq!(entry["requestId"], "request-1");
        assert!(entry["timestamp"].as_str().is_some_and(|at| at.ends_with('Z')));
    }
    let changes = |action: &str| &found.iter().find(|entry| entry["action"] == action).expect("an entry")["changes"];
    assert_eq!(changes("user.create")["email"], json!({ "new": "***" }));
    assert_eq!(changes("user.create")["isActive"], json!({ "new": true }));
    assert_eq!(changes("user.update")["displayName"], json!({ "old": "***", "new": "***" }));
    assert_eq!(changes("user.update")["metadata"], json!({ "new": { "team": "blue" } }));
    assert_eq!(changes("user.update").get("email"), None, "what did not change is not there");
    assert_eq!(changes("user.delete")["isActive"], json!({ "old": true, "new": false }));
    let all = format!("{found:?}");
    assert!(!all.contains("$2b$") && !all.contains("passwordHash"), "secrets are never written down: {all}");
    assert!(!all.contains("ann"), "personal data is masked: {all}");

    let other = tenant(&nagaya, "tenant_other");
    assert!(entries(&other, "audit_logs").await.is_empty(), "another tenant sees nothing of it");
}

/// Proves the audit part of A8, and the audit part of A9.
#[tokio::test]
async fn entries_have_the_documented_attributes_on_both_designs() {
    for name in ["aiagent/single", "aiagent/multi"] {
        let nagaya = open(design(name)).await;
        let principal = Principal { request: Some("trace-1".into()), ..Principal::new("t1", "u-1") };
        let t1 = nagaya.tenant(&principal).expect("a tenant");
        t1.create("user", fields(json!({ "userId": "u", "email": "a@example.com", "name": "A" })))
            .await
            .expect("a user");
        t1.create("session", fields(json!({ "userId": "u", "tokenHash": "x", "expiresAt": 4102444800_i64 })))
            .await
            .expect("a session");
        t1.delete("user", &["u"], None).await.expect("it goes with its session");
        let mut found = entries(&t1, "audits").await;
        found.sort_by_key(|entry| entry["action"].to_string());
        let actions: Vec<_> = found.iter().filter_map(|entry| entry["action"].as_str()).collect();
        assert_eq!(actions, ["session.create", "session.delete", "user.create", "user.delete"], "{name}");
        for entry in &found {
            assert_eq!((&entry["actorUserId"], &entry["traceId"]), (&json!("u-1"), &json!("trace-1")));
            assert!(entry["resource"].as_str().is_some_and(|resource| !resource.is_empty()));
        }
        assert_eq!(found[2]["resource"], "u");
    }
}

/// A refused change leaves no entry, and neither does an entity that is not audited.
#[tokio::test]
async fn only_changes_of_audited_entities_leave_an_entry() {
    let (store, _, acme) = management().await;
    acme.create("user", user("ann")).await.expect("a user");
    let before = entries(&acme, "audit_logs").await.len();
    acme.create("user", user("ann")).await.expect_err("the name is taken");
    acme.update("tenant", &[], fields(json!({ "plan": "none such" })), None).await.expect_err("no such plan");
    let channel = fields(json!({ "name": "general", "displayName": "General", "createdBy": "u-1" }));
    let channel = acme.create("channel", channel).await.expect("a channel");
    // A change that changes nothing leaves none either.
    let same = fields(json!({ "displayName": "General" }));
    acme.update("channel", &[channel.text("id").expect("an id")], same, None).await.expect("it stays");
    let message = json!({ "channelId": channel.text("id"), "senderId": "u-1", "senderName": "A", "content": "hello" });
    acme.create("message", fields(message)).await.expect("a message");
    let after = entries(&acme, "audit_logs").await;
    assert_eq!(after.len(), before + 1, "only the channel's: {after:#?}");
    assert!(all(&store, "auth").await.iter().all(|item| {
        !item.get("tenantId").and_then(Value::as_str).is_some_and(|partition| partition.starts_with("%audit"))
    }));
}

#[tokio::test]
async fn long_values_are_cut_and_the_change_is_made() {
    let (_, _, acme) = management().await;
    let long = json!({ "metadata": { "note": "長".repeat(5_000), "list": vec!["x".repeat(100); 10] } });
    acme.update("tenant", &[], fields(long), None).await.expect("a change");
    let found = entries(&acme, "audit_logs").await;
    let entry = found.iter().find(|entry| entry["action"] == "tenant.update").expect("an entry");
    let new = entry["changes"]["metadata"]["new"].as_str().expect("a text");
    assert!(new.ends_with('…') && new.len() <= 2_048, "{} bytes", new.len());
}

/// Proves the operator part of C20.
#[tokio::test]
async fn an_operators_actions_for_a_tenant_are_in_the_tenants_audit() {
    let (_, nagaya, acme) = management().await;
    let ann = acme.create("user", user("ann")).await.expect("a user");
    let id = ann.text("id").expect("an id").to_owned();
    let before = entries(&acme, "audit_logs").await.len();
    let within = operator(&nagaya, "ticket 7: cannot sign in").as_tenant("tenant_acme").expect("a tenant");
    within.get("user", &[&id]).await.expect("a user");
    within.list(&List::by("users")).await.expect("a page");
    within.verify_secret("user", &[&id], "passwordHash", |_| true).await.expect("a user");
    within.update("user", &[&id], fields(json!({ "displayName": "Ann" })), None).await.expect("a change");
    within.get_many(&[("user", &[&id]), ("tenant", &[])]).await.expect("both");
    // An unsuccessful read is logged too.
    within.get("user", &["user_00000000-0000-4000-8000-000000000000"]).await.expect_err("no such user");

    let found = entries(&acme, "audit_logs").await;
    let mut own: Vec<_> = found.iter().filter(|entry| entry["performedBy"] == "op-1").collect();
    own.sort_by_key(|entry| entry["action"].to_string());
    let actions: Vec<_> = own.iter().filter_map(|entry| entry["action"].as_str()).collect();
    let expected = ["tenant.read", "user.list", "user.read", "user.read", "user.read", "user.update", "user.verify"];
    assert_eq!(actions, expected);
    assert!(own.iter().all(|entry| entry["reason"] == "ticket 7: cannot sign in"));
    assert_eq!(found.len(), before + expected.len());

    let log = operator(&nagaya, "a look at the log").read_log(0, i64::MAX, None).await.expect("a page");
    assert_eq!(log.entries.len(), expected.len() + 1);
    assert!(log.entries[..expected.len()].iter().all(|entry| entry.tenant.as_deref() == Some("tenant_acme")));
    assert_eq!(log.entries[expected.len()].action, "audit.list");
}

#[tokio::test]
async fn an_operators_actions_are_in_the_log_also_without_an_audit_entity() {
    // The todo design has no audit entity, the aiagent design has one.
    let nagaya = open(design("aiagent/single")).await;
    let application = json!({ "tenantName": "Acme", "applicantName": "Ann", "applicantEmail": "ann@example.com" });
    let ops = operator(&nagaya, "a new sign-up");
    let made = ops.create("tenant_application", fields(application)).await.expect("an application");
    let id = made.text("applicationId").expect("an id").to_owned();
    ops.update("tenant_application", &[&id], fields(json!({ "status": "approved" })), None).await.expect("a change");
    ops.list(&List::by("tenant_applications")).await.expect("a page");
    ops.delete("tenant_application", &[&id], None).await.expect("it goes");
    let log = ops.read_log(0, i64::MAX, None).await.expect("a page").entries;
    let actions: Vec<_> = log.iter().map(|entry| entry.action.as_str()).collect();
    let expected = ["create", "update", "list", "delete"].map(|verb| format!("tenant_application.{verb}"));
    assert_eq!(actions[..4], expected);
    assert_eq!(actions[4..], ["audit.list"]);
    let update = log.iter().find(|entry| entry.action.ends_with("update")).expect("an entry");
    assert_eq!(update.changes["status"], json!({ "old": "pending", "new": "approved" }));
    assert_eq!(
        (update.reason.as_str(), update.actor.as_str(), update.tenant.as_deref()),
        ("a new sign-up", "op-1", None)
    );
    assert_eq!(update.issuer, None, "it was done without a token");
    assert!(!format!("{log:?}").contains("ann@example.com"), "personal data is masked");

    let todo = open(design("todo/todo")).await;
    let within = operator(&todo, "a complaint").as_tenant("f-1").expect("a tenant");
    within.list(&List::by("todos_active")).await.expect("a page");
    let log = operator(&todo, "a look at the log").read_log(0, i64::MAX, None).await.expect("a page").entries;
    assert_eq!((log[0].action.as_str(), log[0].tenant.as_deref()), ("todo.list", Some("f-1")));
}

#[tokio::test]
async fn following_changes_archiving_and_reading_the_log_are_in_the_log() {
    let (_, nagaya, _) = management().await;
    let ops = operator(&nagaya, "a look around");
    ops.change_source("user").await.expect("a source");
    ops.archive_audits(&|_| {}).await.expect("it is archived");
    ops.verify_log(None).await.expect("a report");
    let log = ops.read_log(0, i64::MAX, None).await.expect("a page").entries;
    let actions: Vec<_> = log.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["user.follow", "audit.archive", "audit.verify", "audit.list"]);
}

/// What operators alone see can be about a tenant; what belongs to the system concerns none.
#[tokio::test]
async fn what_an_operator_writes_about_a_tenant_is_in_the_audit_of_that_tenant() {
    let design = nagaya_testing::parse_design(
        r#"
        name    = "desk"
        version = "1.0"
        [tenant]
        field  = "shop"
        system = "system"
        [audit]
        entity = "trail"
        action = "action"
        actor  = "actor"
        [table.main]
        name = "main"
        key  = ["PK", "SK"]
        [entity.warning]
        table = "main"
        key   = { PK = "WARNING#{id}", SK = "WARNING#{id}" }
        wall  = "system"
        [entity.warning.fields]
        shop = { type = "string", max = 20 }
        id   = { type = "string", max = 20 }
        [entity.trail]
        table = "main"
        key   = { PK = "SHOP#{shop}", SK = "TRAIL#{id}" }
        [entity.trail.fields]
        shop   = { type = "string", max = 20 }
        id     = { type = "ulid", default = "new" }
        action = { type = "string", max = 100 }
        actor  = { type = "string", max = 64 }
        [access.trails]
        entity = "trail"
        "#,
    );
    let store = memory();
    let nagaya = Nagaya::open(design, store.clone());
    nagaya.ensure_tables().await.expect("the tables are made");
    let ops = operator(&nagaya, "a shop does not pay");
    for (id, shop) in [("w1", "s1"), ("w2", "system")] {
        ops.create("warning", fields(json!({ "id": id, "shop": shop }))).await.expect("a warning");
    }
    let trails = entries(&tenant(&nagaya, "s1"), "trails").await;
    assert_eq!(trails.iter().map(|entry| &entry["action"]).collect::<Vec<_>>(), ["warning.create"]);
    let is_trail = |item: &&nagaya_store::Item| {
        item.get("SK").and_then(Value::as_str).is_some_and(|key| key.starts_with("TRAIL#"))
    };
    assert_eq!(all(&store, "main").await.iter().filter(is_trail).count(), 1);
    let log = ops.read_log(0, i64::MAX, None).await.expect("a page").entries;
    let concerned: Vec<_> = log.iter().map(|entry| (entry.target.as_str(), entry.tenant.as_deref())).collect();
    assert_eq!(concerned[..2], [("w1", Some("s1")), ("w2", None)]);
}

/// Two issuers may give the same user id to different people.
#[tokio::test]
async fn the_log_has_the_issuer_of_the_operator() {
    let nagaya = open(design("todo/todo")).await;
    for issuer in ["https://login.example.com", "local"] {
        let principal = Principal { issuer: Some(issuer.into()), ..Principal::new("", "op-1") };
        let within = nagaya.operator("a complaint", &principal).as_tenant("f-1").expect("a tenant");
        within.list(&List::by("todos_active")).await.expect("a page");
    }
    let log = operator(&nagaya, "a look at the log").read_log(0, i64::MAX, None).await.expect("a page").entries;
    let who: Vec<_> = log.iter().map(|entry| (entry.actor.as_str(), entry.issuer.as_deref())).collect();
    assert_eq!(who[..2], [("op-1", Some("https://login.example.com")), ("op-1", Some("local"))]);
}

#[tokio::test]
async fn the_log_is_paged_between_two_instants() {
    let nagaya = open(design("todo/todo")).await;
    let before = now();
    let within = operator(&nagaya, "many changes").as_tenant("f-1").expect("a tenant");
    for _ in 0..230 {
        within.list(&List::by("todos_active")).await.expect("a page");
    }
    let after = now() + 1;
    let ops = operator(&nagaya, "a look at the log");
    let mut found = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = ops.read_log(before, after, cursor.as_deref()).await.expect("a page");
        found.extend(page.entries);
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(found.iter().filter(|entry| entry.action == "todo.list").count(), 230);
    assert!(found.is_sorted_by_key(|entry| entry.at));
    assert!(ops.read_log(0, before, None).await.expect("a page").entries.is_empty());
    let first = ops.read_log(before, after, None).await.expect("a page").next.expect("more");
    let colleague = nagaya.operator("reading the log", &Principal::new("ops", "op-2"));
    let foreign = colleague.read_log(before, after, Some(&first)).await.expect_err("another operator's");
    assert_eq!(foreign.code(), "bad_cursor");
    let foreign = ops.read_log(before, after + 1, Some("abc")).await.expect_err("no cursor");
    assert_eq!(foreign.code(), "bad_cursor");
}

/// Who reads a long log must not make it longer with every page.
#[tokio::test]
async fn a_listing_is_one_entry_however_many_pages_it_has() {
    let nagaya = open(design("todo/todo")).await;
    let within = operator(&nagaya, "many changes").as_tenant("f-1").expect("a tenant");
    for _ in 0..230 {
        within.list(&List::by("todos_active")).await.expect("a page");
    }
    let mut listing = operator(&nagaya, "a look at the log").list_log(0, i64::MAX).await.expect("a listing");
    let (mut pages, mut entries) = (0, Vec::new());
    while let Some(page) = listing.next_page().await.expect("a page") {
        pages += 1;
        entries.extend(page);
    }
    let count = |action: &str| entries.iter().filter(|entry| entry.action == action).count();
    assert_eq!((pages, count("todo.list"), count("audit.list")), (3, 230, 1));
    let refused = operator(&nagaya, "short").list_log(0, 1).await.expect_err("no reason");
    assert_eq!(refused.code(), "no_reason");
}

fn now() -> i64 {
    nagaya_store::Clock::system().millis()
}

#[tokio::test]
async fn an_operator_without_a_reason_reaches_nothing() {
    let (store, nagaya, _) = management().await;
    for reason in ["", "  ", "too short", "a long reason\nwith a line break"] {
        let ops = operator(&nagaya, reason);
        let within = ops.as_tenant("tenant_acme").expect("a tenant");
        assert_eq!(within.get("tenant", &[]).await.expect_err("no reason").code(), "no_reason");
        assert_eq!(within.list(&List::by("users")).await.expect_err("no reason").code(), "no_reason");
        assert_eq!(within.delete("tenant", &[], None).await.expect_err("no reason").code(), "no_reason");
        assert_eq!(within.create("user", user("bob")).await.expect_err("no reason").code(), "no_reason");
        assert_eq!(ops.read_log(0, 1, None).await.expect_err("no reason").code(), "no_reason");
        assert_eq!(ops.list(&List::by("tenants")).await.expect_err("no reason").code(), "no_reason");
        let record = ops.side_record("tenant", RecordOwner::System, "position").await;
        assert_eq!(record.expect_err("no reason").code(), "no_reason");
        let records = ops.side_records("tenant", "", None, 1).await;
        assert_eq!(records.expect_err("no reason").code(), "no_reason");
        let records = within.side_records("tenant", "", None, 1).await;
        assert_eq!(records.expect_err("no reason").code(), "no_reason");
        let records = within.side_records_named("tenant", &["position".to_owned()]).await;
        assert_eq!(records.expect_err("no reason").code(), "no_reason");
        assert_eq!(ops.list_log(0, 1).await.expect_err("no reason").code(), "no_reason");
        assert_eq!(ops.verify_log(None).await.expect_err("no reason").code(), "no_reason");
        assert_eq!(ops.continue_log().await.expect_err("no reason").code(), "no_reason");
        assert_eq!(ops.archive_audits(&|_| {}).await.expect_err("no reason").code(), "no_reason");
        assert_eq!(ops.change_source("user").await.expect_err("no reason").code(), "no_reason");
    }
    assert!(all(&store, "tenant").await.iter().all(|item| item.get("%deleting").is_none()));
}

#[tokio::test]
async fn audit_entries_cannot_be_changed_or_deleted() {
    let nagaya = open(design("aiagent/single")).await;
    let t1 = tenant(&nagaya, "t1");
    t1.create("agent", fields(json!({ "name": "A" }))).await.expect("an agent");
    let entry = t1.list(&List::by("audits")).await.expect("a page").records.remove(0);
    let id = entry.id();
    let id: Vec<&str> = id.iter().map(String::as_str).collect();
    assert_eq!(t1.get("audit", &id).await.expect("it can be read"), entry);
    let changed = t1.update("audit", &id, fields(json!({ "traceId": "x" })), None).await.expect_err("it stays");
    let removed = t1.delete("audit", &id, None).await.expect_err("it stays");
    assert_eq!((changed.code(), removed.code()), ("walled", "walled"));
}
