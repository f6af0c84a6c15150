//! Overload, slow clients, other origins and shutdown, over real connections.

mod bytes_in_flight;
mod cors;
#[expect(dead_code, reason = "other test programs use the rest")]
mod desk;
mod overload;
mod rate;
mod shutdown;
mod sizes;
mod streams;
mod timeouts;
mod tls;
