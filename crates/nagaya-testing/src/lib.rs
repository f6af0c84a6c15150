//! The test harness of the workspace.
//!
//! - [`InstrumentedStore`] wraps any store: it logs calls, and injects faults, pauses and hooks.
//! - [`ManualClock`] moves only when a test moves it.
//!
//! With the feature `server`:
//!
//! - `TestServer` serves a system on a loopback port, with its own token issuer.
//! - `LogLines` captures the log of a test.
//! - `Client` sends blocking HTTP requests to it; `Connection` is one raw connection for asynchronous tests.
//! - `HttpGateway` attacks a system with the attack suite, through a server.
//! - `Process` runs a command as a child; `ServeProcess` runs `nagaya serve` and waits until it is ready.
//!
//! With the feature `dynamodb`, `DynamodbLocal` runs the same server on DynamoDB Local.
//!
//! # Example
//!
//! A call that fails, and the log of the calls that were made:
//!
//! ```
//! use nagaya_store::{Error, Item, KeySchema, Store, TableSpec, Write};
//! use nagaya_testing::{Call, Fault, InstrumentedStore, ManualClock, memory_store};
//!
//! # tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
//! let store = InstrumentedStore::new(memory_store(&ManualClock::default()));
//! store.ensure_tables(&[TableSpec::new("todos", KeySchema::strings("PK", "SK"))]).await?;
//!
//! // The second write fails, before it has an effect.
//! let fault = Fault::fail_before(|| Error::engine("the disk is gone")).matching(Call::is_write).skip(1).once();
//! let fault = store.inject(fault);
//! let item = |sort: &str| Write::put("todos", Item::new().with("PK", "f1").with("SK", sort));
//! store.write(item("1").into()).await?;
//! assert!(store.write(item("2").into()).await.is_err());
//! store.write(item("3").into()).await?;
//!
//! assert_eq!(fault.hits(), 1);
//! assert_eq!(store.take_writes().len(), 3);
//! # Ok::<(), Error>(())
//! # }).expect("the example runs");
//! ```

#[cfg(feature = "server")]
mod attack;
#[cfg(feature = "server")]
mod client;
#[cfg(feature = "server")]
mod connection;
mod design;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod instrumented;
#[cfg(feature = "server")]
mod log_lines;
#[cfg(feature = "server")]
mod paused;
#[cfg(feature = "server")]
mod process;
#[cfg(feature = "server")]
mod server;

#[cfg(feature = "dynamodb")]
pub use self::dynamodb::DynamodbLocal;
#[cfg(feature = "server")]
pub use self::{
    attack::HttpGateway,
    client::{Client, Exchange, Response, text},
    connection::{Connection, RawResponse},
    log_lines::LogLines,
    paused::PausedTokioClock,
    process::{Process, ServeProcess, eventually, send_request},
    server::{TestServer, TestServerBuilder, build_runtime},
};
pub use self::{
    design::{parse_design, system_design},
    instrumented::{Call, Fault, InjectedFault, InstrumentedStore, memory_store},
};
pub use nagaya_store::ManualClock;
