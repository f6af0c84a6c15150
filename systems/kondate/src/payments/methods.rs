//! Payment methods: added by a token of the provider, one of them the default, removed here and at the provider.

use nagaya_server::{Answer, Problem, ProblemCode, request_body};
use nagaya_store::Value;
use nagaya_tenancy::{ChangeSet, List, Record};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    CardToken, METHOD_ENTITY, PaymentCall, PaymentError,
    subscription::Subscription,
    text,
    wallet::{PendingPayment, Wallet, commit_or_lost_race},
};
use crate::product::{find, object_fields, retry_lost_races, unless_lost_race};

pub(super) const ADD_SUMMARY: &str =
    "Adds a payment method by the provider's token for it; 200 if it is there already.";
pub(super) const DEFAULT_SUMMARY: &str = "Makes a payment method the default one, in place of another.";
pub(super) const REMOVE_SUMMARY: &str = "Removes a payment method, here and at the provider.";
/// The most methods of a user.
const MAX_METHODS: usize = 20;

request_body! {
    /// The body that adds a method.
    pub(super) struct NewMethod of METHOD_ENTITY {
        token: String = "token" as "providerToken",
        is_default: Option<bool> = "isDefault",
    }
}

/// Adds a method: 201 with the public data of the card. The first method is the default.
///
/// The same token again gives the existing method with 200, so that a client can repeat the request.
pub(super) async fn add(call: PaymentCall) -> Result<Answer, Problem> {
    let new: NewMethod = call.http.parse_body()?;
    // It is a token. A card number is neither stored nor logged.
    let token = CardToken::new(&new.token).ok_or_else(card_number)?;
    let make_default = new.is_default == Some(true);
    // The provider accepts it.
    let card = call.payments.attach_card(&token).await?;

    let added = retry_lost_races(|| async {
        let wallet = call.without_pending_payment().await?;
        let methods = call.methods().await?;
        if let Some(there) = call.with_token(&methods, &token).await? {
            let there = match make_default && !is_default_method(there) {
                true => call.set_default(&there.id()).await?,
                false => there.clone(),
            };
            return Ok(Some(Answer::record(there)));
        }
        if methods.len() >= MAX_METHODS {
            let detail = format!("There are {MAX_METHODS} payment methods: remove one first.");
            return Err(Problem::conflict("too_many", detail));
        }
        let is_default_now = make_default || !methods.iter().any(is_default_method);
        let method = json!({
            "provider": call.payments.name(),
            "providerToken": token.expose(),
            "brand": card.brand,
            "last4": card.last4,
            "expMonth": card.exp_month,
            "expYear": card.exp_year,
            "isDefault": is_default_now,
        });
        let set = call.change(&wallet).create(METHOD_ENTITY, object_fields(method));
        let set = if is_default_now { unset_default(set, &methods) } else { set };
        let Some(added) = unless_lost_race(set.commit().await)? else { return Ok(None) };
        let method = added.into_iter().next().flatten().ok_or_else(Problem::internal)?;
        let place = call.http.location(&format!("/payment-methods/{}", text(&method, "paymentMethodId")));
        Ok(Some(Answer::created(method, &place)))
    });
    added.await
}

/// Makes a method the default one: 200 with it.
pub(super) async fn make_default(call: PaymentCall) -> Result<Answer, Problem> {
    call.set_default(&[method_in_path(&call)?]).await.map(Answer::record)
}

/// Removes a method: 204. The card is removed at the provider first, so that no unknown card stays there.
///
/// No other method becomes the default: the user decides which card is charged.
pub(super) async fn remove(call: PaymentCall) -> Result<Answer, Problem> {
    let id = method_in_path(&call)?;
    let removed = retry_lost_races(|| async {
        let wallet = call.without_pending_payment().await?;
        let method = call.tenant.get(METHOD_ENTITY, &[&id]).await?;
        call.http.check_if_match(&method)?;
        // No subscription is paid with it.
        let pays = |record: Option<Record>| -> Result<bool, Problem> {
            let subscription = record.map(|record| record.deserialize::<Subscription>()).transpose()?;
            Ok(subscription.is_some_and(|paid| paid.is_running() && paid.payment_method_id.as_ref() == Some(&id)))
        };
        if pays(call.subscription().await?)? && pays(call.present_subscription().await?)? {
            let detail = "The subscription is paid with it: cancel that, and wait for its end.";
            return Err(Problem::conflict("in_use", detail));
        }

        let removal = Removal { method: id.clone() };
        if !call.store_pending(&wallet, &PendingPayment::Removal(removal)).await? {
            return Ok(None);
        }
        call.without_pending_payment().await?;
        Ok(Some(Answer::no_content()))
    });
    removed.await
}

/// A pending removal of a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Removal {
    method: String,
}

impl Removal {
    /// Removes the card at the provider, and then the method.
    pub(super) async fn complete(&self, call: &PaymentCall, wallet: &Wallet) -> Result<(), Problem> {
        let found = find(&call.tenant, METHOD_ENTITY, &[&self.method]).await?;
        let Some(method) = found else { return commit_or_lost_race(call.change(wallet)).await.map(drop) };
        match call.token(&self.method).await? {
            Some(token) if call.check_provider(&method).is_ok() => match call.payments.detach_card(&token).await {
                Err(PaymentError::Unavailable) => return Err(PaymentError::Unavailable.into()),
                // The provider does not know the card.
                Err(PaymentError::Declined(reason)) => {
                    tracing::warn!(%reason, "the payment provider did not remove a card");
                }
                Ok(()) => {}
            },
            _ => tracing::warn!("a card stays at a provider that is no longer used"),
        }
        commit_or_lost_race(call.change(wallet).delete(METHOD_ENTITY, &[&self.method], &method)).await.map(drop)
    }
}

impl PaymentCall {
    /// All methods.
    pub(super) async fn methods(&self) -> Result<Vec<Record>, Problem> {
        Ok(self.tenant.list(&List::by("payment_methods").limit(MAX_METHODS)).await?.records)
    }

    /// The method with this token.
    async fn with_token<'m>(&self, methods: &'m [Record], token: &CardToken) -> Result<Option<&'m Record>, Problem> {
        for method in methods {
            if self.token(&text(method, "paymentMethodId")).await?.as_ref() == Some(token) {
                return Ok(Some(method));
            }
        }
        Ok(None)
    }

    /// Makes a method the default one, in place of another.
    async fn set_default(&self, id: &[String]) -> Result<Record, Problem> {
        let preferred = retry_lost_races(|| async {
            let wallet = self.without_pending_payment().await?;
            let mut methods = self.methods().await?;
            let at = methods.iter().position(|method| method.id() == id).ok_or_else(Problem::not_found)?;
            let method = methods.swap_remove(at);
            self.http.check_if_match(&method)?;
            if is_default_method(&method) {
                return Ok(Some(method));
            }
            let id: Vec<_> = id.iter().map(String::as_str).collect();
            let set =
                self.change(&wallet).update(METHOD_ENTITY, &id, object_fields(json!({ "isDefault": true })), &method);
            let Some(preferred) = unless_lost_race(unset_default(set, &methods).commit().await)? else {
                return Ok(None);
            };
            preferred.into_iter().next().flatten().ok_or_else(Problem::internal).map(Some)
        });
        preferred.await
    }
}

/// Makes these methods no longer the default.
fn unset_default(set: ChangeSet, methods: &[Record]) -> ChangeSet {
    methods.iter().filter(|method| is_default_method(method)).fold(set, |set, method| {
        let id = text(method, "paymentMethodId");
        set.update(METHOD_ENTITY, &[&id], object_fields(json!({ "isDefault": false })), method)
    })
}

pub(super) fn is_default_method(method: &Record) -> bool {
    method.get("isDefault") == Some(&Value::Boolean(true))
}

/// The method that the path names.
fn method_in_path(call: &PaymentCall) -> Result<String, Problem> {
    call.http.path_parameter("paymentMethodId").map(str::to_owned).ok_or_else(Problem::not_found)
}

fn card_number() -> Problem {
    let detail =
        "This is a card number. Never send one: give it to the payment provider, and send the token that it gives.";
    Problem::from_code(ProblemCode::INVALID, detail).with_field("token", "Is a card number, not a token.")
}
