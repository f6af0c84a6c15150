//! Reading: single items and pages of access patterns, each item checked against the wall before it is passed on.

mod audit_log;
mod cursor;
mod get;
mod guard;
mod list;
mod referrers;

pub use self::{
    audit_log::LogPage,
    list::{List, Page, list_query},
};
pub(crate) use referrers::Referrer;
