//! A user applies for a tenant, and operators review the application.

use serde_json::json;

use super::{each, pass_second};
use nagaya_testing::TestServer;

use crate::harness::{Clients as _, WaitForLists as _};

pub(super) fn run(server: &TestServer) {
    let applicant = server.user_without_tenant("sub-ren");
    let operator = server.client_of_operator("op-1");
    let body = json!({
        "tenantName": "Acme",
        "plan": "standard",
        "applicantName": "Ren",
        "applicantEmail": "ren@example.com",
        "reason": "We drown in mail.",
    });

    // Any caller with a valid token can apply, but cannot set the fields of the review.
    server.anonymous_client().post("/tenant-applications", &body).expect_problem(401, "no_token");
    let application = applicant.post("/tenant-applications", &body).expect_data(201);
    assert_eq!(application["status"], "pending");
    assert_eq!(application["applicantUserId"], "sub-ren");
    let id = application["applicationId"].as_str().expect("an id").to_owned();
    for (field, value) in [
        ("status", json!("approved")),
        ("reviewedBy", json!("sub-ren")),
        ("createdTenantId", json!("t1")),
        ("applicationId", json!("mine")),
        ("applicantUserId", json!("somebody-else")),
    ] {
        let mut forged = body.clone();
        forged[field] = value;
        let wrong = applicant.post("/tenant-applications", &forged).expect_problem(422, "invalid");
        assert_eq!(wrong, [format!("/{field}")]);
    }
    let wrong = applicant.post("/tenant-applications", &json!({ "plan": "huge" })).expect_problem(422, "invalid");
    assert_eq!(wrong, ["/tenantName", "/plan", "/applicantName", "/applicantEmail"]);
    // An idempotency key creates one application, however often it is sent.
    let once = applicant.with_header("idempotency-key", "application-2");
    pass_second(server);
    let second = once.post("/tenant-applications", &body).expect_data(201);
    assert_eq!(once.post("/tenant-applications", &body).expect_data(201), second);
    let mut other = body.clone();
    other["tenantName"] = json!("Other");
    once.post("/tenant-applications", &other).expect_problem(422, "idempotency_key_reused");
    let second = second["applicationId"].as_str().expect("an id").to_owned();
    pass_second(server);
    let third = server.user_with("t9", "sub-mio", &["member"]).post("/tenant-applications", &body).expect_data(201);
    let third = third["applicationId"].as_str().expect("an id").to_owned();

    // Only operators read applications, and only with a reason.
    applicant.get("/tenant-applications").expect_problem(403, "forbidden");
    applicant.get(&format!("/tenant-applications/{id}")).expect_problem(403, "forbidden");
    server.admin("t1").get("/tenant-applications").expect_problem(403, "forbidden");
    operator.without_header("nagaya-reason").get("/tenant-applications").expect_problem(400, "no_reason");
    let all = operator.wait_for_list("/tenant-applications", 3);
    assert_eq!(each(&all, "applicationId"), [third.as_str(), &second, &id], "newest first");
    operator.wait_for_list("/tenant-applications-by-status?status=pending", 3);

    let (approve, reject) =
        (format!("/tenant-applications/{id}/approve"), format!("/tenant-applications/{second}/reject"));
    applicant.post(&approve, &json!({})).expect_problem(403, "forbidden");
    server.admin("t1").post(&approve, &json!({})).expect_problem(403, "forbidden");
    operator.without_header("nagaya-reason").post(&approve, &json!({})).expect_problem(400, "no_reason");
    // Operators can correct the applicant's fields, but not the status.
    let path = format!("/tenant-applications/{id}");
    assert_eq!(operator.patch(&path, &json!({ "status": "approved" })).expect_problem(422, "invalid"), ["/status"]);
    operator.patch(&path, &json!({ "tenantName": "Acme Ltd" })).expect_data(200);

    // Approval creates the tenant.
    pass_second(server);
    assert_eq!(operator.post(&approve, &json!({ "tenantId": "system" })).expect_problem(422, "invalid"), ["/tenantId"]);
    assert_eq!(
        operator.post(&approve, &json!({ "tenantId": "t".repeat(65) })).expect_problem(422, "invalid"),
        ["/tenantId"]
    );
    assert_eq!(operator.post(&approve, &json!({ "tenantId": 1 })).expect_problem(422, "invalid"), ["/tenantId"]);
    assert_eq!(operator.post(&approve, &json!({ "plan": "free" })).expect_problem(422, "invalid"), ["/plan"]);
    let approved = operator.post(&approve, &json!({ "tenantId": "t1", "comment": "Welcome." })).expect_data(200);
    assert_eq!(approved["status"], "approved");
    assert_eq!(approved["createdTenantId"], "t1");
    assert_eq!(approved["reviewedBy"], "op-1");
    assert_eq!(approved["reviewComment"], "Welcome.");
    assert!(approved["reviewedAt"].as_str() > approved["createdAt"].as_str());
    // Repeating the approval returns the same result; any other review is refused.
    assert_eq!(operator.post(&approve, &json!({})).expect_data(200), approved);
    operator.post(&approve, &json!({ "tenantId": "t2" })).expect_problem(409, "not_pending");
    server.client_of_operator("op-2").post(&approve, &json!({})).expect_problem(409, "not_pending");
    operator.post(&format!("/tenant-applications/{id}/reject"), &json!({})).expect_problem(409, "not_pending");

    // A tenant id that exists is refused, and the application stays pending.
    let taken = operator.post(&format!("/tenant-applications/{second}/approve"), &json!({ "tenantId": "t1" }));
    assert_eq!(taken.expect_problem(409, "taken"), ["/tenantId"]);
    let rejected = operator.post(&reject, &json!({ "comment": "Twice the same." })).expect_data(200);
    assert_eq!(rejected["status"], "rejected");
    assert_eq!(rejected.get("createdTenantId"), None);
    operator.post(&reject, &json!({})).expect_problem(409, "not_pending");
    operator.post(&format!("/tenant-applications/{second}/approve"), &json!({})).expect_problem(409, "not_pending");
    operator.post("/tenant-applications/none/approve", &json!({})).expect_problem(404, "not_found");
    operator.wait_for_list("/tenant-applications-by-status?status=pending", 1);
    // So is the id of a tenant that has data but never applied.
    let third_approve = format!("/tenant-applications/{third}/approve");
    pass_second(server);
    server.admin("t8").post("/users", &crate::samples::user("u8")).expect_data(201);
    assert_eq!(operator.post(&third_approve, &json!({ "tenantId": "t8" })).expect_problem(409, "taken"), ["/tenantId"]);
    let long = json!({ "comment": "x".repeat(4_001) });
    assert_eq!(operator.post(&third_approve, &long).expect_problem(422, "invalid"), ["/comment"]);
    // Without an id, one is generated.
    pass_second(server);
    let made = operator.post(&third_approve, &json!({})).expect_data(200);
    assert_eq!(made["createdTenantId"].as_str().map(str::len), Some(26));

    // The tenant exists with its first user and its policy.
    let admin = server.user_with("t1", "sub-ren", &["admin"]);
    let tenant = admin.get("/tenants").expect_data(200);
    assert_eq!(
        (&tenant["name"], &tenant["plan"], &tenant["enabled"]),
        (&json!("Acme Ltd"), &json!("standard"), &json!(true))
    );
    let users = admin.get("/users").list();
    assert_eq!((each(&users, "userId"), each(&users, "role")), (vec!["sub-ren"], vec!["admin"]));
    let policy = admin.get("/permission-policies").expect_data(200);
    assert_eq!(policy["roles"]["admin"], json!(["*"]));
    assert_eq!(policy["roles"].get("operator"), None);
    // The user finds the tenant at sign-in.
    let mine = applicant.wait_for_list("/me/tenants", 1);
    assert_eq!((each(&mine, "tenantId"), each(&mine, "role")), (vec!["t1"], vec!["admin"]));
    server.anonymous_client().get("/me/tenants").expect_problem(401, "no_token");
}
