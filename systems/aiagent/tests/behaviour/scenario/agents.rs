//! Agents and their runs.

use serde_json::json;

use super::each;
use nagaya_testing::TestServer;

use crate::harness::WaitForLists as _;

pub(super) fn run(server: &TestServer) {
    let member = server.user_with("t1", "u1", &["member"]);

    for name in ["a1", "a2"] {
        member.post("/agents", &json!({ "agentId": name, "name": name })).expect_data(201);
    }
    assert_eq!(member.patch("/agents/a2", &json!({ "enabled": false })).expect_data(200)["enabled"], false);
    assert_eq!(each(&member.get("/agents").list(), "agentId"), ["a1", "a2"]);
    member.delete("/agents/a2").expect_data(204);
    assert_eq!(each(&server.client_of_operator("op-1").wait_for_list("/all-agents", 1), "agentId"), ["a1"]);

    // Runs, newest first. A run outlives its agent.
    for (id, summary) in [("e1", "The first mail"), ("e2", "The second mail"), ("e3", "The third mail")] {
        let execution =
            json!({ "executionId": id, "agentId": "a2", "inputSummary": summary, "traceId": format!("trace-{id}") });
        assert_eq!(member.post("/executions", &execution).expect_data(201)["status"], "queued");
    }
    member.patch("/executions/e1", &json!({ "status": "succeeded" })).expect_data(200);
    assert_eq!(
        member.patch("/executions/e1", &json!({ "status": "lost" })).expect_problem(422, "invalid"),
        ["/status"]
    );
    assert_eq!(each(&member.get("/executions").list(), "status"), ["queued", "queued", "succeeded"]);
    let first = member.get("/executions?limit=2");
    let cursor = first.body["nextCursor"].as_str().expect("a cursor").to_owned();
    assert_eq!(each(&first.list(), "executionId"), ["e3", "e2"]);
    let rest = member.get(&format!("/executions?limit=2&cursor={cursor}"));
    assert_eq!(rest.body.get("nextCursor"), None);
    assert_eq!(each(&rest.list(), "executionId"), ["e1"]);
    let other = server.user_with("t10", "u1", &["member"]);
    other.get(&format!("/executions?limit=2&cursor={cursor}")).expect_problem(400, "bad_cursor");
}
