//! I am the memory of how a destination's receiver answered last, and the rule that pauses it: k of the last n rejected.
//!
//! One bad reminder is one dead letter; a bad deploy or a bad secret kills whatever is sent. My results belong to one
//! version of their destination: whoever changes it (a fix, a pause, a resume) begins with none.

use std::fmt;
use std::str::FromStr;

use crate::destination::Destination;
use crate::id::Correlation;
use crate::outcome::{CallResult, Class};

/// The most results that are kept, and the largest `of_last`.
pub const MOST_RESULTS: u32 = 64;

/// After how many rejections a destination is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseAfter {
    /// So many calls rejected; 1 to `of_last`. Default 10.
    #[serde(default = "default_rejected")]
    pub rejected: u32,
    /// Of so many last ones; 1 to 64. Default 20.
    #[serde(default = "default_of_last")]
    pub of_last: u32,
}

fn default_rejected() -> u32 {
    10
}

fn default_of_last() -> u32 {
    20
}

impl Default for PauseAfter {
    fn default() -> Self {
        Self { rejected: default_rejected(), of_last: default_of_last() }
    }
}

/// What a call says about its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The receiver refused for good.
    pub rejected: bool,
    /// The status, if there was an answer.
    pub status: Option<u16>,
}

impl Seen {
    /// Rejected is what kills a delivery by the receiver's answer: `rejected`, `redirect_refused`, `gone`, and
    /// `key_conflict` too, because a deploy that breaks the validation answers 422 to everything. A success and a retryable
    /// failure are not rejected. A call that was not made says nothing.
    #[must_use]
    pub fn of(result: &CallResult, class: Class) -> Option<Self> {
        let rejected = matches!(class, Class::Dead { .. });
        match result {
            CallResult::Answered { status, .. } => Some(Self { rejected, status: Some(*status) }),
            CallResult::Failed(_) => Some(Self { rejected, status: None }),
            CallResult::NotCalled(_) | CallResult::Shadowed => None,
        }
    }
}

/// The last results, at most [`MOST_RESULTS`]. As text one letter each, oldest first: `x` rejected, `.` not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Results {
    /// The newest is the lowest bit; a rejection is set. Bits above `count` are not.
    bits: u64,
    count: u32,
}

fn mask(count: u32) -> u64 {
    1_u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1)
}

impl Results {
    /// With one more; the oldest goes if there are more than `most` then.
    #[must_use]
    pub fn with(self, rejected: bool, most: u32) -> Self {
        let count = self.count.saturating_add(1).min(most).min(MOST_RESULTS);
        Self { bits: ((self.bits << 1) | u64::from(rejected)) & mask(count), count }
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// How many of the last `of_last` are rejections.
    #[must_use]
    pub fn rejected(self, of_last: u32) -> u32 {
        (self.bits & mask(of_last)).count_ones()
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in (0..self.count).rev() {
            f.write_str(if (self.bits >> i) & 1 == 1 { "x" } else { "." })?;
        }
        Ok(())
    }
}

/// The text is no list of results.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("results are at most {MOST_RESULTS} letters x or .")]
pub struct NoResults;

impl FromStr for Results {
    type Err = NoResults;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.bytes().try_fold(Self::default(), |results, letter| match letter {
            _ if results.count == MOST_RESULTS => Err(NoResults),
            b'x' => Ok(results.with(true, MOST_RESULTS)),
            b'.' => Ok(results.with(false, MOST_RESULTS)),
            _ => Err(NoResults),
        })
    }
}

/// The stored results of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejections {
    /// Counts the writes, from 1.
    pub version: u64,
    /// The destination's version under which the calls were made.
    pub destination_version: u64,
    /// What they came to.
    pub results: Results,
    /// The status of the last rejection.
    pub last_status: Option<u16>,
    /// Who wrote it: tells two writes of one version apart, and finds the log lines.
    pub by: Correlation,
}

impl Rejections {
    /// The stored results with those of a batch, seen under `destination`. None if there is nothing to write: nothing was
    /// seen, no rejection is in sight, or the destination has been changed since.
    #[must_use]
    pub fn noted(stored: Option<&Self>, destination: &Destination, seen: &[Seen], by: &Correlation) -> Option<Self> {
        if seen.is_empty() || stored.is_some_and(|stored| stored.destination_version > destination.version) {
            return None;
        }
        let of_last = destination.spec.pause_after.of_last;
        let before = stored.filter(|stored| stored.destination_version == destination.version);
        let results = before.map_or_else(Results::default, |before| before.results);
        if results.rejected(of_last) == 0 && seen.iter().all(|one| !one.rejected) {
            return None;
        }
        let last_status = seen.iter().rev().find(|one| one.rejected).map(|one| one.status);
        Some(Self {
            version: stored.map_or(0, |stored| stored.version).saturating_add(1),
            destination_version: destination.version,
            results: seen.iter().fold(results, |results, one| results.with(one.rejected, of_last)),
            last_status: last_status.unwrap_or_else(|| before.and_then(|before| before.last_status)),
            by: by.clone(),
        })
    }

    /// Why this destination must be paused, for a person; none if it need not be. Results of another version say nothing.
    #[must_use]
    pub fn why_pause(&self, destination: &Destination) -> Option<String> {
        let policy = destination.spec.pause_after;
        let rejected = self.results.rejected(policy.of_last);
        if self.destination_version != destination.version || rejected < policy.rejected.max(1) {
            return None;
        }
        let of = self.results.count().min(policy.of_last);
        let status = self.last_status.map_or_else(String::new, |status| format!(", the last with status {status}"));
        Some(format!("{rejected} of the last {of} calls were rejected{status}"))
    }
}

/// Whether what was seen of a destination still speaks against it after somebody has changed it: by one write that is not
/// a pause, and that leaves alone whatever the receiver sees. Two writes may hide a resume, which nobody may undo.
#[must_use]
pub fn still_stands(seen: &Destination, now: &Destination) -> bool {
    now.paused.is_none()
        && now.version == seen.version.saturating_add(1)
        && now.spec.url == seen.spec.url
        && now.spec.secrets == seen.spec.secrets
        && now.spec.key_form == seen.spec.key_form
        && now.spec.classes == seen.spec.classes
}

#[cfg(test)]
#[path = "rejections_tests.rs"]
mod tests;
