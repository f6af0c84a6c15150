//! Several servers on one store, and several requests at once.

use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    house::{House, Time},
    meddled::Meddled,
};

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
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn who_asks_while_the_policy_changes_does_not_bring_the_old_one_back() {
    let time = Time::new();
    let store = Arc::new(Meddled::new(time.clock()));
    let house = House::serve("single", Arc::<Meddled>::clone(&store), time);
    let (admin, member) = (house.admin("t1"), house.user("t1", "u1", &["member"]));
    thread::scope(|scope| {
        // This one has read the old policy, and is slow.
        store.hold.store(true, Ordering::SeqCst);
        let slow = scope.spawn(|| member.ask("GET", "/tasks", None));
        house.runtime.block_on(store.held.notified());
        admin.post("/permission-policies", &json!({ "roles": { "member": [] } })).data(201);
        store.release.notify_one();
        slow.join().expect("an answer").data(200);
    });
    member.get("/tasks").problem(403, "forbidden");
}
