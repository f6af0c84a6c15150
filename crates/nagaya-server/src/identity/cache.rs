//! Tokens that have been verified, until they end: checking one again costs a look.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use quick_cache::{Equivalent, Weighter, sync};

use super::{Caller, keys::Key};

/// Callers by their tokens, within a bound of memory; those that nobody asks for go first.
pub(super) struct Cache(sync::Cache<Known, Arc<Verified>, Bytes>);

/// What a token has been verified to say, and by which key.
pub(super) struct Verified {
    pub(super) caller: Arc<Caller>,
    pub(super) key: Arc<Key>,
}

impl Cache {
    /// A cache that takes about so much memory at most.
    pub(super) fn new(bytes: u64) -> Self {
        // A token of common length and what it says take about a kilobyte.
        Cache(sync::Cache::with_weighter(usize::try_from(bytes / 1024).unwrap_or(usize::MAX), bytes, Bytes))
    }

    pub(super) fn get(&self, token: &str) -> Option<Arc<Verified>> {
        self.0.get(&Asked(token))
    }

    pub(super) fn insert(&self, token: &str, caller: &Arc<Caller>, key: Arc<Key>) {
        self.0.insert(Known(token.into()), Arc::new(Verified { caller: Arc::clone(caller), key }));
    }

    pub(super) fn remove(&self, token: &str) {
        self.0.remove(&Asked(token));
    }
}

/// A token in the cache.
struct Known(Box<str>);

/// A token that is looked up.
struct Asked<'t>(&'t str);

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Known {}

impl Hash for Known {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(&self.0, state);
    }
}

impl Hash for Asked<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(self.0, state);
    }
}

impl Equivalent<Known> for Asked<'_> {
    fn equivalent(&self, known: &Known) -> bool {
        *self.0 == *known.0
    }
}

/// Hashes the end alone: it is of the signature, in which no two tokens are alike, and only verified ones are kept. Whether
/// two tokens are the same is decided by all of them.
fn hash(token: &str, state: &mut impl Hasher) {
    let bytes = token.as_bytes();
    state.write(&bytes[bytes.len().saturating_sub(32)..]);
}

/// Weighs what an entry takes.
#[derive(Clone)]
struct Bytes;

impl Weighter<Known, Arc<Verified>> for Bytes {
    fn weight(&self, token: &Known, verified: &Arc<Verified>) -> u64 {
        let caller = &verified.caller;
        let roles: usize = caller.roles.iter().map(|role| role.len() + size_of::<String>()).sum();
        let texts = token.0.len() + caller.user.len() + caller.tenant.as_ref().map_or(0, |tenant| tenant.len()) + roles;
        // The rest is of one size: the caller, two counts, and a place in the table.
        u64::try_from(texts + 256).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;
    use serde_json::json;

    use super::*;
    use crate::identity::keys::Keys;

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let keys = Keys::default();
        let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
        keys.replace(serde_json::from_value(jwk));
        let key = keys.find(None, Algorithm::EdDSA).expect("the key is fine");
        let caller = Caller { user: "u1".into(), tenant: None, roles: ["admin".to_owned()].into(), expires: 0 };
        let (cache, caller) = (Cache::new(64 * 1024), Arc::new(caller));
        let token = |at: usize| format!("{at:0>700}");
        cache.insert(&token(0), &caller, Arc::clone(&key));
        for at in 1..10_000 {
            cache.insert(&token(at), &caller, Arc::clone(&key));
            assert!(cache.get(&token(0)).is_some(), "{at}");
        }
        assert!(cache.0.len() > 30 && cache.0.weight() <= 64 * 1024, "{} {}", cache.0.len(), cache.0.weight());
        cache.remove(&token(0));
        assert!(cache.get(&token(0)).is_none());
    }
}
