//! The charges of a subscription in the purchase history.
//!
//! The provider charges by itself, so it is asked for its charges. Each is a purchase whose id follows from the id of the charge: to
//! store the same charges again changes nothing.

use nagaya_server::Problem;
use nagaya_tenancy::ChangeSet;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{PURCHASE_ENTITY, PaymentCall, PaymentError, SubscriptionCharge};
use crate::product::object_fields;

/// Charges that are stored at once: the last ones.
const MAX_CHARGES: usize = 24;

/// What the purchases of a subscription's charges say of it.
pub(super) struct ChargedSubscription<'s> {
    pub(super) plan: &'s str,
    pub(super) payment_method_id: Option<&'s str>,
}

impl PaymentCall {
    /// The charges of a subscription. A provider that declines to tell them keeps nobody from subscribing.
    pub(super) async fn charges_of(&self, subscription: &str) -> Result<Vec<SubscriptionCharge>, Problem> {
        match self.payments.subscription_charges(subscription).await {
            Err(PaymentError::Declined(reason)) => {
                tracing::warn!(%reason, "the payment provider does not tell the charges of a subscription");
                Ok(Vec::new())
            }
            charges => Ok(charges?),
        }
    }

    /// Adds the charges that are not stored yet to a change set, and the changes of those that are; and whether there were any.
    pub(super) async fn add_charges(
        &self,
        mut set: ChangeSet,
        subscription: &ChargedSubscription<'_>,
        mut charges: Vec<SubscriptionCharge>,
    ) -> Result<(ChangeSet, bool), Problem> {
        // What costs nothing is no purchase.
        charges.retain(|charge| charge.amount > 0);
        charges.sort_by_key(|charge| std::cmp::Reverse(charge.charged_at));
        charges.truncate(MAX_CHARGES);
        let keys: Vec<[String; 2]> = charges.iter().map(|charge| self.purchase_key(charge)).collect();
        let keys: Vec<_> = keys.iter().map(|[at, id]| [at.as_str(), id.as_str()]).collect();
        let wanted: Vec<_> = keys.iter().map(|key| (PURCHASE_ENTITY, key.as_slice())).collect();
        let stored = self.tenant.get_many(&wanted).await?;
        let mut has_changes = false;
        for ((charge, key), stored) in charges.iter().zip(&keys).zip(stored) {
            let status = charge.state.name();
            match stored {
                Some(stored) if stored.text("status") == Some(status) => continue,
                Some(stored) => {
                    set = set.update(PURCHASE_ENTITY, key, object_fields(json!({ "status": status })), &stored);
                }
                None => {
                    let [at, id] = key;
                    let mut item = object_fields(json!({
                        "purchasedAt": at,
                        "purchaseId": id,
                        "targetType": "SUBSCRIPTION",
                        "targetId": subscription.plan,
                        "title": subscription.plan,
                        "amount": charge.amount,
                        "currency": charge.currency,
                        "status": status,
                    }));
                    item.extend(
                        subscription.payment_method_id.map(|method| ("paymentMethodId".to_owned(), method.into())),
                    );
                    set = set.create(PURCHASE_ENTITY, item);
                }
            }
            has_changes = true;
        }
        Ok((set, has_changes))
    }

    /// The key of a charge's purchase: its time, and an id that follows from those of the provider and the charge.
    fn purchase_key(&self, charge: &SubscriptionCharge) -> [String; 2] {
        let at = self.http.timestamp(PURCHASE_ENTITY, "purchasedAt", charge.charged_at);
        let hash = Sha256::digest(format!("{}\n{}", self.payments.name(), charge.id));
        [at.as_str().unwrap_or_default().to_owned(), ulid(charge.charged_at, &hash)]
    }
}

/// A ULID of a time and of the first bits of a hash.
fn ulid(millis: i64, hash: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    const RANDOM_BITS: u32 = 80;
    let random = hash.iter().take(10).fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
    // 48 bits are enough until the year 10889.
    let time = u128::try_from(millis).unwrap_or_default() & 0xffff_ffff_ffff;
    let bits = time << RANDOM_BITS | random;
    (0..26).rev().map(|digit| char::from(DIGITS[(bits >> (5 * digit) & 31) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_charge_is_a_ulid_of_its_time() {
        assert_eq!(ulid(0, &[0; 10]), "0".repeat(26));
        assert_eq!(ulid(1_469_918_176_385, &[0xff; 10]), "01ARYZ6S41ZZZZZZZZZZZZZZZZ");
        assert_ne!(ulid(1, &Sha256::digest("ch_1")), ulid(1, &Sha256::digest("ch_2")));
    }
}
