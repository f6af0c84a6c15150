//! Requests that nobody can read in two ways: one that has a header twice is refused, because a proxy in front may have read the other.
//! The same holds for one without `Host`, for which a proxy may assume any, and for bodies with an encoding that only the proxy reads.

use axum::{
    extract::Request,
    http::{HeaderName, Version, header},
};

use crate::{Problem, ProblemCode, REASON_HEADER};

static SINGLE_HEADERS: [HeaderName; 5] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::HOST,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static(REASON_HEADER),
];

/// What the encoding of a body may be.
static ENCODINGS: [(HeaderName, &str); 2] =
    [(header::CONTENT_ENCODING, "identity"), (header::TRANSFER_ENCODING, "chunked")];

/// Refuses a request that has one of these headers more than once, no host, or an encoded body.
pub(crate) fn verify(request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    if request.version() == Version::HTTP_11 && !headers.contains_key(header::HOST) && request.uri().host().is_none() {
        return Err(Problem::from_code(ProblemCode::NO_HOST, "The request has no header `Host`."));
    }
    let is_other = |(name, plain): &&(HeaderName, &str)| {
        headers.get_all(name).iter().any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(plain.as_bytes()))
    };
    if let Some((name, plain)) = ENCODINGS.iter().find(is_other) {
        let detail = format!("The header `{name}` has to be `{plain}`, or to be left out.");
        return Err(Problem::from_code(ProblemCode::ENCODED_BODY, detail));
    }
    // Most requests repeat no header at all.
    if headers.len() == headers.keys_len() {
        return Ok(());
    }
    match SINGLE_HEADERS.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        Some(name) => {
            let detail = format!("The request has the header `{name}` more than once.");
            Err(Problem::from_code(ProblemCode::REPEATED_HEADER, detail).with_parameter(name.as_str(), "Is repeated."))
        }
        None => Ok(()),
    }
}
