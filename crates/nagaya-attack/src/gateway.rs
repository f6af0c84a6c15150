//! How an attacker reaches the data layer: by its handle, or through a server in front of it.

pub use futures_util::future::BoxFuture;

use super::action::{Action, FurtherRoute, Observation};
use nagaya_tenancy::{Nagaya, Principal};

/// A way to the data layer, such as a server in front of it.
pub trait Gateway: Sync {
    /// Opens a client of a tenant's user for this data layer.
    fn open<'d>(&'d self, layer: &'d Nagaya, attacker: &'d Principal) -> BoxFuture<'d, Box<dyn AttackClient>>;

    /// Whether it has rules of its own, so that an attack may be refused for another reason than the expected one.
    fn has_rules(&self) -> bool {
        false
    }
}

/// A client of the attacker.
pub trait AttackClient: Send + Sync {
    /// Performs an action, and returns all that the attacker observes; `None` when the gateway has no such action.
    fn perform<'h>(&'h self, action: &'h Action) -> BoxFuture<'h, Option<Observation>>;

    /// What the attacker can call besides the entities and access patterns of the design.
    fn further_routes(&self) -> Vec<FurtherRoute> {
        Vec::new()
    }
}

/// The code of an action that the gateway does not have.
pub const UNSUPPORTED: &str = "unsupported";

/// No gateway: the attacker has the handle.
pub(super) struct NoGateway;

impl Gateway for NoGateway {
    fn open<'d>(&'d self, layer: &'d Nagaya, attacker: &'d Principal) -> BoxFuture<'d, Box<dyn AttackClient>> {
        let hand: Box<dyn AttackClient> = Box::new(HandleClient(layer.clone(), attacker.clone()));
        Box::pin(std::future::ready(hand))
    }
}

struct HandleClient(Nagaya, Principal);

impl AttackClient for HandleClient {
    fn perform<'h>(&'h self, action: &'h Action) -> BoxFuture<'h, Option<Observation>> {
        Box::pin(async move {
            match self.0.tenant(&self.1) {
                Ok(tenant) => Some(action.perform(&tenant).await),
                Err(error) => Some(Observation::from_answer(Err(error))),
            }
        })
    }
}
