//! The caller.

use std::sync::Arc;

/// The caller, as a verified token names it. Nothing of it comes from a request's path, query or body.
///
/// One is made for every request, so its texts are shared instead of copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The tenant.
    pub tenant: Arc<str>,
    /// The user.
    pub user: Arc<str>,
    /// The issuer of the user's token: two issuers may give the same user id to different people. `None`: no token.
    pub issuer: Option<Arc<str>>,
    /// The user's roles.
    pub roles: Arc<[String]>,
    /// The id of the request.
    pub request: Option<Arc<str>>,
    /// The network address that the request came from.
    pub address: Option<Arc<str>>,
}

impl Principal {
    /// A user of a tenant.
    pub fn new(tenant: impl Into<Arc<str>>, user: impl Into<Arc<str>>) -> Self {
        let (tenant, user) = (tenant.into(), user.into());
        Principal { tenant, user, issuer: None, roles: Arc::default(), request: None, address: None }
    }
}
