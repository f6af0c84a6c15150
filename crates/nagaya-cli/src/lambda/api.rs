//! The API as a function.

use std::{
    convert::Infallible,
    sync::Mutex,
    time::{Duration, Instant},
};

use axum::{body, http::StatusCode};
use lambda_http::{Body, Request, Response, service_fn};
use nagaya_events::refresh_generations;
use nagaya_server::{Problem, RequestHandler, RevocationFollower, Server};
use nagaya_tenancy::Nagaya;

/// How often another process may have switched a projection to another generation.
const GENERATIONS_INTERVAL: Duration = Duration::from_secs(1);
/// The largest response that Lambda accepts.
const MAX_RESPONSE_BYTES: usize = 6 * 1024 * 1024;

pub(super) async fn run(server: Server, nagaya: Nagaya, follower: Option<RevocationFollower>) -> anyhow::Result<()> {
    let (app, looked) = (server.app(), Mutex::new(None));
    let handler = service_fn(|request: Request| {
        let (app, nagaya, looked, follower) = (&app, &nagaya, &looked, &follower);
        async move {
            // Between requests a function does not run, so nothing can follow the list in the background.
            if let Some(follower) = follower {
                follower.refresh().await;
            }
            refresh_generations_once_a_second(nagaya, looked).await;
            Ok::<_, Infallible>(answer(app, request).await)
        }
    });
    lambda_http::run(handler).await.map_err(|error| anyhow::anyhow!("the runtime of Lambda failed: {error}"))
}

/// Switches to the current generations of projections, if it is time to check.
async fn refresh_generations_once_a_second(nagaya: &Nagaya, looked: &Mutex<Option<Instant>>) {
    {
        let mut looked = looked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if looked.is_some_and(|at| at.elapsed() < GENERATIONS_INTERVAL) {
            return;
        }
        *looked = Some(Instant::now());
    }
    if let Err(error) = refresh_generations(nagaya).await {
        tracing::warn!(%error, "generations cannot be read");
    }
}

async fn answer(app: &RequestHandler, request: Request) -> Response<Body> {
    let request = request.map(|body| match body {
        Body::Text(text) => body::Body::from(text),
        Body::Binary(bytes) => body::Body::from(bytes),
        _ => body::Body::empty(),
    });
    let response = app.answer("", request).await;
    let id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    // A function sends a response as a whole, so an endless one is impossible.
    if response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream") {
        let detail = "A function cannot stream events; ask the server.";
        return problem_response(&id, Problem::new(StatusCode::NOT_IMPLEMENTED, "not_here", detail)).await;
    }
    match to_lambda_response(response).await {
        Some(response) => response,
        None => {
            let detail = "The response is larger than a function can send; ask for less at a time.";
            problem_response(&id, Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "answer_too_large", detail)).await
        }
    }
}

/// The problem in place of an answer, with the id of its request.
async fn problem_response(id: &str, problem: Problem) -> Response<Body> {
    to_lambda_response(problem.into_response(id)).await.unwrap_or_default()
}

/// A response for Lambda; `None` if it is too large.
async fn to_lambda_response(response: axum::response::Response) -> Option<Response<Body>> {
    let (parts, content) = response.into_parts();
    let packed = parts.headers.contains_key("content-encoding");
    let bytes = body::to_bytes(content, MAX_RESPONSE_BYTES).await.ok()?.to_vec();
    let body = match String::from_utf8(bytes) {
        Ok(text) if !packed => Body::Text(text),
        Ok(text) => Body::Binary(text.into_bytes()),
        Err(error) => Body::Binary(error.into_bytes()),
    };
    Some(Response::from_parts(parts, body))
}
