//! Reviews that break off, and reviews that meet.

use std::thread;

use nagaya_store::{Item, Write};
use nagaya_testing::{Fault, TestServer};
use serde_json::{Value as Json, json};

use crate::harness::{Clients as _, Lists as _, at_tenant_creation, in_memory, instrumented};

/// Somebody applies; the path of the application.
fn applied(server: &TestServer, user: &str) -> String {
    let said = json!({ "tenantName": user, "applicantName": user, "applicantEmail": format!("{user}@example.com") });
    let application = server.user_without_tenant(user).post("/tenant-applications", &said).data(201);
    format!("/tenant-applications/{}", application["applicationId"].as_str().expect("an id"))
}

/// The tenant has its item, its first user and its policy.
fn is_open(server: &TestServer, tenant: &str, user: &str) {
    let admin = server.user_with(tenant, user, &["admin"]);
    assert_eq!(admin.get("/tenants").data(200)["name"], user);
    let users = admin.get("/users").list();
    assert_eq!((users.len(), &users[0]["userId"], &users[0]["role"]), (1, &json!(user), &json!("admin")));
    assert_eq!(admin.get("/permission-policies").data(200)["roles"]["admin"], json!(["*"]));
}

/// Proves the review's part of M8.
#[test]
fn an_approval_that_broke_off_is_completed_by_approving_again() {
    for design in ["single", "multi"] {
        let (server, store) = instrumented(design);
        let operator = server.operator("op-1");
        // Before the tenant was made.
        let path = applied(&server, "ren");
        store.inject(at_tenant_creation(Fault::fail_before));
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t1" })).problem(500, "internal");
        assert_eq!(operator.get(&path).data(200)["createdTenantId"], "t1", "it is decided");
        server.admin("t1").get("/tenants").problem(404, "not_found");
        operator.post(&format!("{path}/reject"), &json!({})).problem(409, "not_pending");
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t2" })).problem(409, "not_pending");
        let completed = operator.post(&format!("{path}/approve"), &json!({})).data(200);
        assert_eq!((&completed["status"], &completed["createdTenantId"]), (&json!("approved"), &json!("t1")));
        is_open(&server, "t1", "ren");
        server.admin("t2").get("/tenants").problem(404, "not_found");

        // After it was made, before anybody knew.
        let path = applied(&server, "mio");
        store.inject(at_tenant_creation(Fault::fail_after));
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t3" })).problem(500, "internal");
        server.operator("op-2").post(&format!("{path}/approve"), &json!({})).problem(409, "not_pending");
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t3" })).data(200);
        is_open(&server, "t3", "mio");

        // By another operator, when the first one is gone.
        let path = applied(&server, "sora");
        store.inject(at_tenant_creation(Fault::fail_before));
        operator.post(&format!("{path}/approve"), &json!({ "tenantId": "t4" })).problem(500, "internal");
        server.operator("op-2").post(&format!("{path}/approve"), &json!({})).problem(409, "not_pending");
        assert_eq!(operator.get(&path).data(200)["reviewedBy"], "op-1");
        is_open(&server, "t4", "sora");

        // Somebody else got the id meanwhile: the application is to be reviewed again.
        let (early, late) = (applied(&server, "aoi"), applied(&server, "yui"));
        store.inject(at_tenant_creation(Fault::fail_before));
        operator.post(&format!("{early}/approve"), &json!({ "tenantId": "t5" })).problem(500, "internal");
        operator.post(&format!("{late}/approve"), &json!({ "tenantId": "t5" })).data(200);
        operator.post(&format!("{early}/approve"), &json!({})).problem(409, "taken");
        let again = operator.get(&early).data(200);
        assert_eq!(again["status"], "pending");
        assert_eq!((again.get("createdTenantId"), again.get("reviewedBy")), (None, None));
        operator.post(&format!("{early}/approve"), &json!({ "tenantId": "t6" })).data(200);
        is_open(&server, "t5", "yui");
        is_open(&server, "t6", "aoi");
    }
}

/// Asks side by side; the answers' status and code.
fn at_once(server: &TestServer, asked: Vec<(String, String, Json)>) -> Vec<(u16, String)> {
    thread::scope(|scope| {
        let asking = asked.iter().map(|(user, path, body)| {
            scope.spawn(move || {
                let answer = server.operator(user).request("POST", path, Some(body));
                (answer.status, answer.body["code"].as_str().unwrap_or_default().to_owned())
            })
        });
        let asking: Vec<_> = asking.collect();
        asking.into_iter().map(|asked| asked.join().expect("an answer")).collect()
    })
}

/// Proves the review's part of M8.
#[test]
fn of_many_reviews_at_once_one_counts() {
    let server = in_memory("single");
    let operator = server.operator("op");
    let mut tenants = 0;
    for round in 0..10 {
        let path = applied(&server, "ren");
        let named = |nth: usize| json!({ "tenantId": format!("t{round}-{nth}") });
        let review = |nth: usize| match nth % 3 {
            0 => (format!("op-{nth}"), format!("{path}/reject"), json!({})),
            1 => (format!("op-{nth}"), format!("{path}/approve"), json!({})),
            _ => (format!("op-{nth}"), format!("{path}/approve"), named(nth)),
        };
        let answers = at_once(&server, (0..9).map(review).collect());
        let fine = answers.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(fine, 1, "{answers:?}");
        let over = (409, "not_pending".to_owned());
        assert!(answers.iter().all(|answer| answer.0 == 200 || *answer == over), "{answers:?}");
        // There is the one tenant that it says, and no other.
        let application = operator.get(&path).data(200);
        let made = operator.lists("/all-tenants", tenants + usize::from(application["status"] == "approved"));
        tenants = made.len();
        if let Some(tenant) = application["createdTenantId"].as_str() {
            is_open(&server, tenant, "ren");
        }
    }
}

/// Proves the review's part of M8.
#[test]
fn of_many_applications_for_one_id_one_gets_it() {
    let server = in_memory("single");
    let operator = server.operator("op");
    for round in 0..5 {
        let tenant = format!("t{round}");
        let paths: Vec<_> = (0..6).map(|nth| applied(&server, &format!("user-{nth}"))).collect();
        let review = |path: &String| ("op".to_owned(), format!("{path}/approve"), json!({ "tenantId": tenant }));
        let answers = at_once(&server, paths.iter().map(review).collect());
        let fine = answers.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(fine, 1, "{answers:?}");
        for (path, (status, code)) in paths.iter().zip(&answers) {
            let application = operator.get(path).data(200);
            match status {
                200 => assert_eq!(application["createdTenantId"], json!(tenant)),
                _ => assert_eq!((code.as_str(), &application["status"]), ("taken", &json!("pending")), "{application}"),
            }
        }
        assert_eq!(server.admin(&tenant).get("/users").list().len(), 1);
    }
}

#[test]
fn a_task_that_many_change_at_once_is_completed_exactly_when_it_is_done() {
    let server = in_memory("single");
    let member = server.user_with("t1", "u1", &["member"]);
    member.post("/tasks", &json!({ "taskId": "k1", "userId": "u1", "title": "a" })).data(201);
    thread::scope(|scope| {
        for nth in 0..6 {
            let member = &member;
            scope.spawn(move || {
                for _ in 0..20 {
                    let status = if nth % 2 == 0 { "done" } else { "open" };
                    let task = member.request("PATCH", "/tasks/k1", Some(&json!({ "status": status }))).data(200);
                    assert_eq!(task["status"], status);
                    assert_eq!(task.get("completedAt").is_some(), status == "done", "{task}");
                }
            });
        }
    });
}

/// What came past this API does not say who applied, and its tenant not where it came from.
#[test]
fn an_application_from_elsewhere_is_rejected_or_stays_as_it_is() {
    let server = in_memory("single");
    let operator = server.operator("op-1");
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
    server.admin("t1").post("/tenants", &json!({ "name": "Old" })).data(201);

    operator.post("/tenant-applications/done/approve", &json!({})).problem(409, "not_pending");
    assert_eq!(operator.get("/tenant-applications/done").data(200)["version"], 1);
    operator.post("/tenant-applications/waiting/approve", &json!({ "tenantId": "t2" })).problem(409, "no_applicant");
    assert_eq!(operator.get("/tenant-applications/waiting").data(200)["status"], "pending");
    operator.post("/tenant-applications/waiting/reject", &json!({})).data(200);
}
