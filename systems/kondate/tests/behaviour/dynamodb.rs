//! The same behaviour on DynamoDB Local, and indexes that are created one by one.

use std::{sync::Arc, time::Duration};

use nagaya_dynamodb::{DesiredTable, Dynamodb, Options};
use nagaya_tenancy::table_specs;
use nagaya_testing::{DynamodbLocal, TestServer, build_runtime, text};
use serde_json::json;

use crate::{
    archive, catalog, catalog_lists, cooked, copies, derived_routes, fridge, from_plan,
    harness::{design, system},
    notifications, payments, plans, push, replacing, saved_counts, saved_order, search, shares, shopped, shopping,
    slots, stored_keys, walls,
};

/// The product on DynamoDB Local.
fn on_server() -> TestServer {
    DynamodbLocal::new("kondate").start(TestServer::builder(system()))
}

/// Proves K1, K2, K3, K4 and K16 on DynamoDB.
#[test]
fn stored_keys_are_documented_on_dynamodb() {
    stored_keys::all_items_have_the_documented_keys(&on_server());
}

#[test]
fn users_do_not_see_each_other_on_dynamodb() {
    walls::no_route_reaches_another_user(&on_server());
}

/// Proves K17.
#[test]
fn routes_without_their_index_report_it_while_indexes_are_created() {
    let (dynamodb, runtime) = (DynamodbLocal::new("kondate"), build_runtime());
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
    let cook = server.client_of_user("u_01", "u_01");

    // Without any index, everything that only needs the table's own key works.
    cook.post("/v1/profile", &json!({ "displayName": "花" })).expect_data(201);
    let made = cook.post("/v1/recipes", &json!({ "title": "肉じゃが" })).expect_data(201);
    let detail = &format!("/v1/recipes/{}", text(&made, "recipeId"));
    assert_eq!(cook.get("/v1/recipes").list().len(), 1);
    cook.patch(detail, &json!({ "title": "肉じゃがと豆腐" })).expect_data(200);
    cook.post("/v1/fridge-items", &json!({ "itemId": "f_01", "name": "卵" })).expect_data(201);
    cook.delete("/v1/fridge-items/f_01").expect_data(204);
    let (newest, by_creator) = ("/v1/catalog/recipes", "/v1/catalog/creators/u_01/recipes");
    let missing = |path: &str, index: &str| {
        let answer = cook.get(path);
        answer.expect_problem(503, "index_missing");
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(index), "{path}: {detail}");
    };
    missing(detail, "GSI1");
    missing(newest, "GSI2");
    missing(by_creator, "GSI3");

    server.block_on(roll_out(1));
    assert_eq!(cook.get(detail).expect_data(200)["title"], "肉じゃがと豆腐");
    missing(newest, "GSI2");
    missing(by_creator, "GSI3");

    server.block_on(roll_out(2));
    cook.post(&format!("{detail}/publish"), &json!({})).expect_data(200);
    assert_eq!(server.anonymous_client().get_until(newest, |answer| !answer.list().is_empty()).list().len(), 1);
    missing(by_creator, "GSI3");

    server.block_on(roll_out(3));
    assert_eq!(server.anonymous_client().get_until(by_creator, |answer| !answer.list().is_empty()).list().len(), 1);
}

/// Proves K14 on DynamoDB.
#[test]
fn the_catalog_works_on_dynamodb() {
    let server = on_server();
    catalog::a_recipe_is_published_and_withdrawn(&server);
    catalog::a_set_is_published_and_withdrawn(&server);
    catalog::catalog_lists_are_sorted(&server);
    catalog::repeated_saves_have_no_further_effect(&server);
    catalog::visitors_read_the_catalog(&server);
    catalog::an_id_is_published_by_one_creator_only(&server);
    catalog::concurrent_changes_leave_no_orphans(&server);
    catalog_lists::items_are_the_same_in_every_order(&server);
    catalog_lists::withdrawn_items_say_so(&server);
    saved_order::saved_items_are_sorted_by_time(&server);
    copies::a_catalog_item_is_copied(&server);
    copies::a_saved_set_is_applied(&server);
}

/// Proves the saved counts of K19 on DynamoDB.
#[test]
fn saves_are_counted_on_dynamodb() {
    let server = on_server();
    saved_counts::concurrent_saves_are_counted_exactly(&server, 12);
    saved_counts::a_new_publication_starts_with_a_count_of_zero(&server);
}

/// Proves the share links of K3 on DynamoDB.
#[test]
fn share_links_work_on_dynamodb() {
    let server = on_server();
    shares::links_show_the_shared_item(&server);
    shares::items_of_other_users_cannot_be_shared(&server);
    shares::owners_list_their_links(&server);
}

/// Proves K5, K6, K7 and K11 on DynamoDB.
#[test]
fn derived_routes_are_the_same_on_dynamodb() {
    let server = on_server();
    derived_routes::a_profile_is_created_read_and_changed(&server);
    derived_routes::settings_are_created_read_and_changed(&server);
    derived_routes::recipes_are_created_read_changed_deleted_and_listed_newest_first(&server);
    derived_routes::sets_are_created_read_changed_deleted_and_listed_newest_first(&server);
    derived_routes::categories_of_both_scopes_are_separate(&server);
    derived_routes::categories_are_in_the_order_of_their_positions(&server);
    derived_routes::shopping_and_fridge_items_are_created_read_and_changed(&server);
    derived_routes::every_list_of_a_new_user_is_empty(&server);
}

/// Proves K8, K9, K10, K12 and K15 on DynamoDB.
#[test]
fn custom_routes_are_the_same_on_dynamodb() {
    let server = on_server();
    plans::a_set_is_applied_to_either_plan(&server);
    plans::promoting_moves_a_plan_and_logs_cooked_meals(&server);
    plans::concurrent_promotions_move_the_plan_once(&server);
    plans::a_change_during_a_promotion_is_not_lost(&server);
    cooked::each_dish_is_marked_by_its_position(&server);
    slots::slots_are_accepted_in_either_case(&server);
    replacing::what_a_user_has_one_of_is_replaced(&server);
    shopping::completing_marks_all_or_none(&server);
    shopped::goods_are_completed_and_in_the_fridge(&server);
    from_plan::what_is_left_out_has_a_reason(&server);
    from_plan::what_is_bought_for_a_plan_counts(&server);
    from_plan::kana_and_width_make_no_difference(&server);
    shopping::ingredients_of_a_plan_are_summed_minus_the_stock(&server);
    shopping::a_list_larger_than_one_change_set_is_added_once(&server);
    shopping::each_plan_has_its_own_shopping_items(&server);
    archive::months_that_have_logs_and_their_days(&server);
    archive::many_months_are_paged_without_loss(&server);
    archive::a_month_is_paged_without_loss(&server);
    notifications::one_or_all_notifications_are_marked_as_read(&server);
    notifications::concurrent_marking_counts_each_notification_once(&server);
    push::registration_stores_a_hash_and_never_returns_the_token(&server);
    push::the_least_recently_registered_device_is_removed(&server);
    fridge::deleting_moves_an_item_and_restoring_moves_it_back(&server);
    fridge::a_taken_id_is_not_overwritten_by_a_restore(&server);
    fridge::concurrent_restores_happen_once_and_lose_nothing(&server);
    fridge::a_deleted_item_has_its_last_change(&server);
    fridge::nothing_is_restored_after_thirty_days(&server);
}

/// Proves K13 on DynamoDB.
#[test]
fn payments_are_the_same_on_dynamodb() {
    let server = on_server();
    payments::one_method_is_the_default(&server);
    payments::a_card_number_is_never_accepted(&server);
    payments::a_purchase_is_charged_once_and_stored(&server);
    payments::a_subscription_can_be_started_canceled_and_resumed(&server);
    payments::prices::an_item_is_bought_once(&server);
    payments::prices::a_changed_price_is_not_charged(&server);
    payments::charges::the_first_charge_is_a_purchase(&server);
    payments::webhook::a_message_refreshes_the_subscription(&server);
}

#[test]
fn search_is_the_same_on_dynamodb() {
    let server = on_server();
    search::a_recipe_is_found_by_any_part_of_its_title(&server);
    search::the_best_match_comes_first(&server);
    search::changed_items_are_found_by_their_new_text(&server);
    search::sets_are_found_by_their_text(&server);
    search::the_book_of_another_user_is_not_searched(&server);
    search::published_items_are_found_without_a_token(&server);
    search::an_invalid_search_query_is_refused_with_a_reason(&server);
    search::without_a_search_query_lists_are_those_of_the_design(&server);
}

/// Proves the full-text search part of K19 on DynamoDB.
#[test]
fn phrases_spellings_filters_and_pages_of_searches_are_the_same_on_dynamodb() {
    let server = on_server();
    search::a_phrase_is_found_where_its_letters_stand_together(&server);
    search::words_are_found_in_other_spellings(&server);
    search::a_search_is_filtered_by_tag_and_category(&server);
    search::a_search_is_paged_without_loss_or_repetition(&server);
}
