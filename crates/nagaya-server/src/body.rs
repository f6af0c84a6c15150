//! Bodies of requests: read within limits, and never left half read.

use std::time::Duration;

use axum::{
    body::{Body, HttpBody as _},
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::Problem;

/// Bytes beyond a limit that are still read, and thrown away: a client that is still sending would not see the answer.
const PATIENCE: usize = 8 * 1024 * 1024;
/// How long a body that nobody wants may take.
const MOMENT: Duration = Duration::from_secs(1);

/// Reads a body.
pub(crate) async fn read(body: &mut Body, limit: usize) -> Result<Bytes, Problem> {
    let (mut read, mut count) = (Vec::new(), 0_usize);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad_request("bad_body", "The body has not come whole."))?;
        let Some(data) = frame.data_ref() else { continue };
        count = count.saturating_add(data.len());
        if count <= limit {
            read.extend_from_slice(data);
        } else if count > limit.saturating_add(PATIENCE) {
            break;
        }
    }
    if count > limit {
        let detail = format!("The body is larger than {limit} bytes.");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail));
    }
    Ok(read.into())
}

/// An answer that does not wait for the body: what has been sent of it is taken, so that the connection can go on; a client
/// that sends more is told that it cannot.
pub(crate) async fn leave(mut body: Body, mut response: Response) -> Response {
    if body.is_end_stream() {
        return response;
    }
    let rest = tokio::time::timeout(MOMENT, read(&mut body, 0)).await;
    if rest.is_err() || !body.is_end_stream() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
