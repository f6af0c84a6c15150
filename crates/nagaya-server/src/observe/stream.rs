//! Answers whose length is not known when they begin: their line is written when they end.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use super::Observed;

/// The body of such an answer. It is dropped when it has been sent, and when its reader goes away.
pub(super) struct Streamed {
    body: Body,
    observed: Observed,
    status: u16,
    bytes: u64,
}

impl Streamed {
    pub(super) fn new(body: Body, observed: Observed, status: u16) -> Self {
        Streamed { body, observed, status, bytes: 0 }
    }
}

impl HttpBody for Streamed {
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

impl Drop for Streamed {
    fn drop(&mut self) {
        self.observed.streamed(self.status, self.bytes);
    }
}
