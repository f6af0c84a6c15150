//! One scenario of the product over HTTP: the responses are the same on every design and engine.

mod agents;
mod applications;
mod audit_and_logs;
mod disabled_tenant;
mod mailboxes;
mod news;
mod policy;
mod tasks;
mod users_and_tenants;

use std::time::Duration;

use serde_json::Value as Json;

use nagaya_testing::TestServer;

/// Runs the whole scenario; the server's transcript records it.
pub(crate) fn run(server: &TestServer) {
    applications::run(server);
    users_and_tenants::run(server);
    agents::run(server);
    mailboxes::run(server);
    tasks::run(server);
    news::run(server);
    policy::run(server);
    audit_and_logs::run(server);
    disabled_tenant::run(server);
}

/// Moves the clock to the next second: lists that are sorted by a second alone have no order within it.
fn pass_second(server: &TestServer) {
    server.clock.advance(Duration::from_secs(1));
}

/// One field of each item in a list.
fn each<'l>(list: &'l [Json], field: &str) -> Vec<&'l str> {
    list.iter().map(|item| item[field].as_str().unwrap_or("-")).collect()
}
