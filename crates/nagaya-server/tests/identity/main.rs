//! Tokens and issuers, over real HTTP on this machine.

mod caller;
mod common;
mod known;
mod local;
mod mutated;
mod refusals;
mod remote;
mod rotation;
