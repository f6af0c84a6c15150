//! A signing key.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::jwk::Jwk;
use ring::{
    rand::{SecureRandom as _, SystemRandom},
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Map, Value as Json, json};

use crate::identity::IssuerError;

/// The secret number in a PKCS #8 document of `ring`. Documents of P-256 keys are all of the same length.
const PKCS8_SECRET: std::ops::Range<usize> = 36..68;

/// A signing key of the curve P-256.
#[derive(Clone)]
pub(super) struct Signer {
    id: String,
    secret: Vec<u8>,
    key: Arc<EcdsaKeyPair>,
}

impl Signer {
    /// A new key.
    pub(super) fn new() -> Result<Self, IssuerError> {
        let failed = |_| IssuerError::new("the system gives no random bytes");
        let random = SystemRandom::new();
        let mut id = [0; 12];
        random.fill(&mut id).map_err(failed)?;
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).map_err(failed)?;
        let made = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .ok()
            .zip(document.as_ref().get(PKCS8_SECRET))
            .and_then(|(key, secret)| {
                Signer::from_parts(BASE64.encode(id), secret.to_vec(), key.public_key().as_ref())
            });
        made.ok_or_else(|| IssuerError::new("a new key could not be read"))
    }

    /// A key of its secret number and its public point; `None` if they do not belong together.
    fn from_parts(id: String, secret: Vec<u8>, point: &[u8]) -> Option<Self> {
        let key = EcdsaKeyPair::from_private_key_and_public_key(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &secret,
            point,
            &SystemRandom::new(),
        );
        Some(Signer { id, secret, key: Arc::new(key.ok()?) })
    }

    /// Its id in tokens.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Reads what [`Signer::private`] gives.
    pub(super) fn read(jwk: &Json) -> Option<Self> {
        // Numbers of another curve fit no point of this one.
        let text = |name| jwk.get(name).and_then(Json::as_str);
        let number = |name| text(name).and_then(|text| BASE64.decode(text).ok());
        let point = [vec![4], number("x")?, number("y")?].concat();
        Signer::from_parts(text("kid")?.to_owned(), number("d")?, &point)
    }

    /// The public key as a JWK (RFC 7517).
    pub(super) fn public(&self) -> Json {
        // An uncompressed point: 4, and the two coordinates.
        let (x, y) = self.key.public_key().as_ref()[1..].split_at(32);
        json!({
            "kty": "EC",
            "crv": "P-256",
            "x": BASE64.encode(x),
            "y": BASE64.encode(y),
            "alg": "ES256",
            "use": "sig",
            "kid": self.id,
        })
    }

    /// The private key as a JWK.
    pub(super) fn private(&self) -> Json {
        let mut jwk = self.public();
        jwk["d"] = json!(BASE64.encode(&self.secret));
        jwk
    }

    /// The public key for a verifier.
    pub(super) fn jwk(&self) -> Option<Jwk> {
        serde_json::from_value(self.public()).ok()
    }

    /// A token with these claims; `None` if the system gives no random bytes.
    pub(super) fn sign(&self, claims: &Map<String, Json>) -> Option<String> {
        let header = json!({ "alg": "ES256", "kid": self.id, "typ": "JWT" });
        let claims = Json::Object(claims.clone());
        let message = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).ok()?;
        Some(format!("{message}.{}", BASE64.encode(signature)))
    }
}
