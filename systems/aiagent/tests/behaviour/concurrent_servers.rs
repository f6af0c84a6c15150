//! Several servers on one store, and concurrent requests.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use nagaya_store::Key;
use nagaya_testing::{Call, Fault};
use serde_json::json;

use crate::harness::{
    Clients as _, failing_updates, faster_writer, in_memory, instrumented, serve, with_another_writer,
};

#[test]
fn a_policy_change_reaches_other_servers_within_seconds() {
    let here = in_memory("single");
    let there = serve("single", Arc::clone(&here.store), &here.clock);
    let member = there.user_with("t1", "u1", &["member"]);
    member.get("/tasks").expect_data(200);

    here.admin("t1").post("/permission-policies", &json!({ "roles": { "member": [] } })).expect_data(201);
    here.user_with("t1", "u1", &["member"]).get("/tasks").expect_problem(403, "forbidden");
    let begun = Instant::now();
    while member.get("/tasks").status == 200 {
        assert!(begun.elapsed() < Duration::from_secs(10), "the cached policy is too old");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_status_of_a_tenant_is_not_read_by_each_request() {
    let (server, store) = instrumented("single");
    let member = server.user_with("t1", "u1", &["member"]);
    (0..20).for_each(|_| drop(member.get("/tasks").expect_data(200)));
    // It is read again only where seconds pass between two requests.
    let read = store.take(|call| matches!(call, Call::BatchGet(_))).len();
    assert!((1..20).contains(&read), "{read} times");
}

#[test]
fn a_slow_request_does_not_put_the_old_policy_back_into_the_cache() {
    let (server, store) = instrumented("single");
    let (admin, member) = (server.admin("t1"), server.user_with("t1", "u1", &["member"]));
    thread::scope(|scope| {
        // A slow request that has read the old policy.
        let read = store.inject(Fault::pause_after().matching(|call| matches!(call, Call::BatchGet(_))).once());
        let slow = scope.spawn(|| member.request("GET", "/tasks", None));
        server.block_on(read.wait_for_hit());
        admin.post("/permission-policies", &json!({ "roles": { "member": [] } })).expect_data(201);
        read.remove();
        slow.join().expect("an answer").expect_data(200);
    });
    member.get("/tasks").expect_problem(403, "forbidden");
}

#[test]
fn an_operators_change_of_a_tenant_is_repeated_when_another_writer_was_faster() {
    let (server, store, memory) = with_another_writer("single");
    server.admin("t1").post("/tenants", &json!({ "name": "Ren" })).expect_data(201);
    let operator = server.client_of_operator("op-1");
    let item = Key::new("TENANT#t1", "TENANT#t1");
    let change = |plan: &str| operator.patch("/all-tenants/t1", &json!({ "plan": plan }));
    store.inject(faster_writer(&memory, item.clone(), 9));
    assert_eq!(change("enterprise").expect_data(200)["plan"], "enterprise");
    // The tenth time in a row, the operator is told.
    store.inject(faster_writer(&memory, item.clone(), 10));
    change("free").expect_problem(503, "contended");
    assert_eq!(operator.get("/all-tenants/t1").expect_data(200)["plan"], "enterprise");
    // Another failure is not repeated.
    let failing = store.inject(failing_updates(item));
    change("free").expect_problem(500, "internal");
    assert_eq!(failing.hits(), 1);
}
