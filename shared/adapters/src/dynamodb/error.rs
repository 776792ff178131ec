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

/// What the service said. The SDK's own error would bring the whole answer along, rows and payloads included.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
struct ServiceAnswer {
    code: String,
    message: String,
}

/// The cause of a failed call, without the answer's body.
fn cause<E>(error: SdkError<E>) -> Box<dyn Error + Send + Sync>
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(answer) => Box::new(ServiceAnswer {
            code: answer.err().code().unwrap_or("an error without a code").to_owned(),
            message: answer.err().message().unwrap_or_default().to_owned(),
        }),
        other => other.into_source().unwrap_or_else(|_| "the call failed without a cause".into()),
    }
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
    let source = cause(error);
    if unavailable { PortError::Unavailable { what, source } } else { PortError::Refused { what, source } }
}

/// What a cancelled transaction means whose reasons name no failed condition.
pub(crate) fn cancelled(what: &'static str, error: SdkError<TransactWriteItemsError>) -> PortError {
    let reasons = match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => cancelled.cancellation_reasons(),
        _ => return port_error(what, error),
    };
    let transient = reasons.iter().filter_map(|reason| reason.code()).any(is_transient);
    let source = cause(error);
    if transient { PortError::Unavailable { what, source } } else { PortError::Refused { what, source } }
}

/// A call that answers, but never with all of what was asked.
pub(crate) fn unfinished(what: &'static str) -> PortError {
    PortError::Unavailable { what, source: "the service kept leaving keys unprocessed".into() }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::error::ErrorMetadata;
    use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
    use aws_sdk_dynamodb::types::CancellationReason;
    use aws_sdk_dynamodb::types::error::TransactionCanceledException;
    use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;

    use super::*;

    fn raw(status: u16) -> HttpResponse {
        HttpResponse::new(StatusCode::try_from(status).expect("a status"), SdkBody::from("a row's content"))
    }

    fn is_unavailable(error: &PortError) -> bool {
        matches!(error, PortError::Unavailable { .. })
    }

    #[test]
    fn codes_say_whether_to_repeat() {
        for (status, code, repeat) in [
            (400, "ThrottlingException", true),
            (400, "ProvisionedThroughputExceededException", true),
            (400, "TransactionConflictException", true),
            (400, "ExpiredTokenException", true),
            (500, "InternalServerError", true),
            (503, "ServiceUnavailable", true),
            (400, "AccessDeniedException", false),
            (400, "ResourceNotFoundException", false),
            (400, "ValidationException", false),
            (400, "UnrecognizedClientException", false),
        ] {
            let service = UpdateItemError::generic(ErrorMetadata::builder().code(code).message("said").build());
            let error = port_error("write", SdkError::service_error(service, raw(status)));
            assert_eq!(is_unavailable(&error), repeat, "{code}");
            let source = Error::source(&error).expect("a cause");
            assert_eq!(source.to_string(), format!("{code}: said"));
            assert!(!format!("{error:?}").contains("content"), "no answer's body: {error:?}");
        }
    }

    #[test]
    fn what_never_arrived_is_worth_repeating() {
        let lost: [SdkError<UpdateItemError>; 2] =
            [SdkError::timeout_error("no answer"), SdkError::response_error("cut", raw(200))];
        for error in lost {
            assert!(is_unavailable(&port_error("write", error)));
        }
        let never_sent: SdkError<UpdateItemError> = SdkError::construction_failure("no table name");
        assert!(!is_unavailable(&port_error("write", never_sent)));
    }

    #[test]
    fn a_cancelled_transaction_is_read_by_its_reasons() {
        for (codes, repeat) in [
            (["None", "TransactionConflict", "None"], true),
            (["ThrottlingError", "None", "None"], true),
            (["None", "ProvisionedThroughputExceeded", "None"], true),
            (["ValidationError", "None", "None"], false),
        ] {
            let reasons = codes.map(|code| CancellationReason::builder().code(code).build()).to_vec();
            let cancelled_by = TransactionCanceledException::builder().set_cancellation_reasons(Some(reasons)).build();
            let service = TransactWriteItemsError::TransactionCanceledException(cancelled_by);
            let error = cancelled("create", SdkError::service_error(service, raw(400)));
            assert_eq!(is_unavailable(&error), repeat, "{codes:?}");
        }
    }
}
