//! Why a call failed. What belongs to another tenant and what does not exist give the same error.

use std::fmt;

use nagaya_design::Problem;

use crate::Record;

/// Why a call failed.
#[derive(Debug)]
pub struct Error {
    kind: Box<ErrorKind>,
}

/// The kinds of failures.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such item, or it is none of the caller's.
    NotFound {
        /// Its entity.
        entity: String,
    },
    /// The input does not fit the design; everything that is wrong with it.
    Invalid(Vec<Problem>),
    /// Something else has these values already.
    Taken {
        /// The fields that have to be unique.
        fields: Vec<String>,
    },
    /// The item has another version than the expected one.
    VersionConflict {
        /// The item as it is.
        current: Record,
    },
    /// What a field refers to is not there, or is none of the caller's.
    NoReference {
        /// The field.
        field: String,
        /// The entity that it refers to.
        entity: String,
    },
    /// Others refer to the item.
    Referenced {
        /// The entity that does.
        by: String,
    },
    /// Other writes were faster too often; trying again may help.
    Contended,
    /// The design has no such entity.
    NoEntity(String),
    /// The design has no such access pattern.
    NoAccess(String),
    /// The caller's handle does not reach behind this wall: an operator's does not reach tenants, a tenant's not the
    /// system.
    Walled(String),
    /// The cursor is not one that this caller got for this access pattern.
    BadCursor,
    /// An item came back from behind another wall. Nothing of it is passed on, and an alarm is counted.
    Breach,
    /// The principal names no tenant that the design could have.
    BadTenant,
    /// An operator states no reason.
    NoReason,
    /// The key of a set that happens once has been used for another request.
    KeyReused,
    /// A note has changed since it was read.
    Overtaken {
        /// Its name.
        note: String,
    },
    /// The store failed.
    Store(nagaya_store::Error),
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
            ErrorKind::NotFound { .. } => "not_found",
            ErrorKind::Invalid(_) => "invalid",
            ErrorKind::Taken { .. } => "taken",
            ErrorKind::VersionConflict { .. } => "version_conflict",
            ErrorKind::NoReference { .. } => "no_reference",
            ErrorKind::Referenced { .. } => "referenced",
            ErrorKind::Contended => "contended",
            ErrorKind::NoEntity(_) => "no_entity",
            ErrorKind::NoAccess(_) => "no_access",
            ErrorKind::Walled(_) => "walled",
            ErrorKind::BadCursor => "bad_cursor",
            ErrorKind::Breach => "breach",
            ErrorKind::BadTenant => "bad_tenant",
            ErrorKind::NoReason => "no_reason",
            ErrorKind::KeyReused => "key_reused",
            ErrorKind::Overtaken { .. } => "overtaken",
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
        ErrorKind::Invalid(vec![Problem { path: path.into(), message: message.into() }]).into()
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.kind {
            ErrorKind::NotFound { entity } => write!(f, "there is no such {entity}"),
            ErrorKind::Invalid(problems) => {
                let problems: Vec<_> =
                    problems.iter().map(|problem| format!("`{}` {}", problem.path, problem.message)).collect();
                f.write_str(&problems.join("; "))
            }
            ErrorKind::Taken { fields } => write!(f, "`{}` is taken", fields.join("`, `")),
            ErrorKind::VersionConflict { .. } => f.write_str("the item has another version than the expected one"),
            ErrorKind::NoReference { field, entity } => write!(f, "`{field}` refers to no {entity}"),
            ErrorKind::Referenced { by } => write!(f, "there is a {by} that refers to it"),
            ErrorKind::Contended => f.write_str("other writes were faster; try again"),
            ErrorKind::NoEntity(name) => write!(f, "the design has no entity `{name}`"),
            ErrorKind::NoAccess(name) => write!(f, "the design has no access pattern `{name}`"),
            ErrorKind::Walled(name) => write!(f, "`{name}` is behind a wall that this handle does not reach"),
            ErrorKind::BadCursor => f.write_str("the cursor cannot be used here; start from the first page"),
            ErrorKind::Breach => f.write_str("an item that came back is behind another wall"),
            ErrorKind::BadTenant => f.write_str("the tenant is none that the design could have"),
            ErrorKind::NoReason => f.write_str("an operator has to state a reason"),
            ErrorKind::KeyReused => f.write_str("the key has been used for another request"),
            ErrorKind::Overtaken { note } => write!(f, "the note `{note}` has changed since it was read"),
            ErrorKind::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.kind {
            ErrorKind::Store(error) => Some(error),
            _ => None,
        }
    }
}
