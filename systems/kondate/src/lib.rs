//! Menus, shopping, fridge and a public recipe catalog: what the design does not say by itself.
//!
//! The design gives recipes, sets, plans, lists, logs and the rest their routes. Here is what is particular: a plan that is
//! applied and promoted, a shopping list that is made from a plan, a fridge that gives back what was deleted, the catalog
//! with its saves, share links, payments, what has been read, and search.

mod archive;
mod catalog;
mod categories;
mod fridge;
mod names;
mod notifications;
mod payments;
mod plans;
mod product;
mod push;
mod reconciler;
mod replacing;
mod search;
mod seed;
mod shares;
mod shopping;
mod smoke;
mod turns;

use std::sync::Arc;

use nagaya_design::Design;
use nagaya_server::System;

pub use self::{
    payments::{
        Card, CardToken, ChargeId, ChargeState, InvalidPlans, LocalPayments, NoPayments, PaymentError, PaymentFuture,
        PaymentProvider, SubscriptionCharge, SubscriptionPlan, SubscriptionPlans, SubscriptionState,
        SubscriptionStatus, WebhookError, WebhookEvent, WebhookMessage, webhook_signature,
    },
    reconciler::catch_up,
};

/// The text of its design.
pub const DESIGN: &str = include_str!("../design/kondate.toml");

/// The system on its design, with the payment provider and the plans that can be subscribed to.
pub fn system(
    name: &'static str,
    design: Design,
    provider: Arc<dyn PaymentProvider>,
    plans: SubscriptionPlans,
) -> System {
    let payments = payments::PaymentSettings { provider, plans };
    let mut system = System::new(name, design.clone(), product::KondateExtension { design, payments });
    system.seeders = vec![Arc::new(seed::UserSeeder), Arc::new(seed::CommunitySeeder)];
    system.smoke_test = Some(smoke::run);
    system
}
