//! The log lines of requests.

use std::time::Duration;

use axum::{body::Body, http::Method};
use nagaya_server::{
    Limits, System,
    observe::{LogFormat, subscriber},
};
use nagaya_tenancy::Settings;
use nagaya_testing::{LogLines, ManualClock, TestServer, memory_store, parse_design};
use serde_json::{Value as Json, json};

use crate::desk::{DESIGN, Desk};

/// A line without the fields that differ each time.
fn without_variable_fields(mut line: Json) -> Json {
    let fields = line.as_object_mut().expect("an object");
    assert!(fields.remove("timestamp").is_some_and(|time| time.as_str().is_some_and(|time| time.ends_with('Z'))));
    assert!(fields.remove("ms").is_some_and(|ms| ms.as_f64().is_some_and(|ms| ms >= 0.0)));
    line
}

/// Names are hashed with the key of the data layer.
fn log_key() -> Settings {
    Settings { log_keys: [7; 32].into(), ..Settings::default() }
}

/// Proves T19.
#[tokio::test]
async fn a_request_leaves_one_line_of_json_with_its_ids() {
    let (lines, _log) = LogLines::capture("info");
    let desk = Desk::serve(memory_store(&ManualClock::default()), |server| server.settings(log_key())).await;
    let mut client = desk.connect("acme").await;
    let ids = [("x-request-id", "r-1"), ("x-correlation-id", "c-2"), ("x-causation-id", "d-3")];
    let path = "/notes/01ARZ3NDEKTSV4RRFFQ69G5FAV";
    assert_eq!(client.send(Method::GET, path, &ids, Body::empty()).await.status, 404);

    let user = blake3::keyed_hash(&[7; 32], b"local ann").to_hex();
    let expected = json!({
        "level": "INFO",
        "target": "nagaya::access",
        "method": "GET",
        "route": "/notes/{noteId}",
        "system": "desk",
        "status": 404,
        "tenant": "acme",
        "user": &user[..12],
        "request": "r-1",
        "correlation": "c-2",
        "causation": "d-3",
        "code": "not_found",
    });
    assert_eq!(lines.requests().into_iter().map(without_variable_fields).collect::<Vec<_>>(), [expected]);
}

/// Proves T19.
#[tokio::test]
async fn a_tenant_who_is_a_person_is_logged_as_a_hash() {
    let (lines, _log) = LogLines::capture("info");
    let design = parse_design(&DESIGN.replace("claim  = \"tenantId\"", "claim  = \"sub\""));
    let server = TestServer::builder(System::named("desk", design)).settings(log_key()).serve().await;
    let mut ann = server.connect().await.with_token(server.token(None, "ann", &[]));
    assert_eq!(ann.get("/notes").await.status, 200);
    let tenant = &blake3::keyed_hash(&[7; 32], b"ann").to_hex()[..12];
    let [line] = lines.requests().try_into().expect("one line");
    assert_eq!(line["tenant"], tenant);
    assert_eq!(server.nagaya.tenant_in_logs("ann"), *tenant, "the data layer logs the same name");
    assert!(!line.to_string().contains("ann"), "{line}");
}

#[tokio::test]
async fn a_visitor_is_nobody_in_the_log() {
    let (lines, _log) = LogLines::capture("info");
    let notice = r#"
        [http]
        visitors = true

        [entity.notice]
        table  = "main"
        # NG0304: a handful.
        key    = { PK = "NOTICES", SK = "NOTICE#{noticeId}" }
        wall   = "public"
        tenant = false

        [entity.notice.fields]
        noticeId = { type = "string", min = 1, max = 64 }

        [access.notices]
        entity = "notice"
    "#;
    let server = TestServer::builder(System::named("desk", parse_design(&format!("{DESIGN}{notice}")))).serve().await;
    assert_eq!(server.connect().await.get("/notices").await.status, 200);
    assert_eq!(server.connect_as("acme", "ann").await.get("/notices").await.status, 200);
    let named: Vec<_> =
        lines.requests().iter().map(|line| (line["user"].is_string(), line["tenant"].is_string())).collect();
    assert_eq!(named, [(false, false), (true, true)]);
}

/// Proves the ids' part of T19.
#[tokio::test]
async fn unknown_values_are_left_out_of_the_line() {
    let (lines, _log) = LogLines::capture("info");
    let desk = Desk::open(Limits::default()).await;
    let mut client = desk.server.connect().await;
    let known = client.get("/notes").await;
    let unknown = client.get("/nowhere").await;

    let line = |route: &str, status: u16, system: &str, id: &str, code: &str| {
        json!({
            "level": "INFO", "target": "nagaya::access", "method": "GET", "route": route, "system": system,
            "status": status, "request": id, "correlation": id, "code": code,
        })
    };
    let id = |got: &nagaya_testing::RawResponse| got.header("x-request-id").expect("an id").to_owned();
    let expected =
        [line("/notes", 401, "desk", &id(&known), "no_token"), line("none", 404, "none", &id(&unknown), "not_found")];
    assert_eq!(lines.requests().into_iter().map(without_variable_fields).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn every_kind_of_completion_is_logged() {
    let (lines, _log) = LogLines::capture("info");
    let desk = Desk::open(Limits { concurrent: 1, ..Limits::default() }).await;
    let mut client = desk.connect("acme").await;
    client.post("/panic", &json!({})).await;
    let mut gone = desk.connect("acme").await;
    let asking = tokio::spawn(async move { gone.get("/hold").await.status });
    desk.wait_until_held(1).await;
    client.get("/notes").await;
    asking.abort();
    desk.wait_until_held(0).await;
    client.get("/notes").await;
    client.get("/healthz").await;

    let end = |line: &Json| (line["status"].clone(), line["level"].clone(), line["code"].clone());
    let ends: Vec<_> = lines.requests().iter().map(end).collect();
    let expected = [
        (500, "ERROR", json!("internal")),
        (503, "WARN", json!("overloaded")),
        (499, "WARN", Json::Null),
        (200, "INFO", Json::Null),
    ];
    assert_eq!(ends, expected.map(|(status, level, code)| (json!(status), json!(level), code)));
    assert_eq!(lines.count("a request panicked"), 1);
}

#[tokio::test]
async fn slow_requests_are_marked() {
    for (threshold, slow) in [(Duration::ZERO, json!(true)), (Duration::from_secs(3600), Json::Null)] {
        let (lines, _log) = LogLines::capture("info");
        let desk = Desk::open_with(Limits::default(), move |server| server.slow_request(threshold)).await;
        assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200);
        assert_eq!(lines.requests()[0]["slow"], slow);
    }
}

#[tokio::test]
async fn a_stream_is_logged_when_it_ends() {
    let (lines, _log) = LogLines::capture("info");
    let desk = Desk::open_with(Limits::default(), |server| server.slow_request(Duration::ZERO)).await;
    let mut client = desk.connect("acme").await;
    let listening = tokio::spawn(async move { client.get("/stream").await });
    desk.wait_until_held(1).await;
    assert_eq!(lines.requests(), Vec::<Json>::new(), "it is still listened to");
    desk.release(1);
    assert_eq!(listening.await.expect("no panic").text, "onetwothreefour");
    desk.connect("acme").await.get("/notes").await;
    let logged: Vec<_> =
        lines.requests().iter().map(|line| json!([line["route"], line["bytes"], line["slow"]])).collect();
    assert_eq!(logged, [json!(["/stream", 15, null]), json!(["/notes", null, true])]);

    // A stream ends when its client disconnects.
    let mut gone = desk.connect("acme").await;
    let listening = tokio::spawn(async move { gone.get("/stream").await });
    desk.wait_until_held(1).await;
    listening.abort();
    desk.wait_until_held(0).await;
    while lines.requests().len() < 3 {
        tokio::task::yield_now().await;
    }
    let line = lines.requests().remove(2);
    assert_eq!([&line["status"], &line["level"], &line["bytes"]], [&json!(200), &json!("INFO"), &json!(11)]);
}

#[tokio::test]
async fn request_lines_can_be_turned_off() {
    let (lines, _log) = LogLines::capture("info,nagaya::access=off");
    let desk = Desk::open(Limits::default()).await;
    assert_eq!(desk.connect("acme").await.get("/notes").await.status, 200);
    assert_eq!(lines.requests(), Vec::<Json>::new());
}

#[tokio::test]
async fn text_format_is_readable() {
    let (lines, _log) = LogLines::capture_as(LogFormat::Text, "info");
    let desk = Desk::open(Limits::default()).await;
    desk.connect("acme").await.get("/notes").await;
    let text = lines.text();
    assert!(text.contains(r#"INFO nagaya::access: method="GET" route="/notes" system="desk" status=200"#), "{text}");
}

#[test]
fn an_unreadable_filter_is_an_error() {
    let error = subscriber(LogFormat::Json, "nagaya=loud", std::io::sink).err().expect("it is refused").to_string();
    assert!(error.contains("`nagaya=loud`"), "{error}");
}
