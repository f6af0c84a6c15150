//! Errors as `application/problem+json` (RFC 9457): the one place where errors become HTTP.

mod codes;

use std::borrow::Cow;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use nagaya_design::{Design, FieldError};
use nagaya_store::ErrorKind as StoreErrorKind;
use nagaya_tenancy::{Error, ErrorKind, MIN_REASON_CHARS};
use serde::Serialize;

pub use self::codes::ProblemCode;
use crate::Caller;

/// `Retry-After` for a store that is not available: a supervisor has to restart it, or a network to recover.
const STORE_RETRY: u32 = 5;

/// Why a request failed, as its caller sees it.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: Cow<'static, str>,
    detail: String,
    errors: Vec<FieldProblem>,
    retry_after: Option<u32>,
    /// What is logged, and not sent to the caller.
    cause: Option<String>,
}

/// One field or parameter that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldProblem {
    /// Where in the body, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Which parameter or header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// What is wrong with it.
    pub detail: String,
}

#[derive(Serialize)]
struct Body<'p> {
    r#type: String,
    title: &'static str,
    status: u16,
    code: &'p str,
    detail: &'p str,
    #[serde(rename = "requestId")]
    request: &'p str,
    #[serde(skip_serializing_if = "<[FieldProblem]>::is_empty")]
    errors: &'p [FieldProblem],
}

impl Problem {
    /// A problem with a code of the table, and a sentence for a person.
    pub fn from_code(code: ProblemCode, detail: impl Into<String>) -> Self {
        Problem::new(code.status, code.code, detail)
    }

    /// A problem with a code of a system's own, and a sentence for a person.
    pub fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Problem { status, code: code.into(), detail: detail.into(), errors: Vec::new(), retry_after: None, cause: None }
    }

    /// With a part of the body that is wrong; `path` has dots and `[0]`.
    #[must_use]
    pub fn with_field(mut self, path: &str, detail: impl Into<String>) -> Self {
        self.errors.push(FieldProblem { pointer: Some(pointer(path)), parameter: None, detail: detail.into() });
        self
    }

    /// With a parameter or header that is wrong.
    #[must_use]
    pub fn with_parameter(mut self, name: &str, detail: impl Into<String>) -> Self {
        self.errors.push(FieldProblem { pointer: None, parameter: Some(name.to_owned()), detail: detail.into() });
        self
    }

    /// With the seconds after which trying again makes sense.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// With its cause, which is logged with the id of the request and not sent to the caller.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// What is logged, and not sent to the caller.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// 400 with a code of a system's own.
    pub fn bad_request(code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// 409 with a code of a system's own.
    pub fn conflict(code: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Self {
        Problem::new(StatusCode::CONFLICT, code, detail)
    }

    /// A parameter is not what it should be.
    pub fn bad_parameter(name: &str, detail: impl Into<String>) -> Self {
        Problem::from_code(ProblemCode::BAD_PARAMETER, "A parameter is wrong; `errors` says which.")
            .with_parameter(name, detail)
    }

    /// Nothing is here, or it belongs to another tenant.
    pub fn not_found() -> Self {
        Problem::from_code(ProblemCode::NOT_FOUND, "There is nothing here.")
    }

    /// The caller's roles do not allow this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Problem::from_code(ProblemCode::FORBIDDEN, detail)
    }

    /// The server failed. The caller is not told why.
    pub fn internal() -> Self {
        Problem::from_code(ProblemCode::INTERNAL, "Something failed inside the server.")
    }

    /// Refuses a body with errors in its fields, like the derived routes do.
    pub fn check_fields(errors: Vec<FieldError>) -> Result<(), Problem> {
        if errors.is_empty() { Ok(()) } else { Err(Error::from(ErrorKind::Invalid(errors)).into()) }
    }

    /// The store has no space for a write.
    pub fn insufficient_storage() -> Self {
        let detail = "The store has no room for more. Nothing was written; reading still works.";
        Problem::from_code(ProblemCode::INSUFFICIENT_STORAGE, detail)
    }

    /// The answer, with the id of the request in the logs.
    pub fn into_response(self, request: &str) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body = Body {
            r#type: format!("urn:nagaya:problem:{}", self.code),
            title,
            status: self.status.as_u16(),
            code: &self.code,
            detail: &self.detail,
            request,
            errors: &self.errors,
        };
        // Strings and numbers always serialize.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let message = sentence(&error.to_string());
        match error.into_kind() {
            ErrorKind::NotFound { .. } => Problem::not_found(),
            ErrorKind::Invalid(problems) => {
                let detail = "The request does not fit the design; `errors` says where.";
                let problem = Problem::from_code(ProblemCode::INVALID, detail);
                problems.iter().fold(problem, |all, each| all.with_field(&each.path, sentence(&each.message)))
            }
            ErrorKind::NoReference { field, entity } => {
                let problem = Problem::from_code(ProblemCode::NO_REFERENCE, message);
                problem.with_field(&field, format!("There is no such {entity}."))
            }
            ErrorKind::NotUnique { fields } => {
                let problem = Problem::from_code(ProblemCode::TAKEN, message);
                fields.iter().fold(problem, |all, field| all.with_field(field, "Is taken."))
            }
            ErrorKind::VersionConflict { .. } => Problem::from_code(ProblemCode::VERSION_CONFLICT, message),
            ErrorKind::Referenced { .. } => Problem::from_code(ProblemCode::REFERENCED, message),
            ErrorKind::Contention => Problem::from_code(ProblemCode::CONTENDED, message).retry_after(1),
            ErrorKind::NoEntity(_) | ErrorKind::NoAccessPattern(_) => Problem::not_found(),
            ErrorKind::Walled(_) => Problem::forbidden("The token does not reach this."),
            ErrorKind::BadCursor => {
                Problem::from_code(ProblemCode::BAD_CURSOR, message).with_parameter("cursor", "Cannot be used here.")
            }
            ErrorKind::BadTenant => {
                Problem::from_code(ProblemCode::BAD_TENANT, "The token names no tenant of this system.")
            }
            ErrorKind::NoReason => Problem::no_reason(),
            ErrorKind::IdempotencyKeyReused => {
                let problem = Problem::from_code(ProblemCode::IDEMPOTENCY_KEY_REUSED, message);
                problem.with_parameter("Idempotency-Key", "Has been used for another request.")
            }
            ErrorKind::ResultChanged(_) => Problem::from_code(ProblemCode::RESULT_CHANGED, message),
            ErrorKind::ResultDeleted => Problem::from_code(ProblemCode::RESULT_DELETED, message),
            ErrorKind::Store(error) => store(&error),
            // Whoever runs the servers has to act, and finds the remedy in the log.
            ErrorKind::UnknownAuditKey { .. } => Problem::internal().with_cause(message),
            // A wall breach is one of these: it is in the log and the metrics, and the caller learns nothing.
            _ => Problem::internal(),
        }
    }
}

impl Problem {
    /// The caller has none of the roles that are sufficient.
    pub(crate) fn no_role(refusal: &str, sufficient: &[&str]) -> Self {
        let roles: Vec<_> = sufficient.iter().map(|role| format!("`{role}`")).collect();
        Problem::forbidden(match roles.as_slice() {
            [] => format!("{refusal}; no role of the design does."),
            [role] => format!("{refusal}; the role {role} does."),
            roles => format!("{refusal}; each of the roles {} does.", roles.join(", ")),
        })
    }

    /// The caller is not an operator.
    pub(crate) fn operators_only(design: &Design, caller: &Caller) -> Self {
        let roles: Vec<_> = design.operator_roles().iter().map(|role| format!("`{role}`")).collect();
        let tenant = match caller.tenant {
            Some(_) => " The token names a tenant, and operators need one without.",
            None => "",
        };
        match roles.as_slice() {
            [] => Problem::forbidden("Only operators may call this route, and the design has no operator role."),
            roles => Problem::forbidden(format!(
                "Only operators may call this route: {}, in the claim `{}`.{tenant}",
                roles.join(", "),
                design.tenant.operator
            )),
        }
    }

    pub(crate) fn no_reason() -> Self {
        let detail = format!(
            "Operators state a reason for what they do, in the header `Nagaya-Reason`: at least {MIN_REASON_CHARS} characters, \
             without control characters."
        );
        let error = format!("Is missing, or has less than {MIN_REASON_CHARS} characters.");
        Problem::from_code(ProblemCode::NO_REASON, detail).with_parameter("Nagaya-Reason", error)
    }
}

fn store(error: &nagaya_store::Error) -> Problem {
    let unavailable = |code, detail: &str| Problem::from_code(code, detail).retry_after(1);
    match error.kind() {
        StoreErrorKind::LimitExceeded(reason) => Problem::from_code(ProblemCode::TOO_LARGE, sentence(reason)),
        StoreErrorKind::NoIndex { index, .. } => {
            let detail = format!("The index {index} that this needs has not been rolled out yet.");
            unavailable(ProblemCode::INDEX_MISSING, &detail).retry_after(60)
        }
        StoreErrorKind::NoTable(_) => {
            unavailable(ProblemCode::TABLE_MISSING, "A table that this needs has not been created yet.").retry_after(60)
        }
        StoreErrorKind::Busy => unavailable(ProblemCode::BUSY, "The store is busy."),
        StoreErrorKind::OutOfSpace(_) => Problem::insufficient_storage(),
        StoreErrorKind::Unavailable(_) => {
            let detail = "The store is not available. Nothing was written; try again later.";
            unavailable(ProblemCode::STORE_UNAVAILABLE, detail).retry_after(STORE_RETRY)
        }
        StoreErrorKind::OutcomeUnknown(_) => {
            let detail = "The store did not confirm the write. Read before writing again.";
            Problem::from_code(ProblemCode::UNANSWERED, detail)
        }
        _ => Problem::internal(),
    }
    .with_cause(error.to_string())
}

/// `ingredients[0].name` as `/ingredients/0/name`.
fn pointer(path: &str) -> String {
    let mut pointer = String::with_capacity(path.len() + 1);
    for step in path.split(['.', '[']).map(|step| step.trim_end_matches(']')).filter(|step| !step.is_empty()) {
        pointer.push('/');
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

/// The text as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{stop}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_says_goes_to_the_log_and_not_to_the_caller() {
        let check = |kind: StoreErrorKind, status: u16, code: &str, retry: Option<u32>| {
            let problem = Problem::from(Error::from(nagaya_store::Error::from(kind)));
            assert_eq!((problem.status().as_u16(), problem.code(), problem.retry_after), (status, code, retry));
            assert!(problem.cause().is_some_and(|cause| cause.contains("/var/db")), "{problem:?}");
            assert!(!problem.detail.contains("/var/db"), "{problem:?}");
        };
        let cause = || Box::from("cannot write /var/db/1.log");
        check(StoreErrorKind::OutOfSpace("/var/db is full".into()), 507, "insufficient_storage", None);
        check(StoreErrorKind::Unavailable(cause()), 503, "store_unavailable", Some(STORE_RETRY));
        check(StoreErrorKind::OutcomeUnknown(cause()), 504, "unanswered", None);
        check(StoreErrorKind::Engine(cause()), 500, "internal", None);
    }

    #[test]
    fn an_unknown_key_of_the_operator_log_is_explained_in_the_log_of_the_server() {
        let problem = Problem::from(Error::from(ErrorKind::UnknownAuditKey { key: "0123456789abcdef".to_owned() }));
        assert_eq!((problem.status().as_u16(), problem.code()), (500, "internal"));
        assert!(problem.cause().is_some_and(|cause| cause.contains("NAGAYA_AUDIT_KEY")), "{problem:?}");
        assert!(!problem.detail.contains("0123456789abcdef"), "{problem:?}");
    }

    #[test]
    fn paths_become_pointers() {
        let check = |path, expected: &str| assert_eq!(pointer(path), expected);
        check("title", "/title");
        check("metadata.actor.userId", "/metadata/actor/userId");
        check("ingredients[0].name", "/ingredients/0/name");
        check("a/b.c~d", "/a~1b/c~0d");
        check("", "");
    }
}
