//! The permission policy, entity by entity and verb by verb.

use nagaya_design::{Design, Verb};
use nagaya_server::{Operation, RequiredCaller, Route, routes};
use serde_json::{Value as Json, json};

use nagaya_testing::{Client, Response};

use crate::{
    harness::{Clients as _, create_sample, in_memory},
    samples::{Sample, samples},
};

/// Whether the policy permitted a request, whatever its result.
fn is_permitted(answer: &Response) -> bool {
    let detail = answer.body["detail"].as_str().unwrap_or_default();
    answer.status != 403 || !detail.contains("permission policy")
}

/// Proves the policy's part of M8.
#[test]
fn the_policy_is_enforced_for_each_verb_of_each_entity() {
    let server = in_memory("single");
    let design = server.nagaya.design();
    let admin = server.user_with("t1", "u1", &["admin"]);
    let samples = samples();
    let path_of = |entity: &str| design.entity(entity).expect("an entity").path.clone();
    for sample in &samples {
        create_sample(&server, &admin, "t1", sample);
    }
    let all = design.entities.iter().flat_map(|entity| Verb::ALL.map(|verb| format!("{}.{verb}", entity.name)));
    let all: Vec<String> = all.collect();
    let allow = |permissions: Json| {
        let policy = json!({ "roles": { "admin": permissions } });
        if admin.patch("/permission-policies", &policy).status == 404 {
            admin.post("/permission-policies", &policy).expect_data(201);
        }
    };

    let mut asked = 0;
    for route in routes(design)
        .iter()
        .filter(|route| matches!(route.required_caller, RequiredCaller::Tenant | RequiredCaller::Public))
    {
        let (entity, verb) = route.subject(design).expect("about an entity");
        let sample = samples.iter().find(|sample| sample.entity == entity.name);
        let permission = format!("{}.{verb}", entity.name);
        let everything_else: Vec<_> = all.iter().filter(|each| **each != permission).collect();

        allow(json!(everything_else));
        let refused = !is_permitted(&request(&admin, design, route, sample));
        // A role with all permissions in the design keeps access to the policy itself.
        assert_eq!(refused, entity.name != "permission_policy", "{} {} without {permission}", route.method, route.path);
        for enough in [permission.clone(), format!("*.{verb}")] {
            allow(json!([enough]));
            let answer = request(&admin, design, route, sample);
            assert!(is_permitted(&answer), "{} {} with {enough}: {}", route.method, route.path, answer.body);
            // Create the deleted item again.
            if matches!(route.operation, Operation::Delete(_)) {
                allow(json!(["*"]));
                samples.iter().for_each(|sample| drop(admin.post(&path_of(sample.entity), &sample.new)));
            }
        }
        asked += 1;
    }
    assert!(asked > 80, "{asked} routes");
}

/// Sends a request for a route, with the sample of its entity if there is one.
fn request(client: &Client<'_>, design: &Design, route: &Route, sample: Option<&Sample>) -> Response {
    let nothing = json!({});
    let new = sample.map_or(&nothing, |sample| &sample.new);
    let text = |name: &str| new[name].as_str().unwrap_or("none").to_owned();
    let path = route.path.strip_prefix(&design.http_prefix).expect("the prefix");
    let path = route.parameters().fold(path.to_owned(), |path, name| path.replace(&format!("{{{name}}}"), &text(name)));
    let body = match route.operation {
        Operation::Create(_) => Some(new),
        Operation::Update(_) => Some(sample.map_or(&nothing, |sample| &sample.patch)),
        _ => None,
    };
    client.send(route.method.as_str(), &path, body)
}

/// A policy that was written directly to the store and cannot be read permits nothing.
#[test]
fn an_unreadable_policy_permits_nothing() {
    use nagaya_store::{Item, Value, Write};

    let server = in_memory("single");
    let roles = [("member", Value::List(vec!["task.everything".into()])), ("viewer", "task.read".into())];
    let roles = Value::Map(roles.map(|(role, may)| (role.to_owned(), may)).into());
    let item = Item::new().with("PK", "TENANT#t1").with("SK", "POLICY#PERMISSIONS").with("tenantId", "t1");
    let item = item.with("roles", roles).with("updatedAt", "2030-01-01T00:00:00Z").with("version", 1);
    server.block_on(server.store.write(Write::put("aiagent-dev-app", item).into())).expect("it is written");
    server.user_with("t1", "u1", &["member"]).get("/tasks").expect_problem(403, "forbidden");
    server.user_with("t1", "u1", &["viewer"]).get("/tasks").expect_problem(403, "forbidden");
    server.admin("t1").get("/tasks").expect_data(200);
}

/// A policy can limit a role to own items, of entities that belong to their user.
#[test]
fn a_policy_limits_a_role_to_own_items() {
    let server = in_memory("single");
    let [aoi, ren] = ["u1", "u2"].map(|user| server.user_with("t1", user, &["admin"]));
    for user in ["u1", "u2"] {
        aoi.post("/users", &crate::samples::user(user)).expect_data(201);
    }
    aoi.post("/email-accounts", &crate::samples::account("m1", "aoi@example.com")).expect_data(201);
    ren.get("/email-accounts/m1").expect_data(200);

    let policy = |permission: &str| json!({ "roles": { "admin": ["*.create", permission] } });
    assert_eq!(
        aoi.post("/permission-policies", &policy("agent.read:own")).expect_problem(422, "invalid"),
        ["/roles/admin/1"]
    );
    aoi.post("/permission-policies", &policy("email_account.*:own")).expect_data(201);
    ren.get("/email-accounts/m1").expect_problem(404, "not_found");
    ren.patch("/email-accounts/m1", &json!({ "syncStatus": "syncing" })).expect_problem(404, "not_found");
    assert_eq!(ren.get("/email-accounts").list(), [] as [Json; 0]);
    aoi.get("/email-accounts/m1").expect_data(200);

    // The design limits members, whatever the policy says.
    let wide = json!({ "roles": { "member": ["email_account.*"] } });
    aoi.patch("/permission-policies", &wide).expect_data(200);
    server.user_with("t1", "u2", &["member"]).get("/email-accounts/m1").expect_problem(404, "not_found");
    server.user_with("t1", "u1", &["member"]).get("/email-accounts/m1").expect_data(200);
}

/// A task belongs to its user, whoever has created it.
#[test]
fn a_policy_lets_members_change_their_own_tasks_and_no_others() {
    for design in ["single", "multi"] {
        let server = in_memory(design);
        let admin = server.admin("t1");
        let [aoi, ren] = ["u1", "u2"].map(|user| server.user_with("t1", user, &["member"]));
        for (id, user) in [("k1", "u1"), ("k2", "u2")] {
            admin.post("/tasks", &json!({ "taskId": id, "userId": user, "title": "Answer" })).expect_data(201);
        }
        let done = json!({ "status": "done" });
        ren.patch("/tasks/k1", &json!({ "priority": "high" })).expect_data(200);

        let policy = json!({ "roles": { "member": ["task.read", "task.update:own"] } });
        admin.post("/permission-policies", &policy).expect_data(201);
        ren.patch("/tasks/k1", &done).expect_problem(404, "not_found");
        ren.patch("/tasks/k2", &done).expect_data(200);
        aoi.patch("/tasks/k1", &done).expect_data(200);
        assert_eq!(ren.get("/tasks/k1").expect_data(200)["status"], "done", "members read all tasks");
        assert_eq!(ren.get("/tasks").list().len(), 2);
        // Nobody takes or gives away a task, and the admin changes all of them.
        for (client, id) in [(&ren, "k2"), (&admin, "k1")] {
            let pointers =
                client.patch(&format!("/tasks/{id}"), &json!({ "userId": "u3" })).expect_problem(422, "invalid");
            assert_eq!(pointers, ["/userId"]);
        }
        admin.patch("/tasks/k2", &json!({ "status": "open" })).expect_data(200);

        let policy = json!({ "roles": { "member": ["task.*:own"] } });
        admin.patch("/permission-policies", &policy).expect_data(200);
        ren.get("/tasks/k1").expect_problem(404, "not_found");
        ren.delete("/tasks/k1").expect_problem(404, "not_found");
        let own = ren.get("/tasks").list();
        assert_eq!((own.len(), &own[0]["taskId"]), (1, &json!("k2")));
        let of_another = json!({ "taskId": "k3", "userId": "u1", "title": "Answer" });
        assert_eq!(ren.post("/tasks", &of_another).expect_problem(422, "invalid"), ["/userId"]);
    }
}
