//! I count what became of the rows that a run moved, from the rows alone: the `run` index, also long after the run's end.
//!
//! A row belongs to the run that moved it last: one that died again and was moved by a later run counts there.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::ports::RunRow;
use crate::reason::Reason;
use crate::state::State;

/// What became of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// All that carry the run's id.
    pub rows: u32,
    /// Alive, and no attempt has failed since, as far as the last reason tells.
    pub waiting: u32,
    /// Delivered.
    pub delivered: u32,
    /// Dead or expired again, by reason.
    pub failed_again: BTreeMap<Reason, u32>,
    /// Alive after an attempt that failed, by its reason: another one follows.
    pub failing: BTreeMap<Reason, u32>,
    /// Cancelled since.
    pub cancelled: u32,
    /// Posted to the shadow sink.
    pub shadowed: u32,
}

impl Totals {
    /// Takes one row more.
    pub fn add(&mut self, row: &RunRow) {
        self.rows = self.rows.saturating_add(1);
        let count = match (row.state, row.reason) {
            (State::Delivered, _) => &mut self.delivered,
            (State::Cancelled, _) => &mut self.cancelled,
            (State::Shadowed, _) => &mut self.shadowed,
            (State::Dead | State::Expired, reason) => {
                self.failed_again.entry(reason.unwrap_or(Reason::OutcomeUnknown)).or_default()
            }
            (_, Some(reason)) if reason.is_retryable_failure() => self.failing.entry(reason).or_default(),
            _ => &mut self.waiting,
        };
        *count = count.saturating_add(1);
    }

    /// All failures, by their class: the reason of a row that ended again, or of the last attempt of one that is alive.
    #[must_use]
    pub fn failures(&self) -> BTreeMap<Reason, u32> {
        let mut classes = self.failed_again.clone();
        for (reason, count) in &self.failing {
            let class = classes.entry(*reason).or_default();
            *class = class.saturating_add(*count);
        }
        classes
    }
}

impl<'a> FromIterator<&'a RunRow> for Totals {
    fn from_iter<I: IntoIterator<Item = &'a RunRow>>(rows: I) -> Self {
        let mut totals = Self::default();
        rows.into_iter().for_each(|row| totals.add(row));
        totals
    }
}
