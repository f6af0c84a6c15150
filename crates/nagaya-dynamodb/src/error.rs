//! What the server's failures are in the port.

use std::{fmt, io};

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use nagaya_store::{Error, ErrorKind};

/// The failure of a call about a table, which has changed nothing. For a write that may have happened, see
/// [`is_unanswered`].
///
/// What is the server's trouble, or that of the way to it, is [`ErrorKind::Unavailable`]: it passes, and nobody has asked
/// for anything wrong.
pub(crate) fn of<E>(table: &str, failure: SdkError<E, HttpResponse>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let Some(service) = failure.as_service_error() else {
        return match &failure {
            // The request could not even be put together.
            SdkError::ConstructionFailure(_) => Error::engine(Failure::of(&failure)),
            SdkError::DispatchFailure(dispatch)
                if dispatch.as_connector_error().is_some_and(|cause| is_never_sent(cause)) =>
            {
                Error::unavailable(Failure::unreachable(&failure))
            }
            _ => Error::unavailable(Failure::of(&failure)),
        };
    };
    match service.code().unwrap_or_default() {
        "ResourceNotFoundException" => ErrorKind::NoTable(table.to_owned()).into(),
        "ValidationException" => refused(service.message().unwrap_or("the server refuses the call")),
        "ItemCollectionSizeLimitExceededException" => {
            Error::limit("the items of one partition and their local indexes have more than 10 GB")
        }
        code if is_busy(code) => ErrorKind::Busy.into(),
        _ if failure.raw_response().is_some_and(|answer| answer.status().is_server_error()) => {
            Error::unavailable(Failure::of(&failure))
        }
        _ => Error::engine(Failure::of(&failure)),
    }
}

/// Codes that say: later.
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

/// A call that the server refuses as it is: too large, or impossible.
pub(crate) fn refused(message: &str) -> Error {
    if message.contains("exceeded") || message.contains("less than or equal to") {
        Error::limit(message)
    } else {
        Error::invalid(message)
    }
}

/// Whether the server may have done what it was asked, though it did not say so.
///
/// A refused connection carried nothing. Whatever else broke off may have been heard, and an error of the server's own may
/// have come after the deed.
pub(crate) fn is_unanswered<E>(failure: &SdkError<E, HttpResponse>) -> bool {
    match failure {
        SdkError::ConstructionFailure(_) => false,
        SdkError::ServiceError(service) => service.raw().status().is_server_error(),
        SdkError::DispatchFailure(dispatch) => !dispatch.as_connector_error().is_some_and(|cause| is_never_sent(cause)),
        _ => true,
    }
}

/// Whether there was nobody to send anything to.
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

/// What the SDK says, in one line with its causes.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn of(failure: &dyn std::error::Error) -> Self {
        let mut text = failure.to_string();
        let mut cause = failure.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        Failure(text)
    }
}

impl Failure {
    /// There was nobody to send anything to.
    fn unreachable(failure: &dyn std::error::Error) -> Self {
        let first = std::iter::successors(Some(failure), |error| error.source()).last();
        let cause = first.map(ToString::to_string).unwrap_or_default();
        Failure(format!("nobody answers at the server's address ({cause}); see DYNAMODB_ENDPOINT and AWS_REGION"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_told_apart_from_what_is_wrong() {
        let cases = [
            ("Item size has exceeded the maximum allowed size", "limit"),
            ("Nesting Levels have exceeded supported limits", "limit"),
            ("One or more parameter values were invalid: Type mismatch for Index Key", "invalid"),
            ("Number overflow. Attempting to store a number with magnitude larger than supported range", "invalid"),
        ];
        for (message, code) in cases {
            assert_eq!(refused(message).code(), code, "{message}");
        }
    }

    #[test]
    fn a_refused_connection_carried_nothing() {
        let refused: Box<dyn std::error::Error> = Box::new(io::Error::from(io::ErrorKind::ConnectionRefused));
        let reset: Box<dyn std::error::Error> = Box::new(io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(is_never_sent(&*refused));
        assert!(!is_never_sent(&*reset));
    }
}
