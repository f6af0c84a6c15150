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
    Caller, Claims, Issuer, IssuerError, Revocations,
    cache::{Cache, Verified},
    claims::{check_audience, check_time},
    issuer::with_hint,
    token::{Unverified, bad_token},
};
use crate::Problem;

/// Memory for verified tokens: enough for more than ten thousand.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// How far the clocks of an issuer and of this machine may be apart, in seconds.
pub(super) const SKEW: i64 = 30;
/// How long a token may live, and how long the keys of an issuer that cannot be reached are trusted.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Verifies the tokens of one system.
///
/// A token is valid if the trusted issuer has signed it for this system and it has not expired. Verified tokens are cached
/// until they expire, are revoked, or their key is no longer published.
pub struct Verifier {
    trusted: Option<TrustedIssuer>,
    claims: Claims,
    clock: Clock,
    skew: i64,
    /// Seconds from `iat` to `exp`.
    max_token_age: Option<i64>,
    /// Milliseconds since the keys of an issuer were fetched.
    max_key_age: Option<i64>,
    revocations: Arc<Revocations>,
    cache: Cache,
    uncached_count: AtomicU64,
}

/// The issuer, and the audiences that its tokens may have.
struct TrustedIssuer {
    issuer: Issuer,
    audiences: Vec<String>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the tokens.
        let issuer = self.trusted.as_ref().map(|trusted| (&trusted.issuer, &trusted.audiences));
        f.debug_struct("Verifier").field("issuer", &issuer).field("claims", &self.claims).finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier that trusts no issuer yet.
    pub fn new(claims: Claims, clock: Clock) -> Self {
        Verifier {
            trusted: None,
            claims,
            clock,
            skew: SKEW,
            max_token_age: Some(seconds(DAY)),
            max_key_age: Some(seconds(DAY) * 1_000),
            revocations: Arc::default(),
            cache: Cache::new(CACHE_BYTES),
            uncached_count: AtomicU64::new(0),
        }
    }

    /// Trusts the tokens of an issuer that are for this audience; called again, also those for another one.
    ///
    /// # Errors
    ///
    /// If another issuer is trusted. Two issuers may give the same `sub` to different people, and items name their users by
    /// `sub` alone.
    pub fn trust(mut self, issuer: &Issuer, audience: impl Into<String>) -> Result<Self, IssuerError> {
        let audience = audience.into();
        match &mut self.trusted {
            None => self.trusted = Some(TrustedIssuer { issuer: issuer.clone(), audiences: vec![audience] }),
            Some(trusted) if trusted.issuer.is_same(issuer) => trusted.audiences.push(audience),
            Some(trusted) => return Err(IssuerError::second(trusted.issuer.caller_name(), issuer.caller_name())),
        }
        Ok(self)
    }

    /// How far the clocks of issuers and of this machine may be apart; 30 seconds by default.
    #[must_use]
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = seconds(skew);
        self
    }

    /// How long a token may live, from `iat` to `exp`; a day by default. `None`: without a limit, and `iat` may be missing.
    #[must_use]
    pub fn max_token_age(mut self, age: Option<Duration>) -> Self {
        self.max_token_age = age.map(seconds);
        self
    }

    /// How long the keys of an issuer that cannot be reached are trusted; a day by default. `None`: without a limit.
    #[must_use]
    pub fn max_key_age(mut self, age: Option<Duration>) -> Self {
        self.max_key_age = age.map(|age| seconds(age).saturating_mul(1_000));
        self
    }

    /// Refuses the tokens of this list; changes of the list take effect at once.
    #[must_use]
    pub fn revocations(mut self, revocations: &Arc<Revocations>) -> Self {
        self.revocations = Arc::clone(revocations);
        self
    }

    /// How many revocations are in force.
    pub(crate) fn revocation_count(&self) -> usize {
        self.revocations.len()
    }

    /// Whose tokens are accepted: the issuer, which is `local` for the local one, with each audience.
    pub(crate) fn trusted_audiences(&self) -> impl Iterator<Item = (&str, &str)> {
        self.trusted.iter().flat_map(|trusted| {
            trusted.audiences.iter().map(|audience| (&**trusted.issuer.caller_name(), audience.as_str()))
        })
    }

    /// How many keys of the issuer can verify tokens, of those that were fetched last.
    pub fn key_count(&self) -> usize {
        self.trusted.as_ref().map_or(0, |trusted| trusted.issuer.key_count())
    }

    /// Fetches the keys of the issuer before the first token comes; whether that succeeded. Failures are logged, and tried
    /// again with that token.
    pub async fn fetch_keys(&self) -> bool {
        let Some(trusted) = &self.trusted else { return true };
        trusted.issuer.refresh(&self.clock).await;
        !trusted.issuer.has_failed()
    }

    /// How many tokens were not in the cache so far, accepted or refused.
    pub fn uncached_tokens(&self) -> u64 {
        self.uncached_count.load(Ordering::Relaxed)
    }

    /// The caller that a token names.
    pub async fn caller(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        match self.known_caller(token).await {
            Some(caller) => Ok(caller),
            None => self.verify(token).await,
        }
    }

    /// The caller of a token that was verified before and is still valid.
    pub(crate) async fn known_caller(&self, token: &str) -> Option<Arc<Caller>> {
        let now = self.clock.millis();
        if let Some(trusted) = self.trusted.as_ref().filter(|trusted| trusted.issuer.is_refresh_due(now)) {
            trusted.issuer.refresh_in_background(&self.clock).await;
        }
        // One that is no longer valid is evicted when others need its room.
        let verified = self.cache.get(token)?;
        self.is_still_valid(&verified, now).then(|| Arc::clone(&verified.caller))
    }

    fn check_revoked(&self, caller: &Caller) -> Result<(), Problem> {
        if self.revocations.covers(caller) { Err(bad_token("The token has been revoked.")) } else { Ok(()) }
    }

    /// Whether a cached token is valid at this millisecond.
    fn is_still_valid(&self, verified: &Verified, now: i64) -> bool {
        now.div_euclid(1000) < verified.caller.expires.saturating_add(self.skew)
            && !verified.key.is_retired()
            && verified.issuer.has_current_keys(now, self.max_key_age)
            && self.is_unrevoked(verified)
    }

    /// Whether a cached token is not revoked; it is compared with the list only if the list has changed.
    fn is_unrevoked(&self, verified: &Verified) -> bool {
        // Before the list is read: a change meanwhile is compared next time.
        let generation = self.revocations.generation();
        if verified.is_unrevoked_at(generation) {
            return true;
        }
        let is_unrevoked = !self.revocations.covers(&verified.caller);
        if is_unrevoked {
            verified.set_unrevoked_at(generation);
        }
        is_unrevoked
    }

    /// Verifies a token that is not in the cache.
    pub(crate) async fn verify(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        self.uncached_count.fetch_add(1, Ordering::Relaxed);
        let unverified = Unverified::parse(token)?;
        // The trusted issuer is named.
        let name = unverified.issuer()?;
        let trusted = self.trusted.as_ref().filter(|trusted| trusted.issuer.has_name(name));
        let trusted = trusted.ok_or_else(|| {
            let trusts_local = self.trusted.as_ref().is_some_and(|trusted| trusted.issuer.is_local());
            bad_token(with_hint("The token comes from an issuer that is not trusted here.", trusts_local))
        })?;
        // A key of that issuer has signed it.
        let (id, algorithm) = (unverified.key_id(), unverified.algorithm());
        let key = trusted.issuer.key(id, algorithm, &self.clock, self.max_key_age).await?;
        let claims = unverified.verified_by(&key)?;
        // It is for this system, has not expired, and is not revoked.
        check_audience(&claims, &trusted.audiences)?;
        let validity = check_time(&claims, self.clock.seconds(), self.skew, self.max_token_age)?;
        let caller = Arc::new(self.claims.caller(&claims, trusted.issuer.caller_name(), validity)?);
        let generation = self.revocations.generation();
        self.check_revoked(&caller)?;

        let verified = Verified::new(Arc::clone(&caller), key, trusted.issuer.clone(), generation);
        self.cache.insert(token, verified);
        Ok(caller)
    }
}

fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;

    use super::*;
    use crate::{LocalIssuer, Revocation, RevokedSubject};

    /// Requests with the same token may come at the same time, and share what is cached of it.
    #[tokio::test]
    async fn a_cached_token_is_compared_with_each_list_once_and_with_one_that_revokes_it_always() {
        let issuer = Issuer::local(&Arc::new(LocalIssuer::in_memory().expect("keys can be made")));
        let list = Arc::new(Revocations::default());
        let verifier = Verifier::new(claims(), Clock::system()).revocations(&list);
        let caller = Arc::new(Caller { issued: Some(10), ..Caller::of_user("ann") });
        let key = issuer.key(None, Algorithm::ES256, &Clock::system(), None).await.expect("its only key");
        let verified = Verified::new(caller, key, issuer, list.generation());
        let revoke = |user: &str| {
            let subject = RevokedSubject::User { issuer: String::new(), id: user.to_owned() };
            list.replace([Revocation { subject, issued_before: 20 }]);
        };
        revoke("ben");
        assert!(!verified.is_unrevoked_at(list.generation()), "the list is a new one");
        assert!(verifier.is_unrevoked(&verified));
        assert!(verified.is_unrevoked_at(list.generation()), "it need not be compared with it again");
        revoke("ann");
        for _ in 0..2 {
            assert!(!verifier.is_unrevoked(&verified));
        }
    }

    fn claims() -> Claims {
        Claims {
            tenant: "tenant".to_owned(),
            roles: "roles".to_owned(),
            member_of: None,
            operator: "operatorRoles".to_owned(),
            operator_roles: Vec::new(),
        }
    }
}
