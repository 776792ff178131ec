//! I am one line of a row's history: a transition as a short string that a person reads in the console.
//!
//! `2026-12-01T09:00:00.123Z deferred#1 server_error 7f3a9c21`: instant, state, attempt number if one is concerned,
//! reason code if there is one, correlation id.

use std::fmt;
use std::str::FromStr;

use crate::id::Correlation;
use crate::reason::Reason;
use crate::state::State;
use crate::time::Timestamp;

/// One transition as evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The database's time of the transition, rounded down to what was certain.
    pub at: Timestamp,
    /// The state after it.
    pub state: State,
    /// The attempt that it concerns.
    pub attempt: Option<u32>,
    /// Why.
    pub reason: Option<Reason>,
    /// Joins it with the logs of the invocation that wrote it.
    pub by: Correlation,
}

impl fmt::Display for HistoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.at, self.state)?;
        if let Some(attempt) = self.attempt {
            write!(f, "#{attempt}")?;
        }
        if let Some(reason) = self.reason {
            write!(f, " {reason}")?;
        }
        write!(f, " {}", self.by)
    }
}

/// The text is no line of history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a line of history: {0:?}")]
pub struct HistoryError(String);

impl FromStr for HistoryEntry {
    type Err = HistoryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || HistoryError(text.to_owned());
        let words: Vec<&str> = text.split(' ').collect();
        let (at, state, reason, by) = match words.as_slice() {
            [at, state, by] => (at, state, None, by),
            [at, state, reason, by] => (at, state, Some(reason), by),
            _ => return Err(bad()),
        };
        let (state, attempt) = match state.split_once('#') {
            Some((state, n)) => (state, Some(n.parse().map_err(|_| bad())?)),
            None => (*state, None),
        };
        Ok(Self {
            at: at.parse().map_err(|_| bad())?,
            state: state.parse().map_err(|_| bad())?,
            attempt,
            reason: reason.map(|r| r.parse()).transpose().map_err(|_| bad())?,
            by: Correlation::new(*by).map_err(|_| bad())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip() {
        for line in [
            "2026-12-01T09:00:00.123Z scheduled 7f3a9c21",
            "2026-12-01T09:00:00.123Z delivering#12 7f3a9c21",
            "2026-12-01T09:00:00.123Z deferred#1 server_error 7f3a9c21",
        ] {
            assert_eq!(line.parse::<HistoryEntry>().map(|e| e.to_string()), Ok(line.to_owned()));
        }
        for line in [
            "",
            "2026-12-01T09:00:00.123Z",
            "x scheduled y",
            "2026-12-01T09:00:00.123Z scheduled#x y",
            "2026-12-01T09:00:00.123Z flying y",
        ] {
            assert!(line.parse::<HistoryEntry>().is_err(), "{line}");
        }
    }
}
