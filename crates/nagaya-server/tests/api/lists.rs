//! Lists: access patterns with their parameters.

use serde_json::json;

use crate::desk::desk;

/// Proves the cursor part of T7.
#[test]
fn pages_follow_each_other_without_gap_or_duplicate() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    for n in 0..25 {
        t1.post("/v1/tickets", &json!({ "ticketId": format!("k{n:02}"), "subject": n.to_string() })).expect_data(201);
    }
    for (order, first) in [("", "k24"), ("&order=desc", "k24"), ("&order=asc", "k00")] {
        let mut ids: Vec<String> = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = t1.get(&format!("/v1/tickets?limit=10{order}{cursor}"));
            let items = page.list();
            ids.extend(items.iter().map(|item| item["ticketId"].as_str().expect("an id").to_owned()));
            match page.body.get("nextCursor") {
                Some(next) => cursor = format!("&cursor={}", next.as_str().expect("a cursor")),
                None => break,
            }
        }
        assert_eq!((ids.len(), ids[0].as_str()), (25, first), "{order}");
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 25);
    }
}

#[test]
fn an_access_pattern_takes_its_parameters_from_path_and_query() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    for (id, status) in [("a", "open"), ("b", "closed"), ("c", "open")] {
        t1.post("/v1/tickets", &json!({ "ticketId": id, "subject": id, "status": status })).expect_data(201);
    }
    let ids = |path: &str| -> Vec<String> {
        let answer = t1.get(path);
        let items = answer.list();
        items.iter().map(|item| item["ticketId"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids("/v1/tickets-by-status?status=open"), ["a", "c"]);
    assert_eq!(ids("/v1/tickets-by-status?status=open&order=desc&limit=1"), ["c"]);
    assert_eq!(ids("/v1/tickets/open/between?from=2000-01-01T00:00:00.000Z"), ["a", "c"]);
    assert_eq!(ids("/v1/tickets/open/between?to=2000-01-01T00:00:00.000Z"), [""; 0]);
    assert_eq!(t1.get("/v1/open-count?status=open").expect_data(200), json!({ "count": 2 }));
}

#[test]
fn wrong_parameters_are_named() {
    let server = desk();
    let t1 = server.user_with("t1", "u1", &["admin"]);
    for (path, parameter) in [
        ("/v1/tickets?limit=0", "limit"),
        ("/v1/tickets?limit=1001", "limit"),
        ("/v1/tickets?limit=ten", "limit"),
        ("/v1/tickets?limit=1&limit=2", "limit"),
        ("/v1/tickets?order=up", "order"),
        ("/v1/tickets?colour=red", "colour"),
        ("/v1/tickets-by-status", "status"),
        ("/v1/tickets-by-status?status=lost", "status"),
        ("/v1/tickets/open/between?from=yesterday", "from"),
        ("/v1/open-count?status=open&limit=3", "limit"),
        ("/v1/open-count?status=open&cursor=x", "cursor"),
    ] {
        let answer = t1.get(path);
        answer.expect_problem(400, "bad_parameter");
        assert_eq!(answer.body["errors"][0]["parameter"], parameter, "{path}");
    }
    t1.get("/v1/tickets?cursor=nonsense").expect_problem(400, "bad_cursor");
}
