//! The same behaviour on DynamoDB Local.

use nagaya_testing::{DynamodbLocal, TestServer};

use crate::{
    conflicts, event_stream, harness::system, history, idempotency, lists, notes, read_your_writes, routes,
    stored_items, walls,
};

/// Proves T2, T3, T6, T7, T8, T9 and T10 on DynamoDB. Proves the end-to-end part of T22.
#[test]
fn everything_is_the_same_on_dynamodb() {
    let server = DynamodbLocal::new("todo").start(TestServer::builder(system()));
    routes::every_route_answers_as_documented(&server);
    notes::notes_of_any_length_are_read_back(&server);
    routes::invalid_requests_are_refused_with_a_pointer(&server);
    lists::lists_are_filtered_by_status(&server);
    lists::paging_misses_and_repeats_nothing_during_writes(&server);
    conflicts::a_change_with_a_stale_version_is_refused(&server);
    conflicts::many_concurrent_changes_all_succeed(&server);
    idempotency::a_repeated_request_makes_one_event_and_gets_the_same_answer(&server);
    history::a_history_has_actor_event_time_and_cause(&server);
    stored_items::stored_events_have_the_documented_format(&server);
    stored_items::stored_projections_have_the_documented_format(&server);
    read_your_writes::a_read_waits_for_the_named_event(&server);
    event_stream::events_are_streamed_and_replayed_after_a_reconnect(&server);
    walls::no_route_reaches_another_family(&server);
    idempotency::an_idempotency_key_can_be_reused_after_a_day(&server);
}
