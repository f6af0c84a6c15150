//! Reading: single items and pages of access patterns, each item checked against the wall before it is passed on.

mod audit_log;
mod cursor;
mod get;
mod guard;
mod list;
mod list_request;
mod own_list;
mod referrers;
mod verify_log;

pub use self::{
    audit_log::{LogListing, LogPage},
    list::{MAX_PAGE_BYTES, list_query, min_items_read},
    list_request::{List, Page},
    verify_log::{LogFinding, LogFindingKind, LogHead, LogReport},
};
pub(crate) use referrers::Referrer;
