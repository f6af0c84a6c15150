//! The product on a store in memory, and helpers for all tests.

use std::{path::Path, sync::Arc};

use nagaya_design::{Design, check};
use nagaya_kondate::{LocalPayments, PaymentProvider, SubscriptionPlans};
use nagaya_server::System;
use nagaya_tenancy::Principal;
use nagaya_testing::{InstrumentedStore, ManualClock, TestServer, memory_store};
use serde_json::Value as Json;

const NAME: &str = "kondate";

pub(crate) fn design() -> Design {
    modified_design(|source| source)
}

/// The design with a changed source.
pub(crate) fn modified_design(change: impl FnOnce(String) -> String) -> Design {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("design/kondate.toml");
    let source = std::fs::read_to_string(path).expect("the design is there");
    check(&change(source), &[]).design.expect("the design is sound")
}

pub(crate) fn system() -> System {
    system_with(design(), Arc::new(LocalPayments::default()))
}

/// The system with this design and payment provider, and with the plans for development.
pub(crate) fn system_with(design: Design, payments: Arc<dyn PaymentProvider>) -> System {
    system_with_plans(design, payments, SubscriptionPlans::for_development())
}

pub(crate) fn system_with_plans(
    design: Design,
    payments: Arc<dyn PaymentProvider>,
    plans: SubscriptionPlans,
) -> System {
    nagaya_kondate::system(NAME, design, payments, plans)
}

pub(crate) fn kondate_server() -> TestServer {
    TestServer::in_memory(system())
}

/// The same, and its store, which logs calls and injects faults.
pub(crate) fn instrumented_server() -> (TestServer, Arc<InstrumentedStore>) {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    (TestServer::builder(system()).store(store.clone(), &clock).start(), store)
}

/// Creates many items of a user.
pub(crate) fn create_items(server: &TestServer, user: &str, entity: &str, items: &[Json]) {
    let tenant = server.nagaya.tenant(&Principal::new(user, user)).expect("a user");
    for some in items.chunks(90) {
        let fields = |item: &Json| item.as_object().cloned().expect("fields");
        let set = some.iter().fold(tenant.change_set(), |set, item| set.create(entity, fields(item)));
        server.block_on(set.commit()).expect("they are made");
    }
}

/// Creates an item with an id that callers cannot choose.
#[track_caller]
pub(crate) fn create_item(server: &TestServer, user: &str, entity: &str, fields: &Json) -> Json {
    let fields = fields.as_object().cloned().expect("fields");
    let tenant = server.nagaya.tenant(&Principal::new(user, user)).expect("a user");
    server.block_on(tenant.create(entity, fields)).expect("it is made").to_json().into()
}

/// Runs a closure this many times concurrently.
pub(crate) fn run_concurrently<T: Send>(times: usize, act: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let act = &act;
        let acts: Vec<_> = (0..times).map(|n| scope.spawn(move || act(n))).collect();
        acts.into_iter().map(|act| act.join().expect("no panic")).collect()
    })
}
