//! What is wrong with an issuer: for whoever runs the server, never for its callers.

use std::fmt;

/// An issuer cannot be used, or not as it was told to.
#[derive(Debug)]
pub struct IssuerError(String);

impl IssuerError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        IssuerError(message.into())
    }
}

impl fmt::Display for IssuerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for IssuerError {}
