//! The product on a store in memory, and what all tests of it need.

use std::{path::Path, sync::Arc};

use nagaya_design::{Design, check};
use nagaya_kondate::LocalPayments;
use nagaya_server::System;
use nagaya_tenancy::Principal;
use nagaya_testing::TestServer;
use serde_json::Value as Json;

pub(crate) const NAME: &str = "kondate";

pub(crate) fn design() -> Design {
    design_as(|source| source)
}

/// The design after a change.
pub(crate) fn design_as(change: impl FnOnce(String) -> String) -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("design/kondate.toml");
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&change(source), &[]).design.expect("the design is sound")
}

pub(crate) fn system() -> System {
    nagaya_kondate::system(NAME, design(), Arc::new(LocalPayments::default()))
}

pub(crate) fn kitchen() -> TestServer {
    TestServer::in_memory(system())
}

/// Something of a user's that is there, with an id that callers cannot give it.
#[track_caller]
pub(crate) fn given(server: &TestServer, user: &str, entity: &str, fields: &Json) -> Json {
    let fields = fields.as_object().cloned().expect("fields");
    let tenant = server.nagaya.tenant(&Principal::new(user, user)).expect("a user");
    server.block_on(tenant.create(entity, fields)).expect("it is made").to_json().into()
}

/// Does something as often as this at the same time.
pub(crate) fn at_once<T: Send>(times: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let act = &act;
        let acts: Vec<_> = (0..times).map(|n| scope.spawn(move || act(n))).collect();
        acts.into_iter().map(|act| act.join().expect("no panic")).collect()
    })
}
