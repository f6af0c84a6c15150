//! The same on DynamoDB Local, and indexes that come one after the other.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nagaya_dynamodb::{Dynamodb, Options, Settings, Wanted};
use nagaya_tenancy::table_specs;
use nagaya_testing::{House, Time, runtime};
use serde_json::json;

use crate::{
    catalog, counts,
    house::{design, system},
    keys, shares, walls,
};

/// Tables of a server that nobody else uses.
fn settings() -> Settings {
    let variable = "NAGAYA_TEST_DYNAMODB_LOCAL";
    let endpoint = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run `cargo xtask test`"));
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    // DynamoDB Local has a database for each region.
    Settings { region: Some(format!("kondate-{nanos:x}")), ..Settings::local(endpoint) }
}

fn options(time: &Time) -> Options {
    Options {
        clock: time.clock(),
        // A busy machine is slow, not broken.
        attempt_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(60),
        ..Options::default()
    }
}

/// The product on a server.
fn on_server() -> House {
    let (time, runtime) = (Time::default(), runtime());
    let store = runtime.block_on(Dynamodb::open(&settings(), options(&time)));
    House::serve_on(runtime, system(), Arc::new(store.expect("a server on this machine needs nothing")), time)
}

/// Proves K1, K2, K3, K4 and K16 on DynamoDB.
#[test]
fn items_lie_as_documented_on_dynamodb() {
    keys::everything_lies_where_the_document_says(&on_server());
}

#[test]
fn users_do_not_see_each_other_on_dynamodb() {
    walls::no_route_reaches_another_user(&on_server());
}

/// Proves K17.
#[test]
fn indexes_come_one_after_the_other_and_what_needs_one_says_so() {
    let (time, runtime, settings) = (Time::default(), runtime(), settings());
    let options = Options { adds_indexes: false, description_age: Duration::ZERO, ..options(&time) };
    let store = runtime.block_on(Dynamodb::open(&settings, options)).expect("a server");
    let store = Arc::new(store);
    let roll_out = |runtime: &tokio::runtime::Runtime, stage: usize| {
        let specs = table_specs(&design(), &design().name);
        let wanted: Vec<_> =
            specs.into_iter().map(|spec| Wanted { stage: Some(stage), ..Wanted::new(spec) }).collect();
        runtime.block_on(async {
            let plan = store.plan_tables(&wanted, false).await.expect("a plan");
            store.apply_tables(&plan, &mut |_| {}).await.expect("it is applied");
        });
    };
    roll_out(&runtime, 0);
    let house = House::serve_on(runtime, system(), store.clone(), time);
    let cook = house.user("u_01", "u_01");

    // Without any index: everything that goes by the table's own keys.
    cook.post("/v1/profile", &json!({ "displayName": "花" })).data(201);
    cook.post("/v1/recipes", &json!({ "recipeId": "r_01", "title": "肉じゃが" })).data(201);
    assert_eq!(cook.get("/v1/recipes").list().len(), 1);
    cook.patch("/v1/recipes/r_01", &json!({ "title": "肉じゃがと豆腐" })).data(200);
    cook.post("/v1/fridge-items", &json!({ "itemId": "f_01", "name": "卵" })).data(201);
    cook.delete("/v1/fridge-items/f_01").data(204);
    let detail = "/v1/recipes/r_01";
    let (newest, by_creator) = ("/v1/catalog/recipes", "/v1/catalog/creators/u_01/recipes");
    let missing = |path: &str, index: &str| {
        let answer = cook.get(path);
        answer.problem(503, "index_missing");
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(index), "{path}: {detail}");
    };
    missing(detail, "GSI1");
    missing(newest, "GSI2");
    missing(by_creator, "GSI3");

    roll_out(&house.runtime, 1);
    assert_eq!(cook.get(detail).data(200)["title"], "肉じゃがと豆腐");
    missing(newest, "GSI2");
    missing(by_creator, "GSI3");

    roll_out(&house.runtime, 2);
    cook.post("/v1/recipes/r_01/publish", &json!({})).data(200);
    assert_eq!(house.nobody().until(newest, |answer| !answer.list().is_empty()).list().len(), 1);
    missing(by_creator, "GSI3");

    roll_out(&house.runtime, 3);
    assert_eq!(house.nobody().until(by_creator, |answer| !answer.list().is_empty()).list().len(), 1);
}

/// Proves K14 on DynamoDB.
#[test]
fn the_catalog_works_on_dynamodb() {
    let house = on_server();
    catalog::a_recipe_is_published_and_withdrawn(&house);
    catalog::a_set_is_published_and_withdrawn(&house);
    catalog::the_catalog_has_its_orders(&house);
    catalog::saving_is_repeatable(&house);
    catalog::visitors_read_the_catalog(&house);
    catalog::an_id_is_published_by_one(&house);
    catalog::races_leave_nothing_behind(&house);
}

/// Proves the saved counts of K19 on DynamoDB.
#[test]
fn saves_are_counted_on_dynamodb() {
    let house = on_server();
    counts::many_save_at_once(&house, 12);
    counts::a_new_publication_starts_from_nothing(&house);
}

/// Proves the share links of K3 on DynamoDB.
#[test]
fn share_links_work_on_dynamodb() {
    let house = on_server();
    shares::links_lead_to_what_was_shared(&house);
    shares::strangers_things_cannot_be_shared(&house);
    shares::owners_list_their_links(&house);
}
