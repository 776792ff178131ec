//! I am one return from the dead as evidence on the row: a short string that a person reads in the console.
//!
//! `run_20261201-090000-7f3a death#1 +3 by ann`: the run (`-` if an operator did it without one), the death that is over,
//! the attempts that it granted, and who answers for it; `deadline_was=<instant>` stands before `by` if it brought a new one.

use std::fmt;
use std::str::FromStr;

use crate::id::RunId;
use crate::time::Timestamp;

/// The word before the deadline that a row had.
const DEADLINE_WAS: &str = "deadline_was=";

/// One return from the dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redrive {
    /// The run; none if an operator returned this row alone.
    pub run: Option<RunId>,
    /// The death that is over.
    pub death: u32,
    /// How many attempts it granted beyond what was allowed before.
    pub granted: u32,
    /// The deadline before, if it brought another one.
    pub deadline_was: Option<Timestamp>,
    /// Who answers for it; at most 64 characters.
    pub owner: String,
}

impl fmt::Display for Redrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, death, granted, deadline_was, owner } = self;
        write!(f, "{} death#{death} +{granted}", run.as_ref().map_or("-", RunId::as_str))?;
        if let Some(was) = deadline_was {
            write!(f, " {DEADLINE_WAS}{was}")?;
        }
        write!(f, " by {owner}")
    }
}

/// The text is no return from the dead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a redrive of a row: {0:?}")]
pub struct RedriveError(String);

impl FromStr for Redrive {
    type Err = RedriveError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || RedriveError(text.to_owned());
        let (head, owner) = text.split_once(" by ").ok_or_else(bad)?;
        let words: Vec<&str> = head.split(' ').collect();
        let (run, death, granted, was) = match words.as_slice() {
            [run, death, granted] => (run, death, granted, None),
            [run, death, granted, was] => (run, death, granted, Some(was.strip_prefix(DEADLINE_WAS).ok_or_else(bad)?)),
            _ => return Err(bad()),
        };
        let count = |word: &str, start: &str| word.strip_prefix(start).and_then(|n| n.parse().ok()).ok_or_else(bad);
        Ok(Self {
            run: (*run != "-").then(|| RunId::new(*run)).transpose().map_err(|_| bad())?,
            death: count(death, "death#")?,
            granted: count(granted, "+")?,
            deadline_was: was.map(str::parse).transpose().map_err(|_| bad())?,
            owner: owner.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_round_trip(
            run in proptest::option::of("run_[a-z0-9-]{1,20}"), death in any::<u32>(), granted in any::<u32>(),
            was in proptest::option::of(0_i64..4_000_000_000_000), owner in ".{0,64}",
        ) {
            let run = run.map(|run| RunId::new(run).expect("a run id"));
            let entry = Redrive { run, death, granted, deadline_was: was.map(Timestamp::from_millis), owner };
            prop_assert_eq!(entry.to_string().parse(), Ok(entry));
        }
    }

    #[test]
    fn an_entry_is_readable_and_nothing_else_is_one() {
        let text = "run_20261201-090000-7f3a death#1 +3 deadline_was=2026-12-01T09:00:00.000Z by ann by herself";
        let entry: Redrive = text.parse().expect("an entry");
        assert_eq!((entry.owner.as_str(), entry.to_string().as_str()), ("ann by herself", text));
        for wrong in ["", "run_a death#1 +3", "a death#1 +3 by x", "- death1 +3 by x", "- death#1 3 by x", "- death#1 +3 x by y"]
        {
            assert!(wrong.parse::<Redrive>().is_err(), "{wrong}");
        }
    }
}
