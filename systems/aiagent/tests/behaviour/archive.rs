//! Old audit entries move to the log table while the product is served.

use std::time::Duration;

use nagaya_testing::{ManualClock, memory_store};
use serde_json::json;

use crate::harness::{Clients as _, WaitForLists as _, builder};

/// Proves A10.
#[test]
fn a_server_moves_old_audit_entries_to_the_log_table() {
    for design in ["single", "multi"] {
        let clock = ManualClock::default();
        let poll = Duration::from_millis(10);
        let server = builder(design, &clock).store(memory_store(&clock), &clock);
        let server = server.configure(move |server| server.audit_archive_poll(poll)).start();
        let (admin, other) = (server.admin("t1"), server.admin("t2"));
        for who in [&admin, &other] {
            who.post("/agents", &json!({ "agentId": "a1", "name": "a" })).expect_data(201);
        }
        let (old, old_of_other) = (admin.get("/audits").list(), other.get("/audits").list());
        assert_eq!((old.len(), old_of_other.len()), (1, 1));

        server.clock.advance(Duration::from_secs(31 * 24 * 60 * 60));
        admin.post("/agents", &json!({ "agentId": "a2", "name": "b" })).expect_data(201);
        assert_eq!(admin.wait_for_list("/archived-audits", 1), old, "{design}");
        assert_eq!(other.wait_for_list("/archived-audits", 1), old_of_other, "{design}");
        let recent = admin.get("/audits").list();
        assert_eq!((recent.len(), &recent[0]["resource"]), (1, &json!("a2")), "{design}");
        assert!(other.get("/audits").list().is_empty(), "{design}");
        // They are still found by their trace.
        let trace = old[0]["traceId"].as_str().expect("a trace");
        assert_eq!(admin.wait_for_list(&format!("/archived-audits-of-trace?traceId={trace}"), 1), old, "{design}");
    }
}
