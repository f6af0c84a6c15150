//! Purchases: a recipe or set of the catalog, paid once per idempotency key.

use nagaya_design::{Design, FieldError};
use nagaya_server::{Answer, Problem, RequestBody as _, request_body};
use nagaya_tenancy::{ChangeSet, Error, ErrorKind, Record, RecordOwner, SideRecord, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{
    CURRENCY, ChargeId, PURCHASE_ENTITY, PaymentCall, PaymentError, text,
    wallet::{PendingPayment, Wallet, commit_or_lost_race},
};
use crate::{
    catalog::{Kind, find_copy, price::price_of},
    notifications::notification_fields,
    product::{find, object_fields, retry_lost_races},
};

pub(super) const BUY_SUMMARY: &str =
    "Buys a recipe or set of the catalog at its price. Own items and items that were bought already are refused.";

request_body! {
    /// The body of a purchase.
    struct PurchaseRequest of PURCHASE_ENTITY {
        target_type: String = "targetType",
        target_id: String = "targetId",
        payment_method_id: Option<String> = "paymentMethodId",
        amount: Option<f64> = "amount",
    }
}

/// The JSON Schema of the body.
pub(super) fn schema(design: &Design) -> Json {
    let mut schema = PurchaseRequest::schema(design);
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
/// The idempotency key is required: without it, a repeated request would be charged again. The result is stored under the key
/// for good, and is the answer to every request with the key. An item cannot be bought again with another key: 409, unless it
/// was free then and costs something now.
pub(super) async fn buy(call: PaymentCall) -> Result<Answer, Problem> {
    let order: PurchaseRequest = call.http.parse_body()?;
    let kind = Kind::from_link_name(&order.target_type).ok_or_else(not_for_sale)?;
    let key = call.http.idempotency_key()?.ok_or_else(idempotency_key_required)?;
    let request = serde_json::to_string(&call.http.body).unwrap_or_default();

    let record_named = async |name: &str| call.tenant.side_record(PURCHASE_ENTITY, RecordOwner::Tenant, name).await;
    let answer = retry_lost_races(|| async {
        let wallet = call.without_pending_payment().await?;
        // The key was not used yet.
        if let Some(receipt) = record_named(&receipt_record_name(key)).await? {
            return call.earlier_result(&receipt, &request).await.map(Some);
        }
        // The item was not bought with another key. A concurrent purchase from here on changes the wallet that was read before.
        let bought = match record_named(&bought_record_name(&order.target_type, &order.target_id)).await? {
            Some(bought) => call.lasting_purchase(&bought).await?,
            None => None,
        };
        if bought.as_ref().is_some_and(has_amount) {
            return Err(already_bought());
        }
        let purchase = call.offer(kind, &order).await?;
        // What was free when it was bought is bought once more only if it costs something now.
        if bought.is_some() && purchase.amount == 0 {
            return Err(already_bought());
        }
        let buying = PendingPurchase { key: key.to_owned(), request: request.clone(), purchase };
        call.store_pending(&wallet, &PendingPayment::Buying(buying)).await?;
        // The next attempt completes the pending payment, this one or another.
        Ok(None)
    });
    answer.await
}

/// Which of these targets a user has paid for, by type and id. It reads the targets' records and their purchases,
/// each at once, however much the user has bought.
pub(crate) async fn find_paid_targets(user: &Tenant, targets: &[(&str, &str)]) -> Result<Vec<bool>, Error> {
    let names: Vec<_> = targets.iter().map(|(target_type, id)| bought_record_name(target_type, id)).collect();
    let bought = user.side_records_named(PURCHASE_ENTITY, &names).await?;
    let ids: Vec<_> = bought.iter().map(|bought| bought.as_ref().map(purchase_id)).collect();
    let wanted: Vec<_> = ids.iter().flatten().map(|id| (PURCHASE_ENTITY, id.as_slice())).collect();
    let mut purchases = user.get_many(&wanted).await?.into_iter();
    let is_paid = |id: &Option<_>| {
        let purchase = id.as_ref().and_then(|_| purchases.next()).flatten();
        purchase.is_some_and(|purchase| lasts(&purchase) && has_amount(&purchase))
    };
    Ok(ids.iter().map(is_paid).collect())
}

/// The id of the purchase that a record of a bought item names.
fn purchase_id(bought: &SideRecord) -> [&str; 2] {
    ["purchasedAt", "purchaseId"].map(|field| bought.text(field).unwrap_or_default())
}

/// Whether a purchase was paid, or free of charge, and was not refunded since.
fn lasts(purchase: &Record) -> bool {
    purchase.text("status") == Some("paid")
}

/// Whether something was paid. What was free when it was bought has to be paid when it costs something.
fn has_amount(purchase: &Record) -> bool {
    purchase.json("amount").and_then(|amount| amount.as_u64()).is_some_and(|amount| amount > 0)
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

/// A pending purchase. Its price and payment method are fixed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingPurchase {
    key: String,
    request: String,
    purchase: Purchase,
}

impl PendingPurchase {
    /// Charges it, and stores the result.
    pub(super) async fn complete(&self, call: &PaymentCall, wallet: &Wallet) -> Result<(), Problem> {
        let Purchase { purchased_at, purchase_id, .. } = &self.purchase;
        let mut item = object_fields(json!(self.purchase));
        let mut receipt = json!({ "request": self.request, "purchasedAt": purchased_at, "purchaseId": purchase_id });
        let paid = self.charge(call).await?;
        match &paid {
            Ok(charge) => receipt["charge"] = json!(charge.as_ref().map(|ChargeId(id)| id)),
            Err(reason) => receipt["declined"] = json!(reason),
        }
        item.insert("status".to_owned(), if paid.is_ok() { "paid" } else { "failed" }.into());

        let set = call.change(wallet).create(PURCHASE_ENTITY, item);
        let set = set.side_record(
            PURCHASE_ENTITY,
            RecordOwner::Tenant,
            &receipt_record_name(&self.key),
            Some(object_fields(receipt)),
            None,
        );
        let set =
            if paid.is_ok() { self.add_receipt_notification(self.add_bought_record(call, set).await?) } else { set };
        commit_or_lost_race(set).await.map(drop)
    }

    /// Charges the amount, unless it is 0; or returns why it was declined.
    async fn charge(&self, call: &PaymentCall) -> Result<Result<Option<ChargeId>, String>, Problem> {
        let Purchase { amount, currency, purchase_id, payment_method_id, .. } = &self.purchase;
        let Some(method) = payment_method_id.as_ref().filter(|_| *amount > 0) else { return Ok(Ok(None)) };
        let token = match call.chargeable_token(method).await? {
            Ok(token) => token,
            Err(reason) => return Ok(Err(reason)),
        };
        match call.payments.charge(&token, *amount, currency, purchase_id).await {
            Ok(charge) => Ok(Ok(Some(charge))),
            Err(PaymentError::Declined(reason)) => Ok(Err(reason)),
            Err(PaymentError::Unavailable) => Err(PaymentError::Unavailable.into()),
        }
    }

    /// Adds the record that the item is bought, in place of that of a purchase that was refunded.
    async fn add_bought_record(&self, call: &PaymentCall, set: ChangeSet) -> Result<ChangeSet, Error> {
        let Purchase { purchased_at, purchase_id, .. } = &self.purchase;
        let by = bought_record_fields(purchased_at, purchase_id);
        let name = bought_record_name(&self.purchase.target_type, &self.purchase.target_id);
        let refunded = call.tenant.side_record(PURCHASE_ENTITY, RecordOwner::Tenant, &name).await?;
        Ok(set.side_record(PURCHASE_ENTITY, RecordOwner::Tenant, &name, Some(by), refunded.as_ref()))
    }

    fn add_receipt_notification(&self, set: ChangeSet) -> ChangeSet {
        let Purchase { title, amount, currency, .. } = &self.purchase;
        let paid = if *amount == 0 { "Free of charge.".to_owned() } else { format!("Paid: {amount} {currency}.") };
        set.create("notification", notification_fields("receipt", title, &paid))
    }
}

impl PaymentCall {
    /// The ordered item, at the price that the catalog has now.
    async fn offer(&self, kind: Kind, order: &PurchaseRequest) -> Result<Purchase, Problem> {
        // It is in the catalog.
        let offered = find_copy(&self.http, kind, &order.target_id).await?.ok_or_else(Problem::not_found)?;
        // It is not the caller's own.
        if offered.text("creatorId") == Some(&*self.tenant.principal().tenant) {
            return Err(own_item());
        }
        // The price is the one that the buyer has seen.
        let amount = price_of(&offered).unwrap_or_default();
        let whole = u32::try_from(amount).ok().map(f64::from);
        if order.amount.is_some_and(|seen| Some(seen) != whole) {
            return Err(price_changed(amount));
        }
        // A named payment method has to exist; a free item needs none.
        let named = order.payment_method_id.as_deref();
        let payment_method_id = if amount == 0 && named.is_none() { None } else { Some(self.method(named).await?) };
        Ok(Purchase {
            purchased_at: self.http.timestamp_now(PURCHASE_ENTITY, "purchasedAt"),
            purchase_id: self.http.ids().ulid(self.http.now_millis()),
            target_type: order.target_type.clone(),
            target_id: order.target_id.clone(),
            title: text(&offered, "title"),
            amount,
            currency: CURRENCY.to_owned(),
            payment_method_id,
        })
    }

    /// The purchase that a record of a bought item names, unless it was refunded: then the item can be bought again.
    async fn lasting_purchase(&self, bought: &SideRecord) -> Result<Option<Record>, Error> {
        Ok(find(&self.tenant, PURCHASE_ENTITY, &purchase_id(bought)).await?.filter(lasts))
    }

    /// The result of a purchase, for a repeated request.
    async fn earlier_result(&self, receipt: &SideRecord, request: &str) -> Result<Answer, Problem> {
        let text = |name: &str| receipt.text(name).unwrap_or_default();
        if text("request") != request {
            return Err(Error::from(ErrorKind::IdempotencyKeyReused).into());
        }
        if let Some(reason) = receipt.text("declined") {
            return Err(PaymentError::Declined(reason.to_owned()).into());
        }
        let (at, id) = (text("purchasedAt"), text("purchaseId"));
        let purchase = self.tenant.get(PURCHASE_ENTITY, &[at, id]).await?;
        Ok(Answer::created(purchase, &self.http.location(&format!("/purchases/{at}/{id}"))))
    }
}

fn not_for_sale() -> Problem {
    let message = "has to be RECIPE or SET; a subscription is started by POST /subscription".to_owned();
    Error::from(ErrorKind::Invalid(vec![FieldError { path: "targetType".to_owned(), message }])).into()
}

/// The name of the record with the result of a purchase.
fn receipt_record_name(key: &str) -> String {
    format!("purchase-{key}")
}

/// The fields of the record that an item is bought: they name the purchase.
pub(crate) fn bought_record_fields(purchased_at: &Json, purchase_id: &str) -> Map<String, Json> {
    object_fields(json!({ "purchasedAt": purchased_at, "purchaseId": purchase_id }))
}

/// The name of the record that an item is bought.
pub(crate) fn bought_record_name(target_type: &str, target_id: &str) -> String {
    format!("bought-{target_type}-{target_id}")
}

fn already_bought() -> Problem {
    let detail = "Already bought: see `GET /purchases`. You were not charged again.";
    Problem::conflict("already_bought", detail)
}

fn own_item() -> Problem {
    let detail = "It is your own item: you cannot buy it.";
    Problem::conflict("own_item", detail)
}

fn price_changed(amount: u64) -> Problem {
    let detail = format!("It costs {amount} {CURRENCY} now: send that `amount` to buy it. Nothing has been charged.");
    Problem::conflict("price_changed", detail)
}

fn idempotency_key_required() -> Problem {
    let detail = "Send a new `Idempotency-Key` for each purchase, and the same one again to repeat a request: \
                  so nothing is paid twice.";
    Problem::bad_request("idempotency_key_required", detail).with_parameter("Idempotency-Key", "Is missing.")
}
