//! The time limits of a connection: for the head of a request, without a request, and for reading an answer.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use super::{IDLE_TIMEOUT_CAP, table::ConnectionState};
use crate::limits::Limits;

/// The time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimits {
    /// From the first byte of a head to its end, and for the handshake of TLS.
    pub(super) head: Duration,
    /// Between two requests.
    idle: Duration,
    /// Bytes per second at which a client has to read its answer.
    min_read_rate: u32,
}

impl TimeLimits {
    pub(super) fn new(limits: &Limits) -> Self {
        TimeLimits {
            head: limits.head_time.min(IDLE_TIMEOUT_CAP),
            idle: limits.idle.min(IDLE_TIMEOUT_CAP),
            min_read_rate: limits.min_read_rate.get(),
        }
    }
}

/// How long a client may read nothing, besides what it has earned by reading.
const READ_GRACE: Duration = Duration::from_secs(10);

/// A stream that fails when its client takes too long.
pub(super) struct GuardedStream<S> {
    stream: S,
    limits: TimeLimits,
    state: Arc<ConnectionState>,
    /// How many requests had begun at the last look.
    requests: u32,
    reading: ReadPhase,
    /// When that began.
    since: Instant,
    read_timer: Pin<Box<Sleep>>,
    writing: Writing,
    write_timer: Pin<Box<Sleep>>,
}

/// How the client takes its answer.
#[derive(Debug, Clone, Copy, Default)]
struct Writing {
    bytes: u64,
    /// How long it took nothing although there was something.
    blocked: Duration,
    blocked_since: Option<Instant>,
}

/// What the client is expected to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadPhase {
    /// A request, at any time within the limit.
    Idle,
    /// The rest of a head.
    Head,
    /// A body, or nothing: the time limit of requests counts.
    Request,
}

impl<S> GuardedStream<S> {
    pub(super) fn new(stream: S, limits: TimeLimits, state: Arc<ConnectionState>) -> Self {
        // A client connects because it has something to send.
        let read_timer = Box::pin(tokio::time::sleep(limits.head));
        let write_timer = Box::pin(tokio::time::sleep(READ_GRACE));
        let (reading, writing) = (ReadPhase::Head, Writing::default());
        GuardedStream {
            stream,
            limits,
            state,
            requests: 0,
            reading,
            since: Instant::now(),
            read_timer,
            writing,
            write_timer,
        }
    }

    /// Notices the beginning and the end of a request.
    fn update_phase(&mut self) {
        let (requests, is_busy) = (self.state.requests(), self.state.is_busy());
        let has_begun = std::mem::replace(&mut self.requests, requests) != requests;
        if is_busy {
            self.reading = ReadPhase::Request;
        } else if has_begun || self.reading == ReadPhase::Request {
            (self.reading, self.since) = (ReadPhase::Idle, self.state.last_request());
            self.writing = Writing::default();
        }
    }

    /// When the client has to have sent what is expected; during a request, when to look again.
    fn read_deadline(&self) -> Instant {
        match self.reading {
            ReadPhase::Head => self.since + self.limits.head,
            ReadPhase::Idle => self.since + self.limits.idle,
            ReadPhase::Request => Instant::now() + self.limits.idle,
        }
    }

    /// Fails when the client has sent nothing for too long.
    ///
    /// Nobody reads when a request ends, so the timer is not set then. It goes off at some time and is set again: that costs
    /// less than setting it for every request.
    fn poll_read_timer(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let deadline = self.read_deadline();
        if deadline < self.read_timer.deadline() {
            self.read_timer.as_mut().reset(deadline);
        }
        ready!(self.read_timer.as_mut().poll(context));
        // It may have been set for an earlier time.
        self.read_timer.as_mut().reset(deadline);
        ready!(self.read_timer.as_mut().poll(context));
        Poll::Ready(too_slow("send a request"))
    }

    /// What a write has come to; fails if the client reads its answer too slowly.
    fn check_write<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
        bytes: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        let writing = &mut self.writing;
        match written {
            Poll::Ready(done) => {
                writing.bytes += done.as_ref().map_or(0, bytes) as u64;
                writing.blocked += writing.blocked_since.take().map(|since| since.elapsed()).unwrap_or_default();
                Poll::Ready(done)
            }
            Poll::Pending => {
                if writing.blocked_since.is_none() {
                    writing.blocked_since = Some(Instant::now());
                    let earned = writing.bytes as f64 / f64::from(self.limits.min_read_rate);
                    let earned = Duration::try_from_secs_f64(earned).unwrap_or(IDLE_TIMEOUT_CAP).min(IDLE_TIMEOUT_CAP);
                    let left = (READ_GRACE + earned).saturating_sub(writing.blocked);
                    self.write_timer.as_mut().reset(Instant::now() + left);
                }
                ready!(self.write_timer.as_mut().poll(context));
                Poll::Ready(Err(too_slow("read its answer")))
            }
        }
    }
}

fn too_slow(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("the client took too long to {what}"))
}

impl<S: AsyncRead + Unpin> AsyncRead for GuardedStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.update_phase();
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut this.stream).poll_read(context, buffer) {
            if this.reading == ReadPhase::Idle && buffer.filled().len() > before {
                (this.reading, this.since) = (ReadPhase::Head, Instant::now());
            }
            return Poll::Ready(read);
        }
        this.poll_read_timer(context).map(Err)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GuardedStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.check_write(context, written, |count| *count)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.check_write(context, written, |count| *count)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(context);
        this.check_write(context, flushed, |()| 0)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let closed = Pin::new(&mut this.stream).poll_shutdown(context);
        this.check_write(context, closed, |()| 0)
    }
}
