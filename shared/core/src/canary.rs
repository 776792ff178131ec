//! I am the canary: one marked delivery that takes the whole way, and what its row tells of each stage of it.
//!
//! It is a reminder like any other, to a destination that an operator has registered for it; its identity says that it is
//! none of the application's. From the row alone I tell when it passed each stage; if it does not come on, I name the stage
//! that is to blame and say why, from the row, its destination and the destination's rate.

mod diagnosis;

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::clock::Now;
use crate::delivery::Delivery;
use crate::explain::Whither;
use crate::id::{CanaryRun, DestinationId, IdentityParts};
use crate::limiter::Micros;
use crate::state::State;
use crate::time::Timestamp;

use diagnosis::{Trouble, trouble};

/// Stands where other reminders have their tenant and their kind.
pub const MARK: &str = "canary";

/// What the canary of a run is: the same run is the same delivery.
#[must_use]
pub fn parts(destination: &DestinationId, run: &CanaryRun) -> IdentityParts {
    IdentityParts {
        tenant: MARK.to_owned(),
        subscriber: destination.to_string(),
        renewal_period: run.to_string(),
        reminder_kind: MARK.to_owned(),
    }
}

/// A stage of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The row is stored.
    Schedule,
    /// A dispatch run has claimed it.
    Dispatch,
    /// The queue has accepted its message.
    Queue,
    /// Deliver has received it, had a slot of the destination's rate, and claimed it.
    Limiter,
    /// The call has started.
    Deliver,
    /// The receiver has answered 2xx, and that is recorded.
    Acknowledgement,
}

impl Stage {
    /// Every one, in the order of the way.
    pub const ALL: [Stage; 6] =
        [Stage::Schedule, Stage::Dispatch, Stage::Queue, Stage::Limiter, Stage::Deliver, Stage::Acknowledgement];

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::Schedule => "schedule",
            Stage::Dispatch => "dispatch",
            Stage::Queue => "queue",
            Stage::Limiter => "limiter",
            Stage::Deliver => "deliver",
            Stage::Acknowledgement => "acknowledgement",
        }
    }

    /// What an operator does first when it is broken.
    #[must_use]
    pub const fn first_action(self) -> &'static str {
        match self {
            Stage::Schedule => "send schedule's canary event (again: it changes nothing that is stored), and read schedule's log",
            Stage::Dispatch => {
                "look whether the schedule that starts dispatch is enabled, then read dispatch's last summary line and newest error"
            }
            Stage::Queue => "read dispatch's newest error: may it send to the queue, and does the queue exist?",
            Stage::Limiter => "ask inspect for the destination's capacity; raise its rate with operate, or wait",
            Stage::Deliver => {
                "look whether deliver's event source is enabled, then read deliver's newest error; it names a secret that is missing"
            }
            Stage::Acknowledgement => "look at the receiver: does it answer, with which status, and what does its own log say?",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has passed every stage.
    Passed,
    /// It is on its way, and no stage has taken too long yet.
    Waiting,
    /// A stage is broken.
    Broken,
}

impl Verdict {
    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Waiting => "waiting",
            Verdict::Broken => "broken",
        }
    }
}

/// A stage that it has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Which one.
    pub stage: Stage,
    /// When, at the earliest: by the database's time as far as it was certain, which is within a second. None if only a
    /// later stage shows that it was passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Since the stage before it, in milliseconds; none for the first, or where an instant is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

/// How long a stage may take until it counts as broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From one start of dispatch to the next.
    pub tick: Duration,
    /// So long for every stage, whatever would be usual for it.
    pub each: Option<Duration>,
}

impl Patience {
    /// How long a stage may take.
    #[must_use]
    pub fn of(self, stage: Stage) -> Duration {
        let more = Duration::from_secs(15);
        self.each.unwrap_or(match stage {
            // A tick may be missed.
            Stage::Dispatch => self.tick * 2 + more,
            // A run that crashes here is made good by the next one.
            Stage::Queue => self.tick + more,
            Stage::Limiter => more * 4,
            Stage::Schedule | Stage::Deliver | Stage::Acknowledgement => more * 2,
        })
    }
}

/// What is known of a canary.
#[derive(Debug, Clone, Copy)]
pub struct Sighting<'a> {
    /// Its row.
    pub row: &'a Delivery,
    /// Where it goes.
    pub whither: Whither<'a>,
    /// The number that its destination's calls are booked on, if there is one.
    pub booked: Option<Micros>,
}

/// What is told of a canary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How it stands.
    pub verdict: Verdict,
    /// The stage that it waits in, or that is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Why, in one sentence.
    pub why: String,
    /// What an operator does first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_action: Option<&'static str>,
    /// Which run.
    pub run: String,
    /// To which destination.
    pub destination_id: String,
    /// Its delivery.
    pub delivery_id: String,
    /// The stages that it has passed, in order.
    pub stages: Vec<Step>,
    /// From the first stage to the last one passed, in milliseconds.
    pub took_ms: u64,
}

/// Reports on the canary of a run.
#[must_use]
pub fn report(sighting: &Sighting<'_>, run: &CanaryRun, patience: Patience, now: Now) -> Report {
    let row = sighting.row;
    let stages = steps(row);
    let first = stages.first().and_then(|step| step.at);
    let last = stages.iter().rev().find_map(|step| step.at);
    let took = first.zip(last).map_or(Duration::ZERO, |(first, last)| last.since(first));
    let found = match row.state {
        State::Delivered => None,
        _ => Some(trouble(sighting, &stages, patience, now)),
    };
    let verdict = match &found {
        None => Verdict::Passed,
        Some(Trouble { broken: true, .. }) => Verdict::Broken,
        Some(Trouble { broken: false, .. }) => Verdict::Waiting,
    };
    let passed = || match row.attempts.len() {
        0 | 1 => "It has passed every stage.".to_owned(),
        n => format!("It has passed every stage, at its attempt {n}."),
    };
    Report {
        verdict,
        stage: found.as_ref().map(|trouble| trouble.stage),
        first_action: found.as_ref().filter(|trouble| trouble.broken).map(|trouble| trouble.stage.first_action()),
        why: found.map_or_else(passed, |trouble| trouble.why),
        run: run.to_string(),
        destination_id: row.destination.to_string(),
        delivery_id: row.id.to_string(),
        stages,
        took_ms: ms(took),
    }
}

/// Reports on a run that the ledger has no canary of.
#[must_use]
pub fn absent(destination: &DestinationId, run: &CanaryRun) -> Report {
    let stage = Stage::Schedule;
    Report {
        verdict: Verdict::Broken,
        stage: Some(stage),
        why: format!("The ledger has no canary of run {run} to {destination}: it was not sent, or could not be stored."),
        first_action: Some(stage.first_action()),
        run: run.to_string(),
        destination_id: destination.to_string(),
        delivery_id: crate::id::DeliveryId::derive(&parts(destination, run)).to_string(),
        stages: Vec::new(),
        took_ms: 0,
    }
}

fn ms(how_long: Duration) -> u64 {
    u64::try_from(how_long.as_millis()).unwrap_or(u64::MAX)
}

/// The stages that a row has passed: its first release, and its last attempt.
fn steps(row: &Delivery) -> Vec<Step> {
    let first = |state: State| row.history.iter().find(|line| line.state == state).map(|line| line.at);
    let claim = row.history.iter().rev().find(|line| line.state == State::Delivering).map(|line| line.at);
    let attempt = row.attempts.last().filter(|attempt| attempt.was_called());
    let call = attempt.map(|attempt| attempt.started_at);
    let done = row.history.iter().rev().find(|line| line.state == State::Delivered).map(|line| line.at);
    let reached = [
        (Stage::Schedule, row.history.first().map(|line| line.at)),
        (Stage::Dispatch, first(State::Dispatching)),
        (Stage::Queue, first(State::Queued)),
        (Stage::Limiter, claim),
        (Stage::Deliver, call),
        (Stage::Acknowledgement, done),
    ];
    let passed = reached.iter().rposition(|(_, at)| at.is_some()).map_or(0, |last| last + 1);
    let (mut before, mut latest): (Option<Timestamp>, Option<Timestamp>) = (None, None);
    let mut steps = Vec::new();
    for (stage, at) in reached.into_iter().take(passed) {
        // Each is the earliest that it can have been, to its writer's knowledge: no stage is passed before the one before it,
        // and no answer comes before the call has taken its time.
        let took = attempt.filter(|_| stage == Stage::Acknowledgement).map_or(Duration::ZERO, |attempt| attempt.took);
        let at = at.map(|at| latest.map_or(at, |latest| at.max(latest.plus(took))));
        latest = at.or(latest);
        let took_ms = before.zip(at).map(|(before, at)| ms(at.since(before)));
        steps.push(Step { stage, at, took_ms });
        before = at;
    }
    steps
}

/// The report as a person wants to read it.
#[must_use]
pub fn text(report: &Report) -> Vec<String> {
    let Report { verdict, stage, why, run, destination_id, stages, .. } = report;
    let of = stage.map_or_else(String::new, |stage| format!(" in stage {stage}"));
    let mut lines = vec![format!("Canary {run} to {destination_id}: {}{of}. {why}", verdict.as_str())];
    for Step { stage, at, took_ms } in stages {
        let at = at.map_or_else(|| "passed, but not recorded".to_owned(), |at| at.to_string());
        let took = took_ms.map_or_else(String::new, |ms| format!("  after {ms} ms"));
        lines.push(format!("{:<16}{at}{took}", stage.as_str()));
    }
    if *verdict == Verdict::Passed {
        lines.push(format!("{:<16}{} ms", "in all", report.took_ms));
    }
    lines.extend(report.first_action.map(|action| format!("First action: {action}.")));
    lines
}

#[cfg(test)]
#[path = "canary_tests.rs"]
mod tests;
