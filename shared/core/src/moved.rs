//! I am one move of a delivery to other instants: when, and what was left. The row has what it was moved to.
//!
//! `2026-12-01T09:00:00.123Z from 2026-12-02T09:00:00.000Z/2026-12-05T17:00:00.000Z`. I am no part of the line of history that
//! a reschedule leaves: whoever cannot read me yet can read that.

use std::fmt;
use std::str::FromStr;

use crate::delivery::Instants;
use crate::time::Timestamp;

/// A move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The database's time of the reschedule, as its line of history has it.
    pub at: Timestamp,
    /// The instants that it left.
    pub from: Instants,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, from: Instants { deliver_after, deliver_by } } = self;
        write!(f, "{at} from {deliver_after}/{deliver_by}")
    }
}

/// The text is no move.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a move: {0:?}")]
pub struct MovedError(String);

impl FromStr for Moved {
    type Err = MovedError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (at, left) = text.split_once(" from ")?;
            let (after, by) = left.split_once('/')?;
            let from = Instants { deliver_after: after.parse().ok()?, deliver_by: by.parse().ok()? };
            Some(Self { at: at.parse().ok()?, from })
        };
        read().ok_or_else(|| MovedError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_round_trip() {
        let text = "2026-12-01T09:00:00.123Z from 2026-12-02T09:00:00.000Z/2026-12-05T17:00:00.000Z";
        assert_eq!(text.parse::<Moved>().map(|moved| moved.to_string()), Ok(text.to_owned()));
        for wrong in ["", "2026-12-01T09:00:00.123Z", "x from y/z", "2026-12-01T09:00:00.123Z from 2026-12-02T09:00:00.000Z"] {
            assert!(wrong.parse::<Moved>().is_err(), "{wrong}");
        }
    }
}
