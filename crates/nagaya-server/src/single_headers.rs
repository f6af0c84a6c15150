//! Headers that say one thing: a request that has one of them twice is refused, because a proxy in front may have read the other one.

use axum::http::{HeaderMap, HeaderName, header};

use crate::{Problem, ProblemCode, REASON_HEADER};

static SINGLE_HEADERS: [HeaderName; 4] = [
    header::AUTHORIZATION,
    header::HOST,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static(REASON_HEADER),
];

/// Refuses a request that has one of these headers more than once.
pub(crate) fn reject_repeated(headers: &HeaderMap) -> Result<(), Problem> {
    match SINGLE_HEADERS.iter().find(|name| headers.get_all(*name).iter().nth(1).is_some()) {
        Some(name) => {
            let detail = format!("The request has the header `{name}` more than once.");
            Err(Problem::from_code(ProblemCode::REPEATED_HEADER, detail).with_parameter(name.as_str(), "Is repeated."))
        }
        None => Ok(()),
    }
}
