//! I am one attempt as evidence: what was called, when, for how long, and what came back.
//!
//! `1 2026-12-01T09:00:00.123Z 182ms 503 server_error v3 2026a,2026b`: number, start, duration, status or error
//! class, reason code, destination version, ids of the signing secrets (`-` where nothing was signed).
//! `refused:private` for the class: nothing was sent, by that rule.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::reason::Reason;
use crate::rule::Rule;
use crate::time::Timestamp;

/// Stands before a rule's word.
const REFUSED: &str = "refused:";

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// An HTTP status.
    Status(u16),
    /// No status: the call failed, or was not made; the reason says how.
    Error,
    /// The request was posted to the shadow sink.
    Shadow,
    /// Nothing was sent: this rule refused the receiver.
    Refused(Rule),
    /// Nobody recorded an outcome; the call may have happened.
    Unknown,
}

/// One attempt, closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Counted from 1, never reused.
    pub number: u32,
    /// When it started, by the database's time, rounded down to what was certain.
    pub started_at: Timestamp,
    /// From just before the call to the end of the answer; milliseconds.
    pub took: Duration,
    /// What came back.
    pub answer: Answer,
    /// What it meant.
    pub reason: Reason,
    /// The version of the destination row that was used.
    pub destination_version: u64,
    /// The ids of the secrets that signed it, comma separated; `-` for none.
    pub key_ids: String,
}

impl Attempt {
    /// Whether nobody recorded an outcome.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.answer == Answer::Unknown || (self.answer == Answer::Shadow && self.reason == Reason::OutcomeUnknown)
    }

    /// Whether a byte of it may have reached the receiver.
    #[must_use]
    pub fn was_called(&self) -> bool {
        match self.answer {
            Answer::Status(_) | Answer::Unknown => true,
            Answer::Shadow | Answer::Refused(_) => false,
            Answer::Error => !matches!(
                self.reason,
                Reason::NotCalled | Reason::SecretUnavailable | Reason::SinkUnavailable | Reason::PayloadMissing
            ),
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}ms ", self.number, self.started_at, self.took.as_millis())?;
        match self.answer {
            Answer::Status(code) => write!(f, "{code}")?,
            Answer::Error => f.write_str("error")?,
            Answer::Shadow => f.write_str("shadow")?,
            Answer::Refused(rule) => write!(f, "{REFUSED}{rule}")?,
            Answer::Unknown => f.write_str("unknown")?,
        }
        write!(f, " {} v{} {}", self.reason, self.destination_version, self.key_ids)
    }
}

/// The text is no attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an attempt: {0:?}")]
pub struct AttemptError(String);

impl FromStr for Attempt {
    type Err = AttemptError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || AttemptError(text.to_owned());
        let words: Vec<&str> = text.split(' ').collect();
        let [number, started_at, took, answer, reason, version, key_ids] = words.as_slice() else { return Err(bad()) };
        Ok(Self {
            number: number.parse().map_err(|_| bad())?,
            started_at: started_at.parse().map_err(|_| bad())?,
            took: Duration::from_millis(took.strip_suffix("ms").and_then(|ms| ms.parse().ok()).ok_or_else(bad)?),
            answer: match *answer {
                "error" => Answer::Error,
                "shadow" => Answer::Shadow,
                "unknown" => Answer::Unknown,
                other => match other.strip_prefix(REFUSED) {
                    Some(rule) => Answer::Refused(rule.parse().map_err(|_| bad())?),
                    None => Answer::Status(other.parse().map_err(|_| bad())?),
                },
            },
            reason: reason.parse().map_err(|_| bad())?,
            destination_version: version.strip_prefix('v').and_then(|v| v.parse().ok()).ok_or_else(bad)?,
            key_ids: (*key_ids).to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_round_trip() {
        for line in [
            "1 2026-12-01T09:00:00.123Z 182ms 503 server_error v3 2026a,2026b",
            "10 2026-12-01T09:00:00.123Z 0ms error connect_failed v1 -",
            "2 2026-12-01T09:00:00.123Z 0ms unknown outcome_unknown v0 -",
        ] {
            assert_eq!(line.parse::<Attempt>().map(|e| e.to_string()), Ok(line.to_owned()));
        }
        for rule in Rule::ALL {
            let line = format!("3 2026-12-01T09:00:00.123Z 12ms refused:{rule} {} v3 2026a", rule.reason());
            assert_eq!(line.parse::<Attempt>().map(|e| (e.answer, e.to_string())), Ok((Answer::Refused(*rule), line)));
        }
        for line in [
            "",
            "1 2026-12-01T09:00:00.123Z 182 503 server_error v3 k",
            "1 2026-12-01T09:00:00.123Z 182ms 503 nonsense v3 k",
            "1 2026-12-01T09:00:00.123Z 182ms refused:nonsense address_refused v3 k",
            "1 2026-12-01T09:00:00.123Z 182ms refused: address_refused v3 k",
        ] {
            assert!(line.parse::<Attempt>().is_err(), "{line}");
        }
    }
}
