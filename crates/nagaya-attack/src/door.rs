//! The way by which an attacker asks: the handle itself, or what stands before it.

use std::{future::Future, pin::Pin};

use super::action::{Action, Seen};
use nagaya_tenancy::{Nagaya, Principal};

/// Something that somebody gives some time.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What stands before the walls: a server, for example. It must not let through what they keep apart.
pub trait Door: Sync {
    /// Opens it before a house, for somebody of a tenant.
    fn open<'d>(&'d self, house: &'d Nagaya, attacker: &'d Principal) -> Later<'d, Box<dyn Hand>>;
}

/// Somebody at a door.
pub trait Hand: Send + Sync {
    /// Asks for something, and tells everything that can be seen of the answer; `None` where it cannot be asked for this
    /// way.
    fn ask<'h>(&'h self, action: &'h Action) -> Later<'h, Option<Seen>>;
}

/// The code of what cannot be asked for at a door.
pub(super) const UNASKED: &str = "unasked";

/// No door: the attacker holds the handle.
pub(super) struct Open;

impl Door for Open {
    fn open<'d>(&'d self, house: &'d Nagaya, attacker: &'d Principal) -> Later<'d, Box<dyn Hand>> {
        let hand: Box<dyn Hand> = Box::new(Bare(house.clone(), attacker.clone()));
        Box::pin(std::future::ready(hand))
    }
}

struct Bare(Nagaya, Principal);

impl Hand for Bare {
    fn ask<'h>(&'h self, action: &'h Action) -> Later<'h, Option<Seen>> {
        Box::pin(async move {
            match self.0.tenant(&self.1) {
                Ok(tenant) => Some(action.perform(&tenant).await),
                Err(error) => Some(Seen::of(Err(error))),
            }
        })
    }
}
