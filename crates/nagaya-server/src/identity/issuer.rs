//! An issuer of tokens: where its keys come from, and when they are fetched anew.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use axum::http::StatusCode;
use jsonwebtoken::Algorithm;
use nagaya_store::Clock;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{
    IssuerError, LocalIssuer,
    keys::{Key, Keys},
    remote::Remote,
    token::refused,
};
use crate::Problem;

/// An issuer whose tokens may be trusted. Clones share their keys, so that several systems fetch them once.
#[derive(Clone)]
pub struct Issuer(Arc<Inner>);

struct Inner {
    source: Source,
    pace: Pace,
    /// When the keys were last asked for, in milliseconds since 1970, or [`NEVER`].
    asked: AtomicI64,
    /// Whether that failed.
    failed: AtomicBool,
    /// Held by whoever asks for the keys.
    asking: Arc<Mutex<()>>,
}

enum Source {
    Local(Arc<LocalIssuer>),
    Remote { remote: Remote, keys: Keys },
}

/// How often keys are asked for, in milliseconds.
struct Pace {
    /// Not more often for the sake of a token whose key is unknown: anybody can make such tokens.
    lacking: i64,
    /// The same after a failure.
    lacking_failed: i64,
    /// At least so often while tokens come.
    regular: i64,
    /// The same after a failure.
    regular_failed: i64,
}

/// Reading a file costs less than checking a signature, so a token with an unknown key may always cause it.
const LOCAL: Pace = Pace { lacking: 0, lacking_failed: 0, regular: 10_000, regular_failed: 10_000 };
const REMOTE: Pace = Pace { lacking: 30_000, lacking_failed: 5_000, regular: 600_000, regular_failed: 30_000 };
const NEVER: i64 = i64::MIN;
/// What a caller is told to wait, in seconds: by then a failure is tried again.
const RETRY_AFTER: u32 = 5;

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({})", self.name())
    }
}

impl Issuer {
    /// The issuer with keys of its own in the data directory.
    pub fn local(issuer: &Arc<LocalIssuer>) -> Self {
        // Its keys are there from the beginning, and may be old by now.
        Issuer::new(Source::Local(Arc::clone(issuer)), LOCAL, 0)
    }

    /// The issuer at a URL, exactly as its tokens write it in `iss`; its discovery document says where its keys are.
    pub fn remote(url: &str) -> Result<Self, IssuerError> {
        Remote::new(url, None).map(Issuer::elsewhere)
    }

    /// An issuer that publishes its keys (a JWK set) at a known URL, and may have no discovery document.
    pub fn remote_with_keys(url: &str, keys_url: &str) -> Result<Self, IssuerError> {
        Remote::new(url, Some(keys_url)).map(Issuer::elsewhere)
    }

    fn elsewhere(remote: Remote) -> Self {
        Issuer::new(Source::Remote { remote, keys: Keys::default() }, REMOTE, NEVER)
    }

    fn new(source: Source, pace: Pace, asked: i64) -> Self {
        let (asked, failed) = (AtomicI64::new(asked), AtomicBool::new(false));
        Issuer(Arc::new(Inner { source, pace, asked, failed, asking: Arc::default() }))
    }

    /// Whether tokens of this issuer carry this name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        match &self.0.source {
            Source::Local(local) => local.was_called(name),
            Source::Remote { remote, .. } => remote.issuer() == name,
        }
    }

    /// Whether both are one, and not just called the same.
    pub(super) fn is(&self, other: &Issuer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The key that a token names, fetched if need be.
    pub(super) async fn key(&self, id: Option<&str>, algorithm: Algorithm, clock: &Clock) -> Result<Arc<Key>, Problem> {
        if let Some(key) = self.keys().find(id, algorithm) {
            return Ok(key);
        }
        self.refresh(clock).await;
        match self.keys().find(id, algorithm) {
            Some(key) => Ok(key),
            // The key may be a new one: nobody can tell now whether the token is good.
            None if self.0.failed.load(Ordering::Relaxed) => {
                let detail = "The keys of the token's issuer cannot be fetched.";
                let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "issuer_unreachable", detail);
                Err(problem.retry_after(RETRY_AFTER))
            }
            None => Err(refused("The token is signed by a key that its issuer does not publish.")),
        }
    }

    /// Fetches the keys, unless that has just been done.
    pub(super) async fn refresh(&self, clock: &Clock) {
        self.refresh_after(self.0.pace.lacking, self.0.pace.lacking_failed, clock).await;
    }

    /// Fetches the keys if so much time has passed. Who comes meanwhile waits for the same answer.
    async fn refresh_after(&self, fine: i64, failed: i64, clock: &Clock) {
        if !self.has_passed(clock.millis(), fine, failed) {
            return;
        }
        let asking = Arc::clone(&self.0.asking).lock_owned().await;
        if !self.has_passed(clock.millis(), fine, failed) {
            return;
        }
        // In a task of its own: a caller that gives up takes the answer away from nobody.
        let _ = tokio::spawn(self.clone().ask(clock.clone(), asking)).await;
    }

    /// Whether the keys should be looked after.
    pub(super) fn is_due(&self, now: i64) -> bool {
        let pace = &self.0.pace;
        // The first token that needs them fetches them.
        self.0.asked.load(Ordering::Relaxed) != NEVER && self.has_passed(now, pace.regular, pace.regular_failed)
    }

    /// Fetches the keys in the background. Until then, and while the issuer is down, the old ones count; but after a long
    /// silence they are too old for that, and are waited for.
    pub(super) async fn tend(&self, clock: &Clock) {
        let overdue = 2 * self.0.pace.regular;
        if self.has_passed(clock.millis(), overdue, overdue) {
            self.refresh_after(overdue, overdue, clock).await;
        } else if let Ok(asking) = Arc::clone(&self.0.asking).try_lock_owned() {
            tokio::spawn(self.clone().ask(clock.clone(), asking));
        }
    }

    /// Whether so much time has passed since the keys were last asked for. A clock that was set back is not waited for.
    fn has_passed(&self, now: i64, fine: i64, failed: i64) -> bool {
        let wait = if self.0.failed.load(Ordering::Relaxed) { failed } else { fine };
        !(0..wait).contains(&now.saturating_sub(self.0.asked.load(Ordering::Relaxed)))
    }

    async fn ask(self, clock: Clock, asking: OwnedMutexGuard<()>) {
        let issuer = self.clone();
        let asked = tokio::task::spawn_blocking(move || match &issuer.0.source {
            Source::Local(local) => local.reload(),
            Source::Remote { remote, keys } => remote.fetch().map(|published| keys.replace(published)),
        });
        let failed = match asked.await {
            Ok(Ok(())) => false,
            Ok(Err(error)) => {
                tracing::warn!(issuer = self.name(), %error, "the keys of an issuer cannot be fetched");
                true
            }
            Err(error) => {
                tracing::error!(issuer = self.name(), %error, "fetching the keys of an issuer has failed");
                true
            }
        };
        self.0.failed.store(failed, Ordering::Relaxed);
        self.0.asked.store(clock.millis(), Ordering::Relaxed);
        drop(asking);
    }

    fn keys(&self) -> &Keys {
        match &self.0.source {
            Source::Local(local) => local.keys(),
            Source::Remote { keys, .. } => keys,
        }
    }

    fn name(&self) -> &str {
        match &self.0.source {
            Source::Local(_) => "local",
            Source::Remote { remote, .. } => remote.issuer(),
        }
    }
}
