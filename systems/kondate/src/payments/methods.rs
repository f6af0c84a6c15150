//! Payment methods: added by a token, one of them the default, removed here and at the provider.

use axum::http::{StatusCode, header};
use nagaya_server::{Answer, Content, Problem, Shape};
use nagaya_store::Value;
use nagaya_tenancy::{List, Record, Retry, Set};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    Desk, METHOD, Refused, Token,
    subscription::runs,
    text,
    wallet::{Act, Wallet, done},
};
use crate::product::{fields, is_lost_race};

/// Methods that a user can have.
const MOST: usize = 20;

/// What somebody says who adds one.
pub(super) const ADDED: Shape =
    Shape { entity: METHOD, fields: &[("token", "providerToken"), ("isDefault", "isDefault")], required: &["token"] };

/// Adds a method: 201 with what may be shown of the card. The first one is the default.
///
/// The same token again gives the method that is there, with 200: an answer that was lost can be asked for again.
pub(super) async fn add(desk: Desk) -> Result<Answer, Problem> {
    let said = &desk.call.body;
    ADDED.check(desk.call.design(), said)?;
    // It is a token. What is not is neither kept nor shown to anybody.
    let token = said.get("token").and_then(Json::as_str).unwrap_or_default();
    let token = Token::new(token).ok_or_else(card_number)?;
    let asked = said.get("isDefault") == Some(&Json::Bool(true));
    // The provider knows it, and can charge it.
    let card = desk.payments.card(&token).await?;

    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let wallet = desk.settled().await?;
        let methods = desk.methods().await?;
        if let Some(there) = desk.with_token(&methods, &token).await? {
            return match asked && !is_default(there) {
                true => desk.prefer(&there.id()).await.map(Answer::record),
                false => Ok(Answer::record(there.clone())),
            };
        }
        if methods.len() >= MOST {
            let detail = format!("There are {MOST} payment methods: remove one first.");
            return Err(Problem::new(StatusCode::CONFLICT, "too_many", detail));
        }
        let prefers = asked || !methods.iter().any(is_default);
        let method = json!({
            "provider": desk.payments.name(),
            "providerToken": token.expose(),
            "brand": card.brand,
            "last4": card.last4,
            "expMonth": card.exp_month,
            "expYear": card.exp_year,
            "isDefault": prefers,
        });
        let set = desk.change(&wallet).create(METHOD, fields(method));
        let set = if prefers { none_preferred(set, &methods) } else { set };
        match set.commit().await {
            Err(error) if is_lost_race(&error) => {}
            added => {
                let method = added?.into_iter().next().flatten().ok_or_else(Problem::internal)?;
                let place = desk.call.location(&format!("/payment-methods/{}", text(&method, "paymentMethodId")));
                let mut answer = Answer::record(method);
                answer.status = StatusCode::CREATED;
                answer.set(header::LOCATION, &place);
                return Ok(answer);
            }
        }
    }
}

/// Makes a method the default one: 200 with it.
pub(super) async fn make_default(desk: Desk) -> Result<Answer, Problem> {
    desk.prefer(&[named(&desk)?]).await.map(Answer::record)
}

/// Removes a method: 204. The provider forgets the card first, so that none is left there that nobody knows of.
///
/// Another does not become the default one by itself: which card is charged, the user decides.
pub(super) async fn remove(desk: Desk) -> Result<Answer, Problem> {
    let id = named(&desk)?;
    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let wallet = desk.settled().await?;
        let method = desk.tenant.get(METHOD, &[&id]).await?;
        desk.call.knows(&method)?;
        // No subscription is paid with it.
        let pays = |paid: &Record| runs(paid) && paid.text("paymentMethodId") == Some(&id);
        if desk.subscription().await?.is_some_and(|paid| pays(&paid))
            && desk.present_subscription().await?.is_some_and(|paid| pays(&paid))
        {
            let detail = "The subscription is paid with it: cancel that, and wait for its end.";
            return Err(Problem::new(StatusCode::CONFLICT, "in_use", detail));
        }

        let removal = Removal { method: id.clone() };
        if desk.begin(&wallet, &Act::Removal(removal)).await? {
            desk.settled().await?;
            return Ok(Answer::new(StatusCode::NO_CONTENT, Content::None));
        }
    }
}

/// A method that is about to go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Removal {
    method: String,
}

impl Removal {
    /// Has the provider forget the card, and removes the method.
    pub(super) async fn end(&self, desk: &Desk, wallet: &Wallet) -> Result<(), Problem> {
        let found = desk.tenant.get_many(&[(METHOD, &[&self.method])]).await?.into_iter().next().flatten();
        let Some(method) = found else { return done(desk.change(wallet)).await.map(drop) };
        match desk.token(&self.method).await? {
            Some(token) if desk.is_ours(&method).is_ok() => match desk.payments.forget(&token).await {
                Err(Refused::Unavailable) => return Err(Refused::Unavailable.into()),
                // One that the provider does not want to hear of is not there.
                Err(Refused::Declined(reason)) => tracing::warn!(%reason, "a card could not be forgotten"),
                Ok(()) => {}
            },
            _ => tracing::warn!("a card stays at a provider that is no longer used"),
        }
        done(desk.change(wallet).delete(METHOD, &[&self.method], &method)).await.map(drop)
    }
}

impl Desk {
    /// All methods.
    pub(super) async fn methods(&self) -> Result<Vec<Record>, Problem> {
        Ok(self.tenant.list(&List::by("payment_methods").limit(MOST)).await?.records)
    }

    /// The one that has this token.
    async fn with_token<'m>(&self, methods: &'m [Record], token: &Token) -> Result<Option<&'m Record>, Problem> {
        for method in methods {
            if self.token(&text(method, "paymentMethodId")).await?.as_ref() == Some(token) {
                return Ok(Some(method));
            }
        }
        Ok(None)
    }

    /// Makes a method the default one, and the one that was no longer.
    async fn prefer(&self, id: &[String]) -> Result<Record, Problem> {
        let mut retry = Retry::default();
        loop {
            retry.attempt().await?;
            let wallet = self.settled().await?;
            let mut methods = self.methods().await?;
            let at = methods.iter().position(|method| method.id() == id).ok_or_else(Problem::not_found)?;
            let method = methods.swap_remove(at);
            self.call.knows(&method)?;
            if is_default(&method) {
                return Ok(method);
            }
            let id: Vec<_> = id.iter().map(String::as_str).collect();
            let set = self.change(&wallet).update(METHOD, &id, fields(json!({ "isDefault": true })), &method);
            match none_preferred(set, &methods).commit().await {
                Err(error) if is_lost_race(&error) => {}
                preferred => return preferred?.into_iter().next().flatten().ok_or_else(Problem::internal),
            }
        }
    }
}

/// None of these is the default one afterwards.
fn none_preferred(set: Set, methods: &[Record]) -> Set {
    methods.iter().filter(|method| is_default(method)).fold(set, |set, method| {
        let id = text(method, "paymentMethodId");
        set.update(METHOD, &[&id], fields(json!({ "isDefault": false })), method)
    })
}

pub(super) fn is_default(method: &Record) -> bool {
    method.get("isDefault") == Some(&Value::Boolean(true))
}

/// The method that the path names.
fn named(desk: &Desk) -> Result<String, Problem> {
    desk.call.parameter("paymentMethodId").map(str::to_owned).ok_or_else(Problem::not_found)
}

fn card_number() -> Problem {
    let detail =
        "This is a card number. Never send one: give it to the payment provider, and send the token that it gives.";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail).at("token", "Is a card number, not a token.")
}
