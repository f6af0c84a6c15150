//! Answers that are streams: they are logged when they end.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::ObservedRequest;

/// The body of such an answer. It is dropped when it has been sent, and when the client disconnects.
pub(super) struct LoggedStream {
    body: Body,
    observed: ObservedRequest,
    status: u16,
    bytes: u64,
}

impl LoggedStream {
    pub(super) fn new(body: Body, observed: ObservedRequest, status: u16) -> Self {
        LoggedStream { body, observed, status, bytes: 0 }
    }
}

impl HttpBody for LoggedStream {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.bytes += data.len() as u64;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for LoggedStream {
    fn drop(&mut self) {
        self.observed.stream_ended(self.status, self.bytes);
    }
}
