//! The walls between tenants: a design on a store, reached only through handles that see one tenant.
//!
//! A call goes one way: a handle ([`Tenant`], [`Operator`], [`Visitor`]) holds a session, the session authorizes the call, and
//! `write/` or `read/` carries it out on the store. No handle gives out the store or a key.

mod compiled;
mod error;
mod expected;
mod handles;
mod ids;
mod key_set;
mod log_names;
mod principal;
mod read;
mod record;
mod retry;
mod scope;
mod session;
mod settings;
mod side_record;
mod state;
mod subscription;
mod tables;
mod tenancy;
mod type_mismatch;
mod typed;
mod values;
mod write;

pub use self::{
    error::{Error, ErrorKind},
    expected::Expected,
    handles::{Operator, TenancyFuture, Tenant, Visitor},
    ids::IdGenerator,
    key_set::{KeySet, SecretKey, key_id},
    log_names::log_hash,
    principal::Principal,
    read::{
        List, LogFinding, LogFindingKind, LogHead, LogListing, LogPage, LogReport, MAX_PAGE_BYTES, Page, list_query,
        min_items_read,
    },
    record::Record,
    retry::Retry,
    session::{MIN_REASON_CHARS, is_reason},
    settings::{DEFAULT_AUDIT_RETENTION_DAYS, Settings},
    side_record::{RecordOwner, SideRecord},
    subscription::{
        ChangeConsumer, ChangeSource, ConsumerError, ConsumerFuture, Delivery, FailedChange, ItemChange,
        ItemChangePage, Processed, ProcessedPage, ScanPage, Subscription, SubscriptionOptions, SubscriptionStatus,
        UnreadableChange, process_everything, process_page, process_pending,
    },
    tables::table_specs,
    tenancy::Nagaya,
    type_mismatch::{FieldsDeserializer, TypeMismatch, read_fields},
    typed::{Entity, TypedItems, TypedPage},
    write::{ArchiveStep, AuditArchiver, ChangeSet, LogEntry},
};
pub use nagaya_derive::Entity;
