//! The account of a user: profile, settings, devices, subscription, notifications.

use nagaya_seed::{DAY, Person, Rng, SeedContext};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{
    HOUR, SeedItem, WriteGroup, date, evening, id, instant,
    texts::{Notification, TEXTS},
};

/// The length of a period that is paid for, in days, and its price in yen.
pub(super) const PERIOD_DAYS: i64 = 30;
pub(super) const PERIOD_PRICE: u32 = 480;

/// How many notifications there are, and how many of them are unread.
const NOTIFICATION_COUNTS: (usize, usize) = (18, 5);

/// A user.
pub(super) struct SeedUser {
    /// The user's id, which is the tenant's.
    pub(super) id: String,
    pub(super) name: String,
    email: String,
    /// The size of the household.
    pub(super) people: u32,
    /// The card, and when the subscription began that is paid with it.
    pub(super) card: String,
    pub(super) since: i64,
}

impl SeedUser {
    pub(super) fn of(context: &SeedContext<'_>) -> Self {
        // Every second person has a Japanese name.
        let first = Rng::new(context.seed, &["cooks"], [0, 0]).below(Person::FULL_NAMES);
        let Person { name, email } = Person::numbered(2 * (first + context.index));
        let mut rng = context.rng("cook", 0);
        let people = *rng.pick(&[2, 3, 3, 4, 4]).unwrap_or(&2);
        let since = evening(context.until - rng.between(70, 140) * DAY, &mut rng);
        let card = id(since - HOUR, rng.bits());
        SeedUser { id: context.tenant().to_owned(), name, email, people, card, since }
    }
}

pub(super) fn account(context: &SeedContext<'_>, cook: &SeedUser) -> Vec<WriteGroup> {
    let mut rng = context.rng("desk", 0);
    let long_ago = evening(context.until - 560 * DAY, &mut rng) - HOUR;
    let profile = json!({
        "displayName": cook.name,
        "email": cook.email,
        "bio": rng.word(&TEXTS.bios),
        "householdSize": cook.people,
        "allergies": if rng.chance(40) { vec![rng.word(&TEXTS.allergies)] } else { Vec::new() },
    });
    let settings = json!({
        "emailEnabled": rng.chance(50),
        "shoppingReminder": rng.chance(70),
        "catalogNews": rng.chance(50),
    });
    let mut all = vec![
        SeedItem::new("profile", long_ago, &mut rng, profile).alone(),
        SeedItem::new("notification_settings", long_ago, &mut rng, settings).alone(),
        subscription(context, cook, &mut rng),
    ];
    all.extend([("ios", "iPhone"), ("web", "台所のタブレット")].map(|(platform, device)| {
        let token = format!("seed-{platform}-{}", rng.hex(48));
        let hash = format!("{:x}", Sha256::digest(&token));
        let fields = json!({ "platform": platform, "tokenHash": hash, "token": token, "deviceName": device });
        SeedItem::new("push_token", evening(context.until - rng.between(20, 200) * DAY, &mut rng), &mut rng, fields)
            .alone()
    }));
    all.extend((0..NOTIFICATION_COUNTS.0).map(|n| notification(context, n)));
    all
}

/// The card, and the subscription that is paid with it.
fn subscription(context: &SeedContext<'_>, cook: &SeedUser, rng: &mut Rng) -> WriteGroup {
    let periods = (context.until - cook.since).div_euclid(PERIOD_DAYS * DAY) + 1;
    let card = json!({
        "paymentMethodId": cook.card,
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
        "providerSubscriptionId": format!("sub_{}_paid", id(cook.since, rng.bits())),
        "paymentMethodId": cook.card,
        "startedAt": instant(cook.since),
        "currentPeriodEnd": instant(cook.since + periods * PERIOD_DAYS * DAY),
    });
    let items = vec![
        SeedItem::new("payment_method", cook.since - HOUR, rng, card),
        SeedItem::new("subscription", cook.since, rng, subscription),
    ];
    WriteGroup { items, claim: None }
}

/// The n-th notification, the newest first.
fn notification(context: &SeedContext<'_>, n: usize) -> WriteGroup {
    let mut rng = context.rng("notification", n);
    let back = i64::try_from(n).unwrap_or(0) * 2 + 1;
    let moment = evening(context.until - back * DAY, &mut rng);
    let Notification { kind, title, body } = TEXTS.notifications[n % TEXTS.notifications.len()];
    let read = (n >= NOTIFICATION_COUNTS.1).then(|| instant(moment + rng.between(60, 9 * 3_600) * 1_000));
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
