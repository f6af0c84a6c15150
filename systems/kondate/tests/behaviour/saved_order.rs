//! Saved recipes and sets in the order in which they were saved.

use std::time::Duration;

use nagaya_testing::{TestServer, text};

use crate::{
    catalog::{cook, publish, save_path},
    harness::kondate_server,
};

/// Proves the part of K14 that lists what was saved, last saved first.
#[test]
fn saved_items_are_listed_in_the_order_of_saving() {
    saved_items_are_sorted_by_time(&kondate_server());
}

pub(crate) fn saved_items_are_sorted_by_time(server: &TestServer) {
    let (ann, ben) = (cook(server, "u_svo_a"), server.client_of_user("u_svo_b", "u_svo_b"));
    let copies = ["一", "二", "三"].map(|title| publish(&ann, title));
    for at in [1, 2, 0] {
        server.clock.advance(Duration::from_secs(2));
        ben.put(&save_path(&copies[at])).expect_data(200);
    }
    let titles = |path: &str, count: usize| -> Vec<String> {
        let listed = ben.get_until(path, |answer| answer.status == 200 && answer.list().len() == count).list();
        listed.iter().map(|each| text(each, "title").to_owned()).collect()
    };
    assert_eq!(titles("/v1/saved-recipes", 3), ["三", "二", "一"], "by the time of the recipe");
    assert_eq!(titles("/v1/saved-recipes/newest", 3), ["一", "三", "二"]);
    // Saving again keeps its place.
    server.clock.advance(Duration::from_secs(2));
    ben.put(&save_path(&copies[1])).expect_data(200);
    assert_eq!(titles("/v1/saved-recipes/newest", 3), ["一", "三", "二"]);
    let page = ben.get("/v1/saved-recipes/newest?limit=2");
    let rest = format!("/v1/saved-recipes/newest?cursor={}", page.body["nextCursor"].as_str().expect("a cursor"));
    assert_eq!(titles(&rest, 1), ["二"]);
    assert_eq!(ben.delete(&save_path(&copies[2])).status, 204);
    assert_eq!(titles("/v1/saved-recipes/newest", 2), ["一", "二"]);

    let other = server.client_of_user("u_svo_", "u_svo_");
    assert!(other.get("/v1/saved-recipes/newest").list().is_empty());
    assert!(other.get("/v1/saved-sets/newest").list().is_empty());
    server.anonymous_client().get("/v1/saved-recipes/newest").expect_problem(401, "no_token");
}
