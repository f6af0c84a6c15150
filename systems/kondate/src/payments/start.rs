//! Starting a subscription: the one act of it that goes through the wallet.

use axum::http::{StatusCode, header};
use nagaya_server::{Answer, Problem, Shape};
use nagaya_tenancy::{Retry, Set};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    Desk, Refused, SUBSCRIPTION, Standing,
    subscription::{News, bad_standing, runs},
    wallet::{Act, Wallet, done},
};
use crate::product::fields;

/// What somebody says who starts one.
pub(super) const STARTED: Shape = Shape {
    entity: SUBSCRIPTION,
    fields: &[("plan", "plan"), ("paymentMethodId", "paymentMethodId")],
    required: &["plan"],
};

/// Starts a subscription: 201 with it. One that is over is replaced, one that runs is not.
pub(super) async fn start(desk: Desk) -> Result<Answer, Problem> {
    STARTED.check(desk.call.design(), &desk.call.body)?;
    let plan = desk.call.body.get("plan").and_then(Json::as_str).unwrap_or_default();

    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let wallet = desk.settled().await?;
        // None is running.
        if desk.present_subscription().await?.is_some_and(|there| runs(&there)) {
            let detail = "A subscription is running: it can be canceled or resumed.";
            return Err(Problem::new(StatusCode::CONFLICT, "subscribed", detail));
        }
        let start = Start {
            key: desk.call.ids().ulid(desk.call.now()),
            plan: plan.to_owned(),
            method: desk.method().await?,
            at: desk.call.moment(SUBSCRIPTION, "startedAt"),
        };
        if !desk.begin(&wallet, &Act::Start(start.clone())).await? {
            continue;
        }
        // Somebody else may have ended it by now; the provider says the same to all.
        start.end(&desk, &desk.wallet().await?).await?.map_err(Problem::from)?;
        let mut answer = Answer::record(desk.tenant.get(SUBSCRIPTION, &[]).await?);
        answer.status = StatusCode::CREATED;
        answer.set(header::LOCATION, &desk.call.location("/subscription"));
        return Ok(answer);
    }
}

/// A subscription that is about to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Start {
    key: String,
    plan: String,
    method: String,
    at: Json,
}

/// Why a subscription did not start.
pub(super) enum NotStarted {
    Declined(String),
    /// The provider says something of it that cannot be.
    Impossible,
}

impl From<NotStarted> for Problem {
    fn from(why: NotStarted) -> Self {
        match why {
            NotStarted::Declined(reason) => Refused::Declined(reason).into(),
            NotStarted::Impossible => bad_standing(),
        }
    }
}

impl Start {
    /// Has the provider start it, and writes it down; or says why not.
    pub(super) async fn end(&self, desk: &Desk, wallet: &Wallet) -> Result<Result<(), NotStarted>, Problem> {
        let asked = match desk.pays_with(&self.method).await? {
            Ok(token) => desk.payments.subscribe(&token, &self.plan, &self.key).await,
            Err(reason) => Err(Refused::Declined(reason)),
        };
        let started = match asked {
            Err(Refused::Unavailable) => return Err(Refused::Unavailable.into()),
            Err(Refused::Declined(reason)) => Err(NotStarted::Declined(reason)),
            Ok(standing) if standing.state.runs() => Ok(standing),
            Ok(standing) => {
                tracing::error!(?standing, "the payment provider starts a subscription that is over");
                Err(NotStarted::Impossible)
            }
        };
        // Of several who end it one writes it down, on the wallet in which it is under way.
        let mut wallet = wallet;
        let mut again;
        while wallet.has(|act| matches!(act, Act::Start(start) if start == self)) {
            let set = desk.change(wallet);
            let set = match &started {
                Ok(standing) => self.record(desk, set, standing).await?,
                Err(_) => set,
            };
            if done(set).await? {
                break;
            }
            again = desk.wallet().await?;
            wallet = &again;
        }
        Ok(started.map(drop))
    }

    /// Adds the subscription, in the place of the one that is over.
    async fn record(&self, desk: &Desk, set: Set, standing: &Standing) -> Result<Set, Problem> {
        let mut item = desk.stands(standing);
        item.append(&mut fields(json!({
            "plan": self.plan,
            "provider": desk.payments.name(),
            "paymentMethodId": self.method,
            "startedAt": self.at,
        })));
        let set = match desk.subscription().await? {
            None => set.create(SUBSCRIPTION, item),
            Some(over) => set.update(SUBSCRIPTION, &[], item, &over),
        };
        Ok(News::Started.tell(set))
    }
}
