//! The store port: the operations that Nagaya needs from a partition-keyed store, with the same semantics on every
//! engine.
//!
//! Items are attribute maps, identified by a partition key and a sort key. A write set is a list of conditional actions
//! that all succeed or all fail. A query reads one partition of a table or index, in sort-key order. Changes report what
//! happened, in order for each item. Everything is a typed value; nothing builds expressions from strings.
//!
//! Engines implement [`Store`]. This crate knows nothing about tenants or designs.
//!
//! # A tour
//!
//! ```
//! use nagaya_store::{Condition, Item, Key, KeySchema, Query, SortCondition, TableSpec, Update, Write, WriteSet};
//!
//! // A table with a sparse index: only items that have both index attributes are in the index.
//! let table = TableSpec::new("todos", KeySchema::strings("PK", "SK"))
//!     .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
//!     .with_ttl("expiresAt");
//!
//! // A create is a put on the condition that the item does not exist.
//! let item = Item::new().with("PK", "FAMILY#f1").with("SK", "TODO#1").with("title", "Buy milk").with("version", 1);
//! let create = Write::put("todos", item.clone()).when(Condition::absent("PK"));
//!
//! // An update on the condition that the version is still the one that was read.
//! let key = Key::new("FAMILY#f1", "TODO#1");
//! let rename = Update::new().set("title", "Buy tea").set("version", 2);
//! let update = Write::update("todos", key, rename.clone()).when(Condition::equal("version", 1));
//!
//! // All actions of a set happen together or not at all; a set has at most one action per item.
//! let set = WriteSet::from(create);
//! # let _ = (set, update, table);
//!
//! // Conditions and updates can be evaluated without a store.
//! assert!(Condition::equal("version", 1).is_satisfied_by(&item));
//! assert_eq!(rename.apply(&item)?.get("title").and_then(|title| title.as_str()), Some("Buy tea"));
//!
//! // A query reads one partition, in sort-key order.
//! let query = Query::table("todos", "FAMILY#f1").sort(SortCondition::BeginsWith("TODO#".into())).limit(20);
//! # let _ = query;
//! # Ok::<(), nagaya_store::InvalidUpdate>(())
//! ```

mod capacity;
mod change;
mod clock;
mod condition;
mod error;
pub mod files;
mod health;
mod item;
mod key;
pub mod limits;
mod metered_store;
mod number;
mod query;
mod store;
mod table;
mod update;
mod value;
mod write;

pub use capacity::{ConsumedCapacity, measure_capacity, report_consumed_capacity};
pub use change::{ChangeCause, ChangePage, ChangePosition, ChangeRecord, StartPosition};
pub use clock::{Clock, ManualClock};
pub use condition::{ComparisonOp, Condition, Operand};
pub use error::{Error, ErrorKind, FailedCondition};
pub use health::{Health, Measurement, MeasurementKind};
pub use item::{Item, Path, PathSegment};
pub use key::{Key, KeyKind, KeySchema, KeyValue};
pub use metered_store::{DURATION_BUCKETS, MeteredStore, OperationUsage, StoreUsage};
pub use number::{Number, NumberError};
pub use query::{Page, PagePosition, Query, Scan, SortCondition};
pub use smol_str::SmolStr;
pub use store::{Capabilities, IntoShared, Store, StoreFuture};
pub use table::{IndexSpec, TableSpec};
pub use update::{AssignedValue, InvalidUpdate, Update, UpdateAction};
pub use value::{Value, ValueKind};
pub use write::{Write, WriteAction, WriteOutcome, WriteSet};
