//! The same on DynamoDB Local.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nagaya_dynamodb::{Dynamodb, Options, Settings};

use crate::{
    conflicts, history,
    house::{House, Time, runtime, system},
    items, listening, lists, notes, once, routes, syncing, walls,
};

/// The product on a server's tables that nobody else uses.
fn on_server() -> House {
    let variable = "NAGAYA_TEST_DYNAMODB_LOCAL";
    let endpoint = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: run `cargo xtask test`"));
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    // DynamoDB Local has a database for each region.
    let settings = Settings { region: Some(format!("todo-{nanos:x}")), ..Settings::local(endpoint) };
    let time = Time::default();
    let options = Options {
        clock: time.clock(),
        // A busy machine is slow, not broken.
        attempt_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(60),
        ..Options::default()
    };
    let runtime = runtime();
    let store = runtime.block_on(Dynamodb::open(&settings, options)).expect("a server on this machine needs nothing");
    House::serve_on(runtime, system(), Arc::new(store), time)
}

/// Proves T2, T3, T6, T7, T8, T9 and T10 on DynamoDB. Proves the end-to-end part of T22.
#[test]
fn everything_is_the_same_on_dynamodb() {
    let house = on_server();
    routes::every_route_answers_as_documented(&house);
    notes::notes_of_any_length_come_back(&house);
    routes::what_does_not_fit_is_refused_with_its_place(&house);
    lists::lists_go_by_status(&house);
    lists::paging_misses_nothing_and_repeats_nothing_while_writes_go_on(&house);
    conflicts::a_change_of_another_version_than_the_expected_one_is_refused(&house);
    conflicts::many_changes_at_once_all_happen(&house);
    once::a_repeated_request_makes_one_event_and_gets_the_same_answer(&house);
    history::a_history_says_who_did_what_when_and_why(&house);
    items::events_lie_as_documented(&house);
    items::the_list_lies_as_documented(&house);
    syncing::an_answer_waits_for_an_event(&house);
    listening::events_are_told_as_they_happen_and_again_to_who_comes_back(&house);
    walls::no_route_reaches_another_family(&house);
    once::a_key_is_free_after_a_day(&house);
}
