//! Purchases: a recipe or set of the catalog, paid once under the caller's key.

use axum::http::{StatusCode, header};
use nagaya_design::{Design, Problem as Unfit};
use nagaya_server::{Answer, Problem, Shape};
use nagaya_tenancy::{Error, ErrorKind, Keeper, List, Note, Retry, Set};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{
    ChargeId, Desk, PURCHASE, Refused, text,
    wallet::{Act, Wallet, done},
};
use crate::{notifications::notification, product::fields};

/// What prices are in.
const CURRENCY: &str = "JPY";

/// What somebody says who buys.
const BOUGHT: Shape = Shape {
    entity: PURCHASE,
    fields: &[
        ("targetType", "targetType"),
        ("targetId", "targetId"),
        ("paymentMethodId", "paymentMethodId"),
        ("amount", "amount"),
    ],
    required: &["targetType", "targetId"],
};

/// The JSON Schema of that.
pub(super) fn schema(design: &Design) -> Json {
    let mut schema = BOUGHT.schema(design);
    schema["properties"]["targetType"] = json!({ "type": "string", "enum": ["RECIPE", "SET"] });
    let says = [
        ("targetId", "Somebody else's (409 `own_item` otherwise), and not bought yet (409 `already_bought`)."),
        ("amount", "The price that was seen. If it is another one now, nothing is bought: 409 `price_changed`."),
    ];
    for (field, what) in says {
        schema["properties"][field]["description"] = what.into();
    }
    schema
}

/// Buys something at the price that the catalog has: 201 with the purchase, 402 if it is not paid.
///
/// The key is needed: without it, a repeated request would be paid again. What comes of it is kept under the key for good, and
/// is the answer whenever the key comes again. Under another key nobody pays again for what is paid: 409.
pub(super) async fn buy(desk: Desk) -> Result<Answer, Problem> {
    BOUGHT.check(desk.call.design(), &desk.call.body)?;
    let catalog = catalog(&desk.call.body)?;
    let key = desk.call.idempotency_key()?.ok_or_else(no_key)?;
    let request = serde_json::to_string(&desk.call.body).unwrap_or_default();

    let mut retry = Retry::default();
    loop {
        retry.attempt().await?;
        let wallet = desk.settled().await?;
        // What has been bought under the key is not bought again.
        if let Some(slip) = desk.tenant.note(PURCHASE, Keeper::Tenant, &slip_of(key)).await? {
            return desk.bought(&slip, &request).await;
        }
        // It is not paid under another one. Whoever pays for it from here on changes the wallet that was read before.
        if desk.tenant.note(PURCHASE, Keeper::Tenant, &bought_of(&desk.call.body)).await?.is_some() {
            return Err(already_bought());
        }
        let purchase = desk.offer(catalog).await?;
        let buying = Buying { key: key.to_owned(), request: request.clone(), purchase };
        // Whether this or another one is under way then, it is settled next.
        desk.begin(&wallet, &Act::Buying(buying)).await?;
    }
}

/// A purchase before it is paid, as its item will be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Purchase {
    purchased_at: Json,
    /// Also the key under which the provider charges it.
    purchase_id: String,
    target_type: String,
    target_id: String,
    title: String,
    amount: u64,
    currency: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_method_id: Option<String>,
}

/// A purchase that is under way. What it costs and who pays is settled, however late it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Buying {
    key: String,
    request: String,
    purchase: Purchase,
}

impl Buying {
    /// Has it paid, and writes down what came of it.
    pub(super) async fn end(&self, desk: &Desk, wallet: &Wallet) -> Result<(), Problem> {
        let Purchase { purchased_at, purchase_id, .. } = &self.purchase;
        let mut item = fields(json!(self.purchase));
        let mut slip = json!({ "request": self.request, "purchasedAt": purchased_at, "purchaseId": purchase_id });
        let paid = self.charge(desk).await?;
        match &paid {
            Ok(charge) => slip["charge"] = json!(charge.as_ref().map(|ChargeId(id)| id)),
            Err(reason) => slip["declined"] = json!(reason),
        }
        item.insert("status".to_owned(), if paid.is_ok() { "paid" } else { "failed" }.into());

        let set = desk.change(wallet).create(PURCHASE, item);
        let set = set.note(PURCHASE, Keeper::Tenant, &slip_of(&self.key), Some(fields(slip)), None);
        let set = if paid.is_ok() { self.receipt(self.bought(set)) } else { set };
        done(set).await.map(drop)
    }

    /// Has the provider take the amount, unless it is nothing; or says why it does not.
    async fn charge(&self, desk: &Desk) -> Result<Result<Option<ChargeId>, String>, Problem> {
        let Purchase { amount, currency, purchase_id, payment_method_id, .. } = &self.purchase;
        let Some(method) = payment_method_id.as_ref().filter(|_| *amount > 0) else { return Ok(Ok(None)) };
        let token = match desk.pays_with(method).await? {
            Ok(token) => token,
            Err(reason) => return Ok(Err(reason)),
        };
        match desk.payments.charge(&token, *amount, currency, purchase_id).await {
            Ok(charge) => Ok(Ok(Some(charge))),
            Err(Refused::Declined(reason)) => Ok(Err(reason)),
            Err(Refused::Unavailable) => Err(Refused::Unavailable.into()),
        }
    }

    /// Adds that it is bought.
    fn bought(&self, set: Set) -> Set {
        let Purchase { purchased_at, purchase_id, .. } = &self.purchase;
        let by = fields(json!({ "purchasedAt": purchased_at, "purchaseId": purchase_id }));
        let body = fields(json!(self.purchase));
        set.note(PURCHASE, Keeper::Tenant, &bought_of(&body), Some(by), None)
    }

    fn receipt(&self, set: Set) -> Set {
        let Purchase { title, amount, currency, .. } = &self.purchase;
        let paid = if *amount == 0 { "Free of charge.".to_owned() } else { format!("Paid: {amount} {currency}.") };
        set.create("notification", notification("receipt", title, &paid))
    }
}

impl Desk {
    /// What the body asks for, at the price that the catalog has now.
    async fn offer(&self, (access, id): (&str, &str)) -> Result<Purchase, Problem> {
        let said = |field: &str| self.call.body.get(field).and_then(Json::as_str).unwrap_or_default();
        let found = self.tenant.list(&List::by(access).with(id, said("targetId"))).await.map_err(no_id)?;
        let found = found.records.into_iter().next().ok_or_else(Problem::not_found)?;
        // It is what the catalog has, and not only an index that has not heard yet.
        let key = found.id();
        let key: Vec<_> = key.iter().map(String::as_str).collect();
        let offered = self.tenant.get(found.entity(), &key).await?;
        // It is another's.
        if offered.text("creatorId") == Some(&*self.tenant.principal().tenant) {
            return Err(own_item());
        }
        // It costs what whoever buys it has seen.
        let amount = offered.json("price").and_then(|price| price.as_u64()).unwrap_or_default();
        let whole = u32::try_from(amount).ok().map(f64::from);
        if self.call.body.get("amount").is_some_and(|seen| seen.as_f64() != whole) {
            return Err(price_changed(amount));
        }
        // Whoever names a way to pay has it; what costs nothing needs none.
        let free = amount == 0 && !self.call.body.contains_key("paymentMethodId");
        let payment_method_id = if free { None } else { Some(self.method().await?) };
        Ok(Purchase {
            purchased_at: self.call.moment(PURCHASE, "purchasedAt"),
            purchase_id: self.call.ids().ulid(self.call.now()),
            target_type: said("targetType").to_owned(),
            target_id: said("targetId").to_owned(),
            title: text(&offered, "title"),
            amount,
            currency: CURRENCY.to_owned(),
            payment_method_id,
        })
    }

    /// What came of a purchase, for whoever comes with its key.
    async fn bought(&self, slip: &Note, request: &str) -> Result<Answer, Problem> {
        let said = |name: &str| slip.text(name).unwrap_or_default();
        if said("request") != request {
            return Err(Error::from(ErrorKind::KeyReused).into());
        }
        if let Some(reason) = slip.text("declined") {
            return Err(Refused::Declined(reason.to_owned()).into());
        }
        let (at, id) = (said("purchasedAt"), said("purchaseId"));
        let mut answer = Answer::record(self.tenant.get(PURCHASE, &[at, id]).await?);
        answer.status = StatusCode::CREATED;
        answer.set(header::LOCATION, &self.call.location(&format!("/purchases/{at}/{id}")));
        Ok(answer)
    }
}

/// The access pattern that finds what is bought by its id, and what it calls the id.
fn catalog(body: &Map<String, Json>) -> Result<(&'static str, &'static str), Problem> {
    match body.get("targetType").and_then(Json::as_str) {
        Some("RECIPE") => Ok(("catalog_recipe_by_id", "recipeId")),
        Some("SET") => Ok(("catalog_set_by_id", "setId")),
        _ => {
            let message = "has to be RECIPE or SET; a subscription is started by POST /subscription".to_owned();
            Err(Error::from(ErrorKind::Invalid(vec![Unfit { path: "targetType".to_owned(), message }])).into())
        }
    }
}

/// What cannot be an id is nothing's.
fn no_id(error: Error) -> Problem {
    if matches!(error.kind(), ErrorKind::Invalid(_)) { Problem::not_found() } else { error.into() }
}

/// The note that keeps what came of a purchase.
fn slip_of(key: &str) -> String {
    format!("purchase-{key}")
}

/// The note that says that something is bought; the body and the purchase name it alike.
fn bought_of(body: &Map<String, Json>) -> String {
    let said = |field: &str| body.get(field).and_then(Json::as_str).unwrap_or_default();
    format!("bought-{}-{}", said("targetType"), said("targetId"))
}

fn already_bought() -> Problem {
    let detail = "It is bought and paid: see `GET /purchases`. Nothing has been charged.";
    Problem::new(StatusCode::CONFLICT, "already_bought", detail)
}

fn own_item() -> Problem {
    let detail = "It is your own: nobody buys from themselves.";
    Problem::new(StatusCode::CONFLICT, "own_item", detail)
}

fn price_changed(amount: u64) -> Problem {
    let detail = format!("It costs {amount} {CURRENCY} now: send that `amount` to buy it. Nothing has been charged.");
    Problem::new(StatusCode::CONFLICT, "price_changed", detail)
}

fn no_key() -> Problem {
    let detail = "Send a new `Idempotency-Key` for each purchase, and the same one again to repeat a request: \
                  so nothing is paid twice.";
    Problem::bad_request("idempotency_key_required", detail).parameter("Idempotency-Key", "Is missing.")
}
