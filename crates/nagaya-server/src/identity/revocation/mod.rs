//! Revoked tokens: refused before they expire.
//!
//! A [`Revocation`] names a token, a user or a tenant, and a time: tokens that were issued before it are refused. The list of a
//! system is in a [`RevocationStore`]; commands write to it, and servers [follow](Revocations::follow) it.

mod follow;
mod store;

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize};

pub use self::{follow::RevocationFollower, store::RevocationStore};
use super::{Caller, verifier::SKEW};

/// Whose tokens are revoked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RevokedSubject {
    /// The token with this id (the claim `jti`).
    Token(String),
    /// All tokens of a user.
    User {
        /// The issuer of the tokens: its URL, or `local`.
        issuer: String,
        /// The user, as in `sub`.
        id: String,
    },
    /// All tokens that name this tenant.
    Tenant(String),
}

/// Tokens that are refused although they have not expired.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Revocation {
    /// Whose tokens they are.
    pub subject: RevokedSubject,
    /// The tokens that were issued before this second since 1970.
    pub issued_before: i64,
}

impl Revocation {
    /// Whether a token that it matches can still be valid: tokens live for at most so many seconds; `None`: without a limit.
    pub fn is_needed(&self, now: i64, max_token_age: Option<i64>) -> bool {
        max_token_age.is_none_or(|age| now <= self.issued_before.saturating_add(age).saturating_add(SKEW))
    }
}

/// The revocations that a server knows. Verifiers ask it for every request.
#[derive(Debug, Default)]
pub struct Revocations {
    before: RwLock<HashMap<RevokedSubject, i64>>,
    /// Counts the changes, so that a verified token is compared again only after one.
    generation: AtomicU64,
}

impl Revocations {
    /// Replaces the list.
    pub fn replace(&self, revocations: impl IntoIterator<Item = Revocation>) {
        let mut new: HashMap<RevokedSubject, i64> = HashMap::new();
        for Revocation { subject, issued_before } in revocations {
            let before = new.entry(subject).or_insert(issued_before);
            *before = issued_before.max(*before);
        }
        let mut before = self.before.write().unwrap_or_else(PoisonError::into_inner);
        if *before != new {
            *before = new;
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.before.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the last change.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the token of a caller is revoked. A token that does not say when it was issued counts as an old one.
    pub(super) fn covers(&self, caller: &Caller) -> bool {
        let before = self.before.read().unwrap_or_else(PoisonError::into_inner);
        let token = caller.token_id.as_deref().map(|id| RevokedSubject::Token(id.to_owned()));
        let tenant = caller.tenant.as_deref().map(|tenant| RevokedSubject::Tenant(tenant.to_owned()));
        let user = RevokedSubject::User { issuer: caller.issuer.to_string(), id: caller.user.to_string() };
        let issued = caller.issued.unwrap_or(i64::MIN);
        [token, tenant, Some(user)]
            .into_iter()
            .flatten()
            .any(|subject| before.get(&subject).is_some_and(|at| issued < *at))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn caller(issued: Option<i64>) -> Caller {
        Caller {
            issuer: "local".into(),
            tenant: Some("t1".into()),
            token_id: Some("j1".into()),
            issued,
            ..Caller::of_user("u1")
        }
    }

    fn user(issuer: &str, id: &str) -> RevokedSubject {
        RevokedSubject::User { issuer: issuer.to_owned(), id: id.to_owned() }
    }

    #[test]
    fn tokens_are_matched_by_id_by_tenant_and_by_issuer_and_user() {
        let covers = |subject: RevokedSubject, issued: Option<i64>| {
            let list = Revocations::default();
            list.replace([Revocation { subject, issued_before: 100 }]);
            list.covers(&caller(issued))
        };
        let subjects =
            [RevokedSubject::Token("j1".to_owned()), RevokedSubject::Tenant("t1".to_owned()), user("local", "u1")];
        for subject in subjects {
            assert!(covers(subject.clone(), Some(99)), "{subject:?}");
            assert!(covers(subject.clone(), None), "{subject:?}");
            assert!(!covers(subject.clone(), Some(100)), "{subject:?}");
        }
        let others = [
            RevokedSubject::Token("j2".to_owned()),
            RevokedSubject::Token("u1".to_owned()),
            RevokedSubject::Tenant("u1".to_owned()),
            user("https://a.example", "u1"),
            user("local", "t1"),
        ];
        for other in others {
            assert!(!covers(other.clone(), Some(99)), "{other:?}");
        }
    }

    #[test]
    fn the_latest_time_counts_and_an_equal_list_is_no_change() {
        let list = Arc::new(Revocations::default());
        let entry = |issued_before| Revocation { subject: user("local", "u1"), issued_before };
        list.replace([entry(100), entry(50)]);
        assert!(list.covers(&caller(Some(99))));
        let generation = list.generation();
        list.replace([entry(100)]);
        assert_eq!((list.generation(), list.len()), (generation, 1));
        list.replace([]);
        assert!(list.generation() > generation && list.is_empty() && !list.covers(&caller(Some(99))));
    }

    #[test]
    fn a_revocation_is_needed_as_long_as_its_tokens_can_be_valid() {
        let entry = Revocation { subject: RevokedSubject::Tenant("t1".to_owned()), issued_before: 1_000 };
        assert!(entry.is_needed(1_000 + 3_600 + SKEW, Some(3_600)));
        assert!(!entry.is_needed(1_001 + 3_600 + SKEW, Some(3_600)));
        assert!(entry.is_needed(i64::MAX, None));
    }
}
