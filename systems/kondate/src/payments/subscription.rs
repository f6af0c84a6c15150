//! The subscription: canceled and resumed here, and otherwise in the state that the provider reports.

use axum::http::StatusCode;
use nagaya_server::{Answer, Call, Problem};
use nagaya_tenancy::{ChangeSet, Record, Tenant};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::{
    PaymentCall, SUBSCRIPTION_ENTITY, SubscriptionCharge, SubscriptionState, SubscriptionStatus,
    charges::ChargedSubscription,
};
use crate::{
    notifications::notification_fields,
    product::{find, object_fields, retry_lost_races, unless_lost_race},
};

pub(super) const CANCEL_SUMMARY: &str = "Ends the subscription at the end of the paid period.";
pub(super) const RESUME_SUMMARY: &str = "Revokes a cancellation, until the end of the period.";
pub(super) const REFRESH_SUMMARY: &str = "Gets the state of the subscription from the provider.";

/// A stored subscription.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Subscription {
    plan: String,
    status: String,
    provider_subscription_id: String,
    pub(super) payment_method_id: Option<String>,
    current_period_end: Option<String>,
    cancel_at_period_end: bool,
}

impl Subscription {
    fn state(&self) -> Option<SubscriptionState> {
        SubscriptionState::from_name(&self.status)
    }

    pub(super) fn is_running(&self) -> bool {
        self.state().is_some_and(SubscriptionState::is_running)
    }

    /// Whether its period is over. Timestamps of one field are ordered as texts.
    fn is_past(&self, call: &Call) -> bool {
        let now = call.timestamp_now(SUBSCRIPTION_ENTITY, "currentPeriodEnd");
        self.current_period_end.as_deref().is_some_and(|end| Some(end) <= now.as_str())
    }
}

/// Whether a user has a running subscription whose period is not over. The provider is not asked: after a renewal, the user
/// refreshes the subscription first.
pub(crate) async fn is_subscriber(call: &Call, user: &Tenant) -> Result<bool, Problem> {
    let Some(record) = find(user, SUBSCRIPTION_ENTITY, &[]).await? else { return Ok(false) };
    let subscription: Subscription = record.deserialize()?;
    Ok(subscription.is_running() && !subscription.is_past(call))
}

/// Lets the subscription end with its period: 200 with it.
pub(super) async fn cancel(call: PaymentCall) -> Result<Answer, Problem> {
    let canceled = retry_lost_races(|| async {
        let (current, subscription) = call.running_subscription().await?;
        if subscription.cancel_at_period_end {
            return Ok(Some(current));
        }
        let status = call.payments.cancel(&subscription.provider_subscription_id).await?;
        call.apply_status(&current, &status, Vec::new()).await
    });
    canceled.await.map(Answer::record)
}

/// Takes a cancellation back: 200 with the subscription.
pub(super) async fn resume(call: PaymentCall) -> Result<Answer, Problem> {
    let resumed = retry_lost_races(|| async {
        let (current, subscription) = call.running_subscription().await?;
        if !subscription.cancel_at_period_end {
            return Ok(Some(current));
        }
        // The period is not over yet.
        if call.is_past(&subscription) {
            let detail = "The period is over, and the subscription with it: start another one.";
            return Err(Problem::conflict("period_over", detail));
        }
        let status = call.payments.resume(&subscription.provider_subscription_id).await?;
        call.apply_status(&current, &status, Vec::new()).await
    });
    resumed.await.map(Answer::record)
}

/// Gets the state of the subscription from the provider, and stores it: 200 with it.
pub(super) async fn refresh(call: PaymentCall) -> Result<Answer, Problem> {
    call.refresh_record().await.map(Answer::record)
}

impl PaymentCall {
    /// The subscription, running or over.
    pub(super) async fn subscription(&self) -> Result<Option<Record>, Problem> {
        Ok(find(&self.tenant, SUBSCRIPTION_ENTITY, &[]).await?)
    }

    /// The current subscription. After the end of its period, the provider is asked for the state.
    ///
    /// A subscription at another provider stays as it is.
    pub(super) async fn present_subscription(&self) -> Result<Option<Record>, Problem> {
        let current = self.subscription().await?;
        if let Some(record) = &current {
            let subscription: Subscription = record.deserialize()?;
            if subscription.is_running() && self.is_past(&subscription) && self.check_provider(record).is_ok() {
                return self.refresh_record().await.map(Some);
            }
        }
        Ok(current)
    }

    /// The subscription with the state that the provider reports, whose charges are stored too.
    pub(super) async fn refresh_record(&self) -> Result<Record, Problem> {
        retry_lost_races(|| async {
            let current = self.tenant.get(SUBSCRIPTION_ENTITY, &[]).await?;
            self.check_provider(&current)?;
            let subscription: Subscription = current.deserialize()?;
            let status = self.payments.subscription_status(&subscription.provider_subscription_id).await?;
            let charges = self.charges_of(&status.subscription).await?;
            self.apply_status(&current, &status, charges).await
        })
        .await
    }

    fn is_past(&self, subscription: &Subscription) -> bool {
        subscription.is_past(&self.http)
    }

    /// The subscription, which has to be running.
    async fn running_subscription(&self) -> Result<(Record, Subscription), Problem> {
        let current = self.present_subscription().await?.ok_or_else(Problem::not_found)?;
        self.http.check_if_match(&current)?;
        let subscription: Subscription = current.deserialize()?;
        if !subscription.is_running() {
            let detail = "The subscription is over: start another one.";
            return Err(Problem::conflict("not_running", detail));
        }
        self.check_provider(&current)?;
        Ok((current, subscription))
    }

    /// Stores the state and the charges that the provider reports; `None` if another writer changed the subscription meanwhile.
    async fn apply_status(
        &self,
        current: &Record,
        status: &SubscriptionStatus,
        charges: Vec<SubscriptionCharge>,
    ) -> Result<Option<Record>, Problem> {
        let subscription: Subscription = current.deserialize()?;
        let from = subscription.state().ok_or_else(Problem::internal)?;
        if !from.can_become(status.state) {
            tracing::error!(from = from.name(), ?status, "the payment provider reports an impossible change");
            return Err(impossible_status());
        }
        let patch = self.status_fields(status);
        let charged = ChargedSubscription {
            plan: &subscription.plan,
            payment_method_id: subscription.payment_method_id.as_deref(),
        };
        let (set, has_charges) = self.add_charges(self.tenant.change_set(), &charged, charges).await?;
        // Subscriptions of earlier versions have no such record, and the provider may have given it another id.
        let (set, is_new_id) = self.add_subscriber(set, status).await?;
        if patch.iter().all(|(field, value)| current.json(field).as_ref() == Some(value)) {
            let has_changes = has_charges || is_new_id;
            let is_stored = !has_changes || unless_lost_race(set.commit().await)?.is_some();
            return Ok(is_stored.then(|| current.clone()));
        }
        let renewed = patch["currentPeriodEnd"].as_str() > subscription.current_period_end.as_deref();
        let set = set.update(SUBSCRIPTION_ENTITY, &[], patch, current);
        let (ended, ends) = (subscription.cancel_at_period_end, status.ends_with_period);
        let set = match SubscriptionNotice::for_transition(from, status.state, ended, ends, renewed) {
            Some(notice) => notice.add_to(set),
            None => set,
        };
        let changed = unless_lost_race(set.commit().await)?.unwrap_or_default();
        Ok(changed.into_iter().flatten().find(|changed| changed.entity() == SUBSCRIPTION_ENTITY))
    }

    /// The fields of the state that the provider reports.
    pub(super) fn status_fields(&self, status: &SubscriptionStatus) -> Map<String, Json> {
        object_fields(json!({
            "providerSubscriptionId": status.subscription,
            "status": status.state.name(),
            "currentPeriodEnd": self.http.timestamp(SUBSCRIPTION_ENTITY, "currentPeriodEnd", status.period_end),
            "cancelAtPeriodEnd": status.ends_with_period,
        }))
    }
}

/// A notification about a change of the subscription: the end of its kind, its title and its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SubscriptionNotice(&'static str, &'static str, &'static str);

impl SubscriptionNotice {
    pub(super) const STARTED: Self = SubscriptionNotice("started", "Your subscription has started", "Thank you.");
    const ACTIVE: Self =
        SubscriptionNotice("active", "Your subscription is paid", "It goes on until the end of its period.");
    const PAST_DUE: Self =
        SubscriptionNotice("past_due", "A payment is missing", "See to your payment method; it is tried again.");
    const CANCELED: Self =
        SubscriptionNotice("canceled", "Your subscription is over", "You can start another one at any time.");
    const ENDING: Self =
        SubscriptionNotice("ending", "Your subscription will end", "It runs until the end of its period.");
    const RESUMED: Self =
        SubscriptionNotice("resumed", "Your subscription goes on", "The cancellation has been taken back.");
    const RENEWED: Self =
        SubscriptionNotice("renewed", "Your subscription has been renewed", "Another period has begun.");

    /// The notification about a change: only the most important part.
    fn for_transition(
        from: SubscriptionState,
        to: SubscriptionState,
        ended: bool,
        ends: bool,
        renewed: bool,
    ) -> Option<Self> {
        match to {
            SubscriptionState::Canceled if from != to => Some(SubscriptionNotice::CANCELED),
            SubscriptionState::PastDue if from != to => Some(SubscriptionNotice::PAST_DUE),
            SubscriptionState::Active if from != to => Some(SubscriptionNotice::ACTIVE),
            SubscriptionState::Canceled => None,
            _ if ends != ended => Some(if ends { SubscriptionNotice::ENDING } else { SubscriptionNotice::RESUMED }),
            _ => renewed.then_some(SubscriptionNotice::RENEWED),
        }
    }

    pub(super) fn add_to(self, set: ChangeSet) -> ChangeSet {
        let SubscriptionNotice(kind, title, body) = self;
        set.create("notification", notification_fields(&format!("subscription_{kind}"), title, body))
    }
}

pub(super) fn impossible_status() -> Problem {
    let detail = "The payment provider reports something that cannot be. Nothing has been changed; it has been logged.";
    Problem::new(StatusCode::BAD_GATEWAY, "bad_standing", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_about_the_most_important_change() {
        use SubscriptionState::{Active, Canceled, PastDue, Trialing};
        let check = |(from, to), (ended, ends), renewed, expected| {
            let notice = SubscriptionNotice::for_transition(from, to, ended, ends, renewed);
            assert_eq!(notice, expected, "{from:?} {to:?} {ended} {ends} {renewed}");
        };
        for (from, to, expected) in [
            (Trialing, Active, SubscriptionNotice::ACTIVE),
            (PastDue, Active, SubscriptionNotice::ACTIVE),
            (Active, PastDue, SubscriptionNotice::PAST_DUE),
            (Active, Canceled, SubscriptionNotice::CANCELED),
        ] {
            check((from, to), (false, true), true, Some(expected));
        }
        // It stays as it is; one that is over stays over, whatever else the provider says of it.
        for state in [Trialing, Active, PastDue] {
            check((state, state), (false, true), true, Some(SubscriptionNotice::ENDING));
            check((state, state), (true, false), true, Some(SubscriptionNotice::RESUMED));
            check((state, state), (true, true), true, Some(SubscriptionNotice::RENEWED));
            check((state, state), (true, true), false, None);
        }
        check((Canceled, Canceled), (false, true), true, None);
        check((Canceled, Canceled), (true, true), true, None);
    }
}
