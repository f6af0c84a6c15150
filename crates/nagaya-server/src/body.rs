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
    let _ = tokio::time::timeout(DRAIN_TIME, read(&mut body, 0, |_| Ok(()))).await;
    if !body.is_end_stream() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::{StreamExt as _, stream};

    use super::*;

    /// A body of pieces of these sizes, and how many of them have been taken.
    fn pieces<const N: usize>(sizes: [usize; N]) -> (Body, Arc<AtomicUsize>) {
        let taken = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&taken);
        let pieces = stream::iter(sizes).map(move |size| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::convert::Infallible>(vec![b'x'; size])
        });
        (Body::from_stream(pieces), taken)
    }

    #[tokio::test]
    async fn a_small_body_needs_no_room_and_a_larger_one_needs_room_for_all_of_it() {
        for (sizes, expected) in [
            ([SMALL_BODY, 0, 0], vec![]),
            ([SMALL_BODY - 1, 1, 0], vec![]),
            ([SMALL_BODY, 1, 9], vec![SMALL_BODY + 1, 9]),
        ] {
            let mut grown = Vec::new();
            let mut grow = |more| {
                grown.push(more);
                Ok(())
            };
            let sum = sizes.iter().sum();
            let read = read(&mut pieces(sizes).0, 100_000, |more| if more > 0 { grow(more) } else { Ok(()) }).await;
            assert_eq!((read.expect("it is within the limit").len(), grown), (sum, expected), "{sizes:?}");
        }
    }

    #[tokio::test]
    async fn a_body_over_its_limit_is_read_until_it_is_much_too_large() {
        let check = async |first: usize, expected: usize| {
            let (mut body, taken) = pieces([first, 1, 1]);
            let refused = read(&mut body, 10, |_| Ok(())).await.expect_err("it is over the limit");
            assert_eq!((refused.code(), taken.load(Ordering::Relaxed)), ("too_large", expected), "{first}");
        };
        check(11, 3).await;
        check(10 + DRAIN_LIMIT, 2).await;
        check(10 + DRAIN_LIMIT + 1, 1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_of_a_body_that_is_too_large_or_does_not_end_is_closed() {
        let connection = async |body: Body| {
            let drained = drain(body, Response::new(Body::empty())).await;
            drained.headers().get(header::CONNECTION).map(|value| value.to_str().expect("text").to_owned())
        };
        assert_eq!(connection(Body::empty()).await, None);
        assert_eq!(connection(Body::from("read to its end")).await, None);
        assert_eq!(connection(pieces([DRAIN_LIMIT, 1, 1]).0).await.as_deref(), Some("close"));
        let endless = Body::from_stream(stream::pending::<Result<Bytes, std::convert::Infallible>>());
        assert_eq!(connection(endless).await.as_deref(), Some("close"));
    }
}
