//! A token as it comes, of which nothing is believed until a key has verified it.

use axum::http::StatusCode;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::{Algorithm, Header, decode_header};
use serde_json::{Map, Value as Json};

use super::keys::Key;
use crate::Problem;

/// Bytes of a token. Real ones have one or two thousand.
const LONGEST: usize = 8 * 1024;

/// The algorithms that are accepted. None with a shared secret: whoever checks such a token could have made it.
pub(super) const ACCEPTED: [Algorithm; 5] =
    [Algorithm::ES256, Algorithm::ES384, Algorithm::RS256, Algorithm::PS256, Algorithm::EdDSA];

/// A token that no key has verified yet.
pub(super) struct Unverified<'t> {
    header: Header,
    claims: Map<String, Json>,
    /// What is signed.
    message: &'t str,
    signature: Vec<u8>,
}

impl<'t> Unverified<'t> {
    /// Takes a token apart.
    pub(super) fn parse(token: &'t str) -> Result<Self, Problem> {
        if token.len() > LONGEST {
            return Err(refused(format!("The token is longer than {LONGEST} bytes.")));
        }
        let parsed = parts(token).ok_or_else(|| refused("The token is not a signed JSON Web Token."))?;
        if !ACCEPTED.contains(&parsed.header.alg) {
            return Err(refused("The token is signed in a way that is not accepted here."));
        }
        // Somebody meant that a reader who does not know these must refuse the token (RFC 7515, 4.1.11).
        if parsed.header.crit.is_some() {
            return Err(refused("The token has critical headers that are not known here."));
        }
        // An issuer signs other things with the same keys, such as logout tokens, and says so (RFC 8725, 3.11).
        let kind = parsed.header.typ.as_deref().unwrap_or("JWT");
        if !["JWT", "at+jwt", "application/at+jwt"].iter().any(|known| kind.eq_ignore_ascii_case(known)) {
            return Err(refused("The token is not one for access: its type is another."));
        }
        Ok(parsed)
    }

    /// The issuer that it claims to come from.
    pub(super) fn issuer(&self) -> Result<&str, Problem> {
        self.claims.get("iss").and_then(Json::as_str).ok_or_else(|| lacks("iss"))
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
            return Err(refused("The signature of the token is wrong."));
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
pub(super) fn refused(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "bad_token", detail)
}

/// The token lacks a claim, or has something else there.
pub(super) fn lacks(claim: &str) -> Problem {
    refused(format!("The claim `{claim}` of the token is missing or unusable."))
}
