//! The API as a function.

use std::{
    convert::Infallible,
    sync::Mutex,
    time::{Duration, Instant},
};

use axum::{
    body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
};
use lambda_http::{Body, Request, RequestExt as _, Response, request::RequestContext, service_fn};
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
    let stage = stage_prefix(&request);
    let response = app.answer_as_whole("", http_request(request, stage.as_deref())).await;
    let id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    match to_lambda_response(response).await {
        Some(mut response) => {
            add_prefix(response.headers_mut(), stage.as_deref());
            response
        }
        None => {
            let detail = "The response is larger than a function can send; ask for less at a time.";
            problem_response(&id, Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "answer_too_large", detail)).await
        }
    }
}

/// The stage in the path of a request, such as `/prod`. Clients call it there; the routes of the system begin after it.
fn stage_prefix(request: &Request) -> Option<String> {
    let context = request.request_context_ref();
    let stage = match context {
        Some(RequestContext::ApiGatewayV1(context)) => context.stage.as_deref(),
        Some(RequestContext::ApiGatewayV2(context)) => context.stage.as_deref(),
        _ => None,
    };
    let prefix = format!("/{}", stage.filter(|stage| !stage.is_empty() && *stage != "$default")?);
    // A REST API leaves the stage out of the path and tells of it in the context; an HTTP API has it in the path. A domain
    // of one's own may leave it out of both.
    let called = match context {
        Some(RequestContext::ApiGatewayV1(context)) => context.path.as_deref().unwrap_or_default(),
        _ => request.raw_http_path(),
    };
    let is_below = called.strip_prefix(&prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is_below.then_some(prefix)
}

/// The request of a client, with the id of its invocation.
fn http_request(request: Request, stage: Option<&str>) -> axum::extract::Request {
    // Without what the runtime makes of the stage.
    let raw = request.raw_http_path();
    let is_rest = matches!(request.request_context_ref(), Some(RequestContext::ApiGatewayV1(_)));
    let path = stage.filter(|_| !is_rest).and_then(|stage| raw.strip_prefix(stage)).unwrap_or(raw);
    let path = if path.is_empty() { "/" } else { path };
    let target = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let id = request.lambda_context_ref().map(|context| context.request_id.clone());
    let mut request = request.map(|body| match body {
        Body::Text(text) => body::Body::from(text),
        Body::Binary(bytes) => body::Body::from(bytes),
        _ => body::Body::empty(),
    });
    // A target that is not one is left as it is, and answered as such.
    if let Ok(target) = target.parse() {
        *request.uri_mut() = target;
    }
    // A caller's own id has precedence, as on a server. The runtime has put the trace into its header.
    if let Some(Ok(id)) = id.map(HeaderValue::try_from) {
        request.headers_mut().entry("x-request-id").or_insert(id);
    }
    request
}

/// Puts the stage before the path of `Location`.
fn add_prefix(headers: &mut HeaderMap, stage: Option<&str>) {
    let Some(location) = headers.get(header::LOCATION).and_then(|location| location.to_str().ok()) else { return };
    if let Some(stage) = stage.filter(|_| location.starts_with('/'))
        && let Ok(location) = HeaderValue::try_from(format!("{stage}{location}"))
    {
        headers.insert(header::LOCATION, location);
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
