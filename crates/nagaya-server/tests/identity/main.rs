//! Tokens and issuers, over real HTTP on this machine.

mod caller;
mod common;
mod local_issuer;
mod refusals;
mod remote_issuer;
mod revocation;
mod rotation;
mod token_cache;
mod token_mutation;
