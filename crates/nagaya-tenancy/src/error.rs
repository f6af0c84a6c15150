//! Why a call failed. What belongs to another tenant and what does not exist give the same error.

use nagaya_design::FieldError;
use nagaya_store::ErrorKind as StoreErrorKind;

use crate::Record;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error {
    kind: Box<ErrorKind>,
}

/// The kinds of failures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such item, or it belongs to another tenant.
    #[error("there is no such {entity}")]
    NotFound {
        /// Its entity.
        entity: String,
    },
    /// The input does not fit the design; all problems at once.
    #[error("{}", .0.iter().map(|problem| format!("`{}` {}", problem.path, problem.message)).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
    /// Another item already has these values.
    #[error("`{}` is taken", fields.join("`, `"))]
    NotUnique {
        /// The fields that have to be unique.
        fields: Vec<String>,
    },
    /// The item does not have the expected version.
    #[error("the item has another version than the expected one")]
    VersionConflict {
        /// The item as it is now.
        current: Record,
    },
    /// A field refers to an item that does not exist or belongs to another tenant.
    #[error("`{field}` refers to no {entity}")]
    NoReference {
        /// The field.
        field: String,
        /// The entity that it refers to.
        entity: String,
    },
    /// Other items refer to the item, so it cannot be deleted.
    #[error("there is a {by} that refers to it")]
    Referenced {
        /// The entity of those items.
        by: String,
    },
    /// The write lost too many races against other writes; trying again may help.
    #[error("other writes were faster; try again")]
    Contention,
    /// The design has no such entity.
    #[error("the design has no entity `{0}`")]
    NoEntity(String),
    /// The design has no such access pattern.
    #[error("the design has no access pattern `{0}`")]
    NoAccessPattern(String),
    /// The handle may not reach behind this wall: an operator's does not reach tenants, a tenant's does not reach the system.
    #[error("`{0}` is behind a wall that this handle does not reach")]
    Walled(String),
    /// The cursor was not given to this caller for this access pattern.
    #[error("the cursor cannot be used here; start from the first page")]
    BadCursor,
    /// The store returned an item from behind another wall. Nothing of it is passed on, and an alarm is counted.
    #[error("the store returned an item from behind another wall")]
    Breach,
    /// The principal's tenant is none that the design allows.
    #[error("the design does not allow a tenant of this name")]
    BadTenant,
    /// An operator gave no reason, or one that is too short or has control characters.
    #[error(
        "an operator has to state a reason of at least {} characters, without control characters",
        crate::MIN_REASON_CHARS
    )]
    NoReason,
    /// The idempotency key was used for another request.
    #[error("the key has been used for another request")]
    IdempotencyKeyReused,
    /// The request was carried out before, and an item of its result has been deleted since.
    #[error("the request was carried out before, and its result has been deleted since")]
    ResultDeleted,
    /// The request was carried out before, and an item of its result has changed since; its id. What it is now may be for others.
    #[error("the request was carried out before, and its result has changed since: read {0}")]
    ResultChanged(String),
    /// The end of the operator log was made with a key that is not among the [`audit_keys`](crate::Settings::audit_keys) of this
    /// process. Nothing was written: an entry of another key would look like a change of the log.
    #[error(
        "the operator log ends with an entry of the key {key}, which this process does not have, so nothing was written; give all \
         servers and commands the same NAGAYA_AUDIT_KEY (in the library: `audit_keys`); to rotate it, give all of them \
         `FORMER,NEW` first, and then `NEW,FORMER`; if the key is lost, start once with --new-keys"
    )]
    UnknownAuditKey {
        /// The id of the key, which tells nothing about it.
        key: String,
    },
    /// A side record has changed since it was read.
    #[error("the side record `{name}` has changed since it was read")]
    SideRecordConflict {
        /// Its name.
        name: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(nagaya_store::Error),
}

impl Error {
    /// What kind it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// What kind it is, by value.
    pub fn into_kind(self) -> ErrorKind {
        *self.kind
    }

    /// Whether there is no such item for this caller.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind(), ErrorKind::NotFound { .. })
    }

    /// Whether the item no longer has the expected version.
    pub fn is_version_conflict(&self) -> bool {
        matches!(self.kind(), ErrorKind::VersionConflict { .. })
    }

    /// Whether other values are already taken or have changed: where the caller chose none of them, another writer was faster,
    /// and to read and decide again may help.
    pub fn is_conflict(&self) -> bool {
        use ErrorKind::{NotUnique, SideRecordConflict, VersionConflict};
        matches!(self.kind(), VersionConflict { .. } | NotUnique { .. } | SideRecordConflict { .. })
    }

    /// Whether a change lost a race: what it is based on was changed or deleted since it was read. [`ErrorKind::Contention`] is
    /// none: all attempts are used up then.
    pub fn is_lost_race(&self) -> bool {
        self.is_conflict() || self.is_not_found()
    }

    /// Whether the store no longer keeps the changes after a position: a subscriber has to read the items instead.
    pub fn is_gap(&self) -> bool {
        matches!(self.kind(), ErrorKind::Store(error) if matches!(error.kind(), StoreErrorKind::Gap))
    }

    /// Whether the same call fails again however often it is tried.
    pub fn is_permanent(&self) -> bool {
        match self.kind() {
            ErrorKind::Invalid(_) | ErrorKind::Breach | ErrorKind::BadTenant => true,
            ErrorKind::Store(error) => {
                matches!(error.kind(), StoreErrorKind::LimitExceeded(_) | StoreErrorKind::Invalid(_))
            }
            _ => false,
        }
    }

    /// A stable name of the kind.
    pub fn code(&self) -> &'static str {
        match &*self.kind {
            ErrorKind::NotFound { .. } => "not_found",
            ErrorKind::Invalid(_) => "invalid",
            ErrorKind::NotUnique { .. } => "taken",
            ErrorKind::VersionConflict { .. } => "version_conflict",
            ErrorKind::NoReference { .. } => "no_reference",
            ErrorKind::Referenced { .. } => "referenced",
            ErrorKind::Contention => "contended",
            ErrorKind::NoEntity(_) => "no_entity",
            ErrorKind::NoAccessPattern(_) => "no_access",
            ErrorKind::Walled(_) => "walled",
            ErrorKind::BadCursor => "bad_cursor",
            ErrorKind::Breach => "breach",
            ErrorKind::BadTenant => "bad_tenant",
            ErrorKind::NoReason => "no_reason",
            ErrorKind::IdempotencyKeyReused => "key_reused",
            ErrorKind::ResultDeleted => "result_deleted",
            ErrorKind::ResultChanged(_) => "result_changed",
            ErrorKind::UnknownAuditKey { .. } => "unknown_audit_key",
            ErrorKind::SideRecordConflict { .. } => "overtaken",
            ErrorKind::Store(error) => error.code(),
        }
    }

    pub(crate) fn not_found(entity: &str) -> Self {
        ErrorKind::NotFound { entity: entity.to_owned() }.into()
    }

    pub(crate) fn no_reference(field: &str, entity: &str) -> Self {
        ErrorKind::NoReference { field: field.to_owned(), entity: entity.to_owned() }.into()
    }

    pub(crate) fn problem(path: impl Into<String>, message: impl Into<String>) -> Self {
        ErrorKind::Invalid(vec![FieldError { path: path.into(), message: message.into() }]).into()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Error { kind: Box::new(kind) }
    }
}

impl From<nagaya_store::Error> for Error {
    fn from(error: nagaya_store::Error) -> Self {
        ErrorKind::Store(error).into()
    }
}
