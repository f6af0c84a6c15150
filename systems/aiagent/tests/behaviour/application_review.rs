//! Interrupted and concurrent reviews of tenant applications.

use std::thread;

use nagaya_store::{Item, Key, Write};
use nagaya_testing::{Fault, TestServer};
use serde_json::{Value as Json, json};

use crate::harness::{
    Clients as _, WaitForLists as _, at_tenant_creation, failing_updates, faster_writer, in_memory, instrumented,
    with_another_writer,
};

/// Applies for a tenant; the path of the application.
fn apply_for_tenant(server: &TestServer, user: &str) -> String {
    let body = json!({ "tenantName": user, "applicantName": user, "applicantEmail": format!("{user}@example.com") });
    let application = server.user_without_tenant(user).post("/tenant-applications", &body).expect_data(201);
    format!("/tenant-applications/{}", application["applicationId"].as_str().expect("an id"))
}

/// Asserts that the tenant has its item, its first user and its policy.
fn assert_tenant_is_complete(server: &TestServer, tenant: &str, user: &str) {
    let admin = server.user_with(tenant, user, &["admin"]);
    assert_eq!(admin.get("/tenants").expect_data(200)["name"], user);
    let users = admin.get("/users").list();
    assert_eq!((users.len(), &users[0]["userId"], &users[0]["role"]), (1, &json!(user), &json!("admin")));
    assert_eq!(admin.get("/permission-policies").expect_data(200)["roles"]["admin"], json!(["*"]));
}

/// Proves the review's part of M8.
#[test]
fn an_interrupted_approval_is_completed_by_approving_again() {
    for design in ["single", "multi"] {
        let (server, store) = instrumented(design);
        let operator = server.client_of_operator("op-1");
        // Interrupted before the tenant was created.
        let path = apply_for_tenant(&server, "ren");
        store.inject(at_tenant_creation(Fault::fail_before));
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t1" })).expect_problem(500, "internal");
        assert_eq!(operator.get(&path).expect_data(200)["createdTenantId"], "t1", "it is decided");
        server.admin("t1").get("/tenants").expect_problem(404, "not_found");
        operator.post(&format!("{path}/reject"), &json!({})).expect_problem(409, "not_pending");
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t2" })).expect_problem(409, "not_pending");
        let completed = operator.post(&format!("{path}/approve"), &json!({})).expect_data(200);
        assert_eq!((&completed["status"], &completed["createdTenantId"]), (&json!("approved"), &json!("t1")));
        assert_tenant_is_complete(&server, "t1", "ren");
        server.admin("t2").get("/tenants").expect_problem(404, "not_found");

        // Interrupted after the tenant was created, before the response.
        let path = apply_for_tenant(&server, "mio");
        store.inject(at_tenant_creation(Fault::fail_after));
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t3" })).expect_problem(500, "internal");
        server
            .client_of_operator("op-2")
            .post(&format!("{path}/approve"), &json!({}))
            .expect_problem(409, "not_pending");
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t3" })).expect_data(200);
        assert_tenant_is_complete(&server, "t3", "mio");

        // Another operator completes the review.
        let path = apply_for_tenant(&server, "sora");
        store.inject(at_tenant_creation(Fault::fail_before));
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t4" })).expect_problem(500, "internal");
        server
            .client_of_operator("op-2")
            .post(&format!("{path}/approve"), &json!({}))
            .expect_problem(409, "not_pending");
        assert_eq!(operator.get(&path).expect_data(200)["reviewedBy"], "op-1");
        assert_tenant_is_complete(&server, "t4", "sora");

        // Another tenant took the id meanwhile: the application is pending again.
        let (early, late) = (apply_for_tenant(&server, "aoi"), apply_for_tenant(&server, "yui"));
        store.inject(at_tenant_creation(Fault::fail_before));
        operator.post(&format!("{early}/approve"), &json!({ "tenantId": "t5" })).expect_problem(500, "internal");
        operator.post(&format!("{late}/approve"), &json!({ "tenantId": "t5" })).expect_data(200);
        operator.post(&format!("{early}/approve"), &json!({})).expect_problem(409, "taken");
        let again = operator.get(&early).expect_data(200);
        assert_eq!(again["status"], "pending");
        assert_eq!((again.get("createdTenantId"), again.get("reviewedBy")), (None, None));
        operator.post(&format!("{early}/approve"), &json!({ "tenantId": "t6" })).expect_data(200);
        assert_tenant_is_complete(&server, "t5", "yui");
        assert_tenant_is_complete(&server, "t6", "aoi");
    }
}

/// The key of an application, by its path.
fn application_key(path: &str) -> Key {
    Key::new("TENANT#system", path.replace("/tenant-applications/", "TENANT_APPLICATION#").as_str())
}

/// Proves the review's part of M8.
#[test]
fn a_review_is_decided_again_when_another_writer_was_faster() {
    let (server, store, memory) = with_another_writer("single");
    let operator = server.client_of_operator("op-1");
    let path = apply_for_tenant(&server, "ren");
    store.inject(faster_writer(&memory, application_key(&path), 9));
    let approved = operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t1" })).expect_data(200);
    assert_eq!((&approved["createdTenantId"], approved.get("reviewComment")), (&json!("t1"), None));
    // The tenth time in a row, the operator is told.
    let path = apply_for_tenant(&server, "mio");
    store.inject(faster_writer(&memory, application_key(&path), 10));
    operator.post(&format!("{path}/reject"), &json!({})).expect_problem(503, "contended");
    assert_eq!(operator.get(&path).expect_data(200)["status"], "pending");
    // Another failure is not repeated.
    let failing = store.inject(failing_updates(application_key(&path)));
    operator.post(&format!("{path}/reject"), &json!({})).expect_problem(500, "internal");
    assert_eq!(failing.hits(), 1);
    failing.remove();
    let rejected = operator.post(&format!("{path}/reject"), &json!({ "comment": "Twice." })).expect_data(200);
    assert_eq!((&rejected["reviewComment"], rejected.get("createdTenantId")), (&json!("Twice."), None));
}

/// Proves the review's part of M8.
#[test]
fn an_application_becomes_pending_again_unless_another_writer_was_faster() {
    let (server, store, memory) = with_another_writer("single");
    let operator = server.client_of_operator("op-1");
    let (early, late) = (apply_for_tenant(&server, "aoi"), apply_for_tenant(&server, "yui"));
    let status = || operator.get(&early).expect_data(200)["status"].clone();
    let approve = |path: &str| operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t1" }));
    store.inject(at_tenant_creation(Fault::fail_before));
    approve(&early).expect_problem(500, "internal");
    approve(&late).expect_data(200);

    let failing = store.inject(failing_updates(application_key(&early)));
    approve(&early).expect_problem(500, "internal");
    failing.remove();
    store.inject(faster_writer(&memory, application_key(&early), 1));
    approve(&early).expect_problem(409, "taken");
    assert_eq!(status(), "approved", "the change of the other writer stays");
    approve(&early).expect_problem(409, "taken");
    assert_eq!(status(), "pending");
}

/// Sends requests concurrently; status and code of each response.
fn send_concurrently(server: &TestServer, asked: Vec<(String, String, Json)>) -> Vec<(u16, String)> {
    thread::scope(|scope| {
        let asking = asked.iter().map(|(user, path, body)| {
            scope.spawn(move || {
                let answer = server.client_of_operator(user).request("POST", path, Some(body));
                (answer.status, answer.body["code"].as_str().unwrap_or_default().to_owned())
            })
        });
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|asked| asked.join().expect("an answer")).collect()
    })
}

/// Proves the review's part of M8.
#[test]
fn one_of_many_concurrent_reviews_succeeds() {
    let server = in_memory("single");
    let operator = server.client_of_operator("op");
    let mut tenants = 0;
    for round in 0..10 {
        let path = apply_for_tenant(&server, "ren");
        let named = |nth: usize| json!({ "tenantId": format!("t{round}-{nth}") });
        let review = |nth: usize| match nth % 3 {
            0 => (format!("op-{nth}"), format!("{path}/reject"), json!({})),
            1 => (format!("op-{nth}"), format!("{path}/approve"), json!({})),
            _ => (format!("op-{nth}"), format!("{path}/approve"), named(nth)),
        };
        let answers = send_concurrently(&server, (0..9).map(review).collect());
        let fine = answers.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(fine, 1, "{answers:?}");
        let over = (409, "not_pending".to_owned());
        assert!(answers.iter().all(|answer| answer.0 == 200 || *answer == over), "{answers:?}");
        // Only the tenant that the application names exists.
        let application = operator.get(&path).expect_data(200);
        let made = operator.wait_for_list("/all-tenants", tenants + usize::from(application["status"] == "approved"));
        tenants = made.len();
        if let Some(tenant) = application["createdTenantId"].as_str() {
            assert_tenant_is_complete(&server, tenant, "ren");
        }
    }
}

/// Proves the review's part of M8.
#[test]
fn one_of_many_concurrent_approvals_gets_the_tenant_id() {
    let server = in_memory("single");
    let operator = server.client_of_operator("op");
    for round in 0..5 {
        let tenant = format!("t{round}");
        let paths: Vec<_> = (0..6).map(|nth| apply_for_tenant(&server, &format!("user-{nth}"))).collect();
        let review = |path: &String| ("op".to_owned(), format!("{path}/approve"), json!({ "tenantId": tenant }));
        let answers = send_concurrently(&server, paths.iter().map(review).collect());
        let fine = answers.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(fine, 1, "{answers:?}");
        for (path, (status, code)) in paths.iter().zip(&answers) {
            let application = operator.get(path).expect_data(200);
            match status {
                200 => assert_eq!(application["createdTenantId"], json!(tenant)),
                _ => assert_eq!((code.as_str(), &application["status"]), ("taken", &json!("pending")), "{application}"),
            }
        }
        assert_eq!(server.admin(&tenant).get("/users").list().len(), 1);
    }
}

#[test]
fn completed_at_is_set_exactly_when_the_status_is_done_under_concurrency() {
    let server = in_memory("single");
    let member = server.user_with("t1", "u1", &["member"]);
    member.post("/tasks", &json!({ "taskId": "k1", "userId": "u1", "title": "a" })).expect_data(201);
    thread::scope(|scope| {
        for nth in 0..6 {
            let member = &member;
            scope.spawn(move || {
                for _ in 0..20 {
                    let status = if nth % 2 == 0 { "done" } else { "open" };
                    let task =
                        member.request("PATCH", "/tasks/k1", Some(&json!({ "status": status }))).expect_data(200);
                    assert_eq!(task["status"], status);
                    assert_eq!(task.get("completedAt").is_some(), status == "done", "{task}");
                }
            });
        }
    });
}

/// An application that was not created by this API has no applicant, and its tenant no application.
#[test]
fn an_application_without_an_applicant_can_only_be_rejected() {
    let server = in_memory("single");
    let operator = server.client_of_operator("op-1");
    let item = |id: &str, status: &str| {
        let sort = format!("TENANT_APPLICATION#{id}");
        let item = Item::new().with("PK", "TENANT#system").with("SK", sort.as_str()).with("applicationId", id);
        let item = item.with("GSI1PK", "TENANT_APPLICATION").with("GSI1SK", "2020-01-01T00:00:00Z");
        let item = item.with("createdAt", "2020-01-01T00:00:00Z").with("updatedAt", "2020-01-01T00:00:00Z");
        let item = item.with("tenantName", "Old").with("plan", "free").with("applicantName", "Old");
        item.with("applicantEmail", "old@example.com").with("status", status).with("version", 1)
    };
    let done = item("done", "approved").with("createdTenantId", "t1").with("reviewedBy", "op-1");
    for item in [item("waiting", "pending"), done.clone()] {
        server.block_on(server.store.write(Write::put("aiagent-dev-app", item).into())).expect("it is written");
    }
    server.admin("t1").post("/tenants", &json!({ "name": "Old" })).expect_data(201);

    operator.post("/tenant-applications/done/approve", &json!({})).expect_problem(409, "not_pending");
    assert_eq!(operator.get("/tenant-applications/done").expect_data(200)["version"], 1);
    operator
        .post("/tenant-applications/waiting/approve", &json!({ "tenantId": "t2" }))
        .expect_problem(409, "no_applicant");
    assert_eq!(operator.get("/tenant-applications/waiting").expect_data(200)["status"], "pending");
    operator.post("/tenant-applications/waiting/reject", &json!({})).expect_data(200);
}
