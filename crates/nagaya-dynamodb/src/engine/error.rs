//! Failures of SDK calls as errors of the port.

use std::io;

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use nagaya_store::{Error, ErrorKind};

/// The error of a failed call on a table that changed nothing. For a write that may have happened, see [`is_ambiguous`].
///
/// A fault of the server or of the network is [`ErrorKind::Unavailable`]: it passes, and the caller did nothing wrong.
pub(crate) fn to_store_error<E>(table: &str, failure: SdkError<E, HttpResponse>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let Some(service) = failure.as_service_error() else {
        return match &failure {
            SdkError::ConstructionFailure(_) => Error::engine(describe(&failure)),
            SdkError::DispatchFailure(dispatch) => match dispatch.as_connector_error() {
                Some(cause) if is_never_sent(cause) => Error::unavailable(unreachable(&failure)),
                _ => Error::unavailable(describe(&failure)),
            },
            _ => Error::unavailable(describe(&failure)),
        };
    };
    match service.code().unwrap_or_default() {
        "ResourceNotFoundException" => ErrorKind::NoTable(table.to_owned()).into(),
        "ValidationException" => rejected(service.message().unwrap_or("the server rejects the call")),
        "ItemCollectionSizeLimitExceededException" => {
            Error::limit_exceeded("the items of one partition and their local indexes have more than 10 GB")
        }
        code if is_busy(code) => ErrorKind::Busy.into(),
        _ if failure.raw_response().is_some_and(|response| response.status().is_server_error()) => {
            Error::unavailable(describe(&failure))
        }
        _ => Error::engine(describe(&failure)),
    }
}

/// A failure in one line, with the remedy where the credentials are the cause.
pub(crate) fn describe<E>(failure: &SdkError<E, HttpResponse>) -> String
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let Some((service, code)) = failure.as_service_error().and_then(|service| Some((service, service.code()?))) else {
        return with_causes(failure);
    };
    let message = service.message().map_or_else(String::new, |message| format!(": {message}"));
    match code {
        "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "IncompleteSignature"
        | "MissingAuthenticationTokenException"
        | "ExpiredTokenException" => format!(
            "AWS rejected the credentials ({code}{message}); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and \
             AWS_SESSION_TOKEN, or AWS_PROFILE"
        ),
        "AccessDeniedException" => format!(
            "the credentials do not allow this call ({code}{message}); add the missing dynamodb: permission to the policy \
             of the user or role"
        ),
        _ => format!("the server responded with {code}{message}"),
    }
}

/// An error and its causes in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Nothing listens at the server's address.
fn unreachable(failure: &dyn std::error::Error) -> String {
    let root = std::iter::successors(Some(failure), |error| error.source()).last();
    let cause = root.map(ToString::to_string).unwrap_or_default();
    format!("the server cannot be reached ({cause}); check DYNAMODB_ENDPOINT and AWS_REGION")
}

/// Error codes of calls that may succeed later.
pub(crate) fn is_busy(code: &str) -> bool {
    matches!(
        code,
        "ProvisionedThroughputExceededException"
            | "ProvisionedThroughputExceeded"
            | "ThrottlingException"
            | "ThrottlingError"
            | "Throttling"
            | "RequestLimitExceeded"
            | "TransactionConflictException"
            | "TransactionConflict"
            | "TransactionInProgressException"
            | "ReplicatedWriteConflictException"
    )
}

/// The error of a call that the server rejects as too large or as invalid.
pub(crate) fn rejected(message: &str) -> Error {
    if message.contains("exceeded") || message.contains("less than or equal to") {
        Error::limit_exceeded(message)
    } else {
        Error::invalid(message)
    }
}

/// Whether the server may have carried out a call that failed.
///
/// Nothing was sent over a refused connection. After any other broken connection, and after an internal error of the
/// server, the call may have been carried out.
pub(crate) fn is_ambiguous<E>(failure: &SdkError<E, HttpResponse>) -> bool {
    match failure {
        SdkError::ConstructionFailure(_) => false,
        SdkError::ServiceError(service) => service.raw().status().is_server_error(),
        SdkError::DispatchFailure(dispatch) => !dispatch.as_connector_error().is_some_and(|cause| is_never_sent(cause)),
        _ => true,
    }
}

/// Whether no connection was made, so that nothing was sent.
pub(crate) fn is_never_sent(failure: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(failure);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
            return matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable);
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_are_too_large_and_invalid_calls_are_told_apart() {
        let cases = [
            ("Item size has exceeded the maximum allowed size", "limit"),
            ("Nesting Levels have exceeded supported limits", "limit"),
            ("One or more parameter values were invalid: Type mismatch for Index Key", "invalid"),
            ("Number overflow. Attempting to store a number with magnitude larger than supported range", "invalid"),
        ];
        for (message, code) in cases {
            assert_eq!(rejected(message).code(), code, "{message}");
        }
    }

    #[test]
    fn nothing_is_sent_over_a_refused_connection() {
        let refused: Box<dyn std::error::Error> = Box::new(io::Error::from(io::ErrorKind::ConnectionRefused));
        let reset: Box<dyn std::error::Error> = Box::new(io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(is_never_sent(&*refused));
        assert!(!is_never_sent(&*reset));
    }
}
