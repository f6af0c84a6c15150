//! Extensions of derived routes, custom routes and background work.

use std::{
    convert::Infallible,
    io::Read as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    body::Body,
    http::{Method, StatusCode},
};
use futures_util::{StreamExt as _, stream};
use nagaya_embedded::{EmbeddedStore, Options};
use nagaya_server::{
    Answer, Call, Claims, Content, CustomRoute, Extension, ExtensionFuture, Limits, Problem, RequiredCaller, Server,
    StopSignal, System, Verifier,
};
use nagaya_store::Clock;
use nagaya_tenancy::Nagaya;
use nagaya_testing::{TestServer, parse_design};
use serde_json::json;
use tokio::{net::TcpListener, sync::oneshot};

use crate::desk::DESK;

struct Desk;

impl Extension for Desk {
    fn routes(&self) -> Vec<CustomRoute> {
        let close =
            CustomRoute::new(Method::POST, "/tickets/{ticketId}/close", "Close a ticket.", async |call: Arc<Call>| {
                let id = call.path_parameter("ticketId").unwrap_or_default().to_owned();
                let patch = json!({ "status": "closed" }).as_object().cloned().unwrap_or_default();
                Ok(Answer::record(call.tenant()?.update("ticket", &[&id], patch, None).await?))
            });
        let teams = CustomRoute::new(Method::GET, "/teams", "No teams.", async |_| Ok(Answer::data(json!(["none"]))));
        vec![close.requires_permission("ticket", nagaya_design::Verb::Update), teams]
    }

    fn before<'a>(&'a self, call: &'a mut Call) -> ExtensionFuture<'a, Result<Option<Answer>, Problem>> {
        Box::pin(async move {
            match call.subject() {
                Some(("ticket", nagaya_design::Verb::Create)) => {
                    if call.body.get("subject") == Some(&json!("forbidden")) {
                        return Err(Problem::forbidden("Not this."));
                    }
                    call.body.insert("tags".to_owned(), json!(["new"]));
                    Ok(None)
                }
                Some(("seat", _)) => Ok(Some(Answer::data(json!("sit anywhere")))),
                _ => Ok(None),
            }
        })
    }

    fn after<'a>(&'a self, _: &'a Call, answer: &'a mut Answer) -> ExtensionFuture<'a, Result<(), Problem>> {
        answer.set_header(axum::http::HeaderName::from_static("x-desk"), "yes");
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn an_extension_acts_before_after_and_instead_of_derived_routes() {
    let server = TestServer::in_memory(System::new("desk", parse_design(DESK), Desk));
    let t1 = server.user_with("t1", "u1", &["admin"]);
    // Before the derived route: the call is changed or refused.
    let made = t1.post("/v1/tickets", &json!({ "ticketId": "a", "subject": "a" }));
    assert_eq!(made.expect_data(201)["tags"], json!(["new"]));
    t1.post("/v1/tickets", &json!({ "subject": "forbidden" })).expect_problem(403, "forbidden");
    // After the derived route.
    assert_eq!(made.header("x-desk"), Some("yes"));
    // Instead of the derived route: by a hook, and by a custom route.
    assert_eq!(t1.get("/v1/seats").expect_data(200), "sit anywhere");
    assert_eq!(t1.get("/v1/teams").expect_data(200), json!(["none"]));
    t1.post("/v1/teams", &json!({ "name": "A" })).expect_data(201);
    // A custom route, behind the wall and with the roles of the design.
    assert_eq!(t1.post("/v1/tickets/a/close", &json!({})).expect_data(200)["status"], "closed");
    server.user_with("t2", "u1", &["admin"]).post("/v1/tickets/a/close", &json!({})).expect_problem(404, "not_found");
    server.user_with("t1", "u1", &["viewer"]).post("/v1/tickets/a/close", &json!({})).expect_problem(403, "forbidden");
    server.anonymous_client().post("/v1/tickets/a/close", &json!({})).expect_problem(401, "no_token");
}

/// Handlers that use what a call offers.
struct Handlers;

impl Extension for Handlers {
    fn routes(&self) -> Vec<CustomRoute> {
        let search = CustomRoute::new(Method::GET, "/ticket-search", "Tickets.", async |call: Arc<Call>| {
            let page = call.list("tickets", &["colour"]).await?;
            let given = [call.query_parameter("colour"), call.query_parameter("size")];
            Ok(Answer::data(json!([page.records.len(), given])))
        });
        let operate = CustomRoute::new(Method::GET, "/operate", "For operators.", async |call: Arc<Call>| {
            call.operator()?;
            Ok(Answer::data(json!("done")))
        });
        let ping = CustomRoute::new(Method::POST, "/ping", "With a body or without.", async |call: Arc<Call>| {
            Ok(Answer::data(json!(call.body)))
        });
        vec![
            search.requires_permission("ticket", nagaya_design::Verb::Read),
            operate.caller(RequiredCaller::Anyone),
            ping.body(json!({ "type": "object" })),
        ]
    }

    fn before<'a>(&'a self, call: &'a mut Call) -> ExtensionFuture<'a, Result<Option<Answer>, Problem>> {
        call.limit_to_own_items();
        Box::pin(async { Ok(None) })
    }
}

#[test]
fn a_handler_takes_parameters_of_its_own_beside_those_of_a_list() {
    let server = TestServer::in_memory(System::new("desk", parse_design(DESK), Handlers));
    let t1 = server.user_with("t1", "u1", &["admin"]);
    for id in ["a", "b"] {
        t1.post("/v1/tickets", &json!({ "ticketId": id, "subject": id })).expect_data(201);
    }
    assert_eq!(t1.get("/v1/ticket-search?limit=1&colour=red").expect_data(200), json!([1, ["red", null]]));
    assert_eq!(t1.get("/v1/ticket-search").expect_data(200), json!([2, [null, null]]));
    t1.get("/v1/ticket-search?size=1").expect_problem(400, "bad_parameter");
    t1.get("/v1/ticket-search?colour=red&colour=blue").expect_problem(400, "bad_parameter");
}

#[test]
fn a_handler_gets_the_handle_of_an_operator_for_operators_only() {
    let server = TestServer::in_memory(System::new("desk", parse_design(DESK), Handlers));
    let (operator, reason) = (server.client_of_operator("op"), "a test of it");
    operator.get("/v1/operate").expect_data(200);
    operator.without_header("nagaya-reason").get("/v1/operate").expect_problem(400, "no_reason");
    for other in [
        server.user_with("t1", "u1", &["admin"]),
        server.user_with("t1", "u1", &["admin", "operator"]),
        server.user_without_tenant("u1"),
    ] {
        other.with_header("nagaya-reason", reason).get("/v1/operate").expect_problem(403, "forbidden");
    }
}

#[test]
fn an_extension_limits_callers_to_their_own_items() {
    let server = TestServer::in_memory(System::new("desk", parse_design(DESK), Handlers));
    let [hana, ren] = ["hana", "ren"].map(|user| server.user_with("t1", user, &["admin"]));
    for client in [&hana, &ren] {
        client.post("/v1/diaries", &json!({})).expect_data(201);
    }
    assert_eq!(ren.get("/v1/diaries").list().len(), 1);
    ren.get("/v1/diaries/hana").expect_problem(404, "not_found");
    ren.patch("/v1/diaries/hana", &json!({ "text": "b" })).expect_problem(404, "not_found");
    ren.delete("/v1/diaries/hana").expect_problem(404, "not_found");
    ren.patch("/v1/diaries/ren", &json!({ "text": "b" })).expect_data(200);
    assert_eq!(hana.get("/v1/diaries/hana").expect_data(200)["text"], "");
}

#[test]
fn a_body_without_required_fields_can_be_left_out() {
    let server = TestServer::in_memory(System::new("desk", parse_design(DESK), Handlers));
    let t1 = server.user_with("t1", "u1", &["admin"]);
    assert_eq!(t1.post_empty("/v1/ping").expect_data(200), json!({}));
    assert_eq!(t1.post("/v1/ping", &json!({ "a": 1 })).expect_data(200), json!({ "a": 1 }));
    t1.with_header("content-type", "text/plain")
        .request_bytes("POST", "/v1/ping", Some(b"a"))
        .expect_problem(415, "not_json");
    t1.post_empty("/v1/tickets").expect_problem(415, "not_json");
}

/// Sends one event, and keeps the stream open.
struct NewsStream;

impl Extension for NewsStream {
    fn routes(&self) -> Vec<CustomRoute> {
        let news = |_| async {
            let first = stream::once(async { Ok::<_, Infallible>("data: first\n\n") });
            let body = Body::from_stream(first.chain(stream::pending()));
            Ok(Answer::new(StatusCode::OK, Content::Stream("text/event-stream", body)))
        };
        let news = CustomRoute::new(Method::GET, "/news", "What happens.", news).answers_stream("text/event-stream");
        vec![news.requires_permission("ticket", nagaya_design::Verb::Read)]
    }
}

#[test]
fn a_stream_is_delivered_before_it_ends() {
    let server = TestServer::in_memory(System::new("desk", parse_design(DESK), NewsStream));
    let token = server.token(Some("t1"), "u1", &["viewer"]);
    let request = ureq::get(format!("{}/v1/news", server.url)).header("authorization", format!("Bearer {token}"));
    let mut answer = request.call().expect("an answer");
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
    assert_eq!((header("content-type"), header("cache-control")), (Some("text/event-stream"), Some("no-store")));
    assert!(header("x-request-id").is_some() && header("content-length").is_none(), "{:?}", answer.headers());
    let mut received = [0; 13];
    answer.body_mut().as_reader().read_exact(&mut received).expect("the beginning");
    assert_eq!(&received, b"data: first\n\n");
    // A caller without the role gets a problem, and no stream.
    server.anonymous_client().get("/v1/news").expect_problem(401, "no_token");
}

/// A stream whose handler must not run.
struct UnreadStream;

impl Extension for UnreadStream {
    fn routes(&self) -> Vec<CustomRoute> {
        let news = |_| async { panic!("nobody can read it") };
        let news = CustomRoute::new(Method::GET, "/news", "What happens.", news).answers_stream("text/event-stream");
        vec![news.caller(RequiredCaller::Public)]
    }
}

#[tokio::test]
async fn a_runtime_that_sends_whole_answers_refuses_streams_before_their_handler_runs() {
    let mut design = parse_design(DESK);
    design.visitors = true;
    let system = System::new("desk", design, UnreadStream);
    let nagaya = Nagaya::open(system.design.clone(), EmbeddedStore::in_memory(Options::default()).expect("memory"));
    let mut server = Server::new(Limits::default());
    let verifier = Verifier::new(Claims::from_design(&system.design), Clock::system());
    server.mount("", system, nagaya, verifier);
    let request = axum::extract::Request::builder()
        .uri("/v1/news")
        .header("host", "desk.example.com")
        .body(Body::empty())
        .expect("a request");
    let answer = server.app().answer_as_whole("192.0.2.1", request).await;
    assert_eq!(answer.status(), StatusCode::NOT_IMPLEMENTED);
    let body = axum::body::to_bytes(answer.into_body(), 4_096).await.expect("a body");
    assert!(String::from_utf8_lossy(&body).contains("\"not_here\""), "{body:?}");
}

/// Background work: 1 once it has started, 2 once it has ended after the stop signal.
struct BackgroundWork(Arc<AtomicUsize>);

impl Extension for BackgroundWork {
    fn background(&self, nagaya: Nagaya, mut stop: StopSignal) -> Option<ExtensionFuture<'static, ()>> {
        assert_eq!(nagaya.design().name, "desk");
        let stage = Arc::clone(&self.0);
        Some(Box::pin(async move {
            stage.store(1, Ordering::Relaxed);
            stop.wait().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            stage.store(2, Ordering::Relaxed);
        }))
    }
}

#[tokio::test]
async fn background_work_gets_the_stop_signal_and_is_awaited() {
    let stage = Arc::new(AtomicUsize::new(0));
    let system = System::new("desk", parse_design(DESK), BackgroundWork(Arc::clone(&stage)));
    let nagaya = Nagaya::open(system.design.clone(), EmbeddedStore::in_memory(Options::default()).expect("memory"));
    let mut server = Server::new(Limits::default());
    let verifier = Verifier::new(Claims::from_design(&system.design), Clock::system());
    server.mount("", system, nagaya, verifier);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(listener, async { drop(stopped.await) }));
    while stage.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!running.is_finished());
    stop.send(()).expect("the server listens");
    running.await.expect("the server ends");
    assert_eq!(stage.load(Ordering::Relaxed), 2);
}
