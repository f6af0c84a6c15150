//! The story on DynamoDB Local.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nagaya_dynamodb::{Dynamodb, Options, Settings};

use crate::{
    engines::{same, told},
    house::{House, Time},
};

/// The product on a server's tables that nobody else uses.
fn on_server(design: &str) -> House {
    let variable = "NAGAYA_TEST_DYNAMODB_LOCAL";
    let endpoint = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run `cargo xtask test`"));
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    // DynamoDB Local has a database for each region.
    let region = Some(format!("aiagent-{design}-{nanos:x}"));
    let settings = Settings { region, ..Settings::local(endpoint) };
    let time = Time::new();
    let options = Options {
        clock: time.clock(),
        // A busy machine is slow, not broken.
        attempt_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(60),
        ..Options::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let store = runtime.block_on(Dynamodb::open(&settings, options)).expect("a server on this machine needs nothing");
    House::serve_on(runtime, design, Arc::new(store), time)
}

/// Proves M2, M8, A9 and A15.
#[test]
fn both_designs_give_the_same_answers_on_dynamodb_as_in_memory() {
    let expected = told(&House::in_memory("single"));
    same(&told(&House::in_memory("multi")), &expected);
    same(&told(&on_server("single")), &expected);
    same(&told(&on_server("multi")), &expected);
}
