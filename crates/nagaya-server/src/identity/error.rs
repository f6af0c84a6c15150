//! Errors of issuers: for operators of the server, never for its callers.

/// An issuer cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct IssuerError(String);

impl IssuerError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        IssuerError(message.into())
    }

    /// A verifier that trusts the first issuer cannot trust the second one too.
    pub(super) fn second(first: &str, second: &str) -> Self {
        IssuerError(format!(
            "a system has one issuer, and this one has `{first}`: `{second}` could give the same `sub` to another person, who \
             would be the same user; let one of them issue all tokens of the system, and sign in the users of the other through it"
        ))
    }
}
