//! Calls of the store over the control socket: what a command asks, and what the process that has the directory open answers.

use nagaya_store::{
    Capabilities, ChangePage, Error, ErrorKind, FailedCondition, Item, Key, Page, Query, Scan, StartPosition,
    TableSpec, WriteOutcome, WriteSet,
};
use serde::{Deserialize, Serialize};

/// A call of the store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StoreCall {
    Capabilities,
    EnsureTables(Vec<TableSpec>),
    Get(String, Key),
    BatchGet(Vec<(String, Key)>),
    Query(Box<Query>),
    Scan(Scan),
    Write(WriteSet),
    Changes(String, StartPosition, usize),
}

/// The answer to a call.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StoreAnswer {
    Capabilities(Capabilities),
    Done,
    Item(Option<Item>),
    Items(Vec<Option<Item>>),
    Page(Page),
    Written(WriteOutcome),
    Changes(ChangePage),
    Failed(StoreFailure),
}

/// An error of the store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StoreFailure {
    ConditionFailed(Vec<FailedCondition>),
    Invalid(String),
    LimitExceeded(String),
    NoTable(String),
    NoIndex(String, String),
    Gap,
    Busy,
    OutOfSpace(String),
    Unavailable(String),
    OutcomeUnknown(String),
    Engine(String),
}

impl From<Error> for StoreFailure {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::ConditionFailed(failed) => StoreFailure::ConditionFailed(failed.clone()),
            ErrorKind::Invalid(reason) => StoreFailure::Invalid(reason.clone()),
            ErrorKind::LimitExceeded(reason) => StoreFailure::LimitExceeded(reason.clone()),
            ErrorKind::NoTable(table) => StoreFailure::NoTable(table.clone()),
            ErrorKind::NoIndex { table, index } => StoreFailure::NoIndex(table.clone(), index.clone()),
            ErrorKind::Gap => StoreFailure::Gap,
            ErrorKind::Busy => StoreFailure::Busy,
            ErrorKind::OutOfSpace(reason) => StoreFailure::OutOfSpace(reason.clone()),
            ErrorKind::Unavailable(cause) => StoreFailure::Unavailable(cause.to_string()),
            ErrorKind::OutcomeUnknown(cause) => StoreFailure::OutcomeUnknown(cause.to_string()),
            _ => StoreFailure::Engine(error.to_string()),
        }
    }
}

impl From<StoreFailure> for Error {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::ConditionFailed(failed) => ErrorKind::ConditionFailed(failed).into(),
            StoreFailure::Invalid(reason) => Error::invalid(reason),
            StoreFailure::LimitExceeded(reason) => Error::limit_exceeded(reason),
            StoreFailure::NoTable(table) => ErrorKind::NoTable(table).into(),
            StoreFailure::NoIndex(table, index) => ErrorKind::NoIndex { table, index }.into(),
            StoreFailure::Gap => ErrorKind::Gap.into(),
            StoreFailure::Busy => ErrorKind::Busy.into(),
            StoreFailure::OutOfSpace(reason) => ErrorKind::OutOfSpace(reason).into(),
            StoreFailure::Unavailable(cause) => Error::unavailable(cause),
            StoreFailure::OutcomeUnknown(cause) => Error::outcome_unknown(cause),
            StoreFailure::Engine(cause) => Error::engine(cause),
        }
    }
}
