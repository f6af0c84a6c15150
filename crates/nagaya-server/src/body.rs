//! Request bodies: read within limits, and drained so that the connection can be reused.

use std::time::Duration;

use axum::{
    body::{Body, HttpBody as _},
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::{Problem, ProblemCode, limits::SMALL_BODY};

/// Bytes beyond a limit that are read and discarded: a client that is still sending would not read the answer.
const DRAIN_LIMIT: usize = 8 * 1024 * 1024;
/// Time for discarding a body that is not read.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Reads a body. What makes it larger than a small one needs room when it has come, not when it is announced: a client that sends
/// nothing takes nothing.
pub(crate) async fn read(
    body: &mut Body,
    limit: usize,
    mut grow: impl FnMut(usize) -> Result<(), Problem>,
) -> Result<Bytes, Problem> {
    let (mut read, mut count, mut reserved) = (Vec::new(), 0_usize, 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::from_code(ProblemCode::BAD_BODY, "The request body ended early."))?;
        let Some(data) = frame.data_ref() else { continue };
        count = count.saturating_add(data.len());
        if count <= limit {
            if count > SMALL_BODY {
                grow(count - reserved)?;
                reserved = count;
            }
            read.extend_from_slice(data);
        } else if count > limit.saturating_add(DRAIN_LIMIT) {
            break;
        }
    }
    if count > limit {
        return Err(Problem::from_code(ProblemCode::TOO_LARGE, format!("The body is larger than {limit} bytes.")));
    }
    Ok(read.into())
}

/// Discards the unread rest of a body, so that the connection can be reused; closes the connection of a client that sends
/// too much or too slowly.
pub(crate) async fn drain(mut body: Body, mut response: Response) -> Response {
    if body.is_end_stream() {
        return response;
    }
    let rest = tokio::time::timeout(DRAIN_TIME, read(&mut body, 0, |_| Ok(()))).await;
    if rest.is_err() || !body.is_end_stream() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
