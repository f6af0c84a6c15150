//! Traces that several tenants share.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use nagaya_tenancy::Principal;
use nagaya_testing::TestServer;
use serde_json::{Map, Value as Json, json};

use crate::harness::{Clients as _, create_directly, instrumented};

/// Log lines of another tenant with the same trace id.
const FOREIGN: usize = 12_000;

/// Writes log lines of a trace, as many in a change set as one can have.
fn write_logs(server: &TestServer, tenant: &str, trace: &str, count: usize) {
    let tenant = server.nagaya.tenant(&Principal::new(tenant, "worker-1")).expect("a tenant");
    let line: Map<String, Json> = json!({ "message": "m", "traceId": trace }).as_object().cloned().expect("an object");
    for from in (0..count).step_by(100) {
        let lines = (from..count.min(from + 100)).map(|_| line.clone());
        let set = lines.fold(tenant.change_set(), |set, line| set.create("log", line));
        server.block_on(set.commit()).expect("they are written");
    }
}

/// Proves A10 and N3.
#[test]
fn what_other_tenants_write_into_a_trace_costs_a_tenant_nothing() {
    let (server, store) = instrumented("single");
    write_logs(&server, "t2", "trace-1", FOREIGN);
    let entry = json!({
        "timestamp": "2030-01-01T00:00:00Z",
        "uuid": "0190a6e4-6b1c-7c3a-8f00-0123456789ab",
        "action": "agent.delete",
        "resource": "a1",
        "actorUserId": "u1",
        "traceId": "trace-1",
    });
    for tenant in ["t1", "t2"] {
        create_directly(&server, tenant, "archived_audit", &entry);
    }
    write_logs(&server, "t1", "trace-1", 2);
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    store.rewrite_pages(move |_, page| {
        counted.fetch_add(page.scanned_count, Ordering::SeqCst);
        page
    });

    let admin = server.admin("t1");
    for (path, own) in [("/logs-of-trace", 2), ("/archived-audits-of-trace", 1)] {
        read.store(0, Ordering::SeqCst);
        assert_eq!(admin.get(&format!("{path}?traceId=trace-1")).list().len(), own, "{path}");
        assert_eq!(read.load(Ordering::SeqCst), own, "{path}: items that were read");
    }
}
