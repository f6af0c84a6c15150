//! The keys of an issuer: which of them are usable, and what they have signed.

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

/// Keys of one issuer. Real ones have two or three.
const MOST: usize = 64;

/// A public key that signatures are checked with.
pub(super) struct Key {
    jwk: Jwk,
    decoding: DecodingKey,
    algorithms: Vec<Algorithm>,
    retired: AtomicBool,
}

impl Key {
    /// The key, if it is one for signatures of an accepted kind.
    fn of(jwk: Jwk) -> Option<Key> {
        let said = &jwk.common;
        if !matches!(said.public_key_use, None | Some(PublicKeyUse::Signature))
            || said.key_operations.as_ref().is_some_and(|all| !all.contains(&KeyOperations::Verify))
        {
            return None;
        }
        let mut algorithms = fitting(&jwk.algorithm);
        algorithms.retain(|each| said.key_algorithm.is_none_or(|named| named == (*each).into()));
        let first = algorithms.first()?;
        let decoding = DecodingKey::from_jwk(&jwk).ok()?;
        // A point that is not on its curve is found here.
        (DEFAULT_PROVIDER.verifier_factory)(first, &decoding).ok()?;
        Some(Key { jwk, decoding, algorithms, retired: AtomicBool::new(false) })
    }

    /// Whether the key has made this signature.
    pub(super) fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        // The algorithm is the key's to say, never the token's alone.
        self.algorithms.contains(&algorithm)
            && (DEFAULT_PROVIDER.verifier_factory)(&algorithm, &self.decoding)
                .is_ok_and(|verifier| verifier.verify(message, &signature.to_vec()).is_ok())
    }

    /// Whether its issuer does not publish it any more.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }
}

/// The accepted algorithms that a key of this kind and size is for. The sizes are checked here because the library takes
/// them for granted.
fn fitting(parameters: &AlgorithmParameters) -> Vec<Algorithm> {
    let fits: &[Algorithm] = match parameters {
        AlgorithmParameters::EllipticCurve(key) => match (&key.curve, length(&key.x), length(&key.y)) {
            (EllipticCurve::P256, 32, 32) => &[Algorithm::ES256],
            (EllipticCurve::P384, 48, 48) => &[Algorithm::ES384],
            _ => &[],
        },
        // From 2,048 bits, below which keys are too weak, to 4,096, above which the library takes none.
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

/// How many bytes a value of fixed size has.
fn length(text: &str) -> usize {
    BASE64.decode(text).map_or(0, |bytes| bytes.len())
}

/// How many bytes a number has; some issuers write a zero in front of it.
fn digits(text: &str) -> usize {
    BASE64.decode(text).map_or(0, |bytes| bytes.iter().skip_while(|byte| **byte == 0).count())
}

/// The keys that an issuer publishes.
#[derive(Default)]
pub(super) struct Keys(RwLock<Vec<Arc<Key>>>);

impl Keys {
    /// The key that a token names. A token that names none has to leave no choice.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Arc<Key>> {
        let keys = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut fitting = keys.iter().filter(|key| key.algorithms.contains(&algorithm));
        match id {
            Some(id) => fitting.find(|key| key.jwk.common.key_id.as_deref() == Some(id)).cloned(),
            None => fitting.next().filter(|_| fitting.next().is_none()).cloned(),
        }
    }

    /// Takes over what is published now. A key that is published no more is retired, and with it what it has verified.
    pub(super) fn replace(&self, published: impl IntoIterator<Item = Jwk>) {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *keys);
        let key = |jwk| match before.iter().find(|key| key.jwk == jwk) {
            Some(same) => Some(Arc::clone(same)),
            None => Key::of(jwk).map(Arc::new),
        };
        *keys = published.into_iter().take(MOST).filter_map(key).collect();
        for key in before.iter().filter(|key| !keys.iter().any(|kept| Arc::ptr_eq(kept, key))) {
            key.retired.store(true, Ordering::Relaxed);
        }
    }
}
