//! Why a call failed.

use nagaya_tenancy::{Record, TypeMismatch};

use crate::RecordedEvent;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

/// The kinds of failures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The design has no such aggregate.
    #[error("the design has no aggregate `{0}`")]
    NoAggregate(String),
    /// The design has no access pattern that lists the events of an aggregate in order.
    #[error("the aggregate `{aggregate}` needs an access pattern of `{entity}` by its id with `range = \"eventId\"`")]
    NoHistory {
        /// The aggregate.
        aggregate: String,
        /// The entity of its events.
        entity: String,
    },
    /// The aggregate has no such projection.
    #[error("there is no projection `{0}`")]
    NoProjection(String),
    /// The state does not allow it, for example because another process works on it; the text says why.
    #[error("{0}")]
    Busy(String),
    /// The idempotency key has been used for another request.
    #[error("the key has been used for another request")]
    KeyReused,
    /// An event cannot be read or applied.
    #[error("the event {event} cannot be understood: {why}")]
    UnknownEvent {
        /// Its id.
        event: String,
        /// Why.
        why: String,
    },
    /// An event does not have the form that the program expects. The text contains none of its values.
    #[error("the event {event} cannot be understood: {event_type} in version {version}: {why}")]
    UnreadableEvent {
        /// Its id.
        event: String,
        /// Its type.
        event_type: String,
        /// Its schema version.
        version: u32,
        /// What is wrong.
        why: TypeMismatch,
    },
    /// The stored events of an aggregate are damaged: one is missing or has been changed.
    #[error("the events of {aggregate} are damaged: {why}")]
    Damaged {
        /// The aggregate.
        aggregate: String,
        /// What is wrong.
        why: String,
    },
    /// The tenancy layer or the store failed.
    #[error(transparent)]
    Tenancy(nagaya_tenancy::Error),
}

impl Error {
    /// The kind of failure.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// The kind of failure, by value.
    pub fn into_kind(self) -> ErrorKind {
        *self.0
    }

    /// A stable name of the kind.
    pub fn code(&self) -> &'static str {
        match self.kind() {
            ErrorKind::NoAggregate(_) => "no_aggregate",
            ErrorKind::NoHistory { .. } => "no_history",
            ErrorKind::NoProjection(_) => "no_projection",
            ErrorKind::Busy(_) => "busy",
            ErrorKind::KeyReused => "key_reused",
            ErrorKind::UnknownEvent { .. } | ErrorKind::UnreadableEvent { .. } => "unknown_event",
            ErrorKind::Damaged { .. } => "damaged",
            ErrorKind::Tenancy(error) => error.code(),
        }
    }

    /// Whether another writer won the race: a retry with what is stored now may succeed.
    pub fn is_conflict(&self) -> bool {
        matches!(self.kind(), ErrorKind::Tenancy(error) if error.is_conflict())
    }

    /// Whether the store no longer keeps the changes after a position.
    pub fn is_gap(&self) -> bool {
        matches!(self.kind(), ErrorKind::Tenancy(error) if error.is_gap())
    }

    /// Whether the same call fails again however often it is tried.
    pub fn is_permanent(&self) -> bool {
        match self.kind() {
            ErrorKind::Busy(_) => false,
            ErrorKind::Tenancy(error) => error.is_permanent(),
            _ => true,
        }
    }

    /// Whether stored events are not what was written.
    pub fn is_damage(&self) -> bool {
        match self.kind() {
            ErrorKind::UnknownEvent { .. } | ErrorKind::UnreadableEvent { .. } | ErrorKind::Damaged { .. } => true,
            ErrorKind::Tenancy(error) => matches!(error.kind(), nagaya_tenancy::ErrorKind::Breach),
            _ => false,
        }
    }

    pub(crate) fn unreadable(record: &Record, field: &str) -> Self {
        let event = record.text("eventId").unwrap_or("?").to_owned();
        ErrorKind::UnknownEvent { event, why: format!("`{field}` is missing or of another type") }.into()
    }

    pub(crate) fn unknown_event(event: &RecordedEvent, why: &str) -> Self {
        let why = format!("{} in version {}: {why}", event.raw.event_type, event.raw.version);
        ErrorKind::UnknownEvent { event: event.id.clone(), why }.into()
    }

    pub(crate) fn damaged(aggregate: &str, why: impl Into<String>) -> Self {
        ErrorKind::Damaged { aggregate: aggregate.to_owned(), why: why.into() }.into()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error(Box::new(kind))
    }
}

impl From<nagaya_tenancy::Error> for Error {
    fn from(error: nagaya_tenancy::Error) -> Self {
        ErrorKind::Tenancy(error).into()
    }
}

/// Whether it is certain that a command that ended with this error has written nothing. Each of its attempts but the last one has
/// lost a race, and so has written nothing either.
fn has_written_nothing(error: &Error) -> bool {
    use nagaya_store::ErrorKind::{Busy, ConditionFailed, Invalid, LimitExceeded, OutOfSpace};
    // Only the tenancy layer writes, and of its errors only one of the store can come after a write was sent.
    let ErrorKind::Tenancy(error) = error.kind() else { return true };
    match error.kind() {
        nagaya_tenancy::ErrorKind::Store(error) => {
            matches!(error.kind(), ConditionFailed(_) | Invalid(_) | LimitExceeded(_) | Busy | OutOfSpace(_))
        }
        _ => true,
    }
}

/// Whether a write lost the race against another writer, even repeatedly: it is decided again on the new state.
pub(crate) fn is_lost_race(error: &nagaya_tenancy::Error) -> bool {
    error.is_lost_race() || matches!(error.kind(), nagaya_tenancy::ErrorKind::Contention)
}

/// Why a command failed.
#[derive(Debug)]
pub enum Failure<R> {
    /// The domain refuses it.
    Refused(R),
    /// The aggregate has another version than the expected one.
    Conflict {
        /// The version that it has.
        version: u64,
    },
    /// It could not be executed.
    Error(Error),
}

impl<R> Failure<R> {
    /// Whether it is certain that the command has no effect, now or later. `false` where the store did not say so: a write whose
    /// answer is lost may have happened, or still happen.
    pub fn has_no_effect(&self) -> bool {
        match self {
            Failure::Refused(_) | Failure::Conflict { .. } => true,
            Failure::Error(error) => has_written_nothing(error),
        }
    }
}

impl<R, E: Into<Error>> From<E> for Failure<R> {
    fn from(error: E) -> Self {
        Failure::Error(error.into())
    }
}
