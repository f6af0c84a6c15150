//! The subscription while it runs: canceled and resumed here, and otherwise as the provider says.

use axum::http::StatusCode;
use nagaya_server::{Answer, Problem};
use nagaya_store::Value;
use nagaya_tenancy::{Record, Retry, Set};
use serde_json::{Map, Value as Json, json};

use super::{Desk, SUBSCRIPTION, Standing, State, text};
use crate::{
    notifications::notification,
    product::{fields, is_lost_race},
};

/// Lets the subscription end with its period: 200 with it.
pub(super) async fn cancel(desk: Desk) -> Result<Answer, Problem> {
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let current = desk.running().await?;
        if ends(&current) {
            return Ok(Answer::record(current));
        }
        let standing = desk.payments.cancel(&text(&current, "providerSubscriptionId")).await?;
        if let Some(applied) = desk.apply(&current, &standing).await? {
            return Ok(Answer::record(applied));
        }
    }
}

/// Takes a cancellation back: 200 with the subscription.
pub(super) async fn resume(desk: Desk) -> Result<Answer, Problem> {
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let current = desk.running().await?;
        if !ends(&current) {
            return Ok(Answer::record(current));
        }
        // The period runs, whatever else the provider says.
        if desk.is_past(&current) {
            let detail = "The period is over, and the subscription with it: start another one.";
            return Err(Problem::new(StatusCode::CONFLICT, "period_over", detail));
        }
        let standing = desk.payments.resume(&text(&current, "providerSubscriptionId")).await?;
        if let Some(applied) = desk.apply(&current, &standing).await? {
            return Ok(Answer::record(applied));
        }
    }
}

/// Asks the provider how the subscription stands, and takes it over: 200 with it.
pub(super) async fn refresh(desk: Desk) -> Result<Answer, Problem> {
    desk.refreshed().await.map(Answer::record)
}

impl Desk {
    /// The subscription, running or over.
    pub(super) async fn subscription(&self) -> Result<Option<Record>, Problem> {
        Ok(self.tenant.get_many(&[(SUBSCRIPTION, &[])]).await?.into_iter().next().flatten())
    }

    /// The subscription as it stands now: when its period is over, the provider knows what came after.
    ///
    /// One at another provider nobody can ask for; it stays as it is.
    pub(super) async fn present_subscription(&self) -> Result<Option<Record>, Problem> {
        let current = self.subscription().await?;
        match &current {
            Some(past) if runs(past) && self.is_past(past) && self.is_ours(past).is_ok() => {
                self.refreshed().await.map(Some)
            }
            _ => Ok(current),
        }
    }

    /// The subscription after the provider has said how it stands.
    async fn refreshed(&self) -> Result<Record, Problem> {
        let mut retry = Retry::default();
        loop {
            retry.attempt().await?;
            let current = self.tenant.get(SUBSCRIPTION, &[]).await?;
            self.is_ours(&current)?;
            let standing = self.payments.standing(&text(&current, "providerSubscriptionId")).await?;
            if let Some(applied) = self.apply(&current, &standing).await? {
                return Ok(applied);
            }
        }
    }

    /// Whether its period is over. Instants of the same form are in order as texts.
    fn is_past(&self, subscription: &Record) -> bool {
        let now = self.call.moment(SUBSCRIPTION, "currentPeriodEnd");
        subscription.text("currentPeriodEnd").is_some_and(|end| Some(end) <= now.as_str())
    }

    /// The subscription, which has to run.
    async fn running(&self) -> Result<Record, Problem> {
        let current = self.present_subscription().await?.ok_or_else(Problem::not_found)?;
        self.call.knows(&current)?;
        if !runs(&current) {
            let detail = "The subscription is over: start another one.";
            return Err(Problem::new(StatusCode::CONFLICT, "not_running", detail));
        }
        self.is_ours(&current)?;
        Ok(current)
    }

    /// Takes over how the provider says that the subscription stands; `None` if somebody else was faster.
    async fn apply(&self, current: &Record, standing: &Standing) -> Result<Option<Record>, Problem> {
        let from = state(current).ok_or_else(Problem::internal)?;
        if !from.leads_to(standing.state) {
            tracing::error!(from = from.name(), ?standing, "the payment provider reports a change that cannot be");
            return Err(bad_standing());
        }
        let patch = self.stands(standing);
        if patch.iter().all(|(field, value)| current.json(field).as_ref() == Some(value)) {
            return Ok(Some(current.clone()));
        }
        let renewed = patch["currentPeriodEnd"].as_str() > current.text("currentPeriodEnd");
        let set = self.tenant.set().update(SUBSCRIPTION, &[], patch, current);
        let set = match News::of(from, standing.state, ends(current), standing.ends, renewed) {
            Some(news) => news.tell(set),
            None => set,
        };
        match set.commit().await {
            Ok(changed) => Ok(changed.into_iter().next().flatten()),
            Err(error) if is_lost_race(&error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The fields that a standing gives.
    pub(super) fn stands(&self, standing: &Standing) -> Map<String, Json> {
        fields(json!({
            "providerSubscriptionId": standing.subscription,
            "status": standing.state.name(),
            "currentPeriodEnd": self.instant(SUBSCRIPTION, "currentPeriodEnd", standing.period_end),
            "cancelAtPeriodEnd": standing.ends,
        }))
    }
}

/// What the user is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    Started,
    Active,
    PastDue,
    Canceled,
    Ending,
    Resumed,
    Renewed,
}

impl News {
    /// What there is to tell about a change: the most important part of it.
    fn of(from: State, to: State, ended: bool, ends: bool, renewed: bool) -> Option<Self> {
        match to {
            State::Canceled if from != to => Some(News::Canceled),
            State::PastDue if from != to => Some(News::PastDue),
            State::Active if from != to => Some(News::Active),
            State::Canceled => None,
            _ if ends != ended => Some(if ends { News::Ending } else { News::Resumed }),
            _ => renewed.then_some(News::Renewed),
        }
    }

    pub(super) fn tell(self, set: Set) -> Set {
        let (kind, title, body) = match self {
            News::Started => ("started", "Your subscription has started", "Thank you."),
            News::Active => ("active", "Your subscription is paid", "It goes on until the end of its period."),
            News::PastDue => ("past_due", "A payment is missing", "See to your payment method; it is tried again."),
            News::Canceled => ("canceled", "Your subscription is over", "You can start another one at any time."),
            News::Ending => ("ending", "Your subscription will end", "It runs until the end of its period."),
            News::Resumed => ("resumed", "Your subscription goes on", "The cancellation has been taken back."),
            News::Renewed => ("renewed", "Your subscription has been renewed", "Another period has begun."),
        };
        set.create("notification", notification(&format!("subscription_{kind}"), title, body))
    }
}

fn state(subscription: &Record) -> Option<State> {
    State::named(subscription.text("status")?)
}

pub(super) fn runs(subscription: &Record) -> bool {
    state(subscription).is_some_and(State::runs)
}

/// Whether it ends with its period.
fn ends(subscription: &Record) -> bool {
    subscription.get("cancelAtPeriodEnd") == Some(&Value::Boolean(true))
}

pub(super) fn bad_standing() -> Problem {
    let detail = "The payment provider reports something that cannot be. Nothing has been changed; it has been logged.";
    Problem::new(StatusCode::BAD_GATEWAY, "bad_standing", detail)
}
