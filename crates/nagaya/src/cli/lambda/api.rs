//! The API as a function.

use std::{
    convert::Infallible,
    sync::Mutex,
    time::{Duration, Instant},
};

use axum::body;
use lambda_http::{Body, Request, Response, service_fn};
use nagaya_events::follow_generations;
use nagaya_server::{App, Server};
use nagaya_tenancy::Nagaya;

/// How often another process may have switched a projection to another generation.
const GENERATIONS: Duration = Duration::from_secs(1);
/// What Lambda takes as an answer.
const LARGEST: usize = 6 * 1024 * 1024;

pub(super) async fn run(server: Server, nagaya: Nagaya) -> anyhow::Result<()> {
    let (app, looked) = (server.app(), Mutex::new(None));
    let handler = service_fn(|request: Request| {
        let (app, nagaya, looked) = (&app, &nagaya, &looked);
        async move {
            keep_up(nagaya, looked).await;
            Ok::<_, Infallible>(answer(app, request).await)
        }
    });
    lambda_http::run(handler).await.map_err(|error| anyhow::anyhow!("the runtime of Lambda failed: {error}"))
}

/// Uses the generations that are to be read now, if it is time to look.
async fn keep_up(nagaya: &Nagaya, looked: &Mutex<Option<Instant>>) {
    {
        let mut looked = looked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if looked.is_some_and(|at| at.elapsed() < GENERATIONS) {
            return;
        }
        *looked = Some(Instant::now());
    }
    if let Err(error) = follow_generations(nagaya).await {
        tracing::warn!(%error, "generations cannot be read");
    }
}

async fn answer(app: &App, request: Request) -> Response<Body> {
    let request = request.map(|body| match body {
        Body::Text(text) => body::Body::from(text),
        Body::Binary(bytes) => body::Body::from(bytes),
        _ => body::Body::empty(),
    });
    let (parts, content) = app.answer("", request).await.into_parts();
    let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    // A function answers as a whole: what never ends cannot be answered by one.
    if kind == "text/event-stream" {
        return refused(501, "not_here", "A function cannot tell of events as they happen; ask the server.");
    }
    let packed = parts.headers.contains_key("content-encoding");
    match body::to_bytes(content, LARGEST).await {
        Ok(bytes) => {
            let text = (!packed).then(|| String::from_utf8(bytes.to_vec()).ok()).flatten();
            Response::from_parts(parts, text.map_or_else(|| Body::Binary(bytes.to_vec()), Body::Text))
        }
        Err(_) => refused(500, "internal", "The answer is larger than a function can give."),
    }
}

fn refused(status: u16, code: &str, detail: &str) -> Response<Body> {
    let problem = serde_json::json!({
        "type": format!("urn:nagaya:problem:{code}"), "status": status, "code": code, "detail": detail,
    });
    let response = Response::builder().status(status).header("content-type", "application/problem+json");
    response.body(Body::Text(problem.to_string())).unwrap_or_default()
}
