//! A system on a loopback port, for tests that use it as its users do.
//!
//! A [`House`] serves a system on any store, with tokens of its own issuer and a clock that tests move. A [`Client`] asks it
//! over HTTP, and an [`Answer`] says what a test expects of it.

mod client;
mod house;

pub use self::{
    client::{Answer, Client, text},
    house::{House, Time, memory, runtime},
};
