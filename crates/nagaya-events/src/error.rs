//! Why a call failed.

use std::fmt;

use nagaya_tenancy::Record;

use crate::Recorded;

/// Why a call failed.
#[derive(Debug)]
pub struct Error {
    kind: Box<ErrorKind>,
}

/// The kinds of failures.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The design has no such aggregate.
    NoAggregate(String),
    /// The design has no access pattern that gives the events of an aggregate in order.
    NoHistory {
        /// The aggregate.
        aggregate: String,
        /// The entity of its events.
        entity: String,
    },
    /// The aggregate has no such projection.
    NoProjection(String),
    /// Another process works on this already, or something else is in the way; the text says what.
    Busy(String),
    /// Others were faster too often; trying again may help.
    Contended,
    /// An idempotency key has been used for another request.
    KeyReused,
    /// An event cannot be understood.
    UnknownEvent {
        /// Its id.
        event: String,
        /// Why.
        why: String,
    },
    /// The stored events of an aggregate are not what they should be: one is missing, or has been changed.
    Damaged {
        /// The aggregate.
        aggregate: String,
        /// What is wrong.
        why: String,
    },
    /// The layer below failed.
    Tenancy(nagaya_tenancy::Error),
}

impl Error {
    /// What kind it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// What kind it is, taken out.
    pub fn into_kind(self) -> ErrorKind {
        *self.kind
    }

    /// A stable name of the kind.
    pub fn code(&self) -> &'static str {
        match &*self.kind {
            ErrorKind::NoAggregate(_) => "no_aggregate",
            ErrorKind::NoHistory { .. } => "no_history",
            ErrorKind::NoProjection(_) => "no_projection",
            ErrorKind::Busy(_) => "busy",
            ErrorKind::Contended => "contended",
            ErrorKind::KeyReused => "key_reused",
            ErrorKind::UnknownEvent { .. } => "unknown_event",
            ErrorKind::Damaged { .. } => "damaged",
            ErrorKind::Tenancy(error) => error.code(),
        }
    }

    /// Whether stored events are not what was written.
    pub(crate) fn is_damage(&self) -> bool {
        match &*self.kind {
            ErrorKind::UnknownEvent { .. } | ErrorKind::Damaged { .. } => true,
            ErrorKind::Tenancy(error) => matches!(error.kind(), nagaya_tenancy::ErrorKind::Breach),
            _ => false,
        }
    }

    pub(crate) fn unreadable(record: &Record, field: &str) -> Self {
        let event = record.text("eventId").unwrap_or("?").to_owned();
        ErrorKind::UnknownEvent { event, why: format!("`{field}` is not what it should be") }.into()
    }

    pub(crate) fn unknown_event(event: &Recorded, why: &str) -> Self {
        let why = format!("{} in version {}: {why}", event.raw.event_type, event.raw.version);
        ErrorKind::UnknownEvent { event: event.id.clone(), why }.into()
    }

    pub(crate) fn damaged(aggregate: &str, why: impl Into<String>) -> Self {
        ErrorKind::Damaged { aggregate: aggregate.to_owned(), why: why.into() }.into()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error { kind: Box::new(kind) }
    }
}

impl From<nagaya_tenancy::Error> for Error {
    fn from(error: nagaya_tenancy::Error) -> Self {
        ErrorKind::Tenancy(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            ErrorKind::NoAggregate(name) => write!(f, "the design has no aggregate `{name}`"),
            ErrorKind::NoHistory { aggregate, entity } => write!(
                f,
                "the aggregate `{aggregate}` needs an access pattern of `{entity}` by its id with `range = \"eventId\"`"
            ),
            ErrorKind::NoProjection(name) => write!(f, "there is no projection `{name}`"),
            ErrorKind::Busy(why) => f.write_str(why),
            ErrorKind::Contended => f.write_str("other commands were faster; try again"),
            ErrorKind::KeyReused => f.write_str("the key has been used for another request"),
            ErrorKind::UnknownEvent { event, why } => write!(f, "the event {event} cannot be understood: {why}"),
            ErrorKind::Damaged { aggregate, why } => write!(f, "the events of {aggregate} are damaged: {why}"),
            ErrorKind::Tenancy(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.kind {
            ErrorKind::Tenancy(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a command came to nothing.
#[derive(Debug)]
pub enum Failure<R> {
    /// The domain refuses it.
    Refused(R),
    /// The aggregate has another version than the expected one.
    Conflict {
        /// The version that it has.
        version: u64,
    },
    /// It could not be carried out.
    Error(Error),
}

impl<R> From<Error> for Failure<R> {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

impl<R> From<nagaya_tenancy::Error> for Failure<R> {
    fn from(error: nagaya_tenancy::Error) -> Self {
        Failure::Error(error.into())
    }
}
