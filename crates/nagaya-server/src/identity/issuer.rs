//! An issuer of tokens: where its keys come from, and when they are refreshed.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use jsonwebtoken::Algorithm;
use nagaya_store::Clock;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{
    IssuerError, LocalIssuer,
    keys::{Key, Keys},
    remote::RemoteIssuer,
    token::bad_token,
};
use crate::{Problem, ProblemCode};

/// An issuer whose tokens may be trusted. Clones share their keys, so that several systems fetch them once.
#[derive(Clone)]
pub struct Issuer(Arc<Inner>);

struct Inner {
    /// Its URL, or `local`: the local issuer has another URL on every port.
    name: Arc<str>,
    source: Source,
    policy: RefreshPolicy,
    /// When the keys were last refreshed, in milliseconds since 1970, or [`NEVER`].
    refreshed: AtomicI64,
    /// When the keys were last fetched without a failure, or [`NEVER`].
    fetched: AtomicI64,
    /// Whether the last refresh failed.
    failed: AtomicBool,
    /// Held during a refresh.
    refreshing: Arc<Mutex<()>>,
}

enum Source {
    Local(Arc<LocalIssuer>),
    Remote { remote: RemoteIssuer, keys: Keys },
}

/// How often keys are refreshed, in milliseconds.
struct RefreshPolicy {
    /// The shortest interval for tokens with an unknown key: anybody can send such tokens.
    unknown_key: i64,
    /// The same after a failure.
    unknown_key_failed: i64,
    /// The regular interval while tokens come.
    regular: i64,
    /// The same after a failure.
    regular_failed: i64,
}

/// Reading a file costs less than verifying a signature, so every token with an unknown key may cause it.
const LOCAL: RefreshPolicy =
    RefreshPolicy { unknown_key: 0, unknown_key_failed: 0, regular: 10_000, regular_failed: 10_000 };
const REMOTE: RefreshPolicy =
    RefreshPolicy { unknown_key: 30_000, unknown_key_failed: 5_000, regular: 600_000, regular_failed: 30_000 };
const NEVER: i64 = i64::MIN;
/// The name of the local issuer, which no URL equals.
const LOCAL_NAME: &str = "local";
/// `Retry-After` in seconds: by then a failed refresh is tried again.
const RETRY_AFTER: u32 = 5;

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({})", self.caller_name())
    }
}

impl Issuer {
    /// The issuer with keys of its own in the data directory.
    pub fn local(issuer: &Arc<LocalIssuer>) -> Self {
        // Its keys are loaded, but may be outdated.
        Issuer::new(Source::Local(Arc::clone(issuer)), LOCAL, 0)
    }

    /// The issuer at a URL, exactly as its tokens write it in `iss`; its discovery document says where its keys are.
    pub fn remote(url: &str) -> Result<Self, IssuerError> {
        RemoteIssuer::new(url, None).map(Issuer::from_remote)
    }

    /// An issuer that publishes its keys (a JWK set) at a known URL, and may have no discovery document.
    pub fn remote_with_keys(url: &str, keys_url: &str) -> Result<Self, IssuerError> {
        RemoteIssuer::new(url, Some(keys_url)).map(Issuer::from_remote)
    }

    fn from_remote(remote: RemoteIssuer) -> Self {
        Issuer::new(Source::Remote { remote, keys: Keys::default() }, REMOTE, NEVER)
    }

    fn new(source: Source, policy: RefreshPolicy, refreshed: i64) -> Self {
        let name = match &source {
            Source::Local(_) => LOCAL_NAME,
            Source::Remote { remote, .. } => remote.issuer(),
        };
        let (name, fetched) = (Arc::from(name), AtomicI64::new(refreshed));
        let (refreshed, failed) = (AtomicI64::new(refreshed), AtomicBool::new(false));
        Issuer(Arc::new(Inner { name, source, policy, refreshed, fetched, failed, refreshing: Arc::default() }))
    }

    /// Its name in callers: its URL, or `local`.
    pub(super) fn caller_name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Whether its keys were fetched within this many milliseconds. Those of the local issuer are in the data directory.
    pub(super) fn has_current_keys(&self, now: i64, max_age: Option<i64>) -> bool {
        let age = || now.saturating_sub(self.0.fetched.load(Ordering::Relaxed));
        self.is_local() || max_age.is_none_or(|max_age| age() <= max_age)
    }

    /// Whether its keys could not be fetched the last time.
    pub(super) fn has_failed(&self) -> bool {
        self.0.failed.load(Ordering::Relaxed)
    }

    /// Whether tokens of this issuer have this name in `iss`.
    pub(super) fn has_name(&self, name: &str) -> bool {
        match &self.0.source {
            Source::Local(local) => local.has_had_url(name),
            Source::Remote { remote, .. } => remote.issuer() == name,
        }
    }

    /// Whether the users of both are the same. All local issuers have the same name.
    pub(super) fn is_same(&self, other: &Issuer) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (!self.is_local() && self.0.name == other.0.name)
    }

    /// Whether its keys lie in the data directory.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.0.source, Source::Local(_))
    }

    /// The key that a token names, fetched if it is not known, or if the keys were fetched longer ago than `max_age`
    /// milliseconds.
    pub(super) async fn key(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        clock: &Clock,
        max_age: Option<i64>,
    ) -> Result<Arc<Key>, Problem> {
        let find = || self.keys().find(id, algorithm).filter(|_| self.has_current_keys(clock.millis(), max_age));
        if let Some(key) = find() {
            return Ok(key);
        }
        self.refresh(clock).await;
        match find() {
            Some(key) => Ok(key),
            // The key may be new, or removed meanwhile: it is unknown whether the token is valid.
            None if self.has_failed() => {
                let detail = "The keys of the token's issuer cannot be fetched.";
                let problem = Problem::from_code(ProblemCode::ISSUER_UNREACHABLE, detail);
                Err(problem.retry_after(RETRY_AFTER))
            }
            None => Err(bad_token(with_hint(
                "The token is signed by a key that its issuer does not publish.",
                self.is_local(),
            ))),
        }
    }

    /// Fetches the keys, unless that was done recently.
    pub(super) async fn refresh(&self, clock: &Clock) {
        self.refresh_after(self.0.policy.unknown_key, self.0.policy.unknown_key_failed, clock).await;
    }

    /// Fetches the keys if the interval has passed. Concurrent calls wait for the same result.
    async fn refresh_after(&self, interval: i64, failed: i64, clock: &Clock) {
        let guard = Arc::clone(&self.0.refreshing).lock_owned().await;
        if !self.has_passed(clock.millis(), interval, failed) {
            return;
        }
        // In a task of its own: a caller that disconnects must not cancel the refresh for others.
        let _ = tokio::spawn(self.clone().fetch(clock.clone(), guard)).await;
    }

    /// Whether the regular refresh is due.
    pub(super) fn is_refresh_due(&self, now: i64) -> bool {
        let policy = &self.0.policy;
        // Keys that were never fetched are fetched by the first token.
        self.0.refreshed.load(Ordering::Relaxed) != NEVER && self.has_passed(now, policy.regular, policy.regular_failed)
    }

    /// Refreshes the keys in the background: until then, and while the issuer is down, the old keys are used. Keys that are
    /// much too old are refreshed first.
    pub(super) async fn refresh_in_background(&self, clock: &Clock) {
        let overdue = 2 * self.0.policy.regular;
        if self.has_passed(clock.millis(), overdue, overdue) {
            self.refresh_after(overdue, overdue, clock).await;
        } else if let Ok(guard) = Arc::clone(&self.0.refreshing).try_lock_owned() {
            tokio::spawn(self.clone().fetch(clock.clone(), guard));
        }
    }

    /// Whether the interval has passed since the last refresh. A clock that was set back counts as passed.
    fn has_passed(&self, now: i64, interval: i64, failed: i64) -> bool {
        let wait = if self.0.failed.load(Ordering::Relaxed) { failed } else { interval };
        !(0..wait).contains(&now.saturating_sub(self.0.refreshed.load(Ordering::Relaxed)))
    }

    async fn fetch(self, clock: Clock, _guard: OwnedMutexGuard<()>) {
        let issuer = self.clone();
        let fetched = tokio::task::spawn_blocking(move || match &issuer.0.source {
            Source::Local(local) => local.reload(),
            Source::Remote { remote, keys } => remote.fetch().map(|published| keys.replace(published)),
        });
        let failed = match fetched.await {
            Ok(Ok(())) => {
                if self.key_count() == 0 {
                    tracing::warn!(issuer = &*self.0.name, "the issuer publishes no key that can verify tokens");
                }
                false
            }
            Ok(Err(error)) => {
                tracing::warn!(issuer = &*self.0.name, %error, "cannot fetch the keys of an issuer");
                true
            }
            Err(error) => {
                tracing::error!(issuer = &*self.0.name, %error, "the task that fetches the keys of an issuer failed");
                true
            }
        };
        let now = clock.millis();
        if !failed {
            self.0.fetched.store(now, Ordering::Relaxed);
        }
        self.0.failed.store(failed, Ordering::Relaxed);
        self.0.refreshed.store(now, Ordering::Relaxed);
    }

    /// How many of its keys can verify tokens.
    pub(super) fn key_count(&self) -> usize {
        self.keys().len()
    }

    fn keys(&self) -> &Keys {
        match &self.0.source {
            Source::Local(local) => local.keys(),
            Source::Remote { keys, .. } => keys,
        }
    }
}

/// Adds a hint for servers that trust a local issuer: the token may be from another one.
pub(super) fn with_hint(detail: &str, trusts_local: bool) -> String {
    match trusts_local {
        true => format!(
            "{detail} If it is from `nagaya token`, it may be from the local issuer of another directory: run the command \
             with the `--data` directory of this server."
        ),
        false => detail.to_owned(),
    }
}
