//! A cache of verified tokens, until they expire.

use std::{
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use quick_cache::{Equivalent, Weighter, sync};

use super::{Caller, Issuer, keys::Key};

/// Callers by their tokens, within a memory limit; unused ones are evicted first.
pub(super) struct Cache(sync::Cache<CachedToken, Arc<Verified>, Bytes>);

/// The caller that a verified token names, and the key that verified it.
pub(super) struct Verified {
    pub(super) caller: Arc<Caller>,
    pub(super) key: Arc<Key>,
    pub(super) issuer: Issuer,
    /// The generation of the revocation list that it was last compared with.
    unrevoked_at: AtomicU64,
}

impl Verified {
    pub(super) fn new(caller: Arc<Caller>, key: Arc<Key>, issuer: Issuer, generation: u64) -> Self {
        Verified { caller, key, issuer, unrevoked_at: AtomicU64::new(generation) }
    }

    /// Whether it was compared with this generation.
    pub(super) fn is_unrevoked_at(&self, generation: u64) -> bool {
        self.unrevoked_at.load(Ordering::Relaxed) == generation
    }

    pub(super) fn set_unrevoked_at(&self, generation: u64) {
        self.unrevoked_at.store(generation, Ordering::Relaxed);
    }
}

impl Cache {
    /// A cache that uses at most about this much memory.
    pub(super) fn new(bytes: u64) -> Self {
        // A usual token and its caller take about a kilobyte.
        Cache(sync::Cache::with_weighter(usize::try_from(bytes / 1024).unwrap_or(usize::MAX), bytes, Bytes))
    }

    pub(super) fn get(&self, token: &str) -> Option<Arc<Verified>> {
        self.0.get(&TokenRef(token))
    }

    pub(super) fn insert(&self, token: &str, verified: Verified) {
        self.0.insert(CachedToken(token.into()), Arc::new(verified));
    }
}

/// A token in the cache.
struct CachedToken(Box<str>);

/// A token that is looked up.
struct TokenRef<'t>(&'t str);

impl PartialEq for CachedToken {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for CachedToken {}

impl Hash for CachedToken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(&self.0, state);
    }
}

impl Hash for TokenRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self.0, state);
    }
}

impl Equivalent<CachedToken> for TokenRef<'_> {
    fn equivalent(&self, known: &CachedToken) -> bool {
        *self.0 == *known.0
    }
}

/// Hashes only the end, which is part of the signature and so differs between verified tokens. Equality compares whole
/// tokens.
fn hash(token: &str, state: &mut impl Hasher) {
    let bytes = token.as_bytes();
    state.write(&bytes[bytes.len().saturating_sub(32)..]);
}

/// Weighs entries by their bytes.
#[derive(Clone)]
struct Bytes;

impl Weighter<CachedToken, Arc<Verified>> for Bytes {
    fn weight(&self, token: &CachedToken, verified: &Arc<Verified>) -> u64 {
        let caller = &verified.caller;
        let roles = caller.roles.iter().chain(&*caller.operator_roles);
        let roles: usize = roles.map(|role| role.len() + size_of::<String>()).sum();
        let optional = [&caller.tenant, &caller.token_id].into_iter().flatten().map(|text| text.len()).sum::<usize>();
        let texts = token.0.len() + caller.user.len() + optional + roles;
        // The rest has a fixed size: the caller, two counters, and a slot in the table.
        u64::try_from(texts + 320).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;
    use serde_json::json;

    use super::*;
    use crate::identity::keys::Keys;

    #[test]
    fn memory_is_bounded_and_used_tokens_stay() {
        let keys = Keys::default();
        let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
        keys.replace(serde_json::from_value(jwk));
        let key = keys.find(None, Algorithm::EdDSA).expect("the key is fine");
        let caller = Caller { roles: ["admin".to_owned()].into(), ..Caller::of_user("u1") };
        let (cache, caller) = (Cache::new(64 * 1024), Arc::new(caller));
        let issuer = Issuer::remote("https://issuer.example").expect("a fine URL");
        let verified = || Verified::new(Arc::clone(&caller), Arc::clone(&key), issuer.clone(), 0);
        let token = |at: usize| format!("{at:0>700}");
        cache.insert(&token(0), verified());
        for at in 1..10_000 {
            cache.insert(&token(at), verified());
            assert!(cache.get(&token(0)).is_some(), "{at}");
        }
        assert!(cache.0.len() > 30 && cache.0.weight() <= 64 * 1024, "{} {}", cache.0.len(), cache.0.weight());
        let entry = CachedToken(token(0).into());
        let weight = |caller: Caller| {
            Bytes.weight(&entry, &Arc::new(Verified::new(Arc::new(caller), Arc::clone(&key), issuer.clone(), 0)))
        };
        let role = size_of::<String>() as u64 + 5;
        let plain = weight(Caller { roles: [].into(), ..Caller::of_user("u1") });
        assert_eq!(plain, 700 + 2 + 320);
        let roles: Arc<[String]> = ["admin".to_owned()].into();
        let named = Caller { tenant: Some("t1".into()), token_id: Some("id1".into()), ..Caller::of_user("u1") };
        assert_eq!(weight(Caller { roles: Arc::clone(&roles), operator_roles: roles, ..named }), plain + 5 + 2 * role);
        let cache = Cache::new(64 * 1024);
        for _ in 0..2 {
            cache.insert(&token(0), verified());
            assert_eq!(cache.0.len(), 1, "a token that is verified again replaces the one before");
        }
    }
}
