//! Authentication: from a bearer token to a caller.
//!
//! A [`Verifier`] accepts tokens only of the issuer that it trusts: one, because items name their users by `sub` alone. An
//! [`Issuer`] is known by its keys: those of the [`LocalIssuer`] in the data directory, or those that a remote one publishes.
//! The tenant of a caller comes only from the claim that the design names.

mod cache;
mod claims;
mod ed25519;
mod endpoints;
mod error;
mod issuer;
mod keys;
mod local;
mod remote;
mod revocation;
mod token;
mod verifier;

use std::sync::{Arc, LazyLock};

use nagaya_design::Design;

pub(crate) use self::remote::is_loopback;
pub use self::{
    claims::Claims,
    endpoints::router,
    error::IssuerError,
    issuer::Issuer,
    local::{Grant, LocalIssuer},
    remote::{http_agent, http_agent_at, without_credentials},
    revocation::{Revocation, RevocationFollower, RevocationStore, Revocations, RevokedSubject},
    verifier::Verifier,
};

/// The caller that a verified token names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user. Two issuers may give the same id to different people: see [`Caller::identity`].
    pub user: Arc<str>,
    /// The issuer of the token: its URL, or `local`.
    pub issuer: Arc<str>,
    /// The tenant; `None` where the token names none.
    pub tenant: Option<Arc<str>>,
    /// The roles of the user. While a request is handled, they are those that count in the design, of operators too.
    pub roles: Arc<[String]>,
    /// The roles in the claim that the design has for operators.
    pub operator_roles: Arc<[String]>,
    /// When the token expires, in seconds since 1970.
    pub expires: i64,
    /// When the token was issued, in seconds since 1970; `None` where it does not say.
    pub issued: Option<i64>,
    /// The id of the token (`jti`).
    pub token_id: Option<Arc<str>>,
}

/// The caller of a request without a token.
static VISITOR: LazyLock<Arc<Caller>> = LazyLock::new(|| Arc::new(Caller::of_user("")));

impl Caller {
    /// A user without anything else.
    pub(crate) fn of_user(user: &str) -> Self {
        Caller {
            user: user.into(),
            issuer: Arc::default(),
            tenant: None,
            roles: Arc::default(),
            operator_roles: Arc::default(),
            expires: i64::MAX,
            issued: None,
            token_id: None,
        }
    }

    /// Issuer and user in one text, which is another one for every person. No issuer has a blank in its name.
    pub fn identity(&self) -> String {
        format!("{} {}", self.issuer, self.user)
    }

    /// Whether the caller is an operator of a system: by the claim of operators, and never with a tenant.
    pub fn is_operator(&self, design: &Design) -> bool {
        self.tenant.is_none() && design.is_operator(&self.operator_roles)
    }

    /// The caller with the roles that count in a design: those of operators only from their claim, and never with a tenant.
    pub(crate) fn with_counting_roles(self: Arc<Self>, design: &Design) -> Arc<Self> {
        if self.operator_roles.is_empty() && !design.is_operator(&self.roles) {
            return self;
        }
        let is_operators = |role: &&String| design.is_operator_role(role);
        let of_operator = self.operator_roles.iter().filter(|_| self.tenant.is_none()).filter(is_operators);
        let roles = self.roles.iter().filter(|role| !is_operators(role)).chain(of_operator).cloned().collect();
        Arc::new(Caller { roles, ..Caller::clone(&self) })
    }

    /// The caller without a token.
    pub(crate) fn visitor() -> Arc<Caller> {
        Arc::clone(&VISITOR)
    }

    /// Whether there was no token: the user of a token is never empty.
    pub fn is_visitor(&self) -> bool {
        self.user.is_empty()
    }
}
