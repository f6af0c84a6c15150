//! The same on DynamoDB Local, and indexes that come one after the other.

use std::{sync::Arc, time::Duration};

use nagaya_dynamodb::{DesiredTable, Dynamodb, Options};
use nagaya_tenancy::table_specs;
use nagaya_testing::{DynamodbLocal, TestServer, runtime, text};
use serde_json::json;

use crate::{
    archive, catalog, counts, fridge,
    harness::{design, system},
    keys, notifications, payments, plain, plans, push, search, shares, shopping, walls,
};

/// The product on DynamoDB Local.
fn on_server() -> TestServer {
    DynamodbLocal::new("kondate").start(TestServer::builder(system()))
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
    let (dynamodb, runtime) = (DynamodbLocal::new("kondate"), runtime());
    let options = Options { adds_missing_indexes: false, description_cache_time: Duration::ZERO, ..dynamodb.options() };
    let store = runtime.block_on(Dynamodb::open(&dynamodb.settings, options)).expect("a server");
    let store = Arc::new(store);
    let roll_out = async |stage: usize| {
        let specs = table_specs(&design(), &design().name);
        let wanted: Vec<_> = specs
            .into_iter()
            .map(|spec| DesiredTable { index_count: Some(stage), ..DesiredTable::new(spec) })
            .collect();
        let plan = store.plan_tables(&wanted, false).await.expect("a plan");
        store.apply_tables(&plan, &mut |_| {}).await.expect("it is applied");
    };
    runtime.block_on(roll_out(0));
    let server = TestServer::builder(system()).store(store.clone(), &dynamodb.clock).start_on(runtime);
    let cook = server.user("u_01", "u_01");

    // Without any index: everything that goes by the table's own keys.
    cook.post("/v1/profile", &json!({ "displayName": "花" })).data(201);
    let made = cook.post("/v1/recipes", &json!({ "title": "肉じゃが" })).data(201);
    let detail = &format!("/v1/recipes/{}", text(&made, "recipeId"));
    assert_eq!(cook.get("/v1/recipes").list().len(), 1);
    cook.patch(detail, &json!({ "title": "肉じゃがと豆腐" })).data(200);
    cook.post("/v1/fridge-items", &json!({ "itemId": "f_01", "name": "卵" })).data(201);
    cook.delete("/v1/fridge-items/f_01").data(204);
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

    server.block_on(roll_out(1));
    assert_eq!(cook.get(detail).data(200)["title"], "肉じゃがと豆腐");
    missing(newest, "GSI2");
    missing(by_creator, "GSI3");

    server.block_on(roll_out(2));
    cook.post(&format!("{detail}/publish"), &json!({})).data(200);
    assert_eq!(server.anonymous().until(newest, |answer| !answer.list().is_empty()).list().len(), 1);
    missing(by_creator, "GSI3");

    server.block_on(roll_out(3));
    assert_eq!(server.anonymous().until(by_creator, |answer| !answer.list().is_empty()).list().len(), 1);
}

/// Proves K14 on DynamoDB.
#[test]
fn the_catalog_works_on_dynamodb() {
    let server = on_server();
    catalog::a_recipe_is_published_and_withdrawn(&server);
    catalog::a_set_is_published_and_withdrawn(&server);
    catalog::the_catalog_has_its_orders(&server);
    catalog::saving_is_repeatable(&server);
    catalog::visitors_read_the_catalog(&server);
    catalog::an_id_is_published_by_one(&server);
    catalog::races_leave_nothing_behind(&server);
}

/// Proves the saved counts of K19 on DynamoDB.
#[test]
fn saves_are_counted_on_dynamodb() {
    let server = on_server();
    counts::many_save_at_once(&server, 12);
    counts::a_new_publication_starts_from_nothing(&server);
}

/// Proves the share links of K3 on DynamoDB.
#[test]
fn share_links_work_on_dynamodb() {
    let server = on_server();
    shares::links_lead_to_what_was_shared(&server);
    shares::strangers_things_cannot_be_shared(&server);
    shares::owners_list_their_links(&server);
}

/// Proves K5, K6, K7 and K11 on DynamoDB.
#[test]
fn what_is_plain_is_the_same_on_dynamodb() {
    let server = on_server();
    plain::a_profile_is_made_read_and_changed(&server);
    plain::settings_are_made_read_and_changed(&server);
    plain::recipes_are_made_read_changed_and_deleted_newest_first(&server);
    plain::sets_are_made_read_changed_and_deleted_newest_first(&server);
    plain::categories_of_both_scopes_are_kept_apart(&server);
    plain::shopping_and_fridge_items_are_made_read_and_changed(&server);
    plain::every_list_of_a_new_user_is_empty(&server);
}

/// Proves K8, K9, K10, K12 and K15 on DynamoDB.
#[test]
fn the_household_is_the_same_on_dynamodb() {
    let server = on_server();
    plans::a_set_is_applied_to_either_plan(&server);
    plans::promoting_moves_a_plan_and_logs_what_was_cooked(&server);
    plans::promoting_at_once_happens_once(&server);
    plans::a_change_beside_a_promotion_is_not_lost(&server);
    shopping::completing_marks_all_or_none(&server);
    shopping::what_a_plan_needs_is_added_up_without_what_is_there(&server);
    shopping::more_than_a_set_holds_is_added_once(&server);
    shopping::each_plan_has_lines_of_its_own(&server);
    archive::months_that_have_logs_and_their_days(&server);
    archive::many_months_and_many_logs_are_all_there(&server);
    archive::many_logs_of_a_month_come_by_whole_days(&server);
    notifications::reading_marks_one_or_all(&server);
    notifications::reading_many_at_once_counts_each_once(&server);
    push::registering_keeps_a_hash_and_gives_no_token_back(&server);
    push::the_device_not_heard_of_for_longest_goes(&server);
    fridge::deleting_moves_an_item_and_restoring_moves_it_back(&server);
    fridge::an_id_that_is_taken_again_is_not_restored_over(&server);
    fridge::restoring_at_once_happens_once_and_loses_nothing(&server);
    fridge::a_deleted_item_is_as_it_was_last_changed(&server);
    fridge::nothing_is_restored_after_thirty_days(&server);
}

/// Proves K13 on DynamoDB.
#[test]
fn payments_are_the_same_on_dynamodb() {
    let server = on_server();
    payments::one_method_is_the_default(&server);
    payments::a_card_number_is_never_taken(&server);
    payments::a_purchase_is_paid_once_and_kept(&server);
    payments::a_subscription_runs(&server);
    payments::prices::a_thing_is_bought_once(&server);
    payments::prices::a_changed_price_is_not_paid(&server);
}

#[test]
fn search_is_the_same_on_dynamodb() {
    let server = on_server();
    search::a_recipe_is_found_by_any_part_of_its_title(&server);
    search::the_best_answer_comes_first(&server);
    search::what_changes_is_found_by_what_it_says_now(&server);
    search::sets_are_found_by_what_is_in_them(&server);
    search::nobody_finds_what_is_in_anothers_book(&server);
    search::what_is_published_is_found_without_a_token(&server);
    search::a_question_that_cannot_be_answered_says_why(&server);
    search::without_a_question_the_lists_are_as_the_design_says(&server);
}
