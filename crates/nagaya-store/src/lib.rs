//! The store port: what the rest of the house asks of a partition-keyed store, in the semantics that every engine keeps.
//!
//! Items are attribute maps, found by a partition and a sort key. Writes come in sets that happen wholly or not at all,
//! each action under a condition. Queries read one partition of a table or of an index, in order. Changes tell what
//! happened, in order for each item. Everything is a typed value: there are no expressions to put together as text.
//!
//! It is not an engine (those implement [`Store`]) and knows nothing of tenants or designs (those stand above it).
//!
//! # A tour
//!
//! ```
//! use nagaya_store::{Condition, Item, Key, KeySchema, Query, Sort, TableSpec, Update, Write, WriteSet};
//!
//! // A table, with a sparse index: an item lies in it while it has both attributes.
//! let table = TableSpec::new("todos", KeySchema::strings("PK", "SK"))
//!     .with_index("GSI1", KeySchema::strings("GSI1PK", "GSI1SK"))
//!     .with_ttl("expiresAt");
//!
//! // A create is a put on the condition that nothing is there.
//! let item = Item::new().with("PK", "FAMILY#f1").with("SK", "TODO#1").with("title", "Buy milk").with("version", 1);
//! let create = Write::put("todos", item.clone()).when(Condition::absent("PK"));
//!
//! // An update is conditional on the version that was read.
//! let key = Key::new("FAMILY#f1", "TODO#1");
//! let rename = Update::new().set("title", "Buy tea").set("version", 2);
//! let update = Write::update("todos", key, rename.clone()).when(Condition::equal("version", 1));
//!
//! // Both in one set happen together or not at all (of one item, a set takes one action).
//! let set = WriteSet::from(create);
//! # let _ = (set, update, table);
//!
//! // Conditions and updates can be tried without a store.
//! assert!(Condition::equal("version", 1).holds(&item));
//! assert_eq!(rename.apply(&item)?.get("title").and_then(|title| title.as_str()), Some("Buy tea"));
//!
//! // A query is one partition, in order.
//! let query = Query::table("todos", "FAMILY#f1").sort(Sort::BeginsWith("TODO#".into())).limit(20);
//! # let _ = query;
//! # Ok::<(), nagaya_store::BadUpdate>(())
//! ```

mod change;
mod clock;
mod condition;
#[cfg(feature = "contract")]
pub mod contract;
mod error;
mod health;
mod item;
mod key;
pub mod limits;
mod measured;
mod meter;
mod number;
mod query;
mod store;
mod table;
mod update;
mod value;
mod write;

pub use change::{Cause, ChangePosition, ChangeRecord, Changes, From};
pub use clock::Clock;
pub use condition::{Comparison, Condition, Operand};
pub use error::{Error, ErrorKind, Failed};
pub use health::{Health, Measurement, MeasurementKind};
pub use item::{Item, Path, Step};
pub use key::{Key, KeyKind, KeySchema, KeyValue};
pub use measured::{DURATION_BUCKETS, Measured, OperationUsage, Usage};
pub use meter::{Consumed, consume, metered};
pub use number::{NotANumber, Number};
pub use query::{Page, Position, Query, Scan, Sort};
pub use smol_str::SmolStr;
pub use store::{Answer, Capabilities, IntoShared, Store};
pub use table::{IndexSpec, TableSpec};
pub use update::{Assign, BadUpdate, Change, Update};
pub use value::{Kind, Value};
pub use write::{Action, Write, WriteSet, Written};
