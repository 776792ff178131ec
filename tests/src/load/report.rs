//! I am what a scenario came to.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use punctual_core::delivery::Delivery;
use punctual_core::figures::Figures;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_dispatch::Summary;

use super::receiver::Call;

/// One run of dispatch.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// When it began.
    pub at: Timestamp,
    /// What it says.
    pub summary: Summary,
}

/// What a scenario came to.
#[derive(Debug)]
pub struct Report {
    /// When all were due.
    pub due: Timestamp,
    /// The rows at the end, by id.
    pub rows: Vec<Delivery>,
    /// The receiver's calls, in the order in which they began.
    pub calls: Vec<Call>,
    /// The runs of dispatch.
    pub runs: Vec<Run>,
    /// The runs of monitor.
    pub looks: Vec<Figures>,
    /// Messages received, each as often as it was received.
    pub received: usize,
}

impl Report {
    /// How many rows ended in this state.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.rows.iter().filter(|row| row.state == state).count()
    }

    /// From the due time to the last accepted call.
    #[must_use]
    pub fn drained_after(&self) -> Duration {
        let last = self.calls.iter().filter_map(|call| call.accepted_at).max();
        last.map_or(Duration::ZERO, |last| last.since(self.due))
    }

    /// The most calls that began within any one second.
    #[must_use]
    pub fn fullest_second(&self) -> usize {
        fullest_second(self.calls.iter().map(|call| call.at))
    }

    /// When each key was first accepted.
    #[must_use]
    pub fn accepted(&self) -> BTreeMap<&str, Timestamp> {
        let mut accepted = BTreeMap::new();
        for call in &self.calls {
            if let Some(at) = call.accepted_at {
                accepted.entry(call.key.as_str()).and_modify(|first: &mut Timestamp| *first = at.min(*first)).or_insert(at);
            }
        }
        accepted
    }

    /// The rows that were not accepted by their deadline.
    #[must_use]
    pub fn missed(&self) -> Vec<&Delivery> {
        let accepted = self.accepted();
        let in_time = |row: &Delivery| accepted.get(row.idempotency_key.as_str()).is_some_and(|at| *at <= row.deliver_by);
        self.rows.iter().filter(|row| !in_time(row)).collect()
    }

    /// The most attempts of one row.
    #[must_use]
    pub fn most_attempts(&self) -> usize {
        self.rows.iter().map(|row| row.attempts.len()).max().unwrap_or(0)
    }

    /// What to print.
    #[must_use]
    pub fn line(&self) -> String {
        let most = self.rows.iter().map(|row| row.attempts.len()).max().unwrap_or(0);
        format!(
            "{} delivered of {} in {:.1} s, fullest second {}, calls {}, at most {most} attempts, {} missed, {:.2} receives each",
            self.count(State::Delivered),
            self.rows.len(),
            self.drained_after().as_secs_f64(),
            self.fullest_second(),
            self.calls.len(),
            self.missed().len(),
            f64::from(u32::try_from(self.received).unwrap_or(u32::MAX))
                / f64::from(u32::try_from(self.rows.len().max(1)).unwrap_or(u32::MAX)),
        )
    }
}

/// The most of these instants, in order, that any one second holds.
#[must_use]
pub fn fullest_second(began: impl Iterator<Item = Timestamp>) -> usize {
    fullest(began, Duration::from_secs(1))
}

/// The most of these instants, in order, that any so long window holds.
#[must_use]
pub fn fullest(began: impl Iterator<Item = Timestamp>, window: Duration) -> usize {
    let mut within = VecDeque::new();
    let mut most = 0;
    for at in began {
        while within.front().is_some_and(|first: &Timestamp| first.plus(window) <= at) {
            within.pop_front();
        }
        within.push_back(at);
        most = most.max(within.len());
    }
    most
}
