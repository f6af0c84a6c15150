//! Authentication: from a bearer token to a caller.
//!
//! A [`Verifier`] accepts tokens only of the issuers that it trusts. An [`Issuer`] is known by its keys: those of the
//! [`LocalIssuer`] in the data directory, or those that a remote one publishes. The tenant of a caller comes only from the
//! claim that the design names.

mod cache;
mod claims;
mod endpoints;
mod error;
mod issuer;
mod keys;
mod local;
mod remote;
mod token;
mod verifier;

use std::sync::{Arc, LazyLock};

pub(crate) use self::remote::is_loopback;
pub use self::{
    claims::Claims,
    endpoints::router,
    error::IssuerError,
    issuer::Issuer,
    local::{Grant, LocalIssuer},
    remote::http_agent,
    verifier::Verifier,
};

/// The caller that a verified token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub user: Arc<str>,
    /// The tenant; `None` where the token names none.
    pub tenant: Option<Arc<str>>,
    /// The roles of the user.
    pub roles: Arc<[String]>,
    /// When the token expires, in seconds since 1970.
    pub expires: i64,
}

/// The caller of a request without a token.
static VISITOR: LazyLock<Arc<Caller>> =
    LazyLock::new(|| Arc::new(Caller { user: Arc::default(), tenant: None, roles: Arc::default(), expires: i64::MAX }));

impl Caller {
    /// The caller without a token.
    pub(crate) fn visitor() -> Arc<Caller> {
        Arc::clone(&VISITOR)
    }

    /// Whether there was no token: the user of a token is never empty.
    pub fn is_visitor(&self) -> bool {
        self.user.is_empty()
    }
}
