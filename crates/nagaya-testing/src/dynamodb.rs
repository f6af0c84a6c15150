//! Stores on DynamoDB Local.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nagaya_dynamodb::{Dynamodb, Options, Settings};

use crate::{ManualClock, TestServer, TestServerBuilder, build_runtime};

/// A database of DynamoDB Local that no other test uses. `cargo xtask test` starts the server.
pub struct DynamodbLocal {
    /// The server and the database.
    pub settings: Settings,
    /// The time of its stores.
    pub clock: ManualClock,
}

impl DynamodbLocal {
    /// A new database whose name starts with this.
    ///
    /// # Panics
    ///
    /// When the environment does not say where DynamoDB Local is.
    pub fn new(name: &str) -> Self {
        let variable = "NAGAYA_TEST_DYNAMODB_LOCAL";
        let endpoint = std::env::var(variable);
        let endpoint = endpoint.unwrap_or_else(|_| panic!("{variable} is not set: run `cargo xtask test`"));
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        // DynamoDB Local has a database for each region.
        let settings = Settings { region: Some(format!("{name}-{nanos:x}")), ..Settings::local(endpoint) };
        DynamodbLocal { settings, clock: ManualClock::default() }
    }

    /// Options of a store on it.
    pub fn options(&self) -> Options {
        Options {
            clock: self.clock.clock(),
            // A busy machine is slow, not broken.
            attempt_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            ..Options::default()
        }
    }

    /// Starts a server on a store on it.
    pub fn start(&self, server: TestServerBuilder) -> TestServer {
        let runtime = build_runtime();
        let store = runtime.block_on(Dynamodb::open(&self.settings, self.options()));
        let store = Arc::new(store.expect("DynamoDB Local needs no credentials"));
        server.store(store, &self.clock).start_on(runtime)
    }
}
