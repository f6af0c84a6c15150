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
        Principal { tenant: tenant.into(), user: user.into(), roles: Arc::default(), request: None, address: None }
    }
}
