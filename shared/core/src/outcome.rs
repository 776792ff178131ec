//! I say what the result of a call means.
//!
//! A destination may override the class of a status: its contract is the authority.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::attempt::Answer;
use crate::clock::Now;
use crate::reason::Reason;
use crate::retry_after;
use crate::rule::Rule;
use crate::time::Timestamp;

/// How a call failed without a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The total timeout ended it; the request may have been processed.
    Timeout,
    /// The connection was cut; the request may have been processed.
    Cut,
    /// No connection.
    Connect,
    /// No address for the name.
    Dns,
    /// No TLS session.
    Tls,
    /// The receiver's address may not be called, or its certificate not trusted: refused by this rule.
    Refused(Rule),
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallResult {
    /// An answer with a status.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The `Retry-After` header's text.
        retry_after: Option<String>,
    },
    /// The call failed.
    Failed(Failure),
    /// No call was made.
    NotCalled(Reason),
    /// The request was posted to the shadow sink instead.
    Shadowed,
}

/// An attempt as the one who made it saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// What became of it.
    pub result: CallResult,
    /// When it started, rounded down to what was certain.
    pub started_at: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The ids of the signing secrets, comma separated; `-` for none.
    pub key_ids: String,
}

/// A class that a destination's contract may give to a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusClass {
    /// The effect happened.
    Delivered,
    /// Try again with the same key.
    Retry,
    /// No retry can mend it.
    Dead,
}

/// What a result means for the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The effect happened.
    Delivered,
    /// It went to the shadow sink, and is done.
    Shadowed,
    /// Try again with the same key, not before the floor has passed.
    Retry {
        /// Why.
        reason: Reason,
        /// The receiver's wish, counted from now.
        floor: Option<Duration>,
        /// Whether the receiver may have processed the request.
        unknown: bool,
    },
    /// No further attempt.
    Dead {
        /// Why.
        reason: Reason,
        /// Whether the destination must be paused for review.
        pause: bool,
    },
}

/// Classifies a result. `now` dates an HTTP-date in `Retry-After`.
#[must_use]
pub fn classify(result: &CallResult, overrides: &BTreeMap<u16, StatusClass>, now: Now) -> Class {
    match result {
        CallResult::Answered { status, retry_after } => {
            let floor = retry_after.as_deref().and_then(|text| retry_after::floor(text, now.lo));
            let retry = |reason| Class::Retry { reason, floor, unknown: false };
            match (overrides.get(status), *status) {
                (Some(StatusClass::Delivered), _) => Class::Delivered,
                (Some(StatusClass::Retry), _) => retry(Reason::RetryableStatus),
                (Some(StatusClass::Dead), _) => Class::Dead { reason: Reason::Rejected, pause: false },
                (None, 200..=299) => Class::Delivered,
                (None, 301 | 302 | 303 | 307 | 308) => Class::Dead { reason: Reason::RedirectRefused, pause: false },
                (None, 408) => retry(Reason::RequestTimeout),
                (None, 409) => retry(Reason::InProgress),
                (None, 410) => Class::Dead { reason: Reason::Gone, pause: true },
                (None, 422) => Class::Dead { reason: Reason::KeyConflict, pause: false },
                (None, 425) => retry(Reason::TooEarly),
                (None, 429) => retry(Reason::RateLimited),
                (None, 500..=599) => retry(Reason::ServerError),
                (None, _) => Class::Dead { reason: Reason::Rejected, pause: false },
            }
        }
        CallResult::Failed(failure) => {
            let (reason, unknown) = match failure {
                Failure::Timeout => (Reason::Timeout, true),
                Failure::Cut => (Reason::ConnectionCut, true),
                Failure::Connect => (Reason::ConnectFailed, false),
                Failure::Dns => (Reason::DnsFailed, false),
                Failure::Tls => (Reason::TlsFailed, false),
                Failure::Refused(rule) => (rule.reason(), false),
            };
            Class::Retry { reason, floor: None, unknown }
        }
        CallResult::NotCalled(Reason::PayloadMissing) => Class::Dead { reason: Reason::PayloadMissing, pause: false },
        CallResult::Shadowed => Class::Shadowed,
        CallResult::NotCalled(reason) => Class::Retry { reason: *reason, floor: None, unknown: false },
    }
}

impl Called {
    /// The evidence of the answer.
    #[must_use]
    pub fn answer(&self) -> Answer {
        match self.result {
            CallResult::Answered { status, .. } => Answer::Status(status),
            CallResult::Shadowed => Answer::Shadow,
            CallResult::Failed(Failure::Refused(rule)) => Answer::Refused(rule),
            CallResult::Failed(_) | CallResult::NotCalled(_) => Answer::Error,
        }
    }
}

impl Class {
    /// The reason code.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Class::Delivered => Reason::Accepted,
            Class::Shadowed => Reason::Shadowed,
            Class::Retry { reason, .. } | Class::Dead { reason, .. } => reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(status: u16, overrides: &BTreeMap<u16, StatusClass>) -> Class {
        let result = CallResult::Answered { status, retry_after: Some("7".into()) };
        classify(&result, overrides, Now::exactly(Timestamp::from_millis(0)))
    }

    #[test]
    fn every_status_has_its_class() {
        let none = BTreeMap::new();
        for status in 100..=599 {
            let expected = match status {
                200..=299 => Reason::Accepted,
                301 | 302 | 303 | 307 | 308 => Reason::RedirectRefused,
                408 => Reason::RequestTimeout,
                409 => Reason::InProgress,
                410 => Reason::Gone,
                422 => Reason::KeyConflict,
                425 => Reason::TooEarly,
                429 => Reason::RateLimited,
                500.. => Reason::ServerError,
                _ => Reason::Rejected,
            };
            assert_eq!(class(status, &none).reason(), expected, "{status}");
        }
        assert_eq!(class(410, &none), Class::Dead { reason: Reason::Gone, pause: true });
        assert_eq!(
            class(503, &none),
            Class::Retry { reason: Reason::ServerError, floor: Some(Duration::from_secs(7)), unknown: false }
        );
    }

    #[test]
    fn a_contract_overrides() {
        let contract = BTreeMap::from([
            (404, StatusClass::Retry),
            (202, StatusClass::Retry),
            (503, StatusClass::Dead),
            (409, StatusClass::Delivered),
            (301, StatusClass::Dead),
            (302, StatusClass::Retry),
            (303, StatusClass::Delivered),
        ]);
        assert_eq!(class(301, &contract).reason(), Reason::Rejected);
        assert_eq!(class(302, &contract).reason(), Reason::RetryableStatus);
        assert_eq!(class(303, &contract), Class::Delivered);
        assert_eq!(class(404, &contract).reason(), Reason::RetryableStatus);
        assert_eq!(class(202, &contract).reason(), Reason::RetryableStatus);
        assert_eq!(class(503, &contract).reason(), Reason::Rejected);
        assert_eq!(class(409, &contract), Class::Delivered);
    }

    #[test]
    fn a_lost_answer_is_unknown_and_a_failed_connection_is_not() {
        let now = Now::exactly(Timestamp::from_millis(0));
        for (failure, expected) in [
            (Failure::Timeout, true),
            (Failure::Cut, true),
            (Failure::Connect, false),
            (Failure::Dns, false),
            (Failure::Tls, false),
            (Failure::Refused(Rule::Private), false),
            (Failure::Refused(Rule::CertificateName), false),
        ] {
            let Class::Retry { unknown, .. } = classify(&CallResult::Failed(failure), &BTreeMap::new(), now) else {
                panic!("{failure:?}")
            };
            assert_eq!(unknown, expected, "{failure:?}");
        }
    }

    #[test]
    fn a_refusal_keeps_its_rule() {
        let now = Now::exactly(Timestamp::from_millis(0));
        for rule in Rule::ALL.iter().copied() {
            let result = CallResult::Failed(Failure::Refused(rule));
            let expected = Class::Retry { reason: rule.reason(), floor: None, unknown: false };
            assert_eq!(classify(&result, &BTreeMap::new(), now), expected);
            let called = Called { result, started_at: now.lo, took: Duration::ZERO, key_ids: "-".into() };
            assert_eq!(called.answer(), Answer::Refused(rule));
        }
    }
}
