//! The walls: a design on a store, reached through handles that see one tenant and nothing else.

#[cfg(feature = "attack")]
pub mod attack;
mod audit;
mod blueprint;
mod cursor;
mod deletion;
mod draft;
mod error;
mod expected;
mod guard;
mod handles;
mod house;
mod list;
mod note;
mod once;
mod plan;
mod principal;
mod record;
mod referers;
mod retry;
mod room;
mod set;
mod settings;
mod subscription;
mod tables;
mod typed;
mod unique;
mod values;

pub use self::{
    audit::{LogEntry, LogPage},
    error::{Error, ErrorKind},
    expected::Expected,
    handles::{Operator, Tenant, Visitor},
    house::Nagaya,
    list::{List, Page},
    note::{Keeper, Note},
    principal::Principal,
    record::Record,
    retry::Retry,
    set::Set,
    settings::{Ids, Settings},
    subscription::{Changed, Delivery, Followed, Follower, FollowerStatus, Scanned, Subscription, SubscriptionOptions},
    tables::table_specs,
    typed::{Entity, Typed, TypedPage},
};
pub use nagaya_derive::Entity;
