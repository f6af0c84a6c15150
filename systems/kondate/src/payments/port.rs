//! The port: what the system needs of a payment provider.

use std::fmt;

use nagaya_server::ExtensionFuture;

use super::{
    subscription_plans::SubscriptionPlan,
    subscription_state::SubscriptionState,
    webhook::{WebhookError, WebhookEvent, WebhookMessage},
};

/// A future answer of a provider.
pub type PaymentFuture<'a, T> = ExtensionFuture<'a, Result<T, PaymentError>>;

/// A payment provider. It stores the cards; the system has only tokens for them.
///
/// Calls with a `key` are idempotent: the same key and arguments give the first answer again, a refusal included. Keys are
/// ULIDs, created before the first call. A call that fails or is not answered in time is [`PaymentError::Unavailable`], and is
/// repeated.
pub trait PaymentProvider: Send + Sync + fmt::Debug + 'static {
    /// Its name in the stored items.
    fn name(&self) -> &str;

    /// Attaches the card of a token, so that it can be charged later, and returns its public data. Attaching it again changes
    /// nothing.
    fn attach_card<'a>(&'a self, token: &'a CardToken) -> PaymentFuture<'a, Card>;

    /// Detaches the card of a token. A card that is already detached is fine.
    fn detach_card<'a>(&'a self, token: &'a CardToken) -> PaymentFuture<'a, ()>;

    /// Charges an amount, in the currency's smallest unit.
    fn charge<'a>(
        &'a self,
        token: &'a CardToken,
        amount: u64,
        currency: &'a str,
        key: &'a str,
    ) -> PaymentFuture<'a, ChargeId>;

    /// Starts a subscription to a plan, at the price of the plan. The provider renews it by itself.
    fn subscribe<'a>(
        &'a self,
        token: &'a CardToken,
        plan: &'a SubscriptionPlan,
        key: &'a str,
    ) -> PaymentFuture<'a, SubscriptionStatus>;

    /// Lets a subscription end with the period that is paid for.
    fn cancel<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus>;

    /// Revokes a cancellation, until the end of the period.
    fn resume<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus>;

    /// The status of a subscription.
    fn subscription_status<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus>;

    /// The charges of a subscription, at least the last 24. The id and the time of a charge never change.
    fn subscription_charges<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, Vec<SubscriptionCharge>>;

    /// What a message to the webhook says, if the provider has sent it just now: its signature fits, and its time is near the present.
    /// [`WebhookMessage::verify`] checks signatures of the usual form.
    fn webhook_event(&self, message: &WebhookMessage<'_>) -> Result<WebhookEvent, WebhookError>;
}

/// The public data of a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Its brand, such as `visa`.
    pub brand: String,
    /// Its last four digits.
    pub last4: String,
    /// The month of its expiry, from 1.
    pub exp_month: u8,
    /// The year of its expiry.
    pub exp_year: u16,
}

/// The id of a charge at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargeId(pub String);

/// The status of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionStatus {
    /// Its id at the provider.
    pub subscription: String,
    /// Its state.
    pub state: SubscriptionState,
    /// The end of the period that is paid for, in milliseconds since 1970.
    pub period_end: i64,
    /// Whether it ends with that period.
    pub ends_with_period: bool,
}

/// A charge that the provider has made for a subscription, or has tried to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriptionCharge {
    /// Its id at the provider.
    pub id: String,
    /// When it was made, in milliseconds since 1970.
    pub charged_at: i64,
    /// The amount, in the currency's smallest unit.
    pub amount: u64,
    /// The currency, such as `JPY`.
    pub currency: String,
    /// Its state.
    pub state: ChargeState,
}

/// The state of a charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeState {
    /// Paid.
    Paid,
    /// The money was given back.
    Refunded,
    /// Not paid, so far.
    Failed,
}

impl ChargeState {
    /// Its name in a purchase.
    pub fn name(self) -> &'static str {
        match self {
            ChargeState::Paid => "paid",
            ChargeState::Refunded => "refunded",
            ChargeState::Failed => "failed",
        }
    }
}

/// Why a call to a provider failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentError {
    /// It was declined, with a reason for the user.
    Declined(String),
    /// The provider cannot be reached. It is unknown whether the call had an effect.
    Unavailable,
}

/// The token of a card at the provider: never a card number, and never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct CardToken(String);

impl CardToken {
    /// A token; `None` if it is a card number instead.
    pub fn new(text: &str) -> Option<Self> {
        (!is_card_number(text)).then(|| CardToken(text.to_owned()))
    }

    /// The token itself, for the provider only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for CardToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Whether a text has the length and the check digit of a card number, and otherwise only separators. Japanese keyboards give
/// wide digits.
fn is_card_number(text: &str) -> bool {
    let digit = |letter: char| match letter {
        '０'..='９' => Some(u32::from(letter) - u32::from('０')),
        _ => letter.to_digit(10),
    };
    let between = |letter: &char| letter.is_whitespace() || matches!(letter, '-' | '‐' | '－' | 'ー' | '.');
    let digits: Option<Vec<u32>> = text.chars().filter(|letter| !between(letter)).map(digit).collect();
    let Some(digits) = digits.filter(|digits| (13..=19).contains(&digits.len())) else { return false };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit * 2) {
            (0, _) => *digit,
            (_, twice) => twice / 10 + twice % 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_numbers_are_not_accepted_as_tokens() {
        let check = |text: &str, is: bool| assert_eq!(is_card_number(text), is, "{text}");
        for number in ["4242424242424242", "4242 4242 4242 4242", "5555-5555-5555-4444", "378282246310005"] {
            check(number, true);
        }
        check("3566002020360505", true);
        check("4222222222222", true);
        check("６０１１ ００００ ００００ ０００４", true);
        check(" 4242.4242.4242.4242\n", true);
        // The check digit is wrong, there are too few or too many digits, or something else.
        check("4242424242424241", false);
        check("424242424242", false);
        check("42424242424242424242", false);
        check("tok_4242424242424242", false);
        check("pm_1Nxyz", false);
        check("", false);
    }

    #[test]
    fn tokens_are_not_in_debug_output() {
        let token = CardToken::new("tok_visa").expect("a token");
        assert_eq!(format!("{token:?}"), "Token");
    }
}
