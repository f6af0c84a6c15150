//! The archive of cooking logs.

use nagaya_testing::{Client, TestServer, text};
use serde_json::{Value as Json, json};

use crate::harness::kondate_server;

/// Proves K12.
#[test]
fn the_archive_lists_months_and_days() {
    months_that_have_logs_and_their_days(&kondate_server());
}

pub(crate) fn months_that_have_logs_and_their_days(server: &TestServer) {
    let mio = server.client_of_user("u_arch", "u_arch");
    assert_eq!(mio.get("/v1/archive").list(), Vec::<Json>::new());
    assert_eq!(mio.get("/v1/archive/2026-02").list(), Vec::<Json>::new());
    let dates = [
        "2026-02-09",
        "2026-02-01",
        "2026-02-28",
        "2026-02-09",
        "2026-01-31",
        "2026-03-01",
        "2024-02-29",
        "2025-12-31",
        "0999-06-01",
        "9999-12-31",
    ];
    for (n, date) in dates.iter().enumerate() {
        log(&mio, date, &format!("{n}"));
    }
    log(&server.client_of_user("u_arc", "u_arc"), "2026-04-01", "theirs");
    log(&server.client_of_user("u_arch2", "u_arch2"), "2026-05-01", "theirs");

    let months = |path: &str| -> Vec<String> {
        mio.get(path).list().iter().map(|month| text(month, "month").to_owned()).collect()
    };
    let all = ["9999-12", "2026-03", "2026-02", "2026-01", "2025-12", "2024-02", "0999-06"];
    assert_eq!(months("/v1/archive"), all);
    assert_eq!(months("/v1/archive?before=2026-02"), all[3..]);
    assert_eq!(months("/v1/archive?before=0999-06"), Vec::<String>::new());
    for wrong in ["2026-2", "2026-13", "2026", "x", ""] {
        assert_eq!(mio.get(&format!("/v1/archive?before={wrong}")).expect_problem(400, "bad_parameter"), ["before"]);
    }

    let february = days(&mio, "2026-02");
    assert_eq!(
        february,
        [("2026-02-01", vec!["1"]), ("2026-02-09", vec!["0", "3"]), ("2026-02-28", vec!["2"])].map(owned)
    );
    assert_eq!(days(&mio, "2024-02"), [owned(("2024-02-29", vec!["6"]))]);
    assert_eq!(days(&mio, "2025-12"), [owned(("2025-12-31", vec!["7"]))]);
    assert_eq!(days(&mio, "9999-12"), [owned(("9999-12-31", vec!["9"]))]);
    assert_eq!(days(&mio, "2026-04"), []);
    let whole = mio.get("/v1/archive/2026-01").list();
    assert_eq!(whole[0]["logs"][0], mio.get("/v1/cooklogs?date=2026-01-31").list()[0]);
    for wrong in ["2026-2", "2026-13", "2026-00", "2026", "2026-02-09", "2026-0", "%23", "2026-02%23"] {
        mio.get(&format!("/v1/archive/{wrong}")).expect_problem(404, "not_found");
    }
}

/// Proves the part of K12 that a long life needs.
#[test]
fn a_long_archive_is_paged() {
    many_months_are_paged_without_loss(&kondate_server());
}

pub(crate) fn many_months_are_paged_without_loss(server: &TestServer) {
    let mio = server.client_of_user("u_old", "u_old");
    let mut made = Vec::new();
    for n in 0..250 {
        let month = format!("{:04}-{:02}", 2000 + n / 12, n % 12 + 1);
        log(&mio, &format!("{month}-15"), "x");
        made.push(month);
    }
    made.reverse();
    let mut found: Vec<String> = Vec::new();
    loop {
        let path = found.last().map_or("/v1/archive".to_owned(), |last| format!("/v1/archive?before={last}"));
        let part = mio.get(&path).list();
        assert!(part.len() <= 240);
        if part.is_empty() {
            break;
        }
        found.extend(part.iter().map(|month| text(month, "month").to_owned()));
    }
    assert_eq!(found, made);
}

/// Proves the part of K12 that a month with many logs needs.
#[test]
fn a_full_month_is_paged() {
    a_month_is_paged_without_loss(&kondate_server());
}

pub(crate) fn a_month_is_paged_without_loss(server: &TestServer) {
    let mio = server.client_of_user("u_busy", "u_busy");
    for (date, count) in [("2026-02-01", 300), ("2026-02-09", 250), ("2026-02-27", 1), ("2026-02-28", 1)] {
        (0..count).for_each(|_| log(&mio, date, "x"));
    }
    log(&mio, "2026-01-31", "before");
    log(&mio, "2026-03-01", "after");
    let counts = |path: &str| -> (Vec<(String, usize)>, Option<String>) {
        let page = mio.get(&format!("/v1/archive/{path}"));
        let cursor = page.body["nextCursor"].as_str().map(str::to_owned);
        let days = page.list();
        let count = |day: &Json| (text(day, "date").to_owned(), day["logs"].as_array().map_or(0, Vec::len));
        (days.iter().map(count).collect(), cursor)
    };
    let day = |date: &str, count: usize| (date.to_owned(), count);
    let (first, cursor) = counts("2026-02");
    assert_eq!(first, [day("2026-02-01", 300), day("2026-02-09", 200)]);
    let cursor = cursor.expect("a cursor");
    // The day that the page ended in goes on.
    let (second, end) = counts(&format!("2026-02?cursor={cursor}"));
    assert_eq!(second, [day("2026-02-09", 50), day("2026-02-27", 1), day("2026-02-28", 1)]);
    assert_eq!(end, None);
    // It is the cursor of this month and this user.
    for (client, month) in [(&mio, "2026-01"), (&server.client_of_user("u_busy2", "u_busy2"), "2026-02")] {
        client.get(&format!("/v1/archive/{month}?cursor={cursor}")).expect_problem(400, "bad_cursor");
    }
}

/// A page of the archive is no larger than that of a list.
#[test]
fn large_logs_are_on_several_pages() {
    let server = kondate_server();
    let mio = server.client_of_user("u_long", "u_long");
    let memo = "め".repeat(2_000);
    for n in 0..450 {
        mio.post("/v1/cooklogs", &json!({ "date": "2026-02-09", "title": n.to_string(), "memo": memo }))
            .expect_data(201);
    }
    let (mut found, mut path) = (0, "/v1/archive/2026-02".to_owned());
    loop {
        let page = mio.get(&path);
        assert!(page.body.to_string().len() < 2_200_000, "{} bytes", page.body.to_string().len());
        found += page.list().iter().map(|day| day["logs"].as_array().map_or(0, Vec::len)).sum::<usize>();
        match page.body["nextCursor"].as_str() {
            Some(cursor) => path = format!("/v1/archive/2026-02?cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(found, 450);
}

fn owned((date, titles): (&str, Vec<&str>)) -> (String, Vec<String>) {
    (date.to_owned(), titles.into_iter().map(str::to_owned).collect())
}

/// The days of a month, and what was cooked on each.
#[track_caller]
fn days(client: &Client<'_>, month: &str) -> Vec<(String, Vec<String>)> {
    let titles =
        |day: &Json| day["logs"].as_array().expect("logs").iter().map(|log| text(log, "title").to_owned()).collect();
    let days = client.get(&format!("/v1/archive/{month}")).list();
    days.iter().map(|day| (text(day, "date").to_owned(), titles(day))).collect()
}

#[track_caller]
fn log(client: &Client<'_>, date: &str, title: &str) {
    client.post("/v1/cooklogs", &json!({ "date": date, "title": title })).expect_data(201);
}
