//! Who asks.

use std::sync::Arc;

/// Who asks, as a verified token says. Nothing of it comes from a request's path, query or body.
///
/// One is made for every request, so its texts are shared and not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The tenant.
    pub tenant: Arc<str>,
    /// The user.
    pub user: Arc<str>,
    /// What the user may do.
    pub roles: Arc<[String]>,
    /// The request that this is part of.
    pub request: Option<Arc<str>>,
    /// Where it came from.
    pub address: Option<Arc<str>>,
}

impl Principal {
    /// A user of a tenant.
    pub fn new(tenant: impl Into<Arc<str>>, user: impl Into<Arc<str>>) -> Self {
        Principal { tenant: tenant.into(), user: user.into(), roles: Arc::default(), request: None, address: None }
    }
}
