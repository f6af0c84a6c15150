//! Ways to the content that do not lead through the catalog's own routes, and what reading costs.

use std::sync::Arc;

use nagaya_server::document;
use nagaya_tenancy::{Expected, Principal};
use nagaya_testing::{Call, InstrumentedStore, ManualClock, TestServer, memory_store, text};
use serde_json::json;

use super::{KINDS, SECRETS, buy, with_subscription};
use crate::{
    catalog::cook,
    harness::{kondate_server, system},
};

/// Proves the part of K3 that a link gives away nothing that is sold.
#[test]
fn a_link_to_a_paid_item_shows_a_preview() {
    links_show_previews(&kondate_server());
}

pub(crate) fn links_show_previews(server: &TestServer) {
    let creator = cook(server, "u_link");
    let anonymous = server.anonymous_client();
    for kind in &KINDS {
        let copy = kind.publish(&creator, 300);
        let share = json!({ "targetType": kind.link_name, "targetId": copy[kind.id] });
        let link = creator.post("/v1/shares", &share).expect_data(201);
        let path = format!("/v1/shares/{}", text(&link, "shareId"));
        let (buyer, other) = (format!("u_link_b_{}", kind.what), format!("u_link_s_{}", kind.what));
        let buyer = server.client_of_user(&buyer, &buyer);
        let subscriber = with_subscription(server, &other, "active", "2999-01-01T00:00:00Z");
        for stranger in [&anonymous, &buyer] {
            let shown = stranger.get(&path).expect_data(200);
            let target = &shown["target"];
            assert_eq!((&target["title"], &target["price"]), (&copy["title"], &json!(300)));
            assert_eq!(target["preview"], true);
            assert!(kind.counts.iter().all(|(field, count)| target[field] == *count), "{target}");
            assert!(!SECRETS.iter().any(|secret| shown.to_string().contains(secret)), "{shown}");
        }
        buy(&buyer, kind, &copy, "1");
        for reader in [&creator, &buyer, &subscriber] {
            let target = &reader.get(&path).expect_data(200)["target"];
            assert!(kind.withheld.iter().all(|field| target[field] == copy[field]), "{target}");
            assert_eq!(target.get("preview"), None);
        }
        // Withdrawing gives nothing away; publishing it for free does.
        let item = format!("/v1/{}/{}", kind.what, text(&copy, kind.id));
        creator.post_empty(&format!("{item}/withdraw"));
        let shown = anonymous.get(&path).expect_data(200);
        assert_eq!((&shown["target"]["preview"], &shown["target"]["price"]), (&json!(true), &json!(300)));
        assert!(!SECRETS.iter().any(|secret| shown.to_string().contains(secret)), "{shown}");
        for reader in [&creator, &buyer, &subscriber] {
            assert_eq!(reader.get(&path).expect_data(200)["target"].get("preview"), None);
        }
        creator.post(&format!("{item}/publish"), &json!({ "price": 0 })).expect_data(200);
        let target = &anonymous.get(&path).expect_data(200)["target"];
        assert!(kind.withheld.iter().all(|field| target[field] == copy[field]), "{target}");
    }
}

/// Proves the part of K8, K9 and K14 that nothing is copied out of a paid item.
#[test]
fn paid_items_are_not_copied_into_the_book_of_a_stranger() {
    let server = kondate_server();
    let (creator, stranger) = (cook(&server, "u_copy"), cook(&server, "u_copies"));
    let [recipe, set] = KINDS.each_ref().map(|kind| kind.publish(&creator, 300));
    for (kind, copy) in KINDS.iter().zip([&recipe, &set]) {
        let saved = stranger.put(&format!("/v1/catalog/{}/{}/save", kind.what, text(copy, kind.id))).expect_data(200);
        assert!(!SECRETS.iter().any(|secret| saved.to_string().contains(secret)), "{saved}");
        assert!(kind.withheld.iter().all(|field| saved.get(field).is_none()), "{saved}");
        let share = json!({ "targetType": kind.link_name, "targetId": copy[kind.id] });
        stranger.post("/v1/shares", &share).expect_problem(404, "not_found");
    }
    stranger.post("/v1/plans/CURRENT/apply", &json!({ "setId": set["setId"] })).expect_problem(402, "payment_required");
    let menu = json!({ "slot": "CURRENT", "items": [{ "recipeId": recipe["recipeId"], "title": "味噌煮" }] });
    stranger.post("/v1/plans", &menu).expect_data(201);
    let listed = stranger.post("/v1/shopping-items/from-plan", &json!({ "slot": "CURRENT" })).expect_data(201);
    assert_eq!(listed["added"], json!([]));
    // Naming the catalog as the origin of an own recipe copies nothing.
    let own = stranger.post("/v1/recipes", &json!({ "title": "味噌煮", "origin": "catalog" })).expect_data(201);
    assert_eq!((&own["steps"], &own["ingredients"]), (&json!([]), &json!([])));
}

/// Proves the part of K19 that a search does not tell what a paid item is made of.
#[test]
fn a_search_does_not_find_what_a_preview_withholds() {
    let server = kondate_server();
    let creator = cook(&server, "u_hide");
    let anonymous = server.anonymous_client();
    let catch_up = || server.block_on(nagaya_kondate::catch_up(&server.nagaya)).expect("it catches up");
    for kind in &KINDS {
        let found = |question: &str| anonymous.get(&format!("/v1/catalog/{}?q={question}", kind.what)).list().len();
        // ひみつ is in a part, 味噌煮 in the title.
        let (part, title) = ("%E3%81%B2%E3%81%BF%E3%81%A4", "%E5%91%B3%E5%99%8C%E7%85%AE");
        let copy = kind.publish(&creator, 0);
        catch_up();
        assert_eq!((found(part), found(title)), (1, 1), "{}", kind.what);
        kind.publish_again(&creator, &copy, 300);
        catch_up();
        assert_eq!((found(part), found(title)), (0, 1), "{}", kind.what);
        // The creator's own book has it all.
        assert_eq!(creator.get(&format!("/v1/{}?q={part}", kind.what)).list().len(), 1);
    }
}

#[test]
fn the_openapi_document_describes_previews() {
    let document = document(&system(), "", 0);
    for (schema, kind) in ["CatalogRecipe", "CatalogSet"].iter().zip(&KINDS) {
        let schema = &document["components"]["schemas"][schema];
        let properties = &schema["properties"];
        assert_eq!(properties["preview"]["type"], "boolean");
        assert!(kind.counts.iter().all(|(field, _)| properties[field]["type"] == "integer"), "{properties:#}");
        let required = schema["required"].as_array().expect("a list");
        assert!(!kind.withheld.iter().any(|field| required.contains(&json!(field))), "{required:?}");
    }
    let link = &document["paths"]["/v1/shares/{shareId}"]["get"].to_string();
    assert!(["preview", "stepCount", "itemCount", "price"].iter().all(|field| link.contains(field)), "{link}");
}

/// A page of paid items costs as many calls of the store as one paid item, however much its reader has bought.
#[test]
fn a_page_reads_the_purchases_of_its_items_and_no_others() {
    let clock = ManualClock::default();
    let store = InstrumentedStore::new(memory_store(&clock));
    let server = TestServer::builder(system()).store(Arc::clone(&store) as _, &clock).start();
    let (creator, kind) = (cook(&server, "u_cost"), &KINDS[0]);
    let copies: Vec<_> = (0..12).map(|_| kind.publish(&creator, 300)).collect();
    let reader = server.client_of_user("u_reader", "u_reader");
    for (nth, copy) in copies.iter().take(10).enumerate() {
        buy(&reader, kind, copy, &nth.to_string());
    }

    // The reads that concern purchases, with the number of their keys, and the items that are shown in full.
    let reads = |client: &nagaya_testing::Client<'_>, path: &str| {
        store.take(|_| true);
        let full = client.get(path).list().iter().filter(|item| item.get("preview").is_none()).count();
        let concerned = |text: &String| text.contains("PURCHASE#") || text.contains("bought-");
        let read = store.take(|call| concerned(&format!("{call:?}")));
        let keys = |call: &Call| match call {
            Call::BatchGet(keys) => keys.len(),
            other => panic!("{other:?}"),
        };
        (read.iter().map(keys).collect::<Vec<_>>(), full)
    };
    let newest = "/v1/catalog/recipes";
    assert_eq!(reads(&reader, newest), (vec![12, 10], 10));
    // The newest two were not bought.
    assert_eq!(reads(&reader, "/v1/catalog/recipes?limit=2"), (vec![2], 0));
    assert_eq!(reads(&reader, "/v1/catalog/recipes?limit=1&order=asc"), (vec![1, 1], 1));
    assert_eq!(reads(&creator, newest), (vec![], 12));
    assert_eq!(reads(&server.anonymous_client(), newest), (vec![], 0));
    // Free items cost nothing.
    for copy in &copies {
        kind.publish_again(&creator, copy, 0);
    }
    assert_eq!(reads(&reader, newest), (vec![], 12));
}

/// Items of earlier versions do not have the price with which they were published.
#[test]
fn withdrawing_an_item_that_was_published_long_ago_does_not_give_it_away() {
    let server = kondate_server();
    let (creator, anonymous) = (cook(&server, "u_old"), server.anonymous_client());
    let tenant = server.nagaya.tenant(&Principal::new("u_old", "u_old")).expect("a user");
    for kind in &KINDS {
        let copy = kind.publish(&creator, 300);
        let id = text(&copy, kind.id);
        let own = kind.what.trim_end_matches('s');
        let forget = || {
            let patch = json!({ "lastPrice": null }).as_object().cloned().expect("fields");
            server.block_on(tenant.update(own, &[id], patch, Expected::Any)).expect("it is changed");
        };
        let share = json!({ "targetType": kind.link_name, "targetId": id });
        let link = format!("/v1/shares/{}", text(&creator.post("/v1/shares", &share).expect_data(201), "shareId"));
        let is_preview = |why: &str| {
            let shown = anonymous.get(&link).expect_data(200);
            assert_eq!((&shown["target"]["preview"], &shown["target"]["price"]), (&json!(true), &json!(300)), "{why}");
            assert!(!SECRETS.iter().any(|secret| shown.to_string().contains(secret)), "{shown}");
        };
        forget();
        is_preview("it is in the catalog");
        creator.post_empty(&format!("/v1/{}/{id}/withdraw", kind.what));
        is_preview("it was withdrawn");

        // A reader may find the own item as it was before, and the copy already gone.
        let copy = kind.publish_again(&creator, &copy, 300);
        let key = [text(&copy, "createdAt"), id];
        server.block_on(tenant.delete(&format!("catalog_{own}"), &key, Expected::Any)).expect("it is deleted");
        is_preview("its copy is gone");
    }
}

#[test]
fn a_price_with_a_fraction_of_zero_is_a_price() {
    let server = kondate_server();
    let (creator, anonymous) = (cook(&server, "u_float"), server.anonymous_client());
    for kind in &KINDS {
        let made = creator.post(&format!("/v1/{}", kind.what), &kind.item()).expect_data(201);
        let path = format!("/v1/{}/{}", kind.what, text(&made, kind.id));
        creator.post(&format!("{path}/publish"), &json!({ "price": 300.0 })).expect_data(200);
        let own = creator.get(&path).expect_data(200);
        assert_eq!(own["lastPrice"], 300);
        let public = format!("/v1/catalog/{}/{}", kind.what, text(&made, kind.id));
        let shown = anonymous.get_until(&public, |answer| answer.status == 200).expect_data(200);
        assert_eq!((&shown["preview"], &shown["price"]), (&json!(true), &json!(300)));
    }
}
