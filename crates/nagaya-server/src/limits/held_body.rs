//! Large answers: what a request holds until its client has read most of the answer.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// A body up to this size fits into the buffers of its connection, whether its client reads or not.
pub(crate) const SMALL_BODY: usize = 32 * 1024;

/// Marks an answer whose bytes need no room: its system has counted them, or all requests for it share them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UncountedAnswer;

/// The size of an answer that does not fit into the buffers of its connection; `None` for small answers and for streams.
pub(crate) fn large_size(response: &Response) -> Option<usize> {
    let size = usize::try_from(response.body().size_hint().exact()?).unwrap_or(usize::MAX);
    Some(size).filter(|size| *size > SMALL_BODY)
}

/// The same answer, in pieces: the connection takes a piece when it has written another. What is held is dropped with the
/// last one.
pub(crate) fn hold_until_sent(response: Response, held: impl Send + Unpin + 'static) -> Response {
    response.map(|body| Body::new(HeldBody { body, rest: Bytes::new(), _held: held }))
}

struct HeldBody<H> {
    body: Body,
    /// What is left of a frame.
    rest: Bytes,
    _held: H,
}

impl<H: Unpin> HttpBody for HeldBody<H> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        }
        let size = this.rest.len().min(SMALL_BODY);
        Poll::Ready(Some(Ok(Frame::data(this.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_large_answer_comes_in_pieces_and_holds_until_the_last() {
        let (held, content) = (std::sync::Arc::new(()), vec![7; 100_000]);
        let response = hold_until_sent(Response::new(Body::from(content.clone())), std::sync::Arc::clone(&held));
        let mut body = response.into_body();
        assert_eq!(body.size_hint().exact(), Some(100_000));
        assert!(!body.is_end_stream());
        let mut read = Vec::new();
        while let Some(frame) = body.frame().await {
            let piece = frame.expect("no error").into_data().expect("data");
            assert!(piece.len() <= SMALL_BODY);
            read.extend(piece);
            assert_eq!(body.size_hint().exact(), Some(100_000 - read.len() as u64));
        }
        assert_eq!(read, content);
        assert!(body.is_end_stream());
        assert_eq!(std::sync::Arc::strong_count(&held), 2);
        drop(body);
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }

    #[test]
    fn an_answer_that_fits_into_the_buffers_of_its_connection_is_not_large() {
        let size = |bytes: usize| large_size(&Response::new(Body::from(vec![7; bytes])));
        assert_eq!((size(SMALL_BODY), size(SMALL_BODY + 1)), (None, Some(SMALL_BODY + 1)));
    }
}
