//! I am a redrive run as it is stored: what was ordered, how far it has come, and who may write next.
//!
//! Every change is a new version: whoever writes says which version it has read, so that an operator's abort and a slice
//! never overwrite each other. A run goes `canary` → `moving` → `sweeping` → `done`; it can stop by itself (`stopped`, and
//! be resumed, with a canary again) or be aborted for good.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Now;
use crate::destination::{Change, FieldError};
use crate::id::{Owner, RunId};
use crate::reason::Reason;
use crate::time::Timestamp;

use super::decide::{DeleteWhy, LeaveWhy, SkipReason};
use super::judge::{Stop, StopCode};
use super::selection::Selection;
use super::totals::Totals;

/// How long the canary may take to end well, unless said otherwise.
pub const CANARY_SECONDS: u32 = 900;
/// How many further attempts a row is granted, unless said otherwise.
pub const ATTEMPTS: u32 = 3;
/// The most rows of one run.
pub const MOST_ROWS: u32 = 1_000_000;

fn canary_seconds() -> u32 {
    CANARY_SECONDS
}

fn attempts() -> u32 {
    ATTEMPTS
}

/// What a run shall do; never changed once it is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Who answers for it; 1 to 64 characters.
    pub owner: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// What shows that the cause is mended; 1 to 256 characters.
    pub evidence: String,
    /// Which rows.
    pub selection: Selection,
    /// The most rows; 1 to 1,000,000.
    pub max_count: u32,
    /// Calls per second for each destination; 1 to the destination's own redrive cap.
    pub rate_per_second: u32,
    /// So many rows go first; 1 to `max_count`.
    pub canary_size: u32,
    /// The run stops when more than so many percent of its rows fail in one class; 1 to 100.
    pub abort_threshold_percent: u32,
    /// The canary ends well within so many seconds after it was moved, or the run stops; 60 to 86,400.
    #[serde(default = "canary_seconds")]
    pub canary_seconds: u32,
    /// Attempts granted to each row; 1 to 20.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// A new deadline for rows whose own cannot be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_by: Option<Timestamp>,
}

impl Order {
    /// Everything that is wrong with it, whatever the destinations allow; empty if nothing is.
    #[must_use]
    pub fn problems(&self, now: Timestamp) -> Vec<FieldError> {
        let mut problems = Vec::new();
        for (field, value, max) in [("owner", &self.owner, 64), ("why", &self.why, 256), ("evidence", &self.evidence, 256)] {
            if value.trim().is_empty() || value.chars().count() > max {
                problems.push(FieldError::new("out_of_bounds", field, format!("1 to {max} characters")));
            }
        }
        problems.extend(self.selection.problems("selection"));
        for (field, value, min, max) in [
            ("max_count", self.max_count, 1, MOST_ROWS),
            ("rate_per_second", self.rate_per_second, 1, 1_000),
            ("canary_size", self.canary_size, 1, self.max_count.clamp(1, MOST_ROWS)),
            ("abort_threshold_percent", self.abort_threshold_percent, 1, 100),
            ("canary_seconds", self.canary_seconds, 60, 86_400),
            ("attempts", self.attempts, 1, 20),
        ] {
            if !(min..=max).contains(&value) {
                problems.push(FieldError::new("out_of_bounds", field, format!("{min} to {max}; got {value}")));
            }
        }
        if self.deliver_by.is_some_and(|deliver_by| deliver_by <= now) {
            problems.push(FieldError::new("past_deadline", "deliver_by", format!("later than now, {now}")));
        }
        problems
    }
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The first rows go, and must end well.
    Canary,
    /// The rest goes, at the run's rate.
    Moving,
    /// Nothing is left to move; the dead letters of deaths that are over are deleted.
    Sweeping,
    /// At its end.
    Done,
    /// It stopped by itself; its owner may resume it.
    Stopped,
    /// An operator ended it.
    Aborted,
}

impl Phase {
    /// Whether slices go on: an active run keeps others off its selection.
    #[must_use]
    pub fn is_active(self) -> bool {
        matches!(self, Self::Canary | Self::Moving | Self::Sweeping)
    }

    /// The stable word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Canary => "canary",
            Self::Moving => "moving",
            Self::Sweeping => "sweeping",
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Aborted => "aborted",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One slice at a time: who works on the run, and until when at the latest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The slice's own token.
    pub owner: Owner,
    /// When the lease ends by itself.
    pub until: Timestamp,
}

/// Why a run ended before its work was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// The stable word.
    pub code: StopCode,
    /// In one sentence.
    pub text: String,
    /// When.
    pub at: Timestamp,
    /// Who: the slice's correlation id, or the operator.
    pub by: String,
}

/// What a run has counted. The fates of moved rows are not here: [`Totals`] reads them from the rows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Rows moved.
    pub moved: u32,
    /// Selected rows that were left, by reason, as of the last whole pass over the dead and expired.
    #[serde(default)]
    pub skipped: BTreeMap<SkipReason, u32>,
    /// Dead letters deleted, by why.
    #[serde(default)]
    pub deleted: BTreeMap<DeleteWhy, u32>,
    /// Dead letters left, by why, as of the last whole pass over the dead-letter queue.
    #[serde(default)]
    pub left: BTreeMap<LeaveWhy, u32>,
    /// Messages received from the dead-letter queue, repeats included.
    #[serde(default)]
    pub scan_receives: u64,
}

/// A pass over the dead-letter queue, through one or more slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// When it began.
    pub begun_at: Timestamp,
    /// Letters may be hidden until this instant that nobody has decided on: whoever received them has not said so yet, and
    /// may be gone. None between two slices of a pass that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided_until: Option<Timestamp>,
}

/// What was so when the run was resumed: failures from before count no more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Base {
    /// Rows moved by then.
    pub moved: u32,
    /// Of them, those that did not carry the run's id any more: a later run has moved them since.
    #[serde(default)]
    pub elsewhere: u32,
    /// Failures by then, by class.
    #[serde(default)]
    pub failures: BTreeMap<Reason, u32>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its name.
    pub id: RunId,
    /// Counts the writes, from 1.
    pub version: u64,
    /// How far it has come.
    pub phase: Phase,
    /// What it shall do.
    pub order: Order,
    /// When it was started.
    pub created_at: Timestamp,
    /// The number of the slice that is under way or comes next, from 1.
    pub slice: u32,
    /// When that slice starts; none once no further one is planned.
    pub next_slice_at: Option<Timestamp>,
    /// Who works on it now.
    pub lease: Option<Lease>,
    /// The canary is wholly moved, and must have ended well by this instant.
    pub canary_until: Option<Timestamp>,
    /// What its last resume forgave.
    pub base: Base,
    /// What it has counted.
    pub counters: Counters,
    /// Whether the dead letters of all that it moved are swept: a stopped or aborted run has slices until they are.
    pub swept: bool,
    /// The pass over the dead-letter queue that is under way, or whose slice is gone.
    pub pass: Option<Pass>,
    /// The last slice's failure, if it had one; without ids or payloads.
    pub last_error: Option<String>,
    /// Why it stopped or was aborted.
    pub stopped: Option<Stopped>,
    /// Who resumed it last.
    pub resumed: Option<Change>,
}

/// Why a run cannot be changed as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunRefusal {
    /// Another slice works on it.
    #[error("another slice works on the run until {0} at the latest")]
    Leased(Timestamp),
    /// Its phase does not allow it.
    #[error("the run is {0}")]
    Phase(Phase),
}

impl Run {
    /// A run that has moved nothing yet; its first slice starts at once.
    #[must_use]
    pub fn new(id: RunId, order: Order, created_at: Timestamp) -> Self {
        Self {
            id,
            version: 1,
            phase: Phase::Canary,
            order,
            created_at,
            slice: 1,
            next_slice_at: Some(created_at),
            lease: None,
            canary_until: None,
            base: Base::default(),
            counters: Counters::default(),
            swept: false,
            pass: None,
            last_error: None,
            stopped: None,
            resumed: None,
        }
    }

    /// The same, as the next write has it.
    #[must_use]
    pub fn next(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }

    /// Whether further slices have something to do.
    #[must_use]
    pub fn needs_slice(&self) -> bool {
        self.phase.is_active() || (matches!(self.phase, Phase::Stopped | Phase::Aborted) && !self.swept)
    }

    /// Whether all rows of the canary are moved.
    #[must_use]
    pub fn canary_is_moved(&self) -> bool {
        self.canary_until.is_some()
    }

    /// How many further rows may be moved in this phase, `moved` being moved already.
    #[must_use]
    pub fn may_move(&self, moved: u32) -> u32 {
        let most = match self.phase {
            Phase::Canary if !self.canary_is_moved() => self.base.moved.saturating_add(self.order.canary_size),
            Phase::Moving => u32::MAX,
            _ => 0,
        };
        most.min(self.order.max_count).saturating_sub(moved)
    }

    /// Taken by a slice, until it is released or this instant has surely come.
    ///
    /// # Errors
    /// [`RunRefusal::Leased`] while another slice's lease may be live, [`RunRefusal::Phase`] if there is nothing to do.
    pub fn claimed(&self, owner: Owner, until: Timestamp, now: Now) -> Result<Self, RunRefusal> {
        if let Some(lease) = self.lease.as_ref().filter(|lease| lease.owner != owner && !now.reached(lease.until)) {
            return Err(RunRefusal::Leased(lease.until));
        }
        if !self.needs_slice() {
            return Err(RunRefusal::Phase(self.phase));
        }
        Ok(Self { lease: Some(Lease { owner, until }), ..self.next() })
    }

    /// Stopped by itself.
    ///
    /// # Errors
    /// [`RunRefusal::Phase`] if it is not active.
    pub fn stop(&self, stop: Stop, at: Timestamp, by: &str) -> Result<Self, RunRefusal> {
        if !self.phase.is_active() {
            return Err(RunRefusal::Phase(self.phase));
        }
        let stopped = Stopped { code: stop.code, text: stop.text, at, by: by.to_owned() };
        Ok(Self { phase: Phase::Stopped, stopped: Some(stopped), ..self.next() })
    }

    /// Ended by an operator; it cannot be resumed. What it moved goes on by itself.
    ///
    /// # Errors
    /// [`RunRefusal::Phase`] if it is at its end already.
    pub fn abort(&self, by: &str, why: &str, at: Timestamp) -> Result<Self, RunRefusal> {
        if matches!(self.phase, Phase::Done | Phase::Aborted) {
            return Err(RunRefusal::Phase(self.phase));
        }
        let stopped = Stopped { code: StopCode::Aborted, text: why.to_owned(), at, by: by.to_owned() };
        Ok(Self { phase: Phase::Aborted, stopped: Some(stopped), ..self.next() })
    }

    /// Resumed by its owner: it begins with a canary again, and the failures so far count no more. The caller plans the
    /// next slice.
    ///
    /// # Errors
    /// [`RunRefusal::Phase`] if it did not stop.
    pub fn resume(&self, totals: &Totals, by: &str, why: &str, at: Timestamp) -> Result<Self, RunRefusal> {
        if self.phase != Phase::Stopped {
            return Err(RunRefusal::Phase(self.phase));
        }
        let moved = self.counters.moved.max(totals.rows);
        let base = Base { moved, elsewhere: moved.saturating_sub(totals.rows), failures: totals.failures() };
        Ok(Self {
            phase: Phase::Canary,
            canary_until: None,
            base,
            swept: false,
            stopped: None,
            resumed: Some(Change { at, by: by.to_owned(), why: why.to_owned() }),
            ..self.next()
        })
    }
}
