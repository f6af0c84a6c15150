//! A signing key.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::jwk::Jwk;
use p256::ecdsa::{Signature, SigningKey, signature::Signer as _};
use serde_json::{Map, Value as Json, json};

use crate::identity::IssuerError;

/// A signing key of the curve P-256.
#[derive(Clone)]
pub(super) struct Signer {
    id: String,
    key: SigningKey,
}

impl Signer {
    /// A new key.
    pub(super) fn new() -> Result<Self, IssuerError> {
        loop {
            let mut bytes = [0; 44];
            getrandom::fill(&mut bytes)
                .map_err(|error| IssuerError::new(format!("the system gives no random bytes: {error}")))?;
            let (id, key) = bytes.split_at(12);
            // One number in four billion is too large for a key.
            if let Ok(key) = SigningKey::from_slice(key) {
                return Ok(Signer { id: BASE64.encode(id), key });
            }
        }
    }

    /// Its id in tokens.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Reads what [`Signer::private`] gives.
    pub(super) fn read(jwk: &Json) -> Option<Self> {
        let text = |name| jwk.get(name).and_then(Json::as_str);
        if (text("kty"), text("crv")) != (Some("EC"), Some("P-256")) {
            return None;
        }
        let key = SigningKey::from_slice(&BASE64.decode(text("d")?).ok()?).ok()?;
        Some(Signer { id: text("kid")?.to_owned(), key })
    }

    /// The public key as a JWK (RFC 7517).
    pub(super) fn public(&self) -> Json {
        let point = self.key.verifying_key().to_encoded_point(false);
        let coordinate = |bytes: Option<&_>| bytes.map(|bytes| BASE64.encode::<&p256::FieldBytes>(bytes));
        json!({
            "kty": "EC",
            "crv": "P-256",
            "x": coordinate(point.x()),
            "y": coordinate(point.y()),
            "alg": "ES256",
            "use": "sig",
            "kid": self.id,
        })
    }

    /// The private key as a JWK.
    pub(super) fn private(&self) -> Json {
        let mut jwk = self.public();
        jwk["d"] = json!(BASE64.encode(self.key.to_bytes()));
        jwk
    }

    /// The public key for a verifier.
    pub(super) fn jwk(&self) -> Option<Jwk> {
        serde_json::from_value(self.public()).ok()
    }

    /// A token with these claims.
    pub(super) fn sign(&self, claims: &Map<String, Json>) -> String {
        let header = json!({ "alg": "ES256", "kid": self.id, "typ": "JWT" });
        let claims = Json::Object(claims.clone());
        let message = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let signature: Signature = self.key.sign(message.as_bytes());
        format!("{message}.{}", BASE64.encode(signature.to_bytes()))
    }
}
