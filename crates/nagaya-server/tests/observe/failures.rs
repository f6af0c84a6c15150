//! A failing store: the responses, and the log.

use std::time::Duration;

use axum::{body::Body, http::Method};
use nagaya_server::Limits;
use nagaya_store::{Error, ErrorKind};
use nagaya_testing::{Fault, LogLines, PausedTokioClock};
use serde_json::{Value as Json, json};

use crate::desk::Desk;

/// The store error, the status and the code of the response, its `Retry-After`, and the log level.
type Case = (fn() -> Error, u16, &'static str, Option<&'static str>, &'static str);

/// The log lines with the causes of failures.
fn causes(lines: &LogLines) -> Vec<Json> {
    lines.server().into_iter().filter(|line| line["message"] == "a request failed").collect()
}

#[tokio::test]
async fn each_store_error_has_its_status_and_its_cause_is_logged_with_the_request_id() {
    let cases: [Case; 5] = [
        (|| Error::unavailable("nobody answers at 10.0.0.7"), 503, "store_unavailable", Some("5"), "WARN"),
        (|| ErrorKind::OutOfSpace("/var/db is full".into()).into(), 507, "insufficient_storage", None, "WARN"),
        (|| ErrorKind::Busy.into(), 503, "busy", Some("1"), "WARN"),
        (|| Error::outcome_unknown("connection reset by 10.0.0.7"), 504, "unanswered", None, "WARN"),
        (|| Error::engine("checksum of /var/db/7 differs"), 500, "internal", None, "ERROR"),
    ];
    let (lines, _log) = LogLines::capture("info");
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    for (fail, status, code, retry_after, level) in cases {
        let fault = desk.store.inject(Fault::fail_before(fail));
        let id = format!("r-{code}");
        let headers = [("content-type", "application/json"), ("x-request-id", &id)];
        let got = client.send(Method::POST, "/notes", &headers, Body::from(r#"{"title":"a"}"#)).await;
        assert_eq!((got.problem(), got.header("retry-after")), ((status, code.to_owned()), retry_after));
        assert!(!got.text.contains("/var/db") && !got.text.contains("10.0.0.7"), "{got:?}");

        let cause = causes(&lines).pop().expect("the cause is logged");
        assert_eq!(
            [&cause["request"], &cause["level"], &cause["code"], &cause["route"], &cause["cause"]],
            [&json!(id), &json!(level), &json!(code), &json!("/notes"), &json!(fail().to_string())]
        );
        let access = lines.requests().pop().expect("its line");
        assert_eq!([&access["request"], &access["level"]], [&json!(id), &json!(level)]);
        fault.remove();
    }
}

#[tokio::test]
async fn the_same_failure_is_logged_once_per_interval() {
    let (lines, _log) = LogLines::capture("info");
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.connect("acme").await;
    let clock = PausedTokioClock::pause();
    desk.store.inject(Fault::fail_before(|| Error::unavailable("down")));
    for _ in 0..20 {
        assert_eq!(client.get("/notes").await.status, 503);
    }
    clock.advance(Duration::from_secs(1)).await;
    assert_eq!(client.get("/notes").await.status, 503);
    let suppressed: Vec<_> = causes(&lines).into_iter().map(|line| line["suppressed"].clone()).collect();
    assert_eq!(suppressed, [Json::Null, json!(19)]);
    assert_eq!(lines.requests().len(), 21, "each has its own line all the same");
}
