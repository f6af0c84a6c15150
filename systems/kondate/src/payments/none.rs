//! No provider: a server on which payments are not set up.

use super::{
    port::{
        Card, CardToken, ChargeId, PaymentError, PaymentFuture, PaymentProvider, SubscriptionCharge, SubscriptionStatus,
    },
    subscription_plans::SubscriptionPlan,
    webhook::{WebhookError, WebhookEvent, WebhookMessage},
};

/// Declines everything: payments are not set up.
#[derive(Debug)]
pub struct NoPayments;

/// What a user reads.
const REASON: &str = "Payments are not set up on this server.";

fn decline<T: Send + 'static>() -> PaymentFuture<'static, T> {
    Box::pin(async { Err(PaymentError::Declined(REASON.to_owned())) })
}

impl PaymentProvider for NoPayments {
    fn name(&self) -> &str {
        "none"
    }

    fn attach_card<'a>(&'a self, _: &'a CardToken) -> PaymentFuture<'a, Card> {
        decline()
    }

    fn detach_card<'a>(&'a self, _: &'a CardToken) -> PaymentFuture<'a, ()> {
        decline()
    }

    fn charge<'a>(&'a self, _: &'a CardToken, _: u64, _: &'a str, _: &'a str) -> PaymentFuture<'a, ChargeId> {
        decline()
    }

    fn subscribe<'a>(
        &'a self,
        _: &'a CardToken,
        _: &'a SubscriptionPlan,
        _: &'a str,
    ) -> PaymentFuture<'a, SubscriptionStatus> {
        decline()
    }

    fn cancel<'a>(&'a self, _: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        decline()
    }

    fn resume<'a>(&'a self, _: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        decline()
    }

    fn subscription_status<'a>(&'a self, _: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        decline()
    }

    fn subscription_charges<'a>(&'a self, _: &'a str) -> PaymentFuture<'a, Vec<SubscriptionCharge>> {
        decline()
    }

    fn webhook_event(&self, _: &WebhookMessage<'_>) -> Result<WebhookEvent, WebhookError> {
        Err(WebhookError(REASON))
    }
}
