//! Reading: single items and pages of access patterns, each item checked against the wall before it is passed on.

mod audit_log;
mod cursor;
mod get;
mod guard;
mod list;
mod list_request;
mod referrers;

pub use self::{
    audit_log::LogPage,
    list::list_query,
    list_request::{List, Page},
};
pub(crate) use referrers::Referrer;
