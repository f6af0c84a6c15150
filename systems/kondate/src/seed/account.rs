//! The account of a user: profile, settings, devices, subscription, notifications.

use nagaya_seed::{DAY_MILLIS, Person, Rng, SeedContext};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    HOUR_MILLIS, SeedItem, WriteGroup, date, evening, id, instant,
    texts::{Notification, TEXTS},
};

/// The length of a paid period, in days.
pub(super) const PERIOD_DAYS: i64 = 30;
/// The price of a paid period, in yen.
pub(super) const PERIOD_PRICE_YEN: u32 = 480;

const NOTIFICATION_COUNT: usize = 18;
const UNREAD_NOTIFICATION_COUNT: usize = 5;

/// A user.
pub(super) struct SeedUser {
    /// The user's id, which is the tenant's.
    pub(super) id: String,
    pub(super) name: String,
    email: String,
    pub(super) household_size: u32,
    /// The id of the payment method.
    pub(super) card: String,
    /// When the subscription began, in milliseconds since 1970.
    pub(super) subscribed_at: i64,
}

impl SeedUser {
    pub(super) fn from_context(context: &SeedContext<'_>) -> Self {
        // Every second person has a Japanese name.
        let first = Rng::new(context.seed, &["cooks"], [0, 0]).below(Person::FULL_NAME_COUNT);
        let Person { name, email } = Person::numbered(2 * (first + context.index));
        let mut rng = context.rng_for_item("cook", 0);
        let people = *rng.pick(&[2, 3, 3, 4, 4]).unwrap_or(&2);
        let since = evening(context.until - rng.between(70, 140) * DAY_MILLIS, &mut rng);
        let card = id(since - HOUR_MILLIS, rng.bits());
        SeedUser { id: context.tenant().to_owned(), name, email, household_size: people, card, subscribed_at: since }
    }
}

pub(super) fn build_account(context: &SeedContext<'_>, user: &SeedUser) -> Vec<WriteGroup> {
    let mut rng = context.rng_for_item("desk", 0);
    let account_created = evening(context.until - 560 * DAY_MILLIS, &mut rng) - HOUR_MILLIS;
    let profile = json!({
        "displayName": user.name,
        "email": user.email,
        "bio": rng.pick_word(&TEXTS.bios),
        "householdSize": user.household_size,
        "allergies": if rng.chance(40) { vec![rng.pick_word(&TEXTS.allergies)] } else { Vec::new() },
    });
    let settings = json!({
        "emailEnabled": rng.chance(50),
        "shoppingReminder": rng.chance(70),
        "catalogNews": rng.chance(50),
    });
    let mut all = vec![
        SeedItem::new("profile", account_created, &mut rng, profile).alone(),
        SeedItem::new("notification_settings", account_created, &mut rng, settings).alone(),
        card_and_subscription(context, user, &mut rng),
    ];
    all.extend([("ios", "iPhone"), ("web", "台所のタブレット")].map(|(platform, device)| {
        let token = format!("seed-{platform}-{}", rng.hex(48));
        let hash = format!("{:x}", Sha256::digest(&token));
        let fields = json!({ "platform": platform, "tokenHash": hash, "token": token, "deviceName": device });
        SeedItem::new(
            "push_token",
            evening(context.until - rng.between(20, 200) * DAY_MILLIS, &mut rng),
            &mut rng,
            fields,
        )
        .alone()
    }));
    all.extend((0..NOTIFICATION_COUNT).map(|n| build_notification(context, n)));
    all
}

/// The card, and the subscription that is paid with it.
fn card_and_subscription(context: &SeedContext<'_>, user: &SeedUser, rng: &mut Rng) -> WriteGroup {
    let periods = (context.until - user.subscribed_at).div_euclid(PERIOD_DAYS * DAY_MILLIS) + 1;
    let card = json!({
        "paymentMethodId": user.card,
        "provider": "local",
        "providerToken": "tok_visa",
        "brand": "visa",
        "last4": "4242",
        "expMonth": 12,
        "expYear": 2099,
        "isDefault": true,
    });
    let subscription = json!({
        "plan": "premium",
        "status": "active",
        "provider": "local",
        // The local provider's id of a paid subscription holds its start.
        "providerSubscriptionId": format!("sub_{}_paid", id(user.subscribed_at, rng.bits())),
        "paymentMethodId": user.card,
        "startedAt": instant(user.subscribed_at),
        "currentPeriodEnd": instant(user.subscribed_at + periods * PERIOD_DAYS * DAY_MILLIS),
    });
    let items = vec![
        SeedItem::new("payment_method", user.subscribed_at - HOUR_MILLIS, rng, card),
        SeedItem::new("subscription", user.subscribed_at, rng, subscription),
    ];
    WriteGroup { items, record: None }
}

/// The n-th notification, the newest first.
fn build_notification(context: &SeedContext<'_>, n: usize) -> WriteGroup {
    let mut rng = context.rng_for_item("notification", n);
    let back = i64::try_from(n).unwrap_or(0) * 2 + 1;
    let moment = evening(context.until - back * DAY_MILLIS, &mut rng);
    let Notification { kind, title, body } = TEXTS.notifications[n % TEXTS.notifications.len()];
    let read = (n >= UNREAD_NOTIFICATION_COUNT).then(|| instant(moment + rng.between(60, 9 * 3_600) * 1_000));
    let fields = json!({
        "createdAt": instant(moment),
        "notificationId": id(moment, rng.bits()),
        "kind": kind,
        "title": if kind == "plan_reminder" { format!("{title}({})", date(moment)) } else { title.to_owned() },
        "body": body,
        "readAt": read,
    });
    SeedItem::new("notification", moment, &mut rng, fields).alone()
}
