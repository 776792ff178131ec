//! I am the closed list of reason codes: the word that a row, a log line, a dead-letter message and `explain` share.

use std::fmt;
use std::str::FromStr;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal,)*) => {
        /// Why something happened, as one stable word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[doc = $doc])* $name,)* }

        impl Reason {
            /// Every reason there is.
            pub const ALL: &[Reason] = &[$(Reason::$name,)*];

            /// The stable word.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Reason::$name => $code,)* }
            }

            /// What the word means, in one sentence for a person.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Reason::$name => concat!($($doc,)*).trim_ascii(),)* }
            }
        }
    };
}

reasons! {
    /// The receiver answered 2xx.
    Accepted = "accepted",
    /// Its request was posted to the shadow sink; the receiver was not called.
    Shadowed = "shadowed",
    /// The shadow sink could not be written.
    SinkUnavailable = "sink_unavailable",
    /// A 2xx arrived after its attempt's lease had ended.
    LateEvidence = "late_evidence",
    /// The receiver answered 429.
    RateLimited = "rate_limited",
    /// The receiver answered 5xx.
    ServerError = "server_error",
    /// The receiver answered 408.
    RequestTimeout = "request_timeout",
    /// The receiver answered 409: the first request is still in progress.
    InProgress = "in_progress",
    /// The receiver answered 425.
    TooEarly = "too_early",
    /// A status that the destination's contract calls retryable.
    RetryableStatus = "retryable_status",
    /// The answer did not arrive within the total timeout.
    Timeout = "timeout",
    /// No connection could be made.
    ConnectFailed = "connect_failed",
    /// The name did not resolve.
    DnsFailed = "dns_failed",
    /// The TLS handshake failed.
    TlsFailed = "tls_failed",
    /// The connection was cut before the answer was complete.
    ConnectionCut = "connection_cut",
    /// The address that the name resolved to may not be called.
    AddressRefused = "address_refused",
    /// The receiver's certificate may not be trusted.
    CertificateRefused = "certificate_refused",
    /// A signing secret is missing or malformed.
    SecretUnavailable = "secret_unavailable",
    /// The receiver answered 410: a destination that is gone is paused for review.
    Gone = "gone",
    /// The receiver answered 422: the key was used for another request.
    KeyConflict = "key_conflict",
    /// The receiver answered with a status that no retry can mend.
    Rejected = "rejected",
    /// The receiver answered with a redirect; redirects are never followed.
    RedirectRefused = "redirect_refused",
    /// The attempt budget is spent.
    AttemptsExhausted = "attempts_exhausted",
    /// The next try would start after the last safe start, while the deadline is still reachable for an operator.
    NoSafeRetryWindow = "no_safe_retry_window",
    /// The deadline passed, or less than the safety margin is left.
    DeadlinePassed = "deadline_passed",
    /// Nobody knows the attempt's outcome: the call may have had its effect.
    OutcomeUnknown = "outcome_unknown",
    /// Three attempts in a row ended without an outcome.
    CrashLoop = "crash_loop",
    /// Too little time was left right before the first byte: no call was made.
    NotCalled = "not_called",
    /// The kill switch was on: it sends every retryable failure to the dead letters.
    RetryDisabled = "retry_disabled",
    /// The destination was not registered.
    UnknownDestination = "unknown_destination",
    /// The stored payload is missing or was erased.
    PayloadMissing = "payload_missing",
    /// The queue did not accept the message.
    PublishFailed = "publish_failed",
    /// The lease of a dispatch run ended before its message was recorded.
    LeaseEnded = "lease_ended",
    /// The message was overdue: lost, or stuck in the queue.
    MessageOverdue = "message_overdue",
    /// An operator held the row.
    Held = "held",
    /// An operator released the row.
    Unheld = "unheld",
    /// The destination was paused.
    DestinationPaused = "destination_paused",
    /// The destination did not answer; its breaker was open.
    BreakerOpen = "breaker_open",
    /// The next try was too far away for the queue.
    TooFarForQueue = "too_far_for_queue",
    /// The destination's own rate left no room for it.
    RateLimitedHere = "rate_limited_here",
    /// It was taken back.
    Cancelled = "cancelled",
    /// A call that was under way when it was taken back turned out to have had its effect.
    EffectAfterCancel = "effect_after_cancel",
    /// It got other instants.
    Rescheduled = "rescheduled",
    /// A redrive run or an operator brought it back from the dead, with further attempts.
    Redriven = "redriven",
    /// The dead-letter message was sent.
    DeadLetterSent = "dead_letter_sent",
    /// The message body is not a message of ours.
    MalformedMessage = "malformed_message",
    /// The message named another destination than its row.
    MisdirectedMessage = "misdirected_message",
    /// The message's format version is not known here.
    UnknownVersion = "unknown_version",
    /// The ledger has no such delivery.
    UnknownDelivery = "unknown_delivery",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// The text is no reason code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown reason code")]
pub struct UnknownReason;

impl FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().copied().find(|r| r.code() == text).ok_or(UnknownReason)
    }
}

impl Reason {
    /// Whether it says that an attempt failed and another one may follow: the class of a failure of a row that is still alive.
    #[must_use]
    pub fn is_retryable_failure(self) -> bool {
        matches!(
            self,
            Reason::SinkUnavailable
                | Reason::RateLimited
                | Reason::ServerError
                | Reason::RequestTimeout
                | Reason::InProgress
                | Reason::TooEarly
                | Reason::RetryableStatus
                | Reason::Timeout
                | Reason::ConnectFailed
                | Reason::DnsFailed
                | Reason::TlsFailed
                | Reason::ConnectionCut
                | Reason::AddressRefused
                | Reason::CertificateRefused
                | Reason::SecretUnavailable
                | Reason::OutcomeUnknown
                | Reason::NotCalled
        )
    }
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> serde::Deserialize<'de> for Reason {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| serde::de::Error::custom("not a reason code, like attempts_exhausted"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_words_and_round_trip() {
        let mut seen = std::collections::BTreeSet::new();
        for reason in Reason::ALL {
            assert!(seen.insert(reason.code()), "{reason} twice");
            assert!(reason.code().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{reason}");
            assert_eq!(reason.code().parse(), Ok(*reason));
            assert!(reason.meaning().ends_with('.'), "{reason}: {}", reason.meaning());
        }
    }
}
