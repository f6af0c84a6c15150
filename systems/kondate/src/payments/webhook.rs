//! Messages that the payment provider sends: they say that a subscription has changed.
//!
//! A message is only a reason to ask the provider for the present state. So it does not matter whether messages arrive twice, late or in
//! another order, and no state is taken from them.

use std::{fmt, sync::Arc};

use axum::http::{HeaderMap, StatusCode};
use hmac::{Hmac, Mac as _};
use nagaya_server::{Answer, Call, Problem};
use nagaya_tenancy::{ChangeSet, RecordOwner};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{PaymentCall, PaymentSettings, SUBSCRIPTION_ENTITY, SubscriptionStatus};
use crate::product::object_fields;

pub(super) const SUMMARY: &str = "Takes messages of the payment provider, which signs them: 401 `bad_signature` otherwise. 204 also for a \
                                  message that was there before, or that says nothing of a subscription.";
/// How far the time of a message may be from the present, in seconds: an older one is a replay.
const TOLERANCE_SECONDS: i64 = 5 * 60;
/// Signatures of a message that are tried: while a secret is replaced, there are two.
const MAX_SIGNATURES: usize = 5;

/// A message as it was received.
#[derive(Debug)]
pub struct WebhookMessage<'m> {
    /// Its headers, one of which has the signature.
    pub headers: &'m HeaderMap,
    /// Its body, byte for byte.
    pub body: &'m [u8],
    /// The present time, in milliseconds since 1970.
    pub now_millis: i64,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookEvent {
    /// A subscription with this id at the provider has changed, or was charged.
    SubscriptionChanged(String),
    /// Something else.
    Other,
}

/// Why a message is refused: the provider has not sent it just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookError(pub &'static str);

impl fmt::Display for WebhookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for WebhookError {}

impl WebhookMessage<'_> {
    /// Verifies a signature of the form that many providers use, in a header `t=<seconds since 1970>,v1=<hexadecimal HMAC-SHA-256>` of the
    /// text `<seconds>.<body>`. The comparison takes the same time whatever the signature is.
    pub fn verify(&self, header: &str, secret: &[u8]) -> Result<(), WebhookError> {
        let signature = self.headers.get(header).ok_or(WebhookError("The signature is missing."))?;
        let malformed = WebhookError("The signature is malformed.");
        let signature = signature.to_str().map_err(|_| malformed.clone())?;
        let parts = || signature.split(',').filter_map(|part| part.trim().split_once('='));
        let time = parts().find(|(name, _)| *name == "t").map(|(_, time)| time).ok_or(malformed.clone())?;
        let seconds: i64 = time.parse().map_err(|_| malformed.clone())?;
        let mac = message_mac(secret, time, self.body);
        let given = parts().filter(|(name, _)| *name == "v1").take(MAX_SIGNATURES);
        let mut is_signed = false;
        for given in given.filter_map(|(_, text)| decode_hex(text)) {
            is_signed |= mac.clone().verify_slice(&given).is_ok();
        }
        if !is_signed {
            return Err(WebhookError("The signature does not fit the message."));
        }
        // Only a time that is signed counts.
        if seconds.abs_diff(self.now_millis.div_euclid(1_000)) > TOLERANCE_SECONDS.unsigned_abs() {
            return Err(WebhookError("The message is too old, or of the future."));
        }
        Ok(())
    }
}

/// The header that [`WebhookMessage::verify`] accepts, for development and tests.
pub fn webhook_signature(secret: &[u8], seconds: i64, body: &[u8]) -> String {
    let mac = message_mac(secret, &seconds.to_string(), body).finalize().into_bytes();
    format!("t={seconds},v1={mac:x}")
}

fn message_mac(secret: &[u8], time: &str, body: &[u8]) -> Hmac<Sha256> {
    keyed(secret).chain_update(time).chain_update(".").chain_update(body)
}

fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    // The same as HMAC says of a key that is longer than a block: a key of any length is accepted.
    let key = if secret.len() > 64 { Sha256::digest(secret).to_vec() } else { secret.to_vec() };
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(&key);
    Hmac::new(&block.into())
}

/// The bytes of a hexadecimal text.
fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits: Option<Vec<u8>> = text.as_bytes().iter().map(digit).collect();
    digits
        .filter(|digits| digits.len() % 2 == 0)
        .map(|digits| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Takes a message: refreshes the subscription that it is about.
pub(super) async fn receive(call: Arc<Call>, settings: PaymentSettings) -> Result<Answer, Problem> {
    let PaymentSettings { provider: payments, plans } = settings;
    // The provider has sent it, just now.
    let message = WebhookMessage { headers: &call.headers, body: &call.raw_body, now_millis: call.now_millis() };
    let event = payments
        .webhook_event(&message)
        .map_err(|error| Problem::new(StatusCode::UNAUTHORIZED, "bad_signature", error.to_string()))?;
    let WebhookEvent::SubscriptionChanged(subscription) = event else { return Ok(Answer::no_content()) };

    // Whoever sent it learns nothing of the users: what is not known here is answered in the same way.
    let name = subscriber_record_name(payments.name(), &subscription);
    let known = call.unaudited_operator().side_record(SUBSCRIPTION_ENTITY, RecordOwner::System, &name).await?;
    let Some(user) = known.as_ref().and_then(|known| known.text("user")) else { return Ok(Answer::no_content()) };
    let tenant = call.on_behalf_of(user)?;
    let call = PaymentCall { http: Arc::clone(&call), tenant, payments, plans };
    match call.refresh_record().await {
        Err(problem) if !matches!(problem.code(), "not_found" | "other_provider") => Err(problem),
        _ => Ok(Answer::no_content()),
    }
}

impl PaymentCall {
    /// Adds the record that messages about a subscription find its user by; and whether there was none.
    pub(super) async fn add_subscriber(
        &self,
        set: ChangeSet,
        status: &SubscriptionStatus,
    ) -> Result<(ChangeSet, bool), Problem> {
        let name = subscriber_record_name(self.payments.name(), &status.subscription);
        let known = self.tenant.side_record(SUBSCRIPTION_ENTITY, RecordOwner::System, &name).await?;
        if known.is_some() {
            return Ok((set, false));
        }
        let user = object_fields(json!({ "user": &*self.tenant.principal().tenant }));
        Ok((set.side_record(SUBSCRIPTION_ENTITY, RecordOwner::System, &name, Some(user), None), true))
    }
}

/// The name of the record with the user of a subscription. Ids of providers can have any characters, so it has their hash.
fn subscriber_record_name(provider: &str, subscription: &str) -> String {
    format!("subscriber-{:x}", Sha256::digest(format!("{provider}\n{subscription}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mac_is_that_of_rfc_4231() {
        let mac = keyed(b"Jefe").chain_update("what do ya want for nothing?").finalize().into_bytes();
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(format!("{mac:x}"), expected);
        let mac = keyed(&[0xaa; 131]).chain_update("Test Using Larger Than Block-Size Key - Hash Key First");
        let expected = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        assert_eq!(format!("{:x}", mac.finalize().into_bytes()), expected);
    }

    #[test]
    fn only_a_fresh_message_with_its_signature_is_accepted() {
        const NOW: i64 = 1_893_456_000;
        let check = |signature: &str, body: &str, expected: Result<(), &'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert("signature", signature.parse().expect("a header"));
            let message = WebhookMessage { headers: &headers, body: body.as_bytes(), now_millis: NOW * 1_000 };
            assert_eq!(message.verify("signature", b"secret").map_err(|error| error.0), expected, "{signature}");
        };
        let fits = |seconds| webhook_signature(b"secret", seconds, b"{}");
        let (unfit, old) = ("The signature does not fit the message.", "The message is too old, or of the future.");
        for seconds in [NOW, NOW - 300, NOW + 300] {
            check(&fits(seconds), "{}", Ok(()));
        }
        for seconds in [NOW - 301, NOW + 301, 0, i64::MIN, i64::MAX] {
            check(&fits(seconds), "{}", Err(old));
        }
        check(&fits(NOW), "{ }", Err(unfit));
        check(&webhook_signature(b"other", NOW, b"{}"), "{}", Err(unfit));
        // Another time than the signed one, a part of the signature, and none.
        check(&fits(NOW - 1_000).replace(&(NOW - 1_000).to_string(), &NOW.to_string()), "{}", Err(unfit));
        check(&fits(NOW)[..fits(NOW).len() - 2], "{}", Err(unfit));
        check(&format!("t={NOW},v1="), "{}", Err(unfit));
        check(&format!("t={NOW},v1=zz"), "{}", Err(unfit));
        check(&format!("t={NOW}"), "{}", Err(unfit));
        for malformed in ["", "v1=00", "t=,v1=00", "t=now,v1=00"] {
            check(malformed, "{}", Err("The signature is malformed."));
        }
        // Two signatures, while the secret is replaced.
        let both = format!(
            "{},v1={}",
            webhook_signature(b"old", NOW, b"{}"),
            fits(NOW).split_once("v1=").expect("two parts").1
        );
        check(&both, "{}", Ok(()));
        let message = WebhookMessage { headers: &HeaderMap::new(), body: b"{}", now_millis: NOW * 1_000 };
        assert_eq!(message.verify("signature", b"secret"), Err(WebhookError("The signature is missing.")));
    }
}
