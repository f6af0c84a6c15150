//! Problems of commands and events.

use nagaya_events::{Error, ErrorKind, Failure};
use nagaya_server::{Problem, ProblemCode};

use crate::Refusal;

/// Why a command failed, as a problem.
pub(super) fn command_problem(failure: Failure<Refusal>) -> Problem {
    match failure {
        Failure::Refused(Refusal::NotFound) => Problem::not_found(),
        Failure::Refused(Refusal::AlreadyExists) => {
            Problem::from_code(ProblemCode::TAKEN, "There is such a todo already.")
        }
        // The todo has no events for this family.
        Failure::Conflict { version: 0 } => Problem::not_found(),
        Failure::Conflict { .. } => {
            let detail = "The todo has changed: read it again, and send its new `ETag`.";
            Problem::from_code(ProblemCode::VERSION_CONFLICT, detail)
        }
        Failure::Error(error) => problem_from_error(error),
    }
}

pub(super) fn problem_from_error(error: Error) -> Problem {
    match error.into_kind() {
        ErrorKind::Tenancy(error) => error.into(),
        ErrorKind::KeyReused => {
            let detail = "The key has been used for another request.";
            Problem::from_code(ProblemCode::IDEMPOTENCY_KEY_REUSED, detail)
                .with_parameter("Idempotency-Key", "Has been used for another request.")
        }
        kind => {
            let error = Error::from(kind);
            tracing::error!(code = error.code(), %error, "a command failed");
            Problem::internal()
        }
    }
}
