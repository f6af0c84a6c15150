//! The aiagent designs compared with their documents: tenants are separated by keys, in one table and in twelve.

use std::collections::BTreeSet;

use nagaya_design::{Design, FieldType, TimestampPrecision, Wall, diff};
use serde_json::{Value, json};

#[path = "../../../crates/nagaya-design/tests/common/system.rs"]
mod common;
use common::{accepted, check_outline, check_role, derived_keys, design, errors, finds, query, source};

const SINGLE: &str = "aiagent/design/single.toml";
const MULTI: &str = "aiagent/design/multi.toml";
const AT: &str = "2024-01-01T00:00:00Z";
const UUID: &str = "123e4567-e89b-12d3-a456-426614174000";

/// The part of a design that is about an entity, up to its fields.
fn section<'s>(source: &'s str, entity: &str) -> &'s str {
    let start = source.find(&format!("[entity.{entity}]\n")).unwrap_or_else(|| panic!("no entity {entity}"));
    let end = source[start..].find(&format!("[entity.{entity}.fields]")).expect("its fields");
    &source[start..start + end]
}

fn user(tenant: &str, user: &str) -> Value {
    json!({ "tenantId": tenant, "userId": user, "email": "aoi@example.com", "role": "member", "name": "Aoi", "createdAt": AT })
}

/// Proves A1.
#[test]
fn every_tenant_scoped_partition_names_the_tenant() {
    for path in [SINGLE, MULTI] {
        let design = design(path);
        for entity in design.entities.iter().filter(|entity| entity.wall == Wall::Key) {
            assert_eq!(entity.key.partition.as_str(), "TENANT#{tenantId}", "{path}: {}", entity.name);
            for mapping in entity.indexes.iter().filter(|mapping| mapping.wall == Wall::Key) {
                let partition = mapping.key.partition.as_str();
                assert!(partition.starts_with("TENANT#{tenantId}#"), "{path}: {} in {partition}", entity.name);
            }
        }
        // Entities without a tenant declare another wall.
        let open = design.entities.iter().filter(|entity| entity.wall != Wall::Key);
        let open: Vec<_> = open.map(|entity| (entity.name.as_str(), entity.wall)).collect();
        assert_eq!(open, [("tenant_application", Wall::System), ("notice", Wall::Public)], "{path}");
    }
}

/// Proves A1.
#[test]
fn a_design_that_leaves_the_tenant_out_of_a_partition_is_rejected() {
    for path in [SINGLE, MULTI] {
        let text = source(path);
        let scoped: Vec<_> = design(path).entities.into_iter().filter(|entity| entity.wall == Wall::Key).collect();
        assert!(scoped.len() >= 16, "{path}: {} entities", scoped.len());
        for entity in scoped {
            let before = section(&text, &entity.name);
            for partition in ["TENANT", "TENANT#t1", "TENANT#{tenantid}"] {
                let after = before.replacen("{ PK = \"TENANT#{tenantId}\"", &format!("{{ PK = \"{partition}\""), 1);
                assert_ne!(before, after, "{path}: {}", entity.name);

                let errors = errors(&text.replacen(before, &after, 1));
                let expected: &[&str] = if partition.contains('{') { &["NG0202"] } else { &["NG0101", "NG0102"] };
                assert!(
                    errors.iter().any(|(code, line)| expected.contains(code) && after.contains(line.as_str())),
                    "{path}: {} with PK = {partition}: {errors:?}",
                    entity.name
                );
            }
        }
    }
}

/// Proves A1.
#[test]
fn a_design_that_leaves_the_tenant_out_of_an_index_partition_is_rejected() {
    for path in [SINGLE, MULTI] {
        let text = source(path);
        let mut tried = 0;
        for entity in design(path).entities {
            for mapping in entity.indexes.iter().filter(|mapping| mapping.wall == Wall::Key) {
                let before = section(&text, &entity.name);
                let with = format!("{{ {}PK = \"TENANT#{{tenantId}}#", mapping.name);
                let after = before.replacen(&with, &format!("{{ {}PK = \"", mapping.name), 1);
                assert_ne!(before, after, "{path}: {} in {}", entity.name, mapping.name);

                let errors = errors(&text.replacen(before, &after, 1));
                assert!(
                    errors.iter().any(|(code, line)| *code == "NG0103" && line.contains(&mapping.name)),
                    "{path}: {} in {}: {errors:?}",
                    entity.name,
                    mapping.name
                );
                tried += 1;
            }
        }
        assert_eq!(tried, 11, "{path}");
    }
}

/// Proves A1.
#[test]
fn two_tenants_never_share_a_partition() {
    let design = design(SINGLE);
    let partition = |tenant: &str| {
        let entity = design.entity("user").expect("users");
        entity.key.render(&[("tenantId", tenant), ("userId", "u1")]).expect("a key").partition
    };
    let tenants = ["t1", "t10", "T1", "t1#USER", "t1%23USER", "t1#", "TENANT#t1"];
    let partitions: BTreeSet<_> = tenants.into_iter().map(partition).collect();
    assert_eq!(partitions.len(), tenants.len(), "{partitions:?}");
}

/// Proves A3.
#[test]
fn the_core_data_is_in_one_table_named_after_the_base() {
    let design = design(SINGLE);
    let core = ["tenant", "user", "agent", "execution", "audit"];
    for name in core {
        let table = design.table_of(design.entity(name).expect("a core entity"));
        assert_eq!(table.physical_name("aiagent"), "aiagent-app", "{name}");
        assert_eq!(table.physical_name("aiagent-dev"), "aiagent-dev-app", "{name}");
        assert_eq!((table.key.partition.as_str(), table.key.sort.as_str()), ("PK", "SK"), "{name}");
    }
    assert_eq!(design.name, "aiagent", "the base name by default");
}

/// Proves A3.
#[test]
fn keys_of_the_core_data_are_those_of_the_document() {
    let design = design(SINGLE);
    let check = |entity: &str, fields: &[(&str, &str)], sort: &str| {
        let found = design.entity(entity).expect("a core entity");
        let key = found.key.render(fields).expect("a key");
        assert_eq!((key.partition.as_str(), key.sort.as_str()), ("TENANT#t1", sort), "{entity}");
    };
    check("tenant", &[("tenantId", "t1")], "TENANT#t1");
    check("user", &[("tenantId", "t1"), ("userId", "u1")], "USER#u1");
    check("agent", &[("tenantId", "t1"), ("agentId", "a1")], "AGENT#a1");
    check("execution", &[("tenantId", "t1"), ("executionId", "exec1")], "EXEC#exec1");
    check(
        "audit",
        &[("tenantId", "t1"), ("timestamp", AT), ("uuid", UUID)],
        "AUDIT#2024-01-01T00:00:00Z#123e4567-e89b-12d3-a456-426614174000",
    );
}

#[test]
fn every_table_is_encrypted_with_kms_and_restorable() {
    for path in [SINGLE, MULTI] {
        for table in design(path).tables {
            assert_eq!((table.kms, table.point_in_time), (true, true), "{path}: {}", table.name);
        }
    }
}

/// Proves A4.
#[test]
fn the_first_index_finds_by_kind_across_tenants() {
    for path in [SINGLE, MULTI] {
        let design = design(path);
        for (entity, kind) in [("tenant", "TENANT"), ("user", "USER"), ("agent", "AGENT")] {
            let mapping = design.entity(entity).and_then(|entity| entity.mapping("GSI1")).expect("a mapping of GSI1");
            let key = mapping.key.render(&[("tenantId", "t1"), ("createdAt", AT)]).expect("an index key");
            assert_eq!((key.partition.as_str(), key.sort.as_str()), (kind, AT), "{path}: {entity}");
            assert_eq!(mapping.wall, Wall::System, "{path}: {entity}: no tenant reads across tenants");
        }
        for (access, expected) in
            [("tenants", "GSI1PK = TENANT"), ("all_users", "GSI1PK = USER"), ("all_agents", "GSI1PK = AGENT")]
        {
            let query = query(&design, access, &[]);
            assert_eq!((query.index.as_deref(), query.to_string().as_str()), (Some("GSI1"), expected), "{path}");
            assert_eq!(query.sort_attribute, "GSI1SK", "{path}: {access}");
        }
        let all = query(&design, "all_users", &[]);
        assert!(finds(&design, &all, "user", &user("t1", "u1")) && finds(&design, &all, "user", &user("t2", "u2")));
    }
}

/// Proves A5.
#[test]
fn the_second_index_finds_the_tenants_of_a_user() {
    for path in [SINGLE, MULTI] {
        let design = design(path);
        assert_eq!(
            derived_keys(&design, "user", &user("t1", "u1")),
            "PK=TENANT#t1 SK=USER#u1 GSI1PK=USER GSI1SK=2024-01-01T00:00:00Z GSI2PK=USER#u1 GSI2SK=TENANT#t1",
            "{path}"
        );
        let tenants = query(&design, "tenants_of_user", &[("userId", "u1")]);
        assert_eq!(tenants.to_string(), "GSI2PK = USER#u1 AND begins_with(GSI2SK, 'TENANT#')", "{path}");
        for (tenant, id, found) in [("t1", "u1", true), ("t2", "u1", true), ("t1", "u10", false)] {
            assert_eq!(finds(&design, &tenants, "user", &user(tenant, id)), found, "{path}: {id} in {tenant}");
        }
        assert_eq!(
            design.wall_of(design.access_pattern("tenants_of_user").expect("the pattern")),
            Wall::System,
            "{path}"
        );
    }
}

/// Proves the design's part of A6.
#[test]
fn sessions_and_temporary_tokens_expire_by_the_ttl_attribute() {
    for path in [SINGLE, MULTI] {
        let design = design(path);
        for name in ["session", "token"] {
            let entity = design.entity(name).expect("an entity that expires");
            assert_eq!(design.table_of(entity).ttl.as_deref(), Some("expiresAt"), "{path}: {name}");
            let expiry = entity.field("expiresAt").expect("the instant of expiry");
            // DynamoDB only accepts seconds since 1970 as a number.
            assert!(matches!(expiry.field_type, FieldType::Timestamp(TimestampPrecision::Epoch)), "{path}: {name}");
            assert!(!expiry.optional && expiry.default.is_none(), "{path}: a {name} without an end never expires");
        }
        for name in ["tenant", "user", "agent", "execution", "audit"] {
            let entity = design.entity(name).expect("an entity that stays");
            assert!(entity.ttl_after.is_none() && entity.field("expiresAt").is_none(), "{path}: {name} stays");
        }
    }
}

/// Proves the design's part of A6.
#[test]
fn a_session_without_its_expiry_is_rejected() {
    let design = design(SINGLE);
    let entity = design.entity("session").expect("sessions");
    let check = |expiry: Value, refused: bool| {
        let mut item = json!({
            "tenantId": "t1", "sessionId": "s1", "userId": "u1", "tokenHash": "9f86d081", "createdAt": AT,
        });
        if !expiry.is_null() {
            item["expiresAt"] = expiry.clone();
        }
        let problems = design.check_item(entity, item.as_object().expect("an object"));
        let paths: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, if refused { vec!["expiresAt"] } else { vec![] }, "expiresAt = {expiry}");
    };
    check(json!(1_704_070_800), false);
    check(Value::Null, true);
    check(json!("2024-01-01T01:00:00Z"), true);
    check(json!("1704070800"), true);
    check(json!(1_704_070_800.5), true);
}

/// Proves A8.
#[test]
fn entities_have_the_documented_attributes() {
    let string = "string";
    for path in [SINGLE, MULTI] {
        let design = design(path);
        let check = |entity: &str, fields: &[(&str, &str)]| {
            let found = design.entity(entity).expect("a core entity");
            for (name, kind) in fields {
                let field = found.field(name).unwrap_or_else(|| panic!("{path}: {entity} has no {name}"));
                assert_eq!(field.field_type.name(), *kind, "{path}: {entity}.{name}");
            }
        };
        check("tenant", &[("name", string), ("plan", string), ("enabled", "boolean")]);
        check("user", &[("email", string), ("role", string), ("name", string), ("createdAt", "timestamp")]);
        check(
            "execution",
            &[
                ("agentId", string),
                ("status", string),
                ("traceId", string),
                ("inputSummary", string),
                ("createdAt", "timestamp"),
            ],
        );
        check("audit", &[("action", string), ("resource", string), ("actorUserId", string), ("traceId", string)]);
    }
}

/// Proves A9.
#[test]
fn access_patterns_become_the_documented_queries() {
    let (from, to) = ("2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z");
    let tenant = ("tenantId", "t1");
    for path in [SINGLE, MULTI] {
        let design = design(path);
        let check = |access: &str, parameters: &[(&str, &str)], expected: &str| {
            let query = query(&design, access, parameters);
            assert_eq!(query.to_string(), format!("PK = TENANT#t1 AND {expected}"), "{path}: {access}");
            assert_eq!((query.index, query.filter), (None, None), "{path}: {access} reads the table by its key");
        };
        check("users", &[tenant], "begins_with(SK, 'USER#')");
        check("agents", &[tenant], "begins_with(SK, 'AGENT#')");
        check("executions", &[tenant], "begins_with(SK, 'EXEC#')");
        check(
            "audit_between",
            &[tenant, ("from", from), ("to", to)],
            "SK BETWEEN AUDIT#2024-01-01T00:00:00Z AND AUDIT#2024-02-01T00:00:00Z",
        );
    }
}

/// Proves A9.
#[test]
fn audit_entries_between_two_times_include_the_first_and_exclude_the_second() {
    let design = design(SINGLE);
    let between = |tenant: &str| {
        let window = [("tenantId", tenant), ("from", "2024-01-02T00:00:00Z"), ("to", "2024-01-03T00:00:00Z")];
        query(&design, "audit_between", &window)
    };
    let check = |at: &str, found: bool| {
        let entry = json!({ "tenantId": "t1", "timestamp": at, "uuid": UUID });
        assert_eq!(finds(&design, &between("t1"), "audit", &entry), found, "{at}");
        assert!(!finds(&design, &between("t2"), "audit", &entry), "{at}, asked by another tenant");
    };
    check("2024-01-01T23:59:59Z", false);
    check("2024-01-02T00:00:00Z", true);
    check("2024-01-02T23:59:59Z", true);
    check("2024-01-03T00:00:00Z", false);
}

/// Proves A9.
#[test]
fn a_tenant_lists_its_own_users_and_only_users() {
    let design = design(SINGLE);
    let users = query(&design, "users", &[("tenantId", "t1")]);
    assert!(finds(&design, &users, "user", &user("t1", "u1")));
    assert!(!finds(&design, &users, "user", &user("t2", "u1")));
    // USER_PREFS# and USER_EMAIL_SUB# are in the same partition as USER#.
    assert!(!finds(&design, &users, "user_preferences", &json!({ "tenantId": "t1", "userId": "u1" })));
    let subscription = json!({ "tenantId": "t1", "userId": "u1", "accountId": "a1", "createdAt": AT });
    assert!(!finds(&design, &users, "user_email_subscription", &subscription));

    for name in ["users", "agents", "executions", "audit_between"] {
        let access = design.access_pattern(name).unwrap_or_else(|| panic!("no access pattern {name}"));
        let tenant = design.parameters(access).into_iter().find(|parameter| parameter.name == "tenantId");
        assert!(tenant.is_some_and(|tenant| tenant.from_token), "{name}: a request cannot name another tenant");
    }
}

/// Proves A10.
#[test]
fn logs_are_in_a_separate_table() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    for path in [SINGLE, MULTI] {
        let design = design(path);
        for (entity, prefix) in [("log", "LOG"), ("archived_audit", "AUDIT")] {
            let found = design.entity(entity).expect("an entity of the log table");
            let table = design.table_of(found);
            assert_eq!(table.physical_name("aiagent"), "aiagent-log", "{path}");
            assert_eq!((table.key.partition.as_str(), table.key.sort.as_str()), ("PK", "SK"), "{path}");
            assert_eq!((table.kms, table.point_in_time), (true, true), "{path}");
            let item = json!({ "tenantId": "t1", "timestamp": AT, "uuid": UUID, "traceId": trace });
            assert_eq!(
                derived_keys(&design, entity, &item),
                format!(
                    "PK=TENANT#t1 SK={prefix}#{AT}#{UUID} GSI1PK=TRACE#{trace} GSI1SK={AT} \
                     GSI2PK=TENANT#t1#TRACE#{trace} GSI2SK={prefix}#{AT}#{UUID}"
                ),
                "{path}"
            );
            // The documented index names no tenant, so only operators read it.
            assert_eq!(found.mapping("GSI1").expect("a mapping").wall, Wall::System, "{path}: {entity}");
        }
    }
}

/// Proves A10.
#[test]
fn a_trace_gives_its_log_lines_in_order_of_time() {
    let design = design(SINGLE);
    let all = query(&design, "all_logs_of_trace", &[("traceId", "abc")]);
    assert_eq!((all.index.as_deref(), all.to_string().as_str()), (Some("GSI1"), "GSI1PK = TRACE#abc"));
    assert_eq!((all.sort_attribute.as_str(), all.descending), ("GSI1SK", false));
    let own = query(&design, "logs_of_trace", &[("tenantId", "t1"), ("traceId", "abc")]);
    let expected = "GSI2PK = TENANT#t1#TRACE#abc AND begins_with(GSI2SK, 'LOG#')";
    assert_eq!((own.index.as_deref(), own.to_string().as_str()), (Some("GSI2"), expected));
    assert_eq!((own.sort_attribute.as_str(), own.descending), ("GSI2SK", false));

    let line =
        |tenant: &str, trace: &str| json!({ "tenantId": tenant, "timestamp": AT, "uuid": UUID, "traceId": trace });
    for trace in [&all, &own] {
        assert!(finds(&design, trace, "log", &line("t1", "abc")));
        assert!(!finds(&design, trace, "log", &line("t1", "abcd")));
        // Audit entries of the trace are in the same index partition, and are not log lines.
        assert!(!finds(&design, trace, "archived_audit", &line("t1", "abc")));
    }
    assert!(finds(&design, &all, "log", &line("t2", "abc")));
    assert!(!finds(&design, &own, "log", &line("t2", "abc")), "a trace of a tenant is its own part");
    let audits = query(&design, "archived_audits_of_trace", &[("tenantId", "t1"), ("traceId", "abc")]);
    assert!(finds(&design, &audits, "archived_audit", &line("t1", "abc")));
    assert!(!finds(&design, &audits, "archived_audit", &line("t2", "abc")));
    // A line that belongs to no trace is in no trace's partition.
    let loose = json!({ "tenantId": "t1", "timestamp": AT, "uuid": UUID });
    assert_eq!(derived_keys(&design, "log", &loose), format!("PK=TENANT#t1 SK=LOG#{AT}#{UUID}"));
}

/// Proves A10.
#[test]
fn log_lines_expire_after_30_to_90_days() {
    const DAY: u64 = 24 * 60 * 60;
    let lives = |design: &Design, entity: &str| {
        let entity = design.entity(entity).expect("an entity of the log table");
        assert_eq!(design.table_of(entity).ttl.as_deref(), Some("expiresAt"));
        entity.ttl_after.map(|seconds| seconds / DAY)
    };
    for path in [SINGLE, MULTI] {
        for entity in ["log", "archived_audit"] {
            let days = lives(&design(path), entity).unwrap_or_default();
            assert!((30..=90).contains(&days), "{path}: {entity} lives for {days} days");
        }
        let shorter = source(path).replace("ttl_after   = \"90d\"", "ttl_after   = \"30d\"");
        assert_eq!(lives(&accepted(&shorter), "log"), Some(30), "{path}");
    }
}

/// Proves M1.
#[test]
fn the_twelve_tables_have_the_documented_names_keys_and_indexes() {
    let design = design(MULTI);
    let check = |entity: &str, suffix: &str, key: [&str; 2], indexes: &[&str]| {
        let found = design.entity(entity).unwrap_or_else(|| panic!("no entity {entity}"));
        let table = design.table_of(found);
        assert_eq!(table.physical_name("aiagent-dev"), format!("aiagent-dev-{suffix}"));
        let ids = [("tenantId", "tenant-1"), ("userId", "u1"), ("accountId", "a1")];
        let own = ["applicationId", "messageId", "taskId", "subscriptionId", "noticeId"].map(|name| (name, "1"));
        let fields: Vec<_> = ids.into_iter().chain(own).collect();
        let rendered = found.key.render(fields.as_slice()).expect("a key");
        assert_eq!([rendered.partition.as_str(), rendered.sort.as_str()], key, "{suffix}");
        let names: Vec<_> = table.indexes.iter().map(|index| index.name.as_str()).collect();
        assert_eq!(names, indexes, "{suffix}");
        let mapped: Vec<_> = found.indexes.iter().map(|mapping| mapping.name.as_str()).collect();
        assert_eq!(mapped, indexes, "{entity} is in every index of its table");
    };
    let tenant = "TENANT#tenant-1";
    check("tenant", "tenants", [tenant, tenant], &["GSI1"]);
    check("user", "users", [tenant, "USER#u1"], &["GSI1", "GSI2"]);
    check("tenant_application", "tenant_applications", ["TENANT#system", "TENANT_APPLICATION#1"], &["GSI1"]);
    check("permission_policy", "permission_policies", [tenant, "POLICY#PERMISSIONS"], &[]);
    check("user_preferences", "user_preferences", [tenant, "USER_PREFS#USER#u1"], &[]);
    check("email_account", "email_accounts", [tenant, "EMAIL_ACCOUNT#a1"], &["GSI1", "GSI2"]);
    check("email_message", "email_messages", [tenant, "EMAIL_MESSAGE#1"], &["GSI2"]);
    check("task", "tasks", [tenant, "TASK#1"], &["GSI1", "GSI2"]);
    check(
        "user_email_subscription",
        "user_email_subscriptions",
        [tenant, "USER_EMAIL_SUB#USER#u1#ACCOUNT#a1"],
        &["GSI2"],
    );
    check("push_subscription", "push_subscriptions", [tenant, "PUSH_SUB#1"], &["GSI2"]);
    check("announcement_board", "announcements", [tenant, "ANNOUNCEMENTS#BOARD"], &[]);
    check("notice", "notices", ["GLOBAL", "NOTICE#1"], &[]);
}

/// Proves M1.
#[test]
fn every_table_is_keyed_alike_and_its_indexes_are_named_alike() {
    for path in [SINGLE, MULTI] {
        for table in design(path).tables {
            assert!(table.name.starts_with("{base}-"), "{path}: {}", table.name);
            assert_eq!((table.key.partition.as_str(), table.key.sort.as_str()), ("PK", "SK"), "{path}: {}", table.name);
            for index in table.indexes {
                assert!(["GSI1", "GSI2"].contains(&index.name.as_str()), "{path}: {} of {}", index.name, table.name);
                let attributes = (format!("{}PK", index.name), format!("{}SK", index.name));
                assert_eq!((index.key.partition, index.key.sort), attributes, "{path}: {}", table.name);
            }
        }
    }
}

/// Proves M1.
#[test]
fn lists_over_tenants_are_in_order_of_creation() {
    let design = design(MULTI);
    let check = |access: &str, entity: &str, partition: &str| {
        let query = query(&design, access, &[]);
        assert_eq!(query.to_string(), format!("GSI1PK = {partition}"), "{access}");
        let mapping = design.entity(entity).and_then(|entity| entity.mapping("GSI1")).expect("GSI1");
        assert_eq!(mapping.key.sort.as_str(), "{createdAt}", "{access}");
    };
    check("tenants", "tenant", "TENANT");
    check("all_users", "user", "USER");
    check("tenant_applications", "tenant_application", "TENANT_APPLICATION");
}

/// Proves M1.
#[test]
fn an_index_described_by_its_purpose_works_within_the_tenant() {
    let account = json!({
        "tenantId": "tenant-1", "accountId": "a1", "userId": "u1", "email": "aoi@example.com", "provider": "gmail",
        "createdAt": AT,
    });
    let mail = json!({ "tenantId": "tenant-1", "messageId": "m1", "taskId": "t1", "receivedAt": AT });
    let task = json!({ "tenantId": "tenant-1", "taskId": "t1", "userId": "u1", "status": "open", "createdAt": AT });
    let watch = json!({ "tenantId": "tenant-1", "userId": "u1", "accountId": "a1", "createdAt": AT });
    let push = json!({ "tenantId": "tenant-1", "subscriptionId": "s1", "userId": "u1", "createdAt": AT });
    for path in [SINGLE, MULTI] {
        let design = design(path);
        // An item is found by its own values only, and not by another tenant.
        let check = |access: &str, index: &str, entity: &str, item: &Value, by: &[(&str, &str)], other: &[&str]| {
            let ask = |tenant: &'static str, by: &[(&str, &str)]| {
                let parameters: Vec<_> = by.iter().copied().chain([("tenantId", tenant)]).collect();
                query(&design, access, &parameters)
            };
            assert_eq!(ask("tenant-1", by).index.as_deref(), Some(index), "{path}: {access}");
            assert!(finds(&design, &ask("tenant-1", by), entity, item), "{path}: {access}");
            assert!(!finds(&design, &ask("tenant-2", by), entity, item), "{path}: {access} by another tenant");
            for (at, other) in other.iter().enumerate() {
                let mut by = by.to_vec();
                by[at].1 = other;
                assert!(!finds(&design, &ask("tenant-1", &by), entity, item), "{path}: {access} by {by:?}");
            }
        };
        let address = [("email", "aoi@example.com"), ("provider", "gmail")];
        let others = ["ren@example.com", "outlook"];
        check("email_account_by_address", "GSI1", "email_account", &account, &address, &others);
        check("email_accounts_of_user", "GSI2", "email_account", &account, &[("userId", "u1")], &["u2"]);
        check("email_messages_of_task", "GSI2", "email_message", &mail, &[("taskId", "t1")], &["t2"]);
        check("tasks_by_status", "GSI1", "task", &task, &[("status", "open")], &["done"]);
        check("tasks_of_user", "GSI2", "task", &task, &[("userId", "u1")], &["u2"]);
        check("email_subscriptions_of_user", "GSI2", "user_email_subscription", &watch, &[("userId", "u1")], &["u2"]);
        check("push_subscriptions_of_user", "GSI2", "push_subscription", &push, &[("userId", "u1")], &["u2"]);
    }
}

/// Proves M1.
#[test]
fn the_mails_of_a_task_are_in_order_of_time() {
    let design = design(MULTI);
    let sort = |id: &str, received: &str| {
        let mapping = design.entity("email_message").and_then(|mail| mail.mapping("GSI2")).expect("GSI2");
        mapping.key.sort.render(&[("messageId", id), ("receivedAt", received)]).expect("a sort key")
    };
    assert!(sort("z", "2024-01-01T09:00:00Z") < sort("a", "2024-01-01T10:00:00Z"));
    assert!(!query(&design, "email_messages_of_task", &[("tenantId", "t"), ("taskId", "1")]).descending);
    // A mail without a task is in no task's partition.
    let loose = json!({ "tenantId": "tenant-1", "messageId": "m1", "receivedAt": AT });
    assert_eq!(derived_keys(&design, "email_message", &loose), "PK=TENANT#tenant-1 SK=EMAIL_MESSAGE#m1");
}

/// Proves M1.
#[test]
fn one_table_and_twelve_have_the_same_entities_and_access_patterns() {
    let (single, multi) = (design(SINGLE), design(MULTI));
    let (before, after) = (without_tables(&single), without_tables(&multi));
    assert!(before.len() > 150, "{} lines", before.len());
    assert_eq!(before, after);

    // Only the tables, the tables of entities and the description of the design differ.
    let others = diff(&single, &multi).into_iter().filter(|change| change.path != "description");
    let others = others.filter(|change| !change.path.starts_with("table.") && !change.change.starts_with("the table "));
    let others: Vec<_> = others.map(|change| change.to_string()).collect();
    assert!(others.is_empty(), "{others:#?}");
    assert!(multi.version.major > single.version.major, "moving every item is a breaking change");
}

/// The parts of a design that do not depend on its tables.
fn without_tables(design: &Design) -> Vec<String> {
    let mut lines = Vec::new();
    for entity in &design.entities {
        let key = (entity.key.partition.as_str(), entity.key.sort.as_str());
        let name = &entity.name;
        lines.push(format!("{name} {key:?} {:?} {:?} {:?}", entity.wall, entity.version, entity.ttl_after));
        for mapping in &entity.indexes {
            let key = (mapping.key.partition.as_str(), mapping.key.sort.as_str());
            let when = mapping.when.as_ref().map(ToString::to_string);
            lines.push(format!("{name} in {} {key:?} {:?} {when:?}", mapping.name, mapping.wall));
        }
        for unique in &entity.unique {
            lines.push(format!("{name} unique {:?} {}", unique.fields, unique.within_tenant));
        }
        for field in &entity.fields {
            let reference = field.reference.as_ref().map(|reference| (&reference.entity, reference.on_delete));
            lines.push(format!(
                "{name}.{} {} {} {:?} {:?} {:?} {} {:?} {reference:?}",
                field.name,
                field.field_type.name(),
                field.optional,
                field.default,
                field.choices(),
                field.range,
                field.max_size,
                (field.personal, field.immutable, field.secret),
            ));
        }
    }
    for access in &design.access_patterns {
        let query = design.query_outline(access, &[]);
        let filter = access.filter.as_ref().map(ToString::to_string);
        lines.push(format!(
            "access {} of {}: {query} by {:?} {} {filter:?} {:?} {} {:?} {:?} {:?}",
            access.name,
            design.entities[access.entity].name,
            query.index,
            access.descending,
            access.projection,
            access.limit,
            access.returns,
            access.path.as_deref().unwrap_or_default(),
            design.wall_of(access),
        ));
    }
    lines
}

/// Proves N1.
#[test]
fn queries_are_outlined_as_in_the_document() {
    check_outline(SINGLE, "users", "PK = TENANT#<tenantId> AND begins_with(SK, 'USER#')");
    check_outline(SINGLE, "executions", "PK = TENANT#<tenantId> AND begins_with(SK, 'EXEC#')");
    check_outline(SINGLE, "audit_between", "PK = TENANT#<tenantId> AND SK BETWEEN AUDIT#<from> AND AUDIT#<to>");
    check_outline(MULTI, "tenants_of_user", "GSI2PK = USER#<userId> AND begins_with(GSI2SK, 'TENANT#')");
}

#[test]
fn roles_permit_what_their_work_needs() {
    for path in [SINGLE, MULTI] {
        check_role(path, "admin", &["user.delete", "permission_policy.update", "audit.read"], &[]);
        check_role(
            path,
            "member",
            &["task.create", "email_account.delete", "agent.update", "user.read", "permission_policy.read"],
            &["user.update", "audit.read", "archived_audit.read", "session.read", "token.create", "log.read"],
        );
        check_role(path, "viewer", &["task.read", "notice.read"], &["task.update", "email_message.read", "token.read"]);
        let is_operator = |role: &str| design(path).is_operator(&[role.to_owned()]);
        assert!(is_operator("operator") && !is_operator("admin"));
    }
}
