//! Starting a subscription: the one change of it that goes through the wallet.

use nagaya_design::Design;
use nagaya_server::{Answer, Problem, RequestBody as _, request_body};
use nagaya_tenancy::ChangeSet;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    PaymentCall, PaymentError, SUBSCRIPTION_ENTITY, SubscriptionCharge, SubscriptionPlan, SubscriptionPlans,
    SubscriptionStatus,
    charges::ChargedSubscription,
    subscription::{Subscription, SubscriptionNotice, impossible_status},
    wallet::{PendingPayment, Wallet, commit_or_lost_race},
};
use crate::product::{object_fields, retry_lost_races};

request_body! {
    /// The body that starts a subscription.
    pub(super) struct NewSubscription of SUBSCRIPTION_ENTITY {
        plan: String = "plan",
        payment_method_id: Option<String> = "paymentMethodId",
    }
}

/// The JSON Schema of the body, with the names of the plans.
pub(super) fn schema(design: &Design, plans: &SubscriptionPlans) -> Json {
    let mut schema = NewSubscription::schema(design);
    let names: Vec<_> = plans.names().collect();
    if !names.is_empty() {
        schema["properties"]["plan"] = json!({ "type": "string", "enum": names });
    }
    schema["properties"]["plan"]["description"] = "One of `GET /subscription/plans`, which also has its price.".into();
    schema
}

/// Starts a subscription: 201 with it. One that is over is replaced; while one is running, the answer is 409.
pub(super) async fn start(call: PaymentCall) -> Result<Answer, Problem> {
    let new: NewSubscription = call.http.parse_body()?;
    // The plan is offered. Its price is the one of the settings.
    let plan = call.plans.find(&new.plan)?;

    let started = retry_lost_races(|| async {
        let wallet = call.without_pending_payment().await?;
        // None is running.
        let current =
            call.present_subscription().await?.map(|current| current.deserialize::<Subscription>()).transpose()?;
        if current.is_some_and(|current| current.is_running()) {
            let detail = "A subscription is running: it can be canceled or resumed.";
            return Err(Problem::conflict("subscribed", detail));
        }
        let start = Start {
            key: call.http.ids().ulid(call.http.now_millis()),
            plan: plan.name.clone(),
            terms: Some(plan.clone()),
            method: call.method(new.payment_method_id.as_deref()).await?,
            at: call.http.timestamp_now(SUBSCRIPTION_ENTITY, "startedAt"),
        };
        if !call.store_pending(&wallet, &PendingPayment::Start(start.clone())).await? {
            return Ok(None);
        }
        // A concurrent call may have completed it; the provider gives every caller the same answer.
        start.complete(&call, &call.wallet().await?).await?.map_err(Problem::from)?;
        let started = call.tenant.get(SUBSCRIPTION_ENTITY, &[]).await?;
        Ok(Some(Answer::created(started, &call.http.location("/subscription"))))
    });
    started.await
}

/// A subscription that is about to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Start {
    key: String,
    plan: String,
    /// The plan as it was offered, so that a repeated call has the same price. Absent in a start that an older version stored.
    #[serde(default)]
    terms: Option<SubscriptionPlan>,
    method: String,
    at: Json,
}

/// Why a subscription did not start.
pub(super) enum StartError {
    Declined(String),
    /// The provider reports an impossible state.
    Impossible,
}

impl From<StartError> for Problem {
    fn from(why: StartError) -> Self {
        match why {
            StartError::Declined(reason) => PaymentError::Declined(reason).into(),
            StartError::Impossible => impossible_status(),
        }
    }
}

impl Start {
    /// Starts it at the provider and stores the result; or returns why it did not start.
    pub(super) async fn complete(
        &self,
        call: &PaymentCall,
        wallet: &Wallet,
    ) -> Result<Result<(), StartError>, Problem> {
        let answer = match (call.chargeable_token(&self.method).await?, self.terms(call)) {
            (Ok(token), Some(plan)) => call.payments.subscribe(&token, plan, &self.key).await,
            (Ok(_), None) => Err(PaymentError::Declined("The plan is no longer offered.".to_owned())),
            (Err(reason), _) => Err(PaymentError::Declined(reason)),
        };
        let started = match answer {
            Err(PaymentError::Unavailable) => return Err(PaymentError::Unavailable.into()),
            Err(PaymentError::Declined(reason)) => Err(StartError::Declined(reason)),
            Ok(status) if status.state.is_running() => {
                let charges = call.charges_of(&status.subscription).await?;
                Ok((status, charges))
            }
            Ok(status) => {
                tracing::error!(?status, "the payment provider reports a new subscription as canceled");
                Err(StartError::Impossible)
            }
        };
        // Of concurrent calls one stores the result, in the wallet that has the pending start.
        let mut wallet = wallet;
        let mut again;
        while wallet.has(|act| matches!(act, PendingPayment::Start(start) if start == self)) {
            let set = call.change(wallet);
            let set = match &started {
                Ok((status, charges)) => self.record(call, set, status, charges.clone()).await?,
                Err(_) => set,
            };
            if commit_or_lost_race(set).await? {
                break;
            }
            again = call.wallet().await?;
            wallet = &again;
        }
        Ok(started.map(drop))
    }

    fn terms<'a>(&'a self, call: &'a PaymentCall) -> Option<&'a SubscriptionPlan> {
        self.terms.as_ref().or_else(|| call.plans.get(&self.plan))
    }

    /// Adds the subscription and its charges to the change set, in place of the one that is over.
    async fn record(
        &self,
        call: &PaymentCall,
        set: ChangeSet,
        status: &SubscriptionStatus,
        charges: Vec<SubscriptionCharge>,
    ) -> Result<ChangeSet, Problem> {
        let mut item = call.status_fields(status);
        item.append(&mut object_fields(json!({
            "plan": self.plan,
            "price": self.terms(call).map(|plan| plan.price),
            "currency": self.terms(call).map(|plan| plan.currency.as_str()),
            "provider": call.payments.name(),
            "paymentMethodId": self.method,
            "startedAt": self.at,
        })));
        let set = match call.subscription().await? {
            None => set.create(SUBSCRIPTION_ENTITY, item),
            Some(over) => set.update(SUBSCRIPTION_ENTITY, &[], item, &over),
        };
        let charged = ChargedSubscription { plan: &self.plan, payment_method_id: Some(&self.method) };
        let (set, _) = call.add_charges(set, &charged, charges).await?;
        let (set, _) = call.add_subscriber(set, status).await?;
        Ok(SubscriptionNotice::STARTED.add_to(set))
    }
}
