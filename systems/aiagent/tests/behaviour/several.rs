//! Several servers on one store.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::house::House;

#[test]
fn what_one_server_changes_another_one_knows_within_seconds() {
    let here = House::in_memory("single");
    let there = House::serve("single", Arc::clone(&here.store), here.time.clone());
    let member = there.user("t1", "u1", &["member"]);
    member.get("/tasks").data(200);

    here.admin("t1").post("/permission-policies", &json!({ "roles": { "member": [] } })).data(201);
    here.user("t1", "u1", &["member"]).get("/tasks").problem(403, "forbidden");
    let begun = Instant::now();
    while member.get("/tasks").status == 200 {
        assert!(begun.elapsed() < Duration::from_secs(10), "it trusts what it knew for too long");
        std::thread::sleep(Duration::from_millis(100));
    }
}
