//! The management design compared with its document: seven Cosmos DB containers, their queries, their schema versions.

use std::collections::BTreeSet;

use nagaya_design::{DefaultValue, Query, ResultKind, SchemaStep, SortCondition, Version, Wall, allows_breaking, diff};
use serde_json::{Value, json};

#[path = "../../../crates/nagaya-design/tests/common/system.rs"]
mod common;
use common::{accepted, check_outline, check_role, derived_keys, design, errors, finds, query, source};

const MANAGEMENT: &str = "management/design/management.toml";
const CONTAINERS: [&str; 7] =
    ["auth", "tenant", "service-setting", "file-service", "messaging-service", "api-service", "backup-service"];
const USER: &str = "user_550e8400-e29b-41d4-a716-446655440000";
const AT: &str = "2026-01-01T00:00:00Z";

/// Proves C1.
#[test]
fn there_are_seven_containers_partitioned_by_tenant() {
    let design = design(MANAGEMENT);
    let names: Vec<_> = design.tables.iter().map(|table| table.physical_name("anything")).collect();
    assert_eq!(names, CONTAINERS);
    assert_eq!(design.database, "management-app");
    for table in &design.tables {
        assert_eq!((table.key.partition.as_str(), table.key.sort.as_str()), ("tenantId", "id"), "{}", table.name);
        assert_eq!(table.discriminator.as_deref(), Some("type"), "{}", table.name);
        assert_eq!(table.consistency.as_deref(), Some("session"), "{}", table.name);
        assert_eq!(table.throughput, Some((400, 4000)), "{}", table.name);
    }
}

/// Proves C1.
#[test]
fn documents_are_in_their_container_with_id_tenant_and_type() {
    let design = design(MANAGEMENT);
    let documented = [
        ("auth", ["user", "role_assignment", "service_role_definition", "audit_log"].as_slice()),
        ("tenant", &["tenant", "tenant_user", "domain"]),
        ("service-setting", &["service", "service_assignment", "service_usage"]),
        ("file-service", &["file", "folder"]),
        ("messaging-service", &["channel", "message", "channel_member"]),
        ("api-service", &["api_key", "api_usage", "api_usage_aggregate"]),
        ("backup-service", &["backup_job", "backup_history"]),
    ];
    for (container, kinds) in documented {
        let in_container = design.entities.iter().filter(|entity| design.table_of(entity).name == container);
        let found: Vec<_> = in_container.map(|entity| entity.discriminator.as_deref().unwrap_or("none")).collect();
        assert_eq!(found, kinds, "the values of `type` in {container}");
    }
}

/// Proves C1.
#[test]
fn a_documents_key_is_its_tenant_and_its_id() {
    let design = design(MANAGEMENT);
    let check = |entity: &str, fields: Value, tenant: &str, id: &str| {
        let found = design.entity(entity).unwrap_or_else(|| panic!("no entity {entity}"));
        let key = found.key.render(fields.as_object().expect("an object")).expect("a key");
        assert_eq!((key.partition.as_str(), key.sort.as_str()), (tenant, id), "{entity}");
        let all = derived_keys(&design, entity, &fields);
        assert!(all.starts_with(&format!("tenantId={tenant} id={id} type={entity}")), "{all}");
    };
    let in_tenant = |id: &str| json!({ "tenantId": "tenant_123", "id": id, "domain": "example.com", "createdAt": AT });
    check("domain", in_tenant("domain_example_com"), "tenant_123", "domain_example_com");
    check("api_key", in_tenant("apikey_abc123xyz"), "tenant_123", "apikey_abc123xyz");
    check("channel", in_tenant("channel_general"), "tenant_123", "channel_general");
    // A tenant document is in its own partition; documents of the system are in the system's partition.
    let tenant = json!({ "tenantId": "tenant_acme", "name": "acme", "createdAt": AT });
    check("tenant", tenant, "tenant_acme", "tenant_acme");
    check("service", json!({ "id": "file-service" }), "_system", "file-service");
    let role = json!({ "id": "service_role_tenant-management_admin", "serviceId": "tenant-management" });
    check("service_role_definition", role, "_system", "service_role_tenant-management_admin");
    let assignment = json!({
        "tenantId": "tenant_123", "userId": USER, "serviceId": "tenant-management", "roleName": "管理者",
    });
    check("role_assignment", assignment, "tenant_123", &format!("ra_{USER}_tenant-management_管理者"));
}

/// Proves C1.
#[test]
fn a_document_of_another_type_or_without_its_tenant_is_rejected() {
    let design = design(MANAGEMENT);
    let folder = json!({
        "id": "folder_xyz789", "tenantId": "tenant_123", "type": "folder", "name": "Documents", "path": "/Documents",
        "createdBy": "user_550e8400", "createdAt": AT,
    });
    let check = |name: &str, value: Value, refused: bool| {
        let mut item = folder.clone();
        item[name] = value;
        let item = item.as_object().expect("an object");
        let problems = design.check_item(design.entity("folder").expect("folders"), item);
        assert_eq!(problems.iter().any(|problem| problem.path == name), refused, "{item:?}: {problems:?}");
    };
    check("type", json!("folder"), false);
    check("type", json!("file"), true);
    check("tenantId", json!(null), true);
    check("tenantId", json!(123), true);
    check("id", json!("file_abc123"), true);
}

#[test]
fn a_container_entity_without_the_tenant_in_its_partition_is_rejected() {
    let text = source(MANAGEMENT);
    let scoped: Vec<_> = design(MANAGEMENT).entities.into_iter().filter(|entity| entity.wall == Wall::Key).collect();
    assert_eq!(scoped.len(), 18, "all but role definitions and services, which are the system's");
    for entity in scoped {
        let start = text.find(&format!("[entity.{}]\n", entity.name)).expect("its section");
        let (before, after) = text.split_at(start);
        let open = before.to_owned() + &after.replacen("{ tenantId = \"{tenantId}\"", "{ tenantId = \"all\"", 1);
        let errors = errors(&open);
        assert!(errors.iter().any(|(code, _)| ["NG0101", "NG0102"].contains(code)), "{}: {errors:?}", entity.name);
    }
}

/// Proves the design's part of C15.
#[test]
fn indexing_policies_are_those_of_the_document() {
    let design = design(MANAGEMENT);
    let check = |container: &str, include: &[&str], exclude: &[&str]| {
        let table = design.tables.iter().find(|table| table.name == container).expect("a container");
        let policy = table.indexing.as_ref().unwrap_or_else(|| panic!("{container} has no indexing policy"));
        assert_eq!((policy.mode.as_str(), policy.automatic), ("consistent", true), "{container}");
        let documented: Vec<_> = policy.include.iter().filter(|path| include.contains(&path.as_str())).collect();
        assert_eq!(documented, include, "{container}: documented paths, in order");
        for path in exclude {
            assert!(policy.exclude.iter().any(|each| each == path), "{container} does not exclude {path}");
        }
        for path in include {
            assert!(!policy.exclude.iter().any(|each| each == path), "{container} excludes {path}");
        }
        // Cosmos DB rejects a policy without the root path.
        let root = policy.include.iter().chain(&policy.exclude).filter(|path| *path == "/*").count();
        assert_eq!(root, 1, "{container}");
    };
    let users = ["/username/?", "/email/?", "/isActive/?"];
    let roles = ["/userId/?", "/serviceId/?", "/roleName/?", "/assignedAt/?"];
    check("auth", &[users.as_slice(), &roles].concat(), &[]);
    check("tenant", &["/name/?", "/status/?", "/isPrivileged/?", "/createdAt/?"], &["/metadata/*"]);
    for container in &CONTAINERS[2..] {
        check(container, &["/type/?", "/status/?", "/createdAt/?", "/*"], &["/metadata/*", "/_etag/?"]);
    }
}

/// Proves the design's part of C15.
#[test]
fn sort_attributes_of_queries_are_indexed() {
    let design = design(MANAGEMENT);
    for access in &design.access_patterns {
        let query = design.query_outline(access, &[]);
        let table = design.table_of(&design.entities[access.entity]);
        let policy = table.indexing.as_ref().expect("an indexing policy");
        let path = format!("/{}/?", query.sort_attribute);
        // In Cosmos DB, ORDER BY over a path without an index is an error.
        assert!(policy.include.iter().any(|each| *each == path || each == "/*"), "{}: {path}", access.name);
        assert!(!policy.exclude.contains(&path), "{}: {path}", access.name);
    }
}

/// What a query in SQL asks for, whatever the order of its conditions.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    select: BTreeSet<String>,
    conditions: BTreeSet<String>,
    order: Option<String>,
}

fn asked(sql: &str) -> Asked {
    let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let (sql, _) = sql.split_once(" OFFSET ").unwrap_or((&sql, ""));
    let (sql, order) = sql.split_once(" ORDER BY ").map_or((sql, None), |(sql, order)| (sql, Some(order)));
    let (select, conditions) = sql.split_once(" FROM c WHERE ").unwrap_or_else(|| panic!("no conditions: {sql}"));
    let select = select.trim_start_matches("SELECT ").trim_start_matches("VALUE ").trim_end_matches(" as count");
    let plain = |text: &str| text.replace(['(', ')'], "").replace('\'', "\"");
    Asked {
        select: select.split(", ").map(str::to_owned).collect(),
        conditions: conditions.split(" AND ").map(plain).collect(),
        order: order.map(str::to_owned),
    }
}

/// What a query of the design asks for. Paths are those of documents: `c.name`.
fn asked_by(query: &Query) -> Asked {
    let equal = |name: &str, value: &str| format!("c.{name} = {}", Value::from(value));
    let mut conditions = BTreeSet::from([equal(&query.partition_attribute, &query.partition)]);
    match &query.sort {
        SortCondition::Any => {}
        SortCondition::Equal(key) => drop(conditions.insert(equal(&query.sort_attribute, key))),
        other => panic!("no documented query has the condition {other:?}"),
    }
    conditions.extend(query.discriminator.as_ref().map(|(name, value)| equal(name, value)));
    let filter = query.filter.as_ref().map(|filter| filter.to_string().replace('\'', "\""));
    conditions.extend(filter.iter().flat_map(|filter| filter.split(" and ")).map(|each| format!("c.{each}")));
    let select = match query.returns {
        ResultKind::Count => BTreeSet::from(["COUNT(1)".to_owned()]),
        _ if query.projection.is_empty() => BTreeSet::from(["*".to_owned()]),
        _ => query.projection.iter().map(|field| format!("c.{field}")).collect(),
    };
    let order = if query.descending { " DESC" } else { "" };
    Asked { select, conditions, order: Some(format!("c.{}{order}", query.sort_attribute)) }
}

/// Proves the design's part of C15.
#[test]
fn every_documented_query_is_an_access_pattern() {
    let design = design(MANAGEMENT);
    let check = |access: &str, parameters: &[(&str, &str)], documented: &str| {
        let query = query(&design, access, parameters);
        let (found, expected) = (asked_by(&query), asked(documented));
        assert_eq!(found.conditions, expected.conditions, "{access}");
        assert_eq!(found.select, expected.select, "{access}");
        if expected.order.is_some() {
            assert_eq!(found.order, expected.order, "{access}");
        }
        let wall = design.wall_of(design.access_pattern(access).expect("the pattern"));
        let crosses = !expected.conditions.iter().any(|condition| condition.starts_with("c.tenantId = "));
        assert_eq!(wall == Wall::System, crosses, "{access}: only operators query across tenants");
    };
    let tenant = ("tenantId", "tenant_123");

    // 2.1.4 Users
    check(
        "user_by_username",
        &[tenant, ("username", "admin@example.com")],
        r#"SELECT * FROM c WHERE c.tenantId = "tenant_123" AND c.type = "user" AND c.username = "admin@example.com""#,
    );
    check(
        "users_active_details",
        &[tenant],
        r#"SELECT * FROM c WHERE c.tenantId = "tenant_123" AND c.type = "user" AND c.isActive = true"#,
    );

    // 2.2.4 Role assignments
    check(
        "roles_of_user",
        &[tenant, ("userId", USER)],
        &format!(
            r#"SELECT * FROM c WHERE c.tenantId = "tenant_123" AND c.type = "role_assignment" AND c.userId = "{USER}""#
        ),
    );
    check(
        "users_with_role",
        &[tenant, ("serviceId", "tenant-management"), ("roleName", "管理者")],
        r#"SELECT * FROM c WHERE c.tenantId = "tenant_123" AND c.type = "role_assignment"
           AND c.serviceId = "tenant-management" AND c.roleName = "管理者""#,
    );
    check(
        "role_assignment_check",
        &[tenant, ("userId", USER), ("serviceId", "tenant-management"), ("roleName", "管理者")],
        &format!(
            r#"SELECT * FROM c WHERE c.tenantId = "tenant_123" AND c.type = "role_assignment" AND c.userId = "{USER}"
               AND c.serviceId = "tenant-management" AND c.roleName = "管理者""#
        ),
    );

    // 3.1.5 and 3.1.6 Tenants
    check(
        "tenant_own",
        &[("tenantId", "tenant_acme")],
        r#"SELECT * FROM c WHERE c.tenantId = "tenant_acme" AND c.type = "tenant""#,
    );
    check(
        "tenants",
        &[],
        r#"SELECT * FROM c WHERE c.type = "tenant" AND c.status = "active" ORDER BY c.createdAt DESC OFFSET 0 LIMIT 20"#,
    );
    check(
        "tenant_by_name",
        &[("name", "example-corp")],
        r#"SELECT * FROM c WHERE c.type = "tenant" AND c.name = "example-corp" AND c.status = "active""#,
    );

    // 3.3.2 Domains
    check(
        "domains_verified",
        &[tenant],
        r#"SELECT * FROM c WHERE c.tenantId = "tenant_123" AND c.type = "domain" AND c.verified = true"#,
    );

    // 4.2.2 Service assignments
    check(
        "service_assignments_active",
        &[tenant],
        r#"SELECT * FROM c WHERE c.tenantId = "tenant_123" AND c.type = "service_assignment" AND c.status = "active""#,
    );
    check(
        "tenant_count_of_service",
        &[("serviceId", "file-service")],
        r#"SELECT COUNT(1) as count FROM c
           WHERE c.type = "service_assignment" AND c.serviceId = "file-service" AND c.status = "active""#,
    );

    // 11.2 Fields limited. The document selects `name`, which its users do not have: they have `displayName`.
    check(
        "users_active",
        &[tenant],
        r#"SELECT c.id, c.displayName, c.createdAt FROM c
           WHERE c.tenantId = "tenant_123" AND c.type = "user" AND c.isActive = true"#,
    );
}

/// Proves the design's part of C15.
#[test]
fn the_list_of_all_tenants_comes_in_pages_of_20() {
    assert_eq!(query(&design(MANAGEMENT), "tenants", &[]).limit, 20);
}

/// Proves the design's part of C15.
#[test]
fn queries_return_exactly_the_matching_items() {
    let design = design(MANAGEMENT);
    let tenant = ("tenantId", "tenant_123");
    let user = |name: &str, value: Value| {
        let mut item = json!({
            "tenantId": "tenant_123", "id": USER, "username": "admin@example.com", "isActive": true, "createdAt": AT,
        });
        item[name] = value;
        item
    };
    let by_name = query(&design, "user_by_username", &[tenant, ("username", "admin@example.com")]);
    let active = query(&design, "users_active", &[tenant]);
    // Columns: found by name, found among the active.
    for (name, value, expected) in [
        ("isActive", json!(true), [true, true]),
        ("isActive", json!(false), [true, false]),
        ("username", json!("admin@example.org"), [false, true]),
        ("tenantId", json!("tenant_124"), [false, false]),
    ] {
        let item = user(name, value);
        assert_eq!([&by_name, &active].map(|query| finds(&design, query, "user", &item)), expected, "{item}");
    }
    // Other documents of the same partition.
    let assignment =
        json!({ "tenantId": "tenant_123", "userId": USER, "serviceId": "file-service", "roleName": "管理者" });
    assert!(!finds(&design, &active, "role_assignment", &assignment));
    let roles = query(&design, "roles_of_user", &[tenant, ("userId", USER)]);
    assert!(finds(&design, &roles, "role_assignment", &assignment));
    let count = query(&design, "tenant_count_of_service", &[("serviceId", "file-service")]);
    for (status, found) in [("active", true), ("suspended", false), ("expired", false)] {
        let item =
            json!({ "tenantId": "tenant_123", "id": "assignment_1", "serviceId": "file-service", "status": status });
        assert_eq!(finds(&design, &count, "service_assignment", &item), found, "{status}");
    }
}

fn version(text: &str) -> Version {
    text.parse().unwrap_or_else(|_| panic!("{text} is no version"))
}

/// Proves C17.
#[test]
fn the_schema_of_users_goes_from_1_0_to_1_1_to_2_0() {
    let design = design(MANAGEMENT);
    let user = design.entity("user").expect("users");
    let steps: Vec<_> = user.schema_steps.iter().map(|step| (step.from, step.to, step.is_breaking())).collect();
    assert_eq!(
        steps,
        [(version("1.0"), version("1.1"), false), (version("1.1"), version("2.0"), true)],
        "the last one is breaking, and says so by its major version"
    );
    let [first, second]: &[SchemaStep; 2] = user.schema_steps.as_slice().try_into().expect("two steps");
    assert_eq!(first.add, [("isActive".to_owned(), json!(true))]);
    assert!(second.drop.contains(&"username".to_owned()) && second.drop.contains(&"roles".to_owned()));
    assert_eq!(user.schema, Some(version("1.1")), "what is written today: username is still there");
    assert_eq!(
        user.field("isActive").and_then(|field| field.default.clone()),
        Some(DefaultValue::Constant(json!(true)))
    );
    assert!(user.field("metadata").is_some_and(|field| field.optional));
}

/// Proves C17.
#[test]
fn a_user_of_schema_1_0_is_still_valid() {
    let design = design(MANAGEMENT);
    let old = json!({
        "id": USER, "tenantId": "tenant_123", "type": "user", "schemaVersion": "1.0",
        "username": "admin@example.com", "email": "admin@example.com", "displayName": "管理者太郎",
        "passwordHash": "$2b$12$LQv3c1yqBWVHxkd0LHAkCOYz6TtxMQJqhN8/LewdBPj4J/HS.iK8i",
    });
    let problems = design.check_item(design.entity("user").expect("users"), old.as_object().expect("an object"));
    assert!(problems.is_empty(), "{problems:?}");
}

/// Proves C17.
#[test]
fn a_schema_chain_with_a_gap_or_a_hidden_breaking_change_is_rejected() {
    let text = source(MANAGEMENT);
    let check = |from: &str, to: &str, code: &str| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        let errors = errors(&text.replacen(from, to, 1));
        assert!(errors.iter().any(|(each, _)| *each == code), "{to}: {errors:?}");
    };
    check("from = \"1.1\"\nto   = \"2.0\"", "from = \"1.2\"\nto   = \"2.0\"", "NG0701");
    check("from = \"1.0\"\nto   = \"1.1\"", "from = \"1.1\"\nto   = \"1.0\"", "NG0701");
    check("from = \"1.1\"\nto   = \"2.0\"", "from = \"1.1\"\nto   = \"1.2\"", "NG0702");
    check("schema      = \"1.1\"", "schema      = \"one\"", "NG0008");
}

/// The document's user, version by version.
fn user_design(version: &str, key: &str, fields: &str, steps: &str) -> String {
    format!(
        r#"
        name    = "management"
        version = "{version}"

        [tenant]
        field = "tenantId"

        [table.auth]
        key        = ["PK", "SK"]
        index.GSI1 = ["GSI1PK", "GSI1SK"]

        [entity.user]
        table  = "auth"
        key    = {{ PK = "{key}", SK = "USER#{{id}}" }}
        schema = "{version}"

        [entity.user.fields]
        id           = {{ type = "string", max = 64 }}
        tenantId     = {{ type = "string", max = 64 }}
        email        = {{ type = "string", max = 200 }}
        passwordHash = {{ type = "string", max = 60, secret = true }}
        {fields}
        {steps}
        "#
    )
}

const TENANT: &str = "TENANT#{tenantId}";
const USERNAME: &str = r#"username = { type = "string", max = 200 }"#;
const DISPLAY_NAME: &str = r#"displayName = { type = "string", max = 200 }"#;
const EMBEDDED_ROLES: &str = r#"roles = { type = "list", items = { type = "string", max = 100 }, optional = true }"#;
const ADDED_BY_1_1: &str = r#"
        isActive = { type = "boolean", default = true }
        metadata = { type = "map", optional = true }"#;
const TO_1_1: &str = r#"
        [[entity.user.change]]
        from = "1.0"
        to   = "1.1"
        add  = { isActive = true }"#;
const TO_2_0: &str = r#"
        [[entity.user.change]]
        from = "1.1"
        to   = "2.0"
        drop = ["username", "roles"]"#;

/// Proves C17.
#[test]
fn the_documented_versions_of_users_are_compared_correctly() {
    let join = |parts: &[&str]| parts.join("\n");
    let first = user_design("1.0", TENANT, &join(&[USERNAME, DISPLAY_NAME, EMBEDDED_ROLES]), "");
    let second = user_design("1.1", TENANT, &join(&[USERNAME, DISPLAY_NAME, EMBEDDED_ROLES, ADDED_BY_1_1]), TO_1_1);
    let third = user_design("2.0", TENANT, &join(&[DISPLAY_NAME, ADDED_BY_1_1]), &join(&[TO_1_1, TO_2_0]));
    let [first, second, third] = [first, second, third].map(|text| accepted(&text));

    let paths = |old, new, breaking: bool| -> BTreeSet<String> {
        let differences = diff(old, new).into_iter().filter(|each| each.path.starts_with("entity.user.fields."));
        differences.filter(|each| each.breaking_reason.is_some() == breaking).map(|each| each.path).collect()
    };
    let named = |names: &[&str]| -> BTreeSet<String> {
        names.iter().map(|name| format!("entity.user.fields.{name}")).collect()
    };
    assert_eq!(paths(&first, &second, false), named(&["isActive", "metadata"]));
    assert!(diff(&first, &second).iter().all(|each| each.breaking_reason.is_none()), "{:#?}", diff(&first, &second));
    assert!(!allows_breaking(&first, &second));

    assert_eq!(paths(&second, &third, true), named(&["username", "roles"]));
    assert_eq!(paths(&second, &third, false), named(&[]));
    assert!(allows_breaking(&second, &third));
}

/// Proves C17.
#[test]
fn breaking_and_non_breaking_changes_are_those_of_the_document() {
    let base = r#"
        displayName = { type = "string", max = 200 }
        nickname    = { type = "string", max = 200, optional = true }
        logins      = { type = "string", max = 20 }
        status      = { type = "string", one_of = ["active", "suspended"] }
        createdAt   = { type = "timestamp" }"#;
    let old = accepted(&user_design("1.0", TENANT, base, ""));
    // The replaced text, the new text, the path of the difference, and whether it breaks.
    let check = |from: &str, to: &str, about: &str, breaks: bool| {
        let text = user_design("1.0", TENANT, base, "");
        assert!(text.contains(from), "{from}");
        let differences = diff(&old, &accepted(&text.replacen(from, to, 1)));
        let found =
            differences.iter().any(|each| each.path.starts_with(about) && each.breaking_reason.is_some() == breaks);
        assert!(found, "{from} -> {to}: {differences:#?}");
        assert_eq!(
            differences.iter().any(|each| each.breaking_reason.is_some()),
            breaks,
            "{from} -> {to}: {differences:#?}"
        );
    };
    let field = "entity.user.fields";
    let name = r#"displayName = { type = "string", max = 200 }"#;
    let nickname = r#"nickname    = { type = "string", max = 200, optional = true }"#;
    let logins = r#"logins      = { type = "string", max = 20 }"#;
    let created = r#"createdAt   = { type = "timestamp" }"#;
    let table = r#"index.GSI1 = ["GSI1PK", "GSI1SK"]"#;

    // Breaking: a field removed, renamed, of another type, required; another partition; choices removed.
    check(name, "", &format!("{field}.displayName"), true);
    check("displayName", "fullName", &format!("{field}.fullName"), true);
    check(logins, "logins = { type = \"integer\" }", &format!("{field}.logins"), true);
    check(nickname, "nickname = { type = \"string\", max = 200 }", &format!("{field}.nickname"), true);
    check(created, "createdAt = { type = \"timestamp\" }\nnew = { type = \"boolean\" }", &format!("{field}.new"), true);
    check("PK = \"TENANT#{tenantId}\"", "PK = \"T#{tenantId}\"", "entity.user.key", true);
    check("SK = \"USER#{id}\"", "SK = \"U#{id}\"", "entity.user.key", true);
    check(r#"["active", "suspended"]"#, r#"["active"]"#, &format!("{field}.status"), true);

    // Not breaking: an optional field, a field made optional, a default, an index, an access pattern, a new choice.
    check(
        created,
        &format!("{created}\nnew = {{ type = \"boolean\", optional = true }}"),
        &format!("{field}.new"),
        false,
    );
    check(
        name,
        "displayName = { type = \"string\", max = 200, optional = true }",
        &format!("{field}.displayName"),
        false,
    );
    check(created, "createdAt = { type = \"timestamp\", default = \"now\" }", &format!("{field}.createdAt"), false);
    check(table, &format!("{table}\nindex.GSI2 = [\"GSI2PK\", \"GSI2SK\"]"), "table.auth.index.GSI2", false);
    let mapped =
        "schema = \"1.0\"\nindex.GSI1 = { GSI1PK = \"TENANT#{tenantId}#EMAIL#{email}\", GSI1SK = \"{createdAt}\" }";
    check("schema = \"1.0\"", mapped, "entity.user.index.GSI1", false);
    check(created, &format!("{created}\n[access.users]\nentity = \"user\""), "access.users", false);
    check(r#"["active", "suspended"]"#, r#"["active", "suspended", "deleted"]"#, &format!("{field}.status"), false);
}

/// Proves N1.
#[test]
fn queries_are_outlined_as_in_the_document() {
    check_outline(MANAGEMENT, "roles_of_user", "tenantId = <tenantId> AND userId = <userId>");
}

#[test]
fn roles_permit_what_their_work_needs() {
    check_role(MANAGEMENT, "admin", &["role_assignment.create", "backup_job.delete"], &[]);
    check_role(
        MANAGEMENT,
        "user",
        &["file.delete", "message.create", "channel.read"],
        &["api_key.read", "user.update"],
    );
    assert!(design(MANAGEMENT).is_operator(&["operator".to_owned()]));
}
