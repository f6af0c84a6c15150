//! Paid items of the catalog: in full for the creator, buyers and subscribers, as previews for everybody else.

mod elsewhere;

use nagaya_tenancy::{Expected, Principal};
use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

use crate::{
    catalog::cook,
    harness::{create_item, kondate_server},
};

/// Words that only the whole item has.
const SECRETS: [&str; 4] = ["ひみつの味噌", "三日寝かせる", "ひみつの献立", "secret.example"];

/// A kind of item, with what its preview withholds.
struct Kind {
    what: &'static str,
    id: &'static str,
    link_name: &'static str,
    withheld: &'static [&'static str],
    counts: &'static [(&'static str, u64)],
}

const KINDS: [Kind; 2] = [
    Kind {
        what: "recipes",
        id: "recipeId",
        link_name: "RECIPE",
        withheld: &["ingredients", "steps", "sourceUrl"],
        counts: &[("ingredientCount", 2), ("stepCount", 3)],
    },
    Kind {
        what: "sets",
        id: "setId",
        link_name: "SET",
        withheld: &["items", "sourceUrl"],
        counts: &[("itemCount", 1)],
    },
];

impl Kind {
    /// An item with something to withhold.
    fn item(&self) -> Json {
        let mut item = json!({
            "title": "味噌煮", "description": "母の味", "tags": ["魚"], "imageUrl": "https://img.example/1.png",
            "sourceUrl": "https://secret.example/1",
        });
        let more = match self.what {
            "recipes" => json!({
                "ingredients": [{ "name": "鯖" }, { "name": "ひみつの味噌" }],
                "steps": ["切る", "煮る", "三日寝かせる"], "servings": 2, "cookMinutes": 30,
            }),
            _ => json!({ "items": [{ "recipeId": "r_01", "title": "ひみつの献立" }] }),
        };
        item.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        item
    }

    /// Publishes an item at a price; the copy in the catalog.
    fn publish(&self, cook: &Client<'_>, price: u64) -> Json {
        let made = cook.post(&format!("/v1/{}", self.what), &self.item()).expect_data(201);
        self.publish_again(cook, &made, price)
    }

    fn publish_again(&self, cook: &Client<'_>, item: &Json, price: u64) -> Json {
        let path = format!("/v1/{}/{}/publish", self.what, text(item, self.id));
        let copy = cook.post(&path, &json!({ "price": price })).expect_data(200);
        let public = format!("/v1/catalog/{}/{}", self.what, text(item, self.id));
        cook.get_until(&public, |answer| answer.status == 200 && answer.body["data"]["price"] == price);
        copy
    }

    /// All ways to read the item: by id, by key, in each list, by search.
    fn paths(&self, copy: &Json) -> Vec<String> {
        let Kind { what, id, .. } = self;
        let (id, at, creator) = (text(copy, id), text(copy, "createdAt"), text(copy, "creatorId"));
        vec![
            format!("/v1/catalog/{what}/{id}"),
            format!("/v1/catalog/{what}/{at}/{id}"),
            format!("/v1/catalog/{what}?limit=1000"),
            format!("/v1/catalog/creators/{creator}/{what}"),
            format!("/v1/catalog-{what}-created-between?from={at}&to=2999-01-01T00:00:00Z"),
            // 味噌煮
            format!("/v1/catalog/{what}?q=%E5%91%B3%E5%99%8C%E7%85%AE"),
        ]
    }

    /// The item on each of its ways out, as this caller sees it.
    #[track_caller]
    fn read_everywhere(&self, client: &Client<'_>, copy: &Json) -> Vec<Json> {
        let of = |answer: &nagaya_testing::Response| match answer.body["data"].clone() {
            Json::Array(list) => list.into_iter().find(|each| each[self.id] == copy[self.id]),
            item => Some(item).filter(|item| item[self.id] == copy[self.id]),
        };
        let paths = self.paths(copy);
        let read = paths.iter().map(|path| of(&client.get_until(path, |answer| of(answer).is_some())));
        read.map(|item| item.expect("it is found")).collect()
    }

    #[track_caller]
    fn is_full_for(&self, who: &str, client: &Client<'_>, copy: &Json) {
        for (path, read) in self.paths(copy).iter().zip(self.read_everywhere(client, copy)) {
            assert_eq!(&read, copy, "{who} {path}");
        }
    }

    #[track_caller]
    fn is_preview_for(&self, who: &str, client: &Client<'_>, copy: &Json) {
        let mut expected = copy.as_object().cloned().expect("fields");
        expected.retain(|field, _| !self.withheld.contains(&field.as_str()));
        expected.insert("preview".to_owned(), true.into());
        expected.extend(self.counts.iter().map(|(field, count)| ((*field).to_owned(), json!(count))));
        let expected = Json::Object(expected);
        for (path, read) in self.paths(copy).iter().zip(self.read_everywhere(client, copy)) {
            assert_eq!(read, expected, "{who} {path}");
            assert!(!SECRETS.iter().any(|secret| read.to_string().contains(secret)), "{who} {path}: {read}");
        }
    }
}

/// Buys an item; the purchase.
#[track_caller]
fn buy(user: &Client<'_>, kind: &Kind, copy: &Json, key: &str) -> Json {
    user.post("/v1/payment-methods", &json!({ "token": "tok_visa" }));
    let body = json!({ "targetType": kind.link_name, "targetId": copy[kind.id] });
    user.with_header("idempotency-key", key).post("/v1/purchases", &body).expect_data(201)
}

/// What the code of an operator does when money is given back.
fn refund(server: &TestServer, user: &str, purchase: &Json) {
    let tenant = server.nagaya.tenant(&Principal::new(user, user)).expect("a user");
    let id = [text(purchase, "purchasedAt"), text(purchase, "purchaseId")];
    let refunded = json!({ "status": "refunded" }).as_object().cloned().expect("fields");
    server.block_on(tenant.update("purchase", &id, refunded, Expected::Any)).expect("it is refunded");
}

/// A user with a subscription in this state, until this time.
fn with_subscription<'s>(server: &'s TestServer, user: &str, status: &str, until: &str) -> Client<'s> {
    let subscription = json!({
        "plan": "premium", "status": status, "provider": "local", "startedAt": "2020-01-01T00:00:00Z",
        "currentPeriodEnd": until,
    });
    create_item(server, user, "subscription", &subscription);
    server.client_of_user(user, user)
}

/// Proves the part of K13 and K14 that paid content is for those who paid.
#[test]
fn paid_items_are_previews_for_those_who_have_not_paid() {
    only_those_who_paid_read_in_full(&kondate_server());
}

pub(crate) fn only_those_who_paid_read_in_full(server: &TestServer) {
    let creator = cook(server, "u_paid_creator");
    let user = |name: &str| server.client_of_user(name, name);
    for kind in &KINDS {
        let (copy, other) = (kind.publish(&creator, 300), kind.publish(&creator, 500));
        let name = |who: &str| format!("u_paid_{who}_{}", kind.what);
        kind.is_full_for("creator", &creator, &copy);
        kind.is_preview_for("anonymous", &server.anonymous_client(), &copy);
        kind.is_preview_for("stranger", &user(&name("stranger")), &copy);

        // A buyer reads what was bought, and nothing else.
        let buyer = user(&name("buyer"));
        let purchase = buy(&buyer, kind, &copy, "1");
        kind.is_full_for("buyer", &buyer, &copy);
        kind.is_preview_for("buyer of something else", &buyer, &other);
        // A refund ends it; what was refunded can be bought again.
        refund(server, &name("buyer"), &purchase);
        kind.is_preview_for("refunded buyer", &buyer, &copy);
        buy(&buyer, kind, &copy, "2");
        kind.is_full_for("buyer again", &buyer, &copy);
        // A declined payment pays for nothing.
        let declined = user(&name("declined"));
        declined.post("/v1/payment-methods", &json!({ "token": "tok_declined" })).expect_data(201);
        let body = json!({ "targetType": kind.link_name, "targetId": copy[kind.id] });
        let declined = declined.with_header("idempotency-key", "1");
        declined.post("/v1/purchases", &body).expect_problem(402, "payment_declined");
        kind.is_preview_for("declined buyer", &declined, &copy);

        // A subscriber reads everything, until the paid period ends.
        for (status, until, full) in [
            ("active", "2999-01-01T00:00:00Z", true),
            ("trialing", "2999-01-01T00:00:00Z", true),
            ("active", "2020-02-01T00:00:00Z", false),
            ("canceled", "2999-01-01T00:00:00Z", false),
        ] {
            let who = format!("{status} until {until}");
            let subscriber = with_subscription(server, &name(&format!("{status}_{full}")), status, until);
            for copy in [&copy, &other] {
                match full {
                    true => kind.is_full_for(&who, &subscriber, copy),
                    false => kind.is_preview_for(&who, &subscriber, copy),
                }
            }
        }
    }
}

/// Proves the part of K14 that a price decides it, and not the history of an item.
#[test]
fn an_item_is_withheld_while_it_has_a_price() {
    let server = kondate_server();
    let (creator, stranger) = (cook(&server, "u_price"), server.client_of_user("u_looks", "u_looks"));
    for kind in &KINDS {
        let free = kind.publish(&creator, 0);
        kind.is_full_for("stranger", &stranger, &free);
        // Whoever takes it while it is free has not paid for it.
        buy(&stranger, kind, &free, &format!("free {}", kind.what));
        let paid = kind.publish_again(&creator, &free, 300);
        kind.is_preview_for("stranger", &stranger, &paid);
        buy(&stranger, kind, &paid, &format!("paid {}", kind.what));
        kind.is_full_for("buyer", &stranger, &paid);
        let free = kind.publish_again(&creator, &free, 0);
        kind.is_full_for("stranger", &stranger, &free);
    }
}

/// Proves the part of K14 that a cache does not take a preview for the item.
#[test]
fn a_preview_has_a_tag_of_its_own() {
    let server = kondate_server();
    let creator = cook(&server, "u_tag");
    let kind = &KINDS[0];
    let copy = kind.publish(&creator, 300);
    let buyer = server.client_of_user("u_tag_buyer", "u_tag_buyer");
    for path in &kind.paths(&copy)[..2] {
        let preview = server.anonymous_client().get(path);
        let tag = preview.header("etag").expect("a tag").to_owned();
        assert_ne!(Some(tag.as_str()), creator.get(path).header("etag"));
        let known = |client: &Client<'_>| client.with_header("if-none-match", &tag).get(path).status;
        assert_eq!(known(&server.anonymous_client()), 304);
        assert_eq!(known(&creator), 200);
    }
    let path = &kind.paths(&copy)[0];
    let tag = buyer.get(path).header("etag").expect("a tag").to_owned();
    buy(&buyer, kind, &copy, "1");
    assert_eq!(buyer.with_header("if-none-match", &tag).get(path).expect_data(200), copy);
}
