//! The public keys of an issuer.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicBool, Ordering},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::{
    Algorithm,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use ring::{
    agreement::{self, ECDH_P256, ECDH_P384, EphemeralPrivateKey, agree_ephemeral},
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
        RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
    },
};

use super::{ed25519::is_public_key, token::ACCEPTED};

/// The most usable keys of one issuer; of the local one, the newest count. Real ones have two or three.
const MAX_KEYS: usize = 64;

/// A public key that verifies signatures.
pub(super) struct Key {
    jwk: Jwk,
    material: KeyMaterial,
    algorithms: Vec<Algorithm>,
    retired: AtomicBool,
}

impl Key {
    /// The key, if it is for signatures of an accepted algorithm.
    fn from_jwk(jwk: Jwk) -> Option<Key> {
        let common = &jwk.common;
        if !matches!(common.public_key_use, None | Some(PublicKeyUse::Signature))
            || common.key_operations.as_ref().is_some_and(|all| !all.contains(&KeyOperations::Verify))
        {
            return None;
        }
        let (material, mut algorithms) = KeyMaterial::from_parameters(&jwk.algorithm)?;
        algorithms
            .retain(|each| ACCEPTED.contains(each) && common.key_algorithm.is_none_or(|named| named == (*each).into()));
        (!algorithms.is_empty()).then_some(Key { jwk, material, algorithms, retired: AtomicBool::new(false) })
    }

    /// Whether the key has made this signature.
    pub(super) fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        // The key decides the algorithm, never the token alone.
        self.algorithms.contains(&algorithm) && self.material.has_signed(algorithm, message, signature)
    }

    /// Whether its issuer no longer publishes it.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }
}

/// The numbers of a public key.
enum KeyMaterial {
    /// A point of a curve, as bytes.
    Point(Vec<u8>),
    /// Modulus and exponent, without leading zeros.
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
}

impl KeyMaterial {
    /// The numbers of a key, and the algorithms that a key of this kind and size is for.
    fn from_parameters(parameters: &AlgorithmParameters) -> Option<(Self, Vec<Algorithm>)> {
        let bytes = |text: &str| BASE64.decode(text).ok();
        match parameters {
            AlgorithmParameters::EllipticCurve(key) => {
                let (x, y) = (bytes(&key.x)?, bytes(&key.y)?);
                let algorithm = match (&key.curve, x.len(), y.len()) {
                    (EllipticCurve::P256, 32, 32) => Algorithm::ES256,
                    (EllipticCurve::P384, 48, 48) => Algorithm::ES384,
                    _ => return None,
                };
                // An uncompressed point begins with 4 (SEC 1, 2.3.3).
                let point = [vec![4], x, y].concat();
                is_on_curve(algorithm, &point).then(|| (KeyMaterial::Point(point), vec![algorithm]))
            }
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                let point = bytes(&key.x).filter(|point| is_public_key(point))?;
                Some((KeyMaterial::Point(point), vec![Algorithm::EdDSA]))
            }
            AlgorithmParameters::RSA(key) => {
                // Some issuers write a leading zero.
                let number = |text| Some(bytes(text)?.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<_>>());
                let components = RsaPublicKeyComponents { n: number(&key.n)?, e: number(&key.e)? };
                // Keys below 2,048 bits are too weak; beyond 4,096 bits checking a signature takes too long. Counted in bits:
                // a modulus of 256 bytes may have 2,041.
                let highest = components.n.first()?.leading_zeros() as usize;
                let fits = (2_048..=4_096).contains(&(8 * components.n.len() - highest));
                fits.then(|| (KeyMaterial::Rsa(components), vec![Algorithm::RS256, Algorithm::PS256]))
            }
            _ => None,
        }
    }

    fn has_signed(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let verified = match (self, algorithm) {
            (KeyMaterial::Point(point), Algorithm::ES256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (KeyMaterial::Point(point), Algorithm::ES384) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
            (KeyMaterial::Point(point), Algorithm::EdDSA) => {
                UnparsedPublicKey::new(&ED25519, point).verify(message, signature)
            }
            (KeyMaterial::Rsa(key), Algorithm::RS256) => key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            (KeyMaterial::Rsa(key), Algorithm::PS256) => key.verify(&RSA_PSS_2048_8192_SHA256, message, signature),
            _ => return false,
        };
        verified.is_ok()
    }
}

/// Whether a point is on the curve of an algorithm: a key can be agreed on only with such a point.
fn is_on_curve(algorithm: Algorithm, point: &[u8]) -> bool {
    let curve = if algorithm == Algorithm::ES256 { &ECDH_P256 } else { &ECDH_P384 };
    EphemeralPrivateKey::generate(curve, &SystemRandom::new())
        .and_then(|key| agree_ephemeral(key, &agreement::UnparsedPublicKey::new(curve, point), |_| ()))
        .is_ok()
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

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Replaces the keys. A key that is no longer published is retired, and so are the tokens that it verified.
    pub(super) fn replace(&self, published: impl IntoIterator<Item = Jwk>) {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *keys);
        let key = |jwk| match before.iter().find(|key| key.jwk == jwk) {
            Some(same) => Some(Arc::clone(same)),
            None => Key::from_jwk(jwk).map(Arc::new),
        };
        *keys = published.into_iter().filter_map(key).take(MAX_KEYS).collect();
        for key in before.iter().filter(|key| !keys.iter().any(|kept| Arc::ptr_eq(kept, key))) {
            key.retired.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether an RSA key with a modulus of so many bits is used.
    fn is_used(bits: usize) -> bool {
        let mut modulus = vec![0xff; bits.div_ceil(8)];
        modulus[0] = 0xff >> (8 * modulus.len() - bits);
        let keys = Keys::default();
        let jwk = json!({ "kty": "RSA", "n": BASE64.encode(modulus), "e": "AQAB" });
        keys.replace(serde_json::from_value(jwk));
        keys.find(None, Algorithm::RS256).is_some()
    }

    #[test]
    fn rsa_keys_have_2048_to_4096_bits() {
        assert_eq!([2_048, 2_049, 3_072, 4_096].map(is_used), [true; 4]);
        // A modulus of 2,041 bits has as many bytes as one of 2,048.
        assert_eq!([512, 1_024, 2_040, 2_041, 2_047, 4_097].map(is_used), [false; 6]);
    }

    #[test]
    fn a_key_is_for_the_algorithm_that_it_names_alone() {
        let keys = Keys::default();
        let modulus = BASE64.encode([0xff; 256]);
        keys.replace(serde_json::from_value(json!({ "kty": "RSA", "alg": "RS256", "n": modulus, "e": "AQAB" })));
        assert!(keys.find(None, Algorithm::RS256).is_some());
        assert!(keys.find(None, Algorithm::PS256).is_none());
    }

    #[test]
    fn points_off_the_curve_are_no_keys() {
        let keys = Keys::default();
        // The base point of P-256, and one beside it.
        let x = "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY";
        for (y, count) in
            [("T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU", 1), ("T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfQ", 0)]
        {
            keys.replace(serde_json::from_value(json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y })));
            assert_eq!(keys.len(), count, "{y}");
        }
    }
}
