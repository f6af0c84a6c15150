//! What a server does when it is asked too much, too slowly, from the wrong page, or to stop; over real connections.

mod cors;
#[expect(dead_code, reason = "other test programs use the rest")]
mod desk;
mod overload;
mod rate;
mod shutdown;
mod sizes;
mod time;
