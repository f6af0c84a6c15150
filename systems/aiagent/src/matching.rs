//! `If-Match`, for what the product changes by itself.

use axum::http::StatusCode;
use nagaya_server::{Call, Problem, tag};
use nagaya_tenancy::Record;

/// Refuses to change an item that is not the one that the caller knows.
pub(crate) fn known(call: &Call, record: &Record) -> Result<(), Problem> {
    let Some(header) = call.header("if-match") else { return Ok(()) };
    let tag = tag(record);
    if header.split(',').map(str::trim).any(|each| each == "*" || each == tag) {
        return Ok(());
    }
    let detail = "The item has changed: read it again, and send its new `ETag`.";
    Err(Problem::new(StatusCode::PRECONDITION_FAILED, "version_conflict", detail))
}
