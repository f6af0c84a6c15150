//! A provider for development and tests, which takes no money.
//!
//! It keeps no state. The behaviour of a card is encoded in its token, and the state of a subscription is computed from its id and
//! the time, so that nothing changes with a restart.

use nagaya_store::Clock;

use super::{
    port::{
        Card, CardToken, ChargeId, ChargeState, PaymentError, PaymentFuture, PaymentProvider, SubscriptionCharge,
        SubscriptionStatus,
    },
    subscription_plans::SubscriptionPlan,
    subscription_state::SubscriptionState,
    webhook::{WebhookError, WebhookEvent, WebhookMessage},
};

/// The header of the signature of a message.
const WEBHOOK_SIGNATURE_HEADER: &str = "payment-signature";
/// A day, in milliseconds.
const DAY_MILLIS: i64 = 24 * 3_600_000;
/// The length of a period that an id does not name, in days.
const DEFAULT_PERIOD_DAYS: u32 = 30;

/// A provider for development and tests, which takes no money.
///
/// | token | what it does |
/// |---|---|
/// | `tok_visa`, `tok_mastercard`, `tok_jcb` | pays |
/// | `tok_declined` | can be added; every charge is declined |
/// | `tok_unpaid` | pays, but no renewal: a subscription is `past_due` for a period, then `canceled` |
/// | `tok_expired`, and all others | cannot be added |
///
/// A suffix after `_` gives another card of the same kind: `tok_visa_2`.
#[derive(Debug)]
pub struct LocalPayments {
    clock: Clock,
}

impl Default for LocalPayments {
    fn default() -> Self {
        LocalPayments::new(Clock::system())
    }
}

impl LocalPayments {
    /// What its messages are signed with. Everybody may know it: a message makes the server read the present state, which costs nothing.
    pub const WEBHOOK_SECRET: &[u8] = b"local-webhook-secret";

    /// A provider with this clock.
    pub fn new(clock: Clock) -> Self {
        LocalPayments { clock }
    }
}

fn parse_subscription(subscription: &str) -> Result<Subscription<'_>, PaymentError> {
    Subscription::parse(subscription).ok_or_else(|| declined("There is no such subscription."))
}

fn declined(reason: &str) -> PaymentError {
    PaymentError::Declined(reason.to_owned())
}

/// What kind of card a token is for.
fn card_kind(token: &CardToken) -> &str {
    token.expose().strip_prefix("tok_").and_then(|rest| rest.split('_').next()).unwrap_or_default()
}

/// Declines a card that cannot pay.
fn check_card(token: &CardToken) -> Result<(), PaymentError> {
    match card_kind(token) {
        "visa" | "mastercard" | "jcb" | "unpaid" => Ok(()),
        "expired" => Err(declined("The card has expired.")),
        _ => Err(declined("The card was declined.")),
    }
}

impl PaymentProvider for LocalPayments {
    fn name(&self) -> &str {
        "local"
    }

    fn attach_card<'a>(&'a self, token: &'a CardToken) -> PaymentFuture<'a, Card> {
        let card = match card_kind(token) {
            "visa" => Ok(("visa", "4242")),
            "mastercard" => Ok(("mastercard", "4444")),
            "jcb" => Ok(("jcb", "0505")),
            "declined" => Ok(("visa", "0002")),
            "unpaid" => Ok(("visa", "0341")),
            "expired" => Err(declined("The card has expired.")),
            _ => Err(declined("There is no card for this token.")),
        };
        let card = card.map(|(brand, last4)| Card {
            brand: brand.to_owned(),
            last4: last4.to_owned(),
            exp_month: 12,
            exp_year: 2099,
        });
        Box::pin(async { card })
    }

    fn detach_card<'a>(&'a self, _: &'a CardToken) -> PaymentFuture<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn charge<'a>(&'a self, token: &'a CardToken, _: u64, _: &'a str, key: &'a str) -> PaymentFuture<'a, ChargeId> {
        let charged = check_card(token).map(|()| ChargeId(format!("ch_{key}")));
        Box::pin(async { charged })
    }

    fn subscribe<'a>(
        &'a self,
        token: &'a CardToken,
        plan: &'a SubscriptionPlan,
        key: &'a str,
    ) -> PaymentFuture<'a, SubscriptionStatus> {
        let course = match card_kind(token) {
            "unpaid" => SimulatedCourse::Unpaid,
            _ if plan.trial => SimulatedCourse::Trial,
            _ => SimulatedCourse::Paid,
        };
        let started = check_card(token).and_then(|()| {
            let price = Some((plan.price, plan.currency.as_str()));
            let id = Subscription { key, start: 0, course, period_days: plan.period_days, price, until: None }.id();
            // The state at the start, also for a late retry.
            parse_subscription(&id).map(|subscription| subscription.status_at(subscription.start))
        });
        Box::pin(async { started })
    }

    fn cancel<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        let now = self.clock.millis();
        let status = parse_subscription(subscription).map(|found| {
            let until = found.until.unwrap_or(found.status_at(now).period_end);
            Subscription { until: Some(until), ..found }.status_at(now)
        });
        Box::pin(async { status })
    }

    fn resume<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        let now = self.clock.millis();
        let status = parse_subscription(subscription).and_then(|found| match found.status_at(now).state.is_running() {
            true => Ok(Subscription { until: None, ..found }.status_at(now)),
            false => Err(declined("The subscription has ended.")),
        });
        Box::pin(async { status })
    }

    fn subscription_status<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, SubscriptionStatus> {
        let status = parse_subscription(subscription).map(|found| found.status_at(self.clock.millis()));
        Box::pin(async { status })
    }

    fn subscription_charges<'a>(&'a self, subscription: &'a str) -> PaymentFuture<'a, Vec<SubscriptionCharge>> {
        let charges = parse_subscription(subscription).map(|found| found.charges_at(self.clock.millis()));
        Box::pin(async { charges })
    }

    fn webhook_event(&self, message: &WebhookMessage<'_>) -> Result<WebhookEvent, WebhookError> {
        message.verify(WEBHOOK_SIGNATURE_HEADER, LocalPayments::WEBHOOK_SECRET)?;
        let event: serde_json::Value = serde_json::from_slice(message.body).unwrap_or_default();
        let subscription = event["subscription"].as_str();
        Ok(subscription.map_or(WebhookEvent::Other, |id| WebhookEvent::SubscriptionChanged(id.to_owned())))
    }
}

/// How a subscription develops without further requests.
#[derive(Clone, Copy, PartialEq)]
enum SimulatedCourse {
    Paid,
    Trial,
    Unpaid,
}

impl SimulatedCourse {
    fn name(self) -> &'static str {
        match self {
            SimulatedCourse::Paid => "paid",
            SimulatedCourse::Trial => "trial",
            SimulatedCourse::Unpaid => "unpaid",
        }
    }
}

/// What the id of a subscription says: `sub_<key>_<course>`, the length of its period and its price (`…-<days>-<price>-<currency>`), and
/// when it ends if that has been said (`…_<milliseconds>`). Ids of earlier versions have no price, and no period if it is thirty days.
struct Subscription<'i> {
    key: &'i str,
    start: i64,
    course: SimulatedCourse,
    period_days: u32,
    price: Option<(u64, &'i str)>,
    until: Option<i64>,
}

impl<'i> Subscription<'i> {
    fn parse(id: &'i str) -> Option<Self> {
        let mut parts = id.strip_prefix("sub_")?.splitn(3, '_');
        let (key, course, until) = (parts.next()?, parts.next()?, parts.next());
        let mut terms = course.splitn(4, '-');
        let (course, days) = (terms.next()?, terms.next());
        let period_days = days.map_or(Some(DEFAULT_PERIOD_DAYS), |days| days.parse().ok().filter(|days| *days > 0))?;
        let price = match (terms.next(), terms.next()) {
            (Some(price), Some(currency)) => Some((price.parse().ok()?, currency)),
            (None, _) => None,
            (Some(_), None) => return None,
        };
        let course = [SimulatedCourse::Paid, SimulatedCourse::Trial, SimulatedCourse::Unpaid]
            .into_iter()
            .find(|each| each.name() == course)?;
        let until = until.map(str::parse).transpose().ok()?;
        Some(Subscription { key, start: ulid_millis(key)?, course, period_days, price, until })
    }

    fn id(&self) -> String {
        let id = format!("sub_{}_{}", self.key, self.course.name());
        let id = match self.price {
            Some((price, currency)) => format!("{id}-{}-{price}-{currency}", self.period_days),
            None if self.period_days == DEFAULT_PERIOD_DAYS => id,
            None => format!("{id}-{}", self.period_days),
        };
        self.until.map_or(id.clone(), |until| format!("{id}_{until}"))
    }

    /// The charges of all periods that have begun.
    fn charges_at(&self, now: i64) -> Vec<SubscriptionCharge> {
        let Some((amount, currency)) = self.price else { return Vec::new() };
        let until = self.until.map_or(now, |until| now.min(until - 1));
        let last = (until - self.start).div_euclid(self.period_millis()).max(0);
        let charge = |period: i64| {
            let state = match (self.course, period) {
                (SimulatedCourse::Trial, 0) | (SimulatedCourse::Unpaid, 2..) => return None,
                (SimulatedCourse::Unpaid, 1) => ChargeState::Failed,
                _ => ChargeState::Paid,
            };
            Some(SubscriptionCharge {
                id: format!("ch_{}_{period}", self.key),
                charged_at: self.start + period * self.period_millis(),
                amount,
                currency: currency.to_owned(),
                state,
            })
        };
        (0..=last).filter_map(charge).collect()
    }

    fn period_millis(&self) -> i64 {
        i64::from(self.period_days) * DAY_MILLIS
    }

    fn status_at(&self, now: i64) -> SubscriptionStatus {
        let period_millis = self.period_millis();
        let over = (now - self.start).div_euclid(period_millis).max(0);
        let (state, periods) = match (self.course, over) {
            (SimulatedCourse::Trial, 0) => (SubscriptionState::Trialing, 1),
            (SimulatedCourse::Unpaid, 1) => (SubscriptionState::PastDue, 2),
            (SimulatedCourse::Unpaid, 2..) => (SubscriptionState::Canceled, 2),
            _ => (SubscriptionState::Active, over + 1),
        };
        let period_end = self.start + periods * period_millis;
        let (state, period_end) = match self.until {
            Some(until) if until <= now => (SubscriptionState::Canceled, until),
            until => (state, until.unwrap_or(period_end)),
        };
        SubscriptionStatus { subscription: self.id(), state, period_end, ends_with_period: self.until.is_some() }
    }
}

/// When a ULID was made, in milliseconds since 1970.
fn ulid_millis(ulid: &str) -> Option<i64> {
    const DIGITS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let (time, _) = ulid.split_at_checked(10).filter(|_| ulid.len() == 26)?;
    time.chars().try_fold(0_i64, |sum, letter| Some(sum * 32 + i64::try_from(DIGITS.find(letter)?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "01HZX5K7N2M4P6Q8R9S0T1V3W5";

    #[test]
    fn the_status_of_a_subscription_is_derived_from_its_id() {
        let start = ulid_millis(KEY).expect("a ULID");
        let check = |id: &str, days: i64, state: SubscriptionState, end: i64| {
            let status = Subscription::parse(id).expect("an id").status_at(start + days * DAY_MILLIS);
            assert_eq!((status.state, status.period_end), (state, start + end * DAY_MILLIS), "{id} after {days}");
            assert_eq!(status.subscription, id);
        };
        let (paid, trial, unpaid) =
            (format!("sub_{KEY}_paid"), format!("sub_{KEY}_trial"), format!("sub_{KEY}_unpaid"));
        check(&paid, -400, SubscriptionState::Active, 30);
        check(&paid, 29, SubscriptionState::Active, 30);
        check(&paid, 30, SubscriptionState::Active, 60);
        check(&trial, 29, SubscriptionState::Trialing, 30);
        check(&trial, 30, SubscriptionState::Active, 60);
        check(&unpaid, 29, SubscriptionState::Active, 30);
        check(&unpaid, 30, SubscriptionState::PastDue, 60);
        check(&unpaid, 60, SubscriptionState::Canceled, 60);
        let yearly = format!("{paid}-365");
        check(&yearly, 364, SubscriptionState::Active, 365);
        check(&yearly, 365, SubscriptionState::Active, 730);
        check(&format!("{paid}-30-480-JPY"), 30, SubscriptionState::Active, 60);
        let ending = format!("{paid}_{}", start + 30 * DAY_MILLIS);
        check(&ending, 29, SubscriptionState::Active, 30);
        check(&ending, 30, SubscriptionState::Canceled, 30);
        for nothing in [
            "",
            "sub_",
            "sub_x_paid",
            "sub_01HZX5K7N2M4P6Q8R9S0T1V3W5_free",
            "sub_01HZX5K7N2M4P6Q8R9S0T1V3W5_paid_x",
            "sub_01HZX5K7N2M4P6Q8R9S0T1V3W5_paid-0",
            "sub_01HZX5K7N2M4P6Q8R9S0T1V3W5_paid-30-480",
            "sub_01HZX5K7N2M4P6Q8R9S0T1V3W5_paid-30-x-JPY",
        ] {
            assert!(Subscription::parse(nothing).is_none(), "{nothing}");
        }
    }
    #[test]
    fn every_period_is_charged_when_it_begins() {
        let start = ulid_millis(KEY).expect("a ULID");
        let check = |course: &str, days: i64, expected: &[(i64, ChargeState)]| {
            let id = format!("sub_{KEY}_{course}");
            let charges = Subscription::parse(&id).expect("an id").charges_at(start + days * DAY_MILLIS);
            let made = |charge: &SubscriptionCharge| ((charge.charged_at - start) / DAY_MILLIS, charge.state);
            assert_eq!(charges.iter().map(made).collect::<Vec<_>>(), expected, "{course} after {days}");
            assert!(charges.iter().all(|charge| (charge.amount, charge.currency.as_str()) == (480, "JPY")));
        };
        use ChargeState::{Failed, Paid};
        check("paid-30-480-JPY", 0, &[(0, Paid)]);
        check("paid-30-480-JPY", 61, &[(0, Paid), (30, Paid), (60, Paid)]);
        check("trial-30-480-JPY", 29, &[]);
        check("trial-30-480-JPY", 30, &[(30, Paid)]);
        check("unpaid-30-480-JPY", 90, &[(0, Paid), (30, Failed)]);
        check(&format!("paid-30-480-JPY_{}", start + 30 * DAY_MILLIS), 90, &[(0, Paid)]);
        check("paid", 90, &[]);
    }
}
