//! Tasks, and the messages that belong to them.

use serde_json::json;

use super::each;
use nagaya_testing::TestServer;

use crate::{
    harness::{Clients as _, WaitForLists as _},
    samples::message,
};

pub(super) fn run(server: &TestServer) {
    let member = server.user_with("t1", "u1", &["member"]);

    // Listed by status and by user, newest first.
    for (id, user) in [("k1", "u1"), ("k2", "u1"), ("k3", "sub-ren")] {
        let task = json!({ "taskId": id, "userId": user, "title": id });
        assert_eq!(member.post("/tasks", &task).expect_data(201)["status"], "open");
    }
    assert_eq!(each(&member.wait_for_list("/tasks-by-status?status=open", 3), "taskId"), ["k3", "k2", "k1"]);
    assert_eq!(each(&member.wait_for_list("/tasks-of-user?userId=u1", 2), "taskId"), ["k2", "k1"]);
    member.get("/tasks-by-status?status=lost").expect_problem(400, "bad_parameter");

    // `completedAt` is set when a task is done, and removed when it is reopened.
    let done = member.patch("/tasks/k1", &json!({ "status": "done" })).expect_data(200);
    assert_eq!(done["completedAt"], done["updatedAt"]);
    let again = member.patch("/tasks/k1", &json!({ "status": "done", "title": "Done" })).expect_data(200);
    assert_eq!(again["completedAt"], done["completedAt"], "it was done before");
    assert_eq!(
        member.patch("/tasks/k1", &json!({ "title": "Finished" })).expect_data(200)["completedAt"],
        done["completedAt"]
    );
    assert_eq!(each(&member.wait_for_list("/tasks-by-status?status=done", 1), "taskId"), ["k1"]);
    assert_eq!(each(&member.wait_for_list("/tasks-by-status?status=open", 2), "taskId"), ["k3", "k2"]);
    let undone = member.patch("/tasks/k1", &json!({ "status": "in_progress" })).expect_data(200);
    assert_eq!(undone.get("completedAt"), None);
    let born_done = json!({ "taskId": "k4", "userId": "u1", "title": "Done", "status": "done" });
    let born_done = member.post("/tasks", &born_done).expect_data(201);
    assert_eq!(born_done["completedAt"], born_done["createdAt"]);
    // Callers cannot set it.
    for status in ["done", "open"] {
        let given = json!({ "status": status, "completedAt": "2020-01-01T00:00:00Z" });
        assert_eq!(member.patch("/tasks/k1", &given).expect_problem(422, "invalid"), ["/completedAt"]);
    }
    let given = json!({ "userId": "u1", "title": "Old", "completedAt": "2020-01-01T00:00:00Z" });
    assert_eq!(member.post("/tasks", &given).expect_problem(422, "invalid"), ["/completedAt"]);
    // A change of status checks the ETag like any other change.
    let tag = member.get("/tasks/k1").header("etag").expect("a tag").to_owned();
    let known = member.with_header("if-match", &tag);
    known.patch("/tasks/k1", &json!({ "status": "waiting" })).expect_data(200);
    known.patch("/tasks/k1", &json!({ "status": "done" })).expect_problem(412, "version_conflict");
    member.with_header("if-match", "*").patch("/tasks/k1", &json!({ "status": "done" })).expect_data(200);
    assert_eq!(member.patch("/tasks/k1", &json!({ "status": "lost" })).expect_problem(422, "invalid"), ["/status"]);
    member.patch("/tasks/none", &json!({ "status": "done" })).expect_problem(404, "not_found");

    // The messages of a task are ordered by the time of receipt, not of creation.
    for (id, received) in
        [("x2", "2030-01-01T09:00:00Z"), ("x1", "2030-01-01T08:00:00Z"), ("x3", "2030-01-01T10:00:00Z")]
    {
        member.post("/email-messages", &message(id, received)).expect_data(201);
    }
    assert_eq!(each(&member.wait_for_list("/email-messages-of-task?taskId=k1", 3), "messageId"), ["x1", "x2", "x3"]);
    let twin = member.post("/email-messages", &{
        let mut twin = message("x4", "2030-01-01T08:00:00Z");
        twin["externalId"] = json!("ext-x1");
        twin
    });
    assert_eq!(twin.expect_problem(409, "taken"), ["/accountId", "/externalId"]);
    // A message belongs to whom the mailbox belongs to, whoever writes it. Other members neither see it nor write one.
    let (admin, other) = (server.admin("t1"), server.user_with("t1", "u2", &["member"]));
    let made = admin.post("/email-messages", &message("x5", "2030-01-01T11:00:00Z")).expect_data(201);
    assert_eq!(made["userId"], "u1");
    let forged = json!({ "userId": "u2" });
    assert_eq!(member.patch("/email-messages/x5", &forged).expect_problem(422, "invalid"), ["/userId"]);
    other.get("/email-messages/x1").expect_problem(404, "not_found");
    other.patch("/email-messages/x1", &json!({ "isRead": true })).expect_problem(404, "not_found");
    other.delete("/email-messages/x1").expect_problem(404, "not_found");
    for path in ["/email-messages", "/email-messages-of-task?taskId=k1"] {
        assert_eq!(other.get(path).list(), [] as [serde_json::Value; 0], "{path}");
        assert_eq!(member.wait_for_list(path, 4).len(), admin.wait_for_list(path, 4).len(), "{path}");
    }
    // A mail that is there and one that is not give the same answer.
    for id in ["x1", "x9"] {
        let mut guess = message("x6", "2030-01-01T08:00:00Z");
        guess["externalId"] = json!(format!("ext-{id}"));
        assert_eq!(other.post("/email-messages", &guess).expect_problem(409, "no_reference"), ["/accountId"]);
    }
    member.delete("/email-messages/x5").expect_data(204);
    // A message without a task is not listed.
    member.patch("/email-messages/x2", &json!({ "taskId": null })).expect_data(200);
    assert_eq!(each(&member.wait_for_list("/email-messages-of-task?taskId=k1", 2), "messageId"), ["x1", "x3"]);
    assert_eq!(member.get("/email-messages/x2").expect_data(200).get("taskId"), None);
}
