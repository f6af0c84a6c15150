//! What a server does when it is asked too much, too slowly, from the wrong page, or to stop; over real connections.

#[expect(dead_code, reason = "other test programs use the rest")]
mod client;
mod clock;
mod cors;
#[expect(dead_code, reason = "other test programs use the rest")]
mod faults;
#[expect(dead_code, reason = "other test programs use the rest")]
mod harness;
mod overload;
mod rate;
mod shutdown;
mod sizes;
mod time;
