//! Nagaya: a key design for a partition-keyed store goes in, a tenant-safe data layer comes out.
//!
//! [`design`] reads and checks a design, [`store`] is the port that engines implement ([`embedded`] on a directory,
//! `dynamodb` with the feature of that name), and the features `events` and `server` add event sourcing and HTTP. The rest of
//! this crate is what application code uses: handles that reach one tenant's items and nothing else.
//!
//! It is not an object-relational mapper, and there is no query that the design does not name: what is not an access pattern
//! cannot be listed, and nothing ever scans.
//!
//! # A tour
//!
//! ```
//! use nagaya::{ErrorKind, List, Nagaya, Principal, design, embedded::{EmbeddedStore, Options}};
//! use serde_json::{Map, json};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let checked = design::check(
//!     r#"
//!     name    = "desk"
//!     version = "1.0"
//!
//!     [tenant]
//!     field = "tenantId"
//!
//!     [table.main]
//!     key        = ["PK", "SK"]
//!     index.GSI1 = ["GSI1PK", "GSI1SK"]
//!
//!     [entity.ticket]
//!     table      = "main"
//!     key        = { PK = "TENANT#{tenantId}", SK = "TICKET#{ticketId}" }
//!     index.GSI1 = { GSI1PK = "TENANT#{tenantId}#OPEN", GSI1SK = "{openedAt}", when = "status = 'open'" }
//!     version    = "version"
//!
//!     [entity.ticket.fields]
//!     tenantId = { type = "string", max = 64 }
//!     ticketId = { type = "ulid", default = "new" }
//!     subject  = { type = "string", max = 200 }
//!     status   = { type = "string", one_of = ["open", "closed"], default = "open" }
//!     openedAt = { type = "timestamp", default = "now", immutable = true }
//!
//!     [access.open_tickets]
//!     entity = "ticket"
//!     index  = "GSI1"
//!     "#,
//!     &[],
//! );
//! let nagaya = Nagaya::open(checked.design.ok_or("see the diagnostics")?, EmbeddedStore::in_memory(Options::default())?);
//! nagaya.ensure_tables().await?;
//!
//! // A verified token says who asks; the handle reaches that tenant only.
//! let acme = nagaya.tenant(&Principal::new("acme", "hanako"))?;
//! let ticket = acme.create("ticket", Map::from_iter([("subject".to_owned(), json!("It rains in"))])).await?;
//! let id = ticket.text("ticketId").ok_or("every ticket has one")?;
//!
//! // To everybody else it is not there.
//! let other = nagaya.tenant(&Principal::new("other", "taro"))?;
//! assert!(matches!(other.get("ticket", &[id]).await.unwrap_err().kind(), ErrorKind::NotFound { .. }));
//!
//! // Closing it takes it out of the sparse index, in the same write.
//! assert_eq!(acme.list(&List::by("open_tickets")).await?.records.len(), 1);
//! let close = Map::from_iter([("status".to_owned(), json!("closed"))]);
//! acme.update("ticket", &[id], close, ticket.version()).await?;
//! assert_eq!(acme.list(&List::by("open_tickets")).await?.records.len(), 0);
//! # Ok(())
//! # }
//! ```

pub use nagaya_design as design;
#[cfg(feature = "dynamodb")]
pub use nagaya_dynamodb as dynamodb;
pub use nagaya_embedded as embedded;
#[cfg(feature = "events")]
pub use nagaya_events as events;
#[cfg(feature = "server")]
pub use nagaya_server as server;
pub use nagaya_store as store;
pub use nagaya_tenancy::*;
