//! Requests that no route answers.

use std::sync::Arc;

use axum::{extract::Request, response::Response};

use crate::{Problem, ProblemCode, body, observe::RequestLog};

/// Answers 404.
pub(crate) async fn not_found(request: Request) -> Response {
    refuse(request, Problem::not_found()).await
}

/// Answers 405.
pub(crate) async fn method_not_allowed(request: Request) -> Response {
    let detail = format!("{} cannot be used here; the header `Allow` says what can.", request.method());
    refuse(request, Problem::from_code(ProblemCode::NO_SUCH_METHOD, detail)).await
}

/// Answers with a problem.
pub(crate) async fn refuse(request: Request, problem: Problem) -> Response {
    let log = request.extensions().get::<Arc<RequestLog>>();
    if let Some(log) = log {
        log.failed(&problem);
    }
    let response = problem.into_response(log.map_or("", |log| &log.origin.request));
    body::drain(request.into_body(), response).await
}
