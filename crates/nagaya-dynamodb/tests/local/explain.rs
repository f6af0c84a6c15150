//! The request that `nagaya explain` shows is the request that the engine sends.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use nagaya_design::{Design, Wall, check};
use nagaya_dynamodb::{Dynamodb, Options, QueryRequest, Settings, expression};
use nagaya_tenancy::{List, Nagaya, Principal, Settings as TenancySettings, list_query, table_specs};
use serde_json::{Value, json};

use crate::server;

const TENANT: &str = "t1";
const BASE: &str = "base";
/// A design in which tenants share partitions.
const SHARED_PARTITION: &str = "crates/nagaya-design/tests/good/warnings-with-reasons.toml";

fn design(path: &str) -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&source, &[]).design.expect("the design has no errors")
}

/// The body of the `Query` request that each list sends.
async fn sent(design: &Design, lists: &[List]) -> Vec<Value> {
    let bodies: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (received, tables) = (Arc::clone(&bodies), table_specs(design, BASE));
    let endpoint = server::start(move |operation, body| {
        let table = tables.iter().find(|table| body["TableName"] == table.name.as_str());
        if let Some(description) = table.and_then(|table| server::describe(operation, table)) {
            return Some(Ok(description));
        }
        if operation == "Query" {
            received.lock().expect("no test panics while it holds the lock").push(body.clone());
        }
        Some(Ok(json!({ "Count": 0, "ScannedCount": 0, "Items": [] })))
    });
    let store = Dynamodb::open(&Settings::local(endpoint.await), Options::default()).await.expect("a local server");
    let settings = TenancySettings { base: Some(BASE.to_owned()), ..TenancySettings::default() };
    let nagaya = Nagaya::open_with(design.clone(), store, settings);
    let principal = Principal::new(TENANT, "u1");
    let tenant = nagaya.tenant(&principal).expect("a tenant");
    let operator = nagaya.operator("a test of it", &principal);
    let mut sent = Vec::new();
    for list in lists {
        let access = design.access_pattern(list.access()).expect("the pattern");
        let page = match design.wall_of(access) {
            Wall::System => operator.list(list).await,
            _ => tenant.list(list).await,
        };
        page.unwrap_or_else(|error| panic!("{}: {error}", list.access()));
        sent.push(bodies.lock().expect("no test panics while it holds the lock").pop().unwrap_or_default());
    }
    sent
}

fn explained(design: &Design, list: &List) -> Value {
    let query = list_query(design, BASE, TENANT, list).unwrap_or_else(|error| panic!("{}: {error}", list.access()));
    let query = query.expect("a key can match");
    let tables = table_specs(design, BASE);
    let table = tables.iter().find(|table| table.name == query.table).expect("a table of the design");
    let request = QueryRequest::new(&table.name, table, query).expect("a possible query");
    request.expect("a key can match").to_json()
}

/// Lists of all access patterns, with the values of the entity's example as parameters.
fn lists(design: &Design) -> Vec<List> {
    let list = |access: &nagaya_design::AccessPattern| {
        let example = design.example(&design.entities[access.entity]);
        let text =
            |field: &str| match &field.split('.').try_fold(&Value::Object(example.clone()), |at, step| at.get(step)) {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => panic!("{}: the example has no {field}", access.name),
            };
        let parameters = design.parameters(access).into_iter().filter(|each| each.required && !each.from_token);
        parameters.fold(List::by(&access.name), |list, each| list.with(each.name, text(&each.field)))
    };
    design.access_patterns.iter().map(list).collect()
}

#[tokio::test]
async fn the_explained_request_is_the_one_that_is_sent() {
    for path in [
        "systems/aiagent/design/single.toml",
        "systems/aiagent/design/multi.toml",
        "systems/todo/design/todo.toml",
        "systems/kondate/design/kondate.toml",
        "systems/management/design/management.toml",
        SHARED_PARTITION,
    ] {
        let design = design(path);
        let lists = lists(&design);
        for (list, sent) in lists.iter().zip(sent(&design, &lists).await) {
            assert_eq!(explained(&design, list), sent, "{path}: {}", list.access());
        }
    }
}

#[test]
fn the_explained_request_filters_by_owner_and_soft_deletion() {
    let design = design(SHARED_PARTITION);
    let post = explained(&design, &List::by("posts_of_thread").with("threadId", "01JCQ3T0VJ2Q8W3E5R7T9Y1Z2A"));
    assert_eq!(post["FilterExpression"], "#2 = :2");
    assert_eq!(
        (&post["ExpressionAttributeNames"]["#2"], &post["ExpressionAttributeValues"][":2"]["S"]),
        (&json!("groupId"), &json!(TENANT))
    );
    // One more than a page of 100 shows whether the tenant has more.
    assert_eq!(post["Limit"], 101);

    let design = self::design("systems/management/design/management.toml");
    let users = list_query(&design, BASE, TENANT, &List::by("users_active")).expect("a possible list");
    assert_eq!(
        users.and_then(|query| query.filter).as_ref().map(expression::describe).as_deref(),
        Some("type = 'user' AND isActive = true AND NOT (isActive = false)")
    );
}
