//! The public keys of an issuer.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::{
    Algorithm, DecodingKey,
    crypto::rust_crypto::DEFAULT_PROVIDER,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};

use super::token::ACCEPTED;

/// The most keys of one issuer. Real ones have two or three.
const MAX_KEYS: usize = 64;

/// A public key that verifies signatures.
pub(super) struct Key {
    jwk: Jwk,
    decoding: DecodingKey,
    algorithms: Vec<Algorithm>,
    retired: AtomicBool,
}

impl Key {
    /// The key, if it is for signatures of an accepted algorithm.
    fn of(jwk: Jwk) -> Option<Key> {
        let common = &jwk.common;
        if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
            || common.key_operations.as_ref().is_some_and(|all| !all.contains(&KeyOperations::Verify))
        {
            return None;
        }
        let mut algorithms = fitting(&jwk.algorithm);
        algorithms.retain(|each| common.key_algorithm.is_none_or(|named| named == (*each).into()));
        let first = algorithms.first()?;
        let decoding = DecodingKey::from_jwk(&jwk).ok()?;
        // This fails for a point that is not on its curve.
        (DEFAULT_PROVIDER.verifier_factory)(first, &decoding).ok()?;
        Some(Key { jwk, decoding, algorithms, retired: AtomicBool::new(false) })
    }

    /// Whether the key has made this signature.
    pub(super) fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        // The key decides the algorithm, never the token alone.
        self.algorithms.contains(&algorithm)
            && (DEFAULT_PROVIDER.verifier_factory)(&algorithm, &self.decoding)
                .is_ok_and(|verifier| verifier.verify(message, &signature.to_vec()).is_ok())
    }

    /// Whether its issuer no longer publishes it.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }
}

/// The accepted algorithms for a key of this kind and size. The library does not check sizes.
fn fitting(parameters: &AlgorithmParameters) -> Vec<Algorithm> {
    let fits: &[Algorithm] = match parameters {
        AlgorithmParameters::EllipticCurve(key) => match (&key.curve, length(&key.x), length(&key.y)) {
            (EllipticCurve::P256, 32, 32) => &[Algorithm::ES256],
            (EllipticCurve::P384, 48, 48) => &[Algorithm::ES384],
            _ => &[],
        },
        // From 2,048 bits, below which keys are too weak, to 4,096, the most that the library accepts.
        AlgorithmParameters::RSA(key) => match digits(&key.n) {
            256..=512 => &[Algorithm::RS256, Algorithm::PS256],
            _ => &[],
        },
        AlgorithmParameters::OctetKeyPair(key) => match (&key.curve, length(&key.x)) {
            (EllipticCurve::Ed25519, 32) => &[Algorithm::EdDSA],
            _ => &[],
        },
        _ => &[],
    };
    fits.iter().copied().filter(|each| ACCEPTED.contains(each)).collect()
}

/// The length of a value of fixed size, in bytes.
fn length(text: &str) -> usize {
    BASE64.decode(text).map_or(0, |bytes| bytes.len())
}

/// The length of a number in bytes; some issuers write a leading zero.
fn digits(text: &str) -> usize {
    BASE64.decode(text).map_or(0, |bytes| bytes.iter().skip_while(|byte| **byte == 0).count())
}

/// The keys that an issuer publishes.
#[derive(Default)]
pub(super) struct Keys(RwLock<Vec<Arc<Key>>>);

impl Keys {
    /// The key that a token names. For a token without a key id there has to be exactly one key.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Arc<Key>> {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut fitting = keys.iter().filter(|key| key.algorithms.contains(&algorithm));
        match id {
            Some(id) => fitting.find(|key| key.jwk.common.key_id.as_deref() == Some(id)).cloned(),
            None => fitting.next().filter(|_| fitting.next().is_none()).cloned(),
        }
    }

    /// Replaces the keys. A key that is no longer published is retired, and so are the tokens that it verified.
    pub(super) fn replace(&self, published: impl IntoIterator<Item = Jwk>) {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *keys);
        let key = |jwk| match before.iter().find(|key| key.jwk == jwk) {
            Some(same) => Some(Arc::clone(same)),
            None => Key::of(jwk).map(Arc::new),
        };
        *keys = published.into_iter().take(MAX_KEYS).filter_map(key).collect();
        for key in before.iter().filter(|key| !keys.iter().any(|kept| Arc::ptr_eq(kept, key))) {
            key.retired.store(true, Ordering::Relaxed);
        }
    }
}
