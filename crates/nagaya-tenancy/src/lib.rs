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
mod follow;
mod guard;
mod handles;
mod house;
mod list;
mod note;
mod once;
mod plan;
mod principal;
mod progress;
mod record;
mod referers;
mod room;
mod set;
mod settings;
mod tables;
mod typed;
mod unique;
mod values;

pub use self::{
    audit::{LogEntry, LogPage},
    error::{Error, ErrorKind},
    expected::Expected,
    follow::{Changed, Followed, Follower, Scanned},
    handles::{Operator, Tenant, Visitor},
    house::Nagaya,
    list::{List, Page, list_query},
    note::{Keeper, Note},
    principal::Principal,
    progress::FollowerStatus,
    record::Record,
    set::Set,
    settings::{Ids, Settings},
    tables::table_specs,
    typed::{Entity, Typed, TypedPage},
};
pub use nagaya_derive::Entity;
