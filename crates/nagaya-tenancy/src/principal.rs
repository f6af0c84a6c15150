//! Who asks.

/// Who asks, as a verified token says. Nothing of it comes from a request's path, query or body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The tenant.
    pub tenant: String,
    /// The user.
    pub user: String,
    /// What the user may do.
    pub roles: Vec<String>,
    /// The request that this is part of.
    pub request: Option<String>,
    /// Where it came from.
    pub address: Option<String>,
}

impl Principal {
    /// A user of a tenant.
    pub fn new(tenant: impl Into<String>, user: impl Into<String>) -> Self {
        Principal { tenant: tenant.into(), user: user.into(), roles: Vec::new(), request: None, address: None }
    }
}
