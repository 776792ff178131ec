//! I say what a failed call means: worth repeating, or refused for good.

use std::error::Error;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use punctual_core::ports::PortError;

/// Codes below 500 that the same call may survive later.
const TRANSIENT: &[&str] = &[
    "ExpiredTokenException",
    "LimitExceededException",
    "ProvisionedThroughputExceeded",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestTimeoutException",
    "ThrottledException",
    "Throttling",
    "ThrottlingError",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionConflict",
    "TransactionConflictException",
    "TransactionInProgressException",
];

/// Whether the same call may succeed later.
pub(crate) fn is_transient(code: &str) -> bool {
    TRANSIENT.contains(&code)
}

/// What a failed call means.
pub(crate) fn port_error<E>(what: &'static str, error: SdkError<E>) -> PortError
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let unavailable = match &error {
        SdkError::ConstructionFailure(_) => false,
        SdkError::ServiceError(answer) => {
            answer.raw().status().is_server_error() || answer.err().code().is_some_and(is_transient)
        }
        // Timeouts, lost connections, answers that cannot be read.
        _ => true,
    };
    let source = Box::new(error);
    if unavailable { PortError::Unavailable { what, source } } else { PortError::Refused { what, source } }
}

/// What a cancelled transaction means whose reasons name no failed condition.
pub(crate) fn cancelled(what: &'static str, error: SdkError<TransactWriteItemsError>) -> PortError {
    let reasons = match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => cancelled.cancellation_reasons(),
        _ => return port_error(what, error),
    };
    let transient = reasons.iter().filter_map(|reason| reason.code()).any(is_transient);
    let source = Box::new(error);
    if transient { PortError::Unavailable { what, source } } else { PortError::Refused { what, source } }
}

/// A call that answers, but never with all of what was asked.
pub(crate) fn unfinished(what: &'static str) -> PortError {
    PortError::Unavailable { what, source: "the service kept leaving keys unprocessed".into() }
}
