//! What is on the desk of whoever cooks: who it is, how it pays, what it is told, on which devices.

use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{HOUR, Thing, Together, date, evening, id, instant};
use crate::seed::{item::DAY, luck::Luck, people::Person, story::Whose};

/// How many names there are before they come again.
const NAMES: usize = 24 * 24;
/// The length of a period that is paid for, in days, and its price in yen.
pub(super) const PERIOD: i64 = 30;
pub(super) const FEE: u32 = 480;

const BIOS: [&str; 5] = [
    "平日は手早く、週末はゆっくり料理しています。",
    "祖母のレシピを少しずつ書き写しています。",
    "魚料理が得意です。おいしい魚屋さんの近くに住んでいます。",
    "お弁当を毎日作って三年目。",
    "冷蔵庫の残りもので何か作るのが好きです。",
];
const ALLERGIES: [&str; 4] = ["えび", "そば", "落花生", "キウイ"];

/// How somebody is told about something, and how: kind, title, body.
const NEWS: [(&str, &str, &str); 8] = [
    ("fridge_reminder", "賞味期限が近づいています", "冷蔵庫の中に、あと二日で期限の切れるものがあります。"),
    ("plan_reminder", "今日の献立", "今夜の献立を確認しましょう。"),
    ("catalog_saved", "レシピが保存されました", "公開したレシピをほかの人が保存しました。"),
    ("shopping_reminder", "買い物リスト", "買い忘れはありませんか。"),
    ("plan_reminder", "来週の献立", "来週の献立がまだ決まっていません。"),
    ("catalog_news", "新しいレシピ", "カタログに新しいレシピが公開されました。"),
    ("receipt", "プレミアムプラン", "お支払いが完了しました。"),
    ("fridge_reminder", "冷蔵庫の見直し", "しばらく使っていない食材があります。"),
];
/// How many messages there are, and how many of them have not been read.
const MESSAGES: (usize, usize) = (18, 5);

/// Whoever cooks.
pub(super) struct Cook {
    /// The user's id, which is the tenant's.
    pub(super) id: String,
    pub(super) name: String,
    email: String,
    /// How many eat.
    pub(super) people: u32,
    /// The card, and when the subscription began that is paid with it.
    pub(super) card: String,
    pub(super) since: i64,
}

impl Cook {
    pub(super) fn of(whose: &Whose<'_>) -> Self {
        // Every second person has a Japanese name.
        let first = Luck::of(whose.seed, &["cooks"], [0, 0]).below(NAMES);
        let Person { name, email } = Person::numbered(2 * (first + whose.at));
        let mut luck = whose.luck("cook", 0);
        let people = *luck.pick(&[2, 3, 3, 4, 4]).unwrap_or(&2);
        let since = evening(whose.until - luck.between(70, 140) * DAY, &mut luck);
        let card = id(since - HOUR, luck.bits());
        Cook { id: whose.tenant().to_owned(), name, email, people, card, since }
    }
}

pub(super) fn desk(whose: &Whose<'_>, cook: &Cook) -> Vec<Together> {
    let mut luck = whose.luck("desk", 0);
    let long_ago = evening(whose.until - 560 * DAY, &mut luck) - HOUR;
    let profile = json!({
        "displayName": cook.name,
        "email": cook.email,
        "bio": luck.word(&BIOS),
        "householdSize": cook.people,
        "allergies": if luck.happens(40) { vec![luck.word(&ALLERGIES)] } else { Vec::new() },
    });
    let settings = json!({
        "emailEnabled": luck.happens(50),
        "shoppingReminder": luck.happens(70),
        "catalogNews": luck.happens(50),
    });
    let mut all = vec![
        Thing::new("profile", long_ago, &mut luck, profile).alone(),
        Thing::new("notification_settings", long_ago, &mut luck, settings).alone(),
        paid(whose, cook, &mut luck),
    ];
    all.extend([("ios", "iPhone"), ("web", "台所のタブレット")].map(|(platform, device)| {
        let token = format!("seed-{platform}-{}", luck.hex(48));
        let hash = format!("{:x}", Sha256::digest(&token));
        let said = json!({ "platform": platform, "tokenHash": hash, "token": token, "deviceName": device });
        Thing::new("push_token", evening(whose.until - luck.between(20, 200) * DAY, &mut luck), &mut luck, said).alone()
    }));
    all.extend((0..MESSAGES.0).map(|n| message(whose, n)));
    all
}

/// The card, and what is paid with it.
fn paid(whose: &Whose<'_>, cook: &Cook, luck: &mut Luck) -> Together {
    let periods = (whose.until - cook.since).div_euclid(PERIOD * DAY) + 1;
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
        // How the local provider calls one that is paid, by when it began.
        "providerSubscriptionId": format!("sub_{}_paid", id(cook.since, luck.bits())),
        "paymentMethodId": cook.card,
        "startedAt": instant(cook.since),
        "currentPeriodEnd": instant(cook.since + periods * PERIOD * DAY),
    });
    let things = vec![
        Thing::new("payment_method", cook.since - HOUR, luck, card),
        Thing::new("subscription", cook.since, luck, subscription),
    ];
    Together { things, claim: None }
}

/// The n-th message, the newest first.
fn message(whose: &Whose<'_>, n: usize) -> Together {
    let mut luck = whose.luck("notification", n);
    let back = i64::try_from(n).unwrap_or(0) * 2 + 1;
    let moment = evening(whose.until - back * DAY, &mut luck);
    let (kind, title, body) = NEWS[n % NEWS.len()];
    let read = (n >= MESSAGES.1).then(|| instant(moment + luck.between(60, 9 * 3_600) * 1_000));
    let said = json!({
        "createdAt": instant(moment),
        "notificationId": id(moment, luck.bits()),
        "kind": kind,
        "title": if kind == "plan_reminder" { format!("{title}({})", date(moment)) } else { title.to_owned() },
        "body": body,
        "readAt": read,
    });
    Thing::new("notification", moment, &mut luck, said).alone()
}
