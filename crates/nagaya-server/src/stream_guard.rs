//! Streams of events: they end when their caller may no longer read them.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::body::Frame;
use tokio::time::{Instant, Sleep};

use crate::{Verifier, limits::StreamPermit};

/// How often the token of a stream is verified again: it may have expired or been revoked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The body of a stream.
pub(crate) struct StreamGuard {
    body: Body,
    /// The token and who verifies it; `None` for visitors.
    token: Option<(Arc<Verifier>, Arc<str>)>,
    next_check: Pin<Box<Sleep>>,
    /// Whether the token is still valid.
    checking: Option<BoxFuture<'static, bool>>,
    _permit: StreamPermit,
}

impl StreamGuard {
    pub(crate) fn new(body: Body, token: Option<(Arc<Verifier>, Arc<str>)>, permit: StreamPermit) -> Self {
        let next_check = Box::pin(tokio::time::sleep(CHECK_INTERVAL));
        StreamGuard { body, token, next_check, checking: None, _permit: permit }
    }

    /// Whether the token was found to be invalid.
    fn poll_invalid(&mut self, context: &mut Context<'_>) -> bool {
        let Some((verifier, token)) = &self.token else { return false };
        loop {
            if let Some(checking) = &mut self.checking {
                match checking.as_mut().poll(context) {
                    Poll::Pending => return false,
                    Poll::Ready(false) => return true,
                    Poll::Ready(true) => {
                        self.checking = None;
                        self.next_check.as_mut().reset(Instant::now() + CHECK_INTERVAL);
                    }
                }
            }
            if self.next_check.as_mut().poll(context).is_pending() {
                return false;
            }
            let (verifier, token) = (Arc::clone(verifier), Arc::clone(token));
            self.checking = Some(Box::pin(async move { verifier.caller(&token).await.is_ok() }));
        }
    }
}

impl HttpBody for StreamGuard {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.poll_invalid(context) {
            return Poll::Ready(None);
        }
        Pin::new(&mut this.body).poll_frame(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use futures_util::stream;
    use http_body_util::BodyExt as _;
    use nagaya_store::Clock;

    use super::*;
    use crate::{
        Claims, Grant, Issuer, Limits, LocalIssuer,
        limits::{ServerCapacity, SystemLimits},
    };

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_after_its_token_has_expired() {
        let now = Arc::new(AtomicI64::new(Clock::system().millis()));
        let clock = Clock::new({
            let now = Arc::clone(&now);
            move || now.load(Ordering::SeqCst)
        });
        let issuer = Arc::new(LocalIssuer::in_memory().expect("an issuer"));
        let claims = Claims {
            tenant: "tenant".to_owned(),
            roles: "roles".to_owned(),
            member_of: None,
            operator: "operatorRoles".to_owned(),
            operator_roles: Default::default(),
        };
        let (audience, user, tenant, ttl) = ("desk", "ann", Some("acme"), Duration::from_secs(600));
        let grant = Grant { audience, claims: &claims, user, tenant, roles: &[], member_of: &[], ttl };
        let token = issuer.issue(&grant).expect("a token");
        let verifier =
            Arc::new(Verifier::new(claims, clock).trust(&Issuer::local(&issuer), audience).expect("one issuer"));
        let caller = verifier.caller(&token).await.expect("it is valid");

        let limits = SystemLimits::new(&Limits::default(), &ServerCapacity::new(&Limits::default()));
        let permit = limits.admit_stream(&caller, None).expect("a permit");
        let events = stream::pending::<Result<Bytes, std::convert::Infallible>>();
        let guard = StreamGuard::new(Body::from_stream(events), Some((verifier, token.into())), permit);
        let mut body = Body::new(guard);
        let waiting = tokio::time::timeout(Duration::from_secs(60), body.frame()).await;
        assert!(waiting.is_err(), "the token is valid");
        now.fetch_add(700_000, Ordering::SeqCst);
        let ended = tokio::time::timeout(CHECK_INTERVAL * 2, body.frame()).await.expect("it ends soon");
        assert!(ended.is_none());
    }
}
