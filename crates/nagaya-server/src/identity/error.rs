//! Errors of issuers: for operators of the server, never for its callers.

/// An issuer cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct IssuerError(String);

impl IssuerError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        IssuerError(message.into())
    }
}
