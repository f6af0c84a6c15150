//! Who asks: from a bearer token to a caller.
//!
//! A [`Verifier`] takes tokens of the issuers that it trusts, and of nobody else. An [`Issuer`] is known by its keys: those
//! of the [`LocalIssuer`], which lie in the data directory, or those that a remote one publishes. The tenant of a caller
//! comes from the claim that the design names, and from nowhere else.

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

pub use self::{
    claims::Claims,
    endpoints::router,
    error::IssuerError,
    issuer::Issuer,
    local::{Grant, LocalIssuer},
    remote::http_agent,
    verifier::Verifier,
};

/// Who asks, as a verified token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub user: Arc<str>,
    /// The tenant; `None` where the token names none.
    pub tenant: Option<Arc<str>>,
    /// What the user may do.
    pub roles: Arc<[String]>,
    /// When the token ends, in seconds since 1970.
    pub expires: i64,
}

/// The caller of a request without a token.
static VISITOR: LazyLock<Arc<Caller>> =
    LazyLock::new(|| Arc::new(Caller { user: Arc::default(), tenant: None, roles: Arc::default(), expires: i64::MAX }));

impl Caller {
    /// Somebody who has not said who it is.
    pub(crate) fn visitor() -> Arc<Caller> {
        Arc::clone(&VISITOR)
    }

    /// Whether it has not said who it is: the user of a token has a name.
    pub fn is_visitor(&self) -> bool {
        self.user.is_empty()
    }
}
