//! The walls: a design on a store, reached through handles that see one tenant and nothing else.

mod blueprint;
mod cursor;
mod draft;
mod error;
mod guard;
mod handles;
mod house;
mod list;
mod principal;
mod record;
mod room;
mod set;
mod settings;
mod tables;
mod unique;
mod values;

pub use self::{
    error::{Error, ErrorKind},
    handles::{Operator, Tenant},
    house::Nagaya,
    list::{List, Page},
    principal::Principal,
    record::Record,
    set::Set,
    settings::{Ids, Settings},
    tables::table_specs,
};
