//! I am one operator's write as evidence: who did what, why, on what evidence, and what came of it.
//!
//! It is stored before the write, as begun, and again after it, with its outcome: a write whose function crashed stays to be
//! seen as begun.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::Correlation;
use crate::time::Timestamp;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Not told: under way, or its function crashed. Look at the target.
    Begun,
    /// It was done; `did` says what, which may be nothing.
    Done,
    /// It was refused, and nothing was changed.
    Refused,
    /// It failed on the way: it may have been done. Look at the target.
    Failed,
}

/// One operator's write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// When it began, by the database's time.
    pub at: Timestamp,
    /// The token that finds its log lines and its lines of history.
    pub token: Correlation,
    /// Which action.
    pub action: String,
    /// Who says to have done it; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What that rests on: a ticket, a log line, a message; 1 to 256 characters.
    pub evidence: String,
    /// What it was done to: a delivery, a destination, the stage.
    pub target: String,
    /// What came of it.
    pub outcome: Outcome,
    /// What it did.
    pub did: String,
    /// What it did not.
    pub did_not: String,
}

/// A place among the operations: newest are first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OperationPlace {
    /// When it began.
    pub at: Timestamp,
    /// Its token.
    pub token: Correlation,
}

impl Operation {
    /// Its place.
    #[must_use]
    pub fn place(&self) -> OperationPlace {
        OperationPlace { at: self.at, token: self.token.clone() }
    }
}

impl fmt::Display for OperationPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.at, self.token)
    }
}

/// The text is no place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the place of an operation (time#token): {0:?}")]
pub struct PlaceError(String);

impl FromStr for OperationPlace {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || PlaceError(text.to_owned());
        let (at, token) = text.split_once('#').ok_or_else(bad)?;
        Ok(Self { at: at.parse().map_err(|_| bad())?, token: Correlation::new(token).map_err(|_| bad())? })
    }
}

/// A page of operations, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OperationPage {
    /// What it holds.
    pub operations: Vec<Operation>,
    /// Where to go on, if there is more.
    pub next: Option<OperationPlace>,
}
