//! Payments: methods, purchases and the subscription, through a payment provider.

mod charges;
mod local;
mod methods;
mod none;
mod port;
mod purchases;
mod start;
mod subscription;
mod subscription_plans;
mod subscription_state;
mod wallet;
mod webhook;

use std::{future::Future, sync::Arc};

use axum::http::{Method, StatusCode};
use nagaya_design::{Design, Verb};
use nagaya_server::{Answer, Call, CustomRoute, Problem, RequestBody as _, RequiredCaller};
use nagaya_tenancy::{Record, Tenant};
use serde_json::json;

pub use self::{
    local::LocalPayments,
    none::NoPayments,
    port::{
        Card, CardToken, ChargeId, ChargeState, PaymentError, PaymentFuture, PaymentProvider, SubscriptionCharge,
        SubscriptionStatus,
    },
    subscription_plans::{InvalidPlans, SubscriptionPlan, SubscriptionPlans},
    subscription_state::SubscriptionState,
    webhook::{WebhookError, WebhookEvent, WebhookMessage, webhook_signature},
};
pub(crate) use self::{
    purchases::{bought_record_fields, bought_record_name, find_paid_targets},
    subscription::is_subscriber,
};
use crate::product::{find, item_schema};

const METHOD_ENTITY: &str = "payment_method";
const PURCHASE_ENTITY: &str = "purchase";
const SUBSCRIPTION_ENTITY: &str = "subscription";
/// The currency of prices.
const CURRENCY: &str = "JPY";
/// Descriptions of the error statuses in the OpenAPI document.
const DECLINED_DESCRIPTION: &str = "The provider declines, and says why. Code: `payment_declined`.";
const IMPOSSIBLE_STATUS_DESCRIPTION: &str = "The provider reports an impossible state. Code: `bad_standing`.";

/// What payments need besides the store.
#[derive(Debug, Clone)]
pub(crate) struct PaymentSettings {
    pub(crate) provider: Arc<dyn PaymentProvider>,
    pub(crate) plans: SubscriptionPlans,
}

pub(crate) fn routes(design: &Design, payments: &PaymentSettings) -> Vec<CustomRoute> {
    let (method, bought, subscription) =
        (item_schema("PaymentMethod"), item_schema("Purchase"), item_schema("Subscription"));
    // Changes of the subscription have the same answers.
    let change = |route: CustomRoute| {
        let route =
            route.requires_permission(SUBSCRIPTION_ENTITY, Verb::Update).answers(200, Some(subscription.clone()));
        route.also_answers(402, DECLINED_DESCRIPTION).also_answers(502, IMPOSSIBLE_STATUS_DESCRIPTION)
    };
    let post = Method::POST;
    let plans = payments.plans.clone();
    let settings = payments.clone();
    let webhook = CustomRoute::new(Method::POST, "/payments/webhook", webhook::SUMMARY, move |call| {
        webhook::receive(call, settings.clone())
    });
    vec![
        webhook
            .caller(RequiredCaller::Unauthenticated)
            .keeps_raw_body()
            .body(json!({ "type": "object", "description": "As the provider sends it." }))
            .answers(204, None),
        CustomRoute::new(Method::GET, "/subscription/plans", subscription_plans::LIST_SUMMARY, move |_| {
            std::future::ready(Ok(plans.answer()))
        })
        .caller(RequiredCaller::Public)
        .answers(200, Some(subscription_plans::schema())),
        route(payments, &post, "/payment-methods", methods::ADD_SUMMARY, methods::add)
            .requires_permission(METHOD_ENTITY, Verb::Create)
            .body(methods::NewMethod::schema(design))
            .answers(201, Some(method.clone()))
            .also_answers(200, "The payment method already exists.")
            .also_answers(402, DECLINED_DESCRIPTION),
        route(
            payments,
            &post,
            "/payment-methods/{paymentMethodId}/default",
            methods::DEFAULT_SUMMARY,
            methods::make_default,
        )
        .requires_permission(METHOD_ENTITY, Verb::Update)
        .answers(200, Some(method)),
        route(
            payments,
            &Method::DELETE,
            "/payment-methods/{paymentMethodId}",
            methods::REMOVE_SUMMARY,
            methods::remove,
        )
        .requires_permission(METHOD_ENTITY, Verb::Delete)
        .answers(204, None)
        .also_answers(402, DECLINED_DESCRIPTION)
        .also_answers(502, IMPOSSIBLE_STATUS_DESCRIPTION),
        route(payments, &post, "/purchases", purchases::BUY_SUMMARY, purchases::buy)
            .requires_permission(PURCHASE_ENTITY, Verb::Create)
            .parameter(json!({
                "name": "Idempotency-Key",
                "in": "header",
                "required": true,
                "description": "The same key and body give the same answer, and are paid once.",
                "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
            }))
            .body(purchases::schema(design))
            .answers(201, Some(bought))
            .also_answers(402, DECLINED_DESCRIPTION),
        route(payments, &post, "/subscription", "Starts a subscription, unless one is running.", start::start)
            .requires_permission(SUBSCRIPTION_ENTITY, Verb::Create)
            .body(start::schema(design, &payments.plans))
            .answers(201, Some(subscription.clone()))
            .also_answers(402, DECLINED_DESCRIPTION)
            .also_answers(502, IMPOSSIBLE_STATUS_DESCRIPTION),
        change(route(payments, &post, "/subscription/cancel", subscription::CANCEL_SUMMARY, subscription::cancel)),
        change(route(payments, &post, "/subscription/resume", subscription::RESUME_SUMMARY, subscription::resume)),
        change(route(payments, &post, "/subscription/refresh", subscription::REFRESH_SUMMARY, subscription::refresh)),
    ]
}

/// A route whose handler gets the payment provider.
fn route<F, A>(payments: &PaymentSettings, method: &Method, path: &str, summary: &str, handler: F) -> CustomRoute
where
    F: Fn(PaymentCall) -> A + Copy + Send + Sync + 'static,
    A: Future<Output = Result<Answer, Problem>> + Send + 'static,
{
    let payments = payments.clone();
    CustomRoute::new(method.clone(), path, summary, move |call| {
        let PaymentSettings { provider, plans } = payments.clone();
        async move {
            let tenant = call.tenant()?;
            handler(PaymentCall { http: call, tenant, payments: provider, plans }).await
        }
    })
}

/// A call of a user, with the payment provider.
struct PaymentCall {
    http: Arc<Call>,
    tenant: Tenant,
    payments: Arc<dyn PaymentProvider>,
    plans: SubscriptionPlans,
}

impl PaymentCall {
    /// The provider's token of a payment method; `None` if there is no such method any more.
    async fn token(&self, method: &str) -> Result<Option<CardToken>, Problem> {
        let mut found = None;
        // Reads never return a secret field; only a predicate sees it.
        let look = |token: &str| {
            found = CardToken::new(token);
            found.is_some()
        };
        match self.tenant.verify_secret(METHOD_ENTITY, &[method], "providerToken", look).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(found),
        }
    }

    /// The token of the payment method of a pending payment; or why it cannot be charged: the method does not exist any more,
    /// or the provider has changed since.
    async fn chargeable_token(&self, method: &str) -> Result<Result<CardToken, String>, Problem> {
        let found = find(&self.tenant, METHOD_ENTITY, &[method]).await?;
        if found.is_some_and(|found| self.check_provider(&found).is_err()) {
            tracing::error!("a payment was pending at a provider that is no longer used: check its result there");
            return Ok(Err("The payment method is kept at a provider that is no longer used.".to_owned()));
        }
        Ok(self.token(method).await?.ok_or_else(|| "The payment method does not exist any more.".to_owned()))
    }

    /// The payment method to use: the named one, or the default one.
    async fn method(&self, named: Option<&str>) -> Result<String, Problem> {
        let method = match named {
            Some(named) => self.tenant.get(METHOD_ENTITY, &[named]).await?,
            None => self.methods().await?.into_iter().find(methods::is_default_method).ok_or_else(no_method)?,
        };
        self.check_provider(&method)?;
        Ok(text(&method, "paymentMethodId"))
    }

    /// Refuses a record of another provider than the current one.
    fn check_provider(&self, record: &Record) -> Result<(), Problem> {
        if record.text("provider") == Some(self.payments.name()) {
            return Ok(());
        }
        let detail = "The payment method is stored at a payment provider that is no longer used: add it again.";
        Err(Problem::conflict("other_provider", detail))
    }
}

fn text(record: &Record, field: &str) -> String {
    record.text(field).unwrap_or_default().to_owned()
}

impl From<PaymentError> for Problem {
    fn from(refused: PaymentError) -> Self {
        match refused {
            PaymentError::Declined(reason) => Problem::new(StatusCode::PAYMENT_REQUIRED, "payment_declined", reason),
            PaymentError::Unavailable => {
                let detail = "The payment provider cannot be reached now. Try again: nothing is paid twice.";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "payments_unavailable", detail).retry_after(5)
            }
        }
    }
}

fn no_method() -> Problem {
    let detail = "There is no default payment method: add one, or name one as `paymentMethodId`.";
    Problem::conflict("no_payment_method", detail)
}
