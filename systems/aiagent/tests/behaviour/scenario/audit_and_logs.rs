//! The audit trail and the logs.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{each, pass_second};
use nagaya_testing::TestServer;

use crate::harness::{Clients as _, WaitForLists as _, create_directly};

pub(super) fn run(server: &TestServer) {
    let admin = server.admin("t3");

    // Every change has an audit entry with its user; entries cannot be written or changed otherwise.
    admin.post("/agents", &json!({ "agentId": "a1", "name": "a" })).expect_data(201);
    pass_second(server);
    let before = admin.patch("/agents/a1", &json!({ "name": "b" })).expect_data(200)["updatedAt"].clone();
    pass_second(server);
    server.user_with("t3", "u5", &["member"]).patch("/agents/a1", &json!({ "name": "c" })).expect_data(200);
    pass_second(server);
    admin.delete("/agents/a1").expect_data(204);
    let all = admin.get("/audits").list();
    assert_eq!(each(&all, "action"), ["agent.delete", "agent.update", "agent.update", "agent.create"]);
    assert_eq!(each(&all, "actorUserId"), ["admin-1", "u5", "admin-1", "admin-1"]);
    assert_eq!(each(&all, "resource"), ["a1"; 4]);
    assert!(all.iter().all(|entry| entry["traceId"].as_str().is_some_and(|id| id.len() == 26)), "{all:#?}");
    admin.post("/audits", &all[0]).expect_problem(405, "no_such_method");
    let (at, uuid) = (text(&all[0], "timestamp"), text(&all[0], "uuid"));
    admin.delete(&format!("/audits/{at}/{uuid}")).expect_problem(405, "no_such_method");
    assert_eq!(admin.get(&format!("/audits/{at}/{uuid}")).expect_data(200), all[0]);

    // Between two instants, the first included and the second excluded, oldest first.
    let (from, to) = (before.as_str().expect("an instant"), text(&all[0], "timestamp"));
    let between = admin.get(&format!("/audit-between?from={from}&to={to}")).list();
    assert_eq!(each(&between, "actorUserId"), ["admin-1", "u5"]);
    admin.get(&format!("/audit-between?from={to}&to={from}")).expect_problem(400, "bad_parameter");
    admin.get("/audit-between?from=yesterday").expect_problem(400, "bad_parameter");
    assert_eq!(server.admin("t30").get(&format!("/audit-between?from={from}&to={to}")).list(), [] as [Json; 0]);

    // Logs by time and by trace. A trace can span two tenants; each sees its own part, and operators see all of it.
    let other = server.admin("t30");
    for (tenant, message, trace) in [
        ("t3", "received", Some("trace-1")),
        ("t30", "of another tenant", Some("trace-1")),
        ("t3", "answered", Some("trace-1")),
        ("t3", "elsewhere", Some("trace-2")),
        ("t3", "by itself", None),
    ] {
        create_directly(server, tenant, "log", &json!({ "message": message, "traceId": trace }));
        pass_second(server);
    }
    assert_eq!(each(&admin.wait_for_list("/logs-of-trace?traceId=trace-1", 2), "message"), ["received", "answered"]);
    assert_eq!(each(&other.wait_for_list("/logs-of-trace?traceId=trace-1", 1), "message"), ["of another tenant"]);
    let operator = server.client_of_operator("op-1");
    let whole = operator.wait_for_list("/all-logs-of-trace?traceId=trace-1", 3);
    assert_eq!(each(&whole, "message"), ["received", "of another tenant", "answered"]);
    admin.get("/all-logs-of-trace?traceId=trace-1").expect_problem(403, "forbidden");
    let logs = admin.get("/logs").list();
    assert_eq!(each(&logs, "message"), ["by itself", "elsewhere", "answered", "received"], "newest first");
    let (from, to) = (text(&logs[2], "timestamp"), text(&logs[0], "timestamp"));
    let between = admin.get(&format!("/logs-between?from={from}&to={to}")).list();
    assert_eq!(each(&between, "message"), ["answered", "elsewhere"]);
    // Audit entries of a trace are in the same index partition as its logs.
    let archived = json!({
        "timestamp": text(&all[0], "timestamp"),
        "uuid": uuid,
        "action": "agent.delete",
        "resource": "a1",
        "actorUserId": "admin-1",
        "traceId": "trace-1",
    });
    create_directly(server, "t3", "archived_audit", &archived);
    assert_eq!(each(&admin.wait_for_list("/archived-audits-of-trace?traceId=trace-1", 1), "action"), ["agent.delete"]);
    admin.wait_for_list("/logs-of-trace?traceId=trace-1", 2);
    operator.wait_for_list("/all-archived-audits-of-trace?traceId=trace-1", 1);
    // The people of a tenant read logs and archived entries; they neither forge nor remove them.
    for (collection, item) in [("/logs", &logs[0]), ("/archived-audits", &archived)] {
        let one = format!("{collection}/{}/{}", text(item, "timestamp"), text(item, "uuid"));
        admin.get(&one).expect_data(200);
        admin.post(collection, item).expect_problem(405, "no_such_method");
        admin.patch(&one, &json!({})).expect_problem(405, "no_such_method");
        admin.delete(&one).expect_problem(405, "no_such_method");
    }

    // A session expires at its time, and a log line after ninety days.
    admin.post("/users", &crate::samples::user("u1")).expect_data(201);
    let ends = nagaya_testing::ManualClock::START / 1_000 + 24 * 60 * 60;
    let session = json!({ "sessionId": "s1", "userId": "u1", "tokenHash": "hash", "expiresAt": ends });
    assert_eq!(admin.post("/sessions", &session).expect_data(201).get("tokenHash"), None);
    let token =
        json!({ "tokenId": "k1", "userId": "u1", "purpose": "invitation", "tokenHash": "h", "expiresAt": ends });
    admin.post("/tokens", &token).expect_data(201);
    admin.wait_for_list("/sessions-of-user?userId=u1", 1);
    admin.wait_for_list("/tokens-of-user?userId=u1", 1);
    server.clock.advance(DAY);
    admin.get("/sessions/s1").expect_problem(404, "not_found");
    admin.get("/tokens/k1").expect_problem(404, "not_found");
    admin.wait_for_list("/sessions-of-user?userId=u1", 0);
    server.clock.advance(88 * DAY);
    assert_eq!(admin.get("/logs").list().len(), 4);
    server.clock.advance(DAY);
    assert_eq!(admin.get("/logs").list(), [] as [Json; 0]);
    admin.wait_for_list("/logs-of-trace?traceId=trace-1", 0);
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn text<'j>(item: &'j Json, field: &str) -> &'j str {
    item[field].as_str().expect("a text")
}
