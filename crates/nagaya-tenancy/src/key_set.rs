//! Keys that can be replaced while a process runs: the newest one is used, older ones are accepted.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

/// A secret key.
pub type SecretKey = [u8; 32];

/// The id of a key: the first digits of a hash, which tell nothing about it.
pub fn key_id(key: &SecretKey) -> String {
    let hash = blake3::derive_key("nagaya 2026 the id of a key file", key);
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a text has the form of a key's id.
pub(crate) fn is_key_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// How often the source is asked for keys.
const INTERVAL: Duration = Duration::from_secs(1);
/// How soon it is asked again if no known key fits: another process may have a newer one.
const SHORT_INTERVAL: Duration = Duration::from_millis(100);

/// Keys, the newest first. Clones are the same.
#[derive(Clone)]
pub struct KeySet(Arc<Inner>);

struct Inner {
    keys: RwLock<Vec<SecretKey>>,
    source: Option<Box<dyn Fn() -> Option<Vec<SecretKey>> + Send + Sync>>,
    asked: Mutex<Instant>,
}

impl fmt::Debug for KeySet {
    /// Without the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySet")
    }
}

impl From<SecretKey> for KeySet {
    fn from(key: SecretKey) -> Self {
        KeySet::new(vec![key])
    }
}

impl KeySet {
    /// Keys that do not change, the newest first.
    pub fn new(keys: Vec<SecretKey>) -> Self {
        KeySet(Arc::new(Inner { keys: RwLock::new(keys), source: None, asked: Mutex::new(Instant::now()) }))
    }

    /// Keys that another process may replace: the source is asked for them from time to time. If it has none, the known ones
    /// stay.
    pub fn reloaded(keys: Vec<SecretKey>, source: impl Fn() -> Option<Vec<SecretKey>> + Send + Sync + 'static) -> Self {
        let (keys, source) = (RwLock::new(keys), Some(Box::new(source) as Box<_>));
        KeySet(Arc::new(Inner { keys, source, asked: Mutex::new(Instant::now()) }))
    }

    /// The key to use.
    pub fn newest(&self) -> SecretKey {
        self.reload_after(INTERVAL, Instant::now());
        let keys = self.0.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.first().copied().unwrap_or_default()
    }

    /// The first result that one of the keys gives, the newest first.
    pub fn find<T>(&self, attempt: impl Fn(&SecretKey) -> Option<T>) -> Option<T> {
        self.find_at(Instant::now(), attempt)
    }

    fn find_at<T>(&self, now: Instant, attempt: impl Fn(&SecretKey) -> Option<T>) -> Option<T> {
        self.reload_after(INTERVAL, now);
        let try_all = || {
            let keys = self.0.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
            keys.iter().find_map(&attempt)
        };
        try_all().or_else(|| if self.reload_after(SHORT_INTERVAL, now) { try_all() } else { None })
    }

    /// Asks the source now, however short ago it was asked.
    pub(crate) fn reload(&self) {
        self.reload_after(Duration::ZERO, Instant::now());
    }

    /// Asks the source, if that was not done in this time; whether it was asked.
    fn reload_after(&self, interval: Duration, now: Instant) -> bool {
        let Some(source) = &self.0.source else { return false };
        {
            let mut asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if now.saturating_duration_since(*asked) < interval {
                return false;
            }
            *asked = now;
        }
        if let Some(keys) = source().filter(|keys| !keys.is_empty()) {
            *self.0.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        }
        true
    }

    /// Asks the source at the next use, for tests.
    #[cfg(test)]
    pub(crate) fn forget_when_asked(&self) {
        let long_ago = Instant::now().checked_sub(2 * INTERVAL).unwrap_or_else(Instant::now);
        *self.0.asked.lock().unwrap_or_else(PoisonError::into_inner) = long_ago;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_key_is_used_and_the_older_one_still_accepted() {
        let stored = Arc::new(Mutex::new(Some(vec![[1; 32]])));
        let source = Arc::clone(&stored);
        let keys = KeySet::reloaded(vec![[1; 32]], move || source.lock().expect("not poisoned").clone());
        let find = |wanted: SecretKey| keys.find(|key| (*key == wanted).then_some(()));
        assert_eq!(keys.newest(), [1; 32]);
        *stored.lock().expect("not poisoned") = Some(vec![[2; 32], [1; 32]]);
        keys.forget_when_asked();
        assert_eq!(keys.newest(), [2; 32]);
        assert!(find([1; 32]).is_some() && find([2; 32]).is_some());
        // A file that cannot be read does not take the keys away.
        *stored.lock().expect("not poisoned") = None;
        keys.forget_when_asked();
        assert_eq!(keys.newest(), [2; 32]);
        // A key that no process knows yet is looked for at once.
        *stored.lock().expect("not poisoned") = Some(vec![[3; 32], [2; 32]]);
        keys.forget_when_asked();
        assert!(find([3; 32]).is_some());
        assert!(find([1; 32]).is_none(), "it is forgotten");
    }

    #[test]
    fn an_unknown_key_is_looked_for_after_a_tenth_of_a_second_and_a_known_one_after_a_second() {
        let keys = KeySet::reloaded(vec![[1; 32]], || Some(vec![[2; 32]]));
        let asked = *keys.0.asked.lock().expect("not poisoned");
        let find =
            |at: Duration, wanted: SecretKey| keys.find_at(asked + at, |key| (*key == wanted).then_some(())).is_some();
        let moment = Duration::from_nanos(1);
        assert!(!find(SHORT_INTERVAL - moment, [2; 32]), "the source was asked a moment ago");
        assert!(find(INTERVAL - moment, [1; 32]), "it is known");
        assert!(find(SHORT_INTERVAL, [2; 32]));

        let keys = KeySet::reloaded(vec![[1; 32]], || Some(vec![[2; 32]]));
        let asked = *keys.0.asked.lock().expect("not poisoned");
        assert!(keys.find_at(asked + INTERVAL, |key| (*key == [1; 32]).then_some(())).is_none(), "it was replaced");
    }
}
