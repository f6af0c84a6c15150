//! The same on DynamoDB Local.

use nagaya_testing::{DynamodbLocal, TestServer};

use crate::{conflicts, harness::system, history, items, listening, lists, notes, once, routes, syncing, walls};

/// Proves T2, T3, T6, T7, T8, T9 and T10 on DynamoDB. Proves the end-to-end part of T22.
#[test]
fn everything_is_the_same_on_dynamodb() {
    let server = DynamodbLocal::new("todo").start(TestServer::builder(system()));
    routes::every_route_answers_as_documented(&server);
    notes::notes_of_any_length_come_back(&server);
    routes::what_does_not_fit_is_refused_with_its_place(&server);
    lists::lists_go_by_status(&server);
    lists::paging_misses_nothing_and_repeats_nothing_while_writes_go_on(&server);
    conflicts::a_change_of_another_version_than_the_expected_one_is_refused(&server);
    conflicts::many_changes_at_once_all_happen(&server);
    once::a_repeated_request_makes_one_event_and_gets_the_same_answer(&server);
    history::a_history_says_who_did_what_when_and_why(&server);
    items::events_lie_as_documented(&server);
    items::the_list_lies_as_documented(&server);
    syncing::an_answer_waits_for_an_event(&server);
    listening::events_are_told_as_they_happen_and_again_to_who_comes_back(&server);
    walls::no_route_reaches_another_family(&server);
    once::a_key_is_free_after_a_day(&server);
}
