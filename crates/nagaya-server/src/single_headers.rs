//! Headers that say one thing: a request that has one of them twice is refused, because a proxy in front may have read the other one.
//! The same holds for one without `Host`, for which a proxy may assume any.

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

/// Refuses a request that has one of these headers more than once, or no host.
pub(crate) fn verify(request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    if request.version() == Version::HTTP_11 && !headers.contains_key(header::HOST) && request.uri().host().is_none() {
        return Err(Problem::from_code(ProblemCode::NO_HOST, "The request has no header `Host`."));
    }
    match SINGLE_HEADERS.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        Some(name) => {
            let detail = format!("The request has the header `{name}` more than once.");
            Err(Problem::from_code(ProblemCode::REPEATED_HEADER, detail).with_parameter(name.as_str(), "Is repeated."))
        }
        None => Ok(()),
    }
}
