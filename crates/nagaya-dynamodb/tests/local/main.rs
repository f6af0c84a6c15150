//! The engine against small servers that the tests start. One program, because linking the SDK takes longer than the tests.

mod credentials;
mod explain;
mod server;
mod stream_server;
mod streams;
mod unavailable;
