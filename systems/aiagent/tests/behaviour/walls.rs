//! Every route, called by the wrong tenant: similar tenant names are different tenants.

use std::collections::HashMap;

use nagaya_design::{Design, ResultKind};
use nagaya_server::{Operation, RequiredCaller, Route, routes};
use nagaya_store::{Item, Scan};
use nagaya_tenancy::table_specs;
use serde_json::{Value as Json, json};

use nagaya_testing::{Client, Response, TestServer};

use crate::{
    harness::{BASE, Clients as _, create_sample, in_memory},
    samples::samples,
};

/// All stored items in a tenant's partition or with the tenant's id.
fn items_of_tenant(server: &TestServer, tenant: &str) -> Vec<Item> {
    let text = |item: &Item, name: &str| item.get(name).and_then(|value| value.as_str().map(str::to_owned));
    let mut found = Vec::new();
    for table in table_specs(server.nagaya.design(), BASE) {
        let mut scan = Scan::table(&table.name);
        loop {
            let page = server.block_on(server.store.scan(scan)).expect("a page");
            found.extend(page.items.into_iter().filter(|item| {
                text(item, "PK") == Some(format!("TENANT#{tenant}"))
                    || text(item, "tenantId").as_deref() == Some(tenant)
            }));
            match page.next {
                Some(next) => scan = Scan { after: Some(next), ..Scan::table(&table.name) },
                None => break,
            }
        }
    }
    found
}

/// Sends a request for a route and the item `record`.
fn request(client: &Client<'_>, design: &Design, route: &Route, record: &Json, body: &Json) -> Response {
    let value = |field: &str| match &record[field] {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let path = route.path.strip_prefix(&design.http_prefix).expect("the prefix");
    let mut path =
        route.parameters().fold(path.to_owned(), |path, name| path.replace(&format!("{{{name}}}"), &value(name)));
    if let Operation::List(id) = route.operation {
        let access = id.pattern_in(design);
        let asked =
            design.parameters(access).into_iter().filter(|each| !each.from_token).map(|each| match &*each.name {
                "from" => "from=2000-01-01T00:00:00Z".to_owned(),
                "to" => "to=2099-01-01T00:00:00Z".to_owned(),
                name => format!("{name}={}", value(&each.field)),
            });
        let asked: Vec<_> = asked.collect();
        path = if asked.is_empty() { path } else { format!("{path}?{}", asked.join("&")) };
    }
    let body = matches!(route.operation, Operation::Create(_) | Operation::Update(_)).then_some(body);
    client.send(route.method.as_str(), &path, body)
}

/// Proves the API's part of A2, A15 and N3.
#[test]
fn no_route_reaches_another_tenant_with_a_similar_name() {
    for name in ["single", "multi"] {
        let server = in_memory(name);
        let design = server.nagaya.design();
        let samples = samples();
        let sample = |entity: &str| samples.iter().find(|sample| sample.entity == entity);

        // One tenant has an item of each entity.
        let t1 = server.user_with("t1", "u1", &["admin"]);
        let mut records: HashMap<String, Json> = HashMap::new();
        for sample in &samples {
            records.insert(sample.entity.to_owned(), create_sample(&server, &t1, "t1", sample));
        }
        records.insert("audit".to_owned(), t1.get("/audits?limit=1").list().remove(0));
        let notice = json!({ "noticeId": "n1", "title": "News", "body": "None." });
        records
            .insert("notice".to_owned(), server.client_of_operator("op-1").post("/notices", &notice).expect_data(201));
        let before = items_of_tenant(&server, "t1");
        assert!(before.len() > 30, "items, audit entries and what keeps values unique");

        let tenants_own = |route: &&Route| route.required_caller == RequiredCaller::Tenant;
        let all = routes(design);
        assert!(all.iter().filter(tenants_own).count() > 80, "all of them");
        let others = ["t10", "T1", "t", "t1#", "t1%23", "TENANT#t1"];
        for other in others {
            let client = server.user_with(other, "u1", &["admin"]);
            let (creating, others): (Vec<_>, Vec<_>) =
                all.iter().filter(tenants_own).partition(|route| matches!(route.operation, Operation::Create(_)));
            for route in others.into_iter().chain(creating) {
                let (entity, _) = route.subject(design).expect("about an entity");
                let record = &records[&entity.name];
                let sample = sample(&entity.name);
                let body = sample.map_or(json!({}), |sample| match route.operation {
                    Operation::Create(_) => sample.new.clone(),
                    _ => sample.patch.clone(),
                });
                let answer = request(&client, design, route, record, &body);
                match route.operation {
                    Operation::Read(_) | Operation::Update(_) | Operation::Delete(_) => {
                        drop(answer.expect_problem(404, "not_found"));
                    }
                    Operation::List(id) if id.pattern_in(design).returns == ResultKind::One => {
                        answer.expect_problem(404, "not_found");
                    }
                    // The requests of the other tenants write audit entries of their own.
                    Operation::List(_) => {
                        let strange = answer.list().into_iter().find(|item| item["tenantId"] != other);
                        assert_eq!(strange, None, "{other}: {} {}", route.method, route.path);
                    }
                    // The same id in another tenant is another item.
                    _ => assert_eq!(answer.expect_data(201)["tenantId"], other, "{} {}", route.method, route.path),
                }
            }
            // Operator routes refuse every tenant.
            for route in all.iter().filter(|route| route.required_caller == RequiredCaller::Operator) {
                let Some((entity, _)) = route.subject(design) else {
                    let reasoned = client.with_header("nagaya-reason", "none of its business");
                    reasoned.get("/operator-log").expect_problem(403, "forbidden");
                    continue;
                };
                let nothing = json!({ "applicationId": "none", "noticeId": "n1", "userId": "u1", "status": "pending" });
                let record = records.get(&entity.name).unwrap_or(&nothing);
                // Every caller can apply.
                if route.method == "POST" && entity.name == "tenant_application" {
                    continue;
                }
                let reasoned = client.with_header("nagaya-reason", "none of its business");
                request(&reasoned, design, route, record, &json!({})).expect_problem(403, "forbidden");
            }
            for (method, path) in [
                ("POST", "/tenant-applications/none/approve"),
                ("POST", "/tenant-applications/none/reject"),
                ("GET", "/all-tenants/t1"),
                ("PATCH", "/all-tenants/t1"),
                ("DELETE", "/all-tenants/t1"),
            ] {
                let body = matches!(method, "POST" | "PATCH").then(|| json!({}));
                let reasoned = client.with_header("nagaya-reason", "none of its business");
                reasoned.send(method, path, body.as_ref()).expect_problem(403, "forbidden");
            }
            assert_eq!(server.admin(other).get("/me/tenants").list(), [] as [Json; 0], "a user of no tenant");
        }
        assert_eq!(items_of_tenant(&server, "t1"), before, "nothing of t1 has changed");
    }
}
