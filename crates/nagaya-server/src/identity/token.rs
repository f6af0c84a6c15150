//! A token before it is verified.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::{Algorithm, Header, decode_header};
use serde_json::{Map, Value as Json};

use super::keys::Key;
use crate::{Problem, ProblemCode};

/// The longest token, in bytes. Real ones have one or two thousand.
const MAX_BYTES: usize = 8 * 1024;

/// The accepted algorithms. None with a shared secret: a verifier of such tokens could forge them.
pub(super) const ACCEPTED: [Algorithm; 5] =
    [Algorithm::ES256, Algorithm::ES384, Algorithm::RS256, Algorithm::PS256, Algorithm::EdDSA];

/// A token that no key has verified yet.
pub(super) struct Unverified<'t> {
    header: Header,
    claims: Map<String, Json>,
    /// The signed part.
    message: &'t str,
    signature: Vec<u8>,
}

impl<'t> Unverified<'t> {
    /// Parses a token.
    pub(super) fn parse(token: &'t str) -> Result<Self, Problem> {
        if token.len() > MAX_BYTES {
            return Err(bad_token(format!("The token is longer than {MAX_BYTES} bytes.")));
        }
        let parsed = parts(token).ok_or_else(|| bad_token("The token is not a signed JSON Web Token."))?;
        if !ACCEPTED.contains(&parsed.header.alg) {
            return Err(bad_token("The token is signed in a way that is not accepted here."));
        }
        // A verifier that does not know critical headers must refuse the token (RFC 7515, 4.1.11).
        if parsed.header.crit.is_some() {
            return Err(bad_token("The token has critical headers that are not known here."));
        }
        // An issuer signs other tokens with the same keys, such as logout tokens, and marks them (RFC 8725, 3.11).
        let kind = parsed.header.typ.as_deref().unwrap_or("JWT");
        if !["JWT", "at+jwt", "application/at+jwt"].iter().any(|known| kind.eq_ignore_ascii_case(known)) {
            return Err(bad_token("The token is not one for access: its type is another."));
        }
        Ok(parsed)
    }

    /// The issuer that it claims to come from.
    pub(super) fn issuer(&self) -> Result<&str, Problem> {
        self.claims.get("iss").and_then(Json::as_str).ok_or_else(|| missing_claim("iss"))
    }

    /// The id of the key that it claims to be signed by.
    pub(super) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// How it claims to be signed.
    pub(super) fn algorithm(&self) -> Algorithm {
        self.header.alg
    }

    /// Its claims, once the key has verified them.
    pub(super) fn verified_by(self, key: &Key) -> Result<Map<String, Json>, Problem> {
        if !key.has_signed(self.header.alg, self.message.as_bytes(), &self.signature) {
            return Err(bad_token("The signature of the token is wrong."));
        }
        Ok(self.claims)
    }
}

fn parts(token: &str) -> Option<Unverified<'_>> {
    let (message, signature) = token.rsplit_once('.')?;
    let (_, claims) = message.split_once('.')?;
    let header = decode_header(token).ok()?;
    let claims = serde_json::from_slice(&BASE64.decode(claims).ok()?).ok()?;
    Some(Unverified { header, claims, message, signature: BASE64.decode(signature).ok()? })
}

/// The token is not accepted.
pub(super) fn bad_token(detail: impl Into<String>) -> Problem {
    Problem::from_code(ProblemCode::BAD_TOKEN, detail)
}

/// A claim of the token is missing, or of another type.
pub(super) fn missing_claim(claim: &str) -> Problem {
    bad_token(format!("The claim `{claim}` of the token is missing or unusable."))
}
