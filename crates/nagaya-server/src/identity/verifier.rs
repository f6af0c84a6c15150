//! The verifier of tokens.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nagaya_store::Clock;

use super::{
    Caller, Claims, Issuer,
    cache::{Cache, Verified},
    claims::{check_audience, check_time},
    issuer::with_hint,
    token::{Unverified, bad_token},
};
use crate::Problem;

/// Memory for verified tokens: enough for more than ten thousand.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// How far the clocks of an issuer and of this machine may be apart, in seconds.
const SKEW: i64 = 30;

/// Verifies the tokens of one system.
///
/// A token is valid if a trusted issuer has signed it for this system and it has not expired. Verified tokens are cached
/// until they expire or their key is no longer published.
pub struct Verifier {
    trusted: Vec<TrustedIssuer>,
    claims: Claims,
    clock: Clock,
    skew: i64,
    cache: Cache,
    verified_count: AtomicU64,
}

/// An issuer, and the audiences that its tokens may have.
struct TrustedIssuer {
    issuer: Issuer,
    audiences: Vec<String>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the tokens.
        let issuers: Vec<_> = self.trusted.iter().map(|trusted| (&trusted.issuer, &trusted.audiences)).collect();
        f.debug_struct("Verifier").field("issuers", &issuers).field("claims", &self.claims).finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier that trusts no issuer yet.
    pub fn new(claims: Claims, clock: Clock) -> Self {
        let (cache, checked) = (Cache::new(CACHE_BYTES), AtomicU64::new(0));
        Verifier { trusted: Vec::new(), claims, clock, skew: SKEW, cache, verified_count: checked }
    }

    /// Trusts the tokens of an issuer that are for this audience; called again, also those for another one.
    #[must_use]
    pub fn trust(mut self, issuer: &Issuer, audience: impl Into<String>) -> Self {
        let audience = audience.into();
        match self.trusted.iter_mut().find(|trusted| trusted.issuer.is_same(issuer)) {
            Some(trusted) => trusted.audiences.push(audience),
            None => self.trusted.push(TrustedIssuer { issuer: issuer.clone(), audiences: vec![audience] }),
        }
        self
    }

    /// How far the clocks of issuers and of this machine may be apart; 30 seconds by default.
    #[must_use]
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = i64::try_from(skew.as_secs()).unwrap_or(i64::MAX);
        self
    }

    /// Fetches the keys of all issuers before the first token comes. Failures are logged, and tried again with that token.
    pub async fn fetch_keys(&self) {
        for trusted in &self.trusted {
            trusted.issuer.refresh(&self.clock).await;
        }
    }

    /// How many tokens have been verified so far, and not found in the cache.
    pub fn checked(&self) -> u64 {
        self.verified_count.load(Ordering::Relaxed)
    }

    /// Whether a token was verified before, and has not expired.
    pub(crate) fn is_known(&self, token: &str) -> bool {
        self.cache.get(token).is_some_and(|verified| self.is_still_valid(&verified, self.clock.seconds()))
    }

    /// The caller that a token names.
    pub async fn caller(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        let now = self.clock.millis();
        for trusted in self.trusted.iter().filter(|trusted| trusted.issuer.is_refresh_due(now)) {
            trusted.issuer.refresh_in_background(&self.clock).await;
        }
        if let Some(verified) = self.cache.get(token) {
            if self.is_still_valid(&verified, now.div_euclid(1000)) {
                return Ok(Arc::clone(&verified.caller));
            }
            self.cache.remove(token);
        }
        self.verify(token).await
    }

    fn is_still_valid(&self, verified: &Verified, now: i64) -> bool {
        now < verified.caller.expires.saturating_add(self.skew) && !verified.key.is_retired()
    }

    async fn verify(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        self.verified_count.fetch_add(1, Ordering::Relaxed);
        let unverified = Unverified::parse(token)?;
        // A trusted issuer is named.
        let name = unverified.issuer()?;
        let trusted = self.trusted.iter().find(|trusted| trusted.issuer.has_name(name));
        let trusted = trusted.ok_or_else(|| {
            let trusts_local = self.trusted.iter().any(|trusted| trusted.issuer.is_local());
            bad_token(with_hint("The token comes from an issuer that is not trusted here.", trusts_local))
        })?;
        // A key of that issuer has signed it.
        let key = trusted.issuer.key(unverified.key_id(), unverified.algorithm(), &self.clock).await?;
        let claims = unverified.verified_by(&key)?;
        // It is for this system, and has not expired.
        check_audience(&claims, &trusted.audiences)?;
        let expires = check_time(&claims, self.clock.seconds(), self.skew)?;
        let caller = Arc::new(self.claims.caller(&claims, expires)?);

        self.cache.insert(token, &caller, key);
        Ok(caller)
    }
}
