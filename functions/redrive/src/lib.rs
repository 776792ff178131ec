//! I am redrive: dead and expired work comes back by an operator's decision, a few rows at a time, and stops by itself.
//!
//! `plan` says what a run would do, `start` begins one, `status` tells how it stands, `abort`, `resume`, `freeze` and
//! `unfreeze` steer, each with who, why and evidence, and recorded; `slice` is what a run's one-time schedules send. A slice plans the next one before anything else, takes
//! the run for itself, judges it, moves rows back to the ledger at the run's rate and hands them to the ordinary path, and
//! at the end deletes the dead letters of deaths that are over. The ledger selects and is the authority; the dead-letter
//! queue is evidence, and is only swept. What is moved, skipped, deleted and stopped is decided by
//! [`punctual_core::redrive`].

pub mod input;
pub mod metrics;
pub mod plan;
pub mod slice;
pub mod status;

mod book;
mod candidates;
mod held;
mod moving;
mod record;
mod signs;
mod start;
mod steer;
mod sweep;
mod text;

use std::time::Duration;

use punctual_core::destination::{Change, FieldError};
use punctual_core::id::{Correlation, RunId};
use punctual_core::ports::{Control, Ledger, Letters, Operations, Queue, Slices, Time};
use punctual_core::redrive::Run;
use punctual_core::time::Timestamp;
use punctual_flows::release::Rules;
use punctual_flows::{FlowError, chain};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::input::Action;
use crate::plan::Plan;
use crate::slice::SliceReport;
use crate::status::{Brief, RunView};

/// A slice that shall come soon is planned so far ahead: a schedule whose instant has passed may never fire.
const LEAD: Duration = Duration::from_secs(10);

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Response {
    /// Whether it was done.
    pub ok: bool,
    /// A few sentences for a person.
    pub text: Vec<String>,
    /// What a write did not do, though one might think so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub did_not: String,
    /// What a run would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The run, as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<RunView>>,
    /// Every run, the newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<Brief>>,
    /// Who has frozen all redriving, if it is frozen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen: Option<Change>,
    /// What a slice did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<SliceReport>,
    /// What is wrong with the input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

impl Response {
    fn answered(text: Vec<String>) -> Self {
        let did_not = String::new();
        Self { ok: true, text, did_not, plan: None, run: None, runs: None, frozen: None, slice: None, errors: Vec::new() }
    }

    fn refused(errors: Vec<FieldError>) -> Self {
        let text = errors.iter().map(|e| format!("Nothing was done. {}: {}.", e.field, e.message)).collect();
        Self { ok: false, errors, ..Self::answered(text) }
    }

    fn wrong(code: &'static str, field: &str, message: impl Into<String>) -> Self {
        Self::refused(vec![FieldError::new(code, field, message)])
    }

    fn unknown_run() -> Self {
        Self::wrong("unknown_run", "run_id", "a run that was started; status without a run_id lists them")
    }
}

/// Redrive with its ports.
#[derive(Debug)]
pub struct Redrive<'a, L, C, Q, D, S, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The control table, with the record of operations.
    pub control: &'a C,
    /// The queue.
    pub queue: &'a Q,
    /// The dead-letter queue, read.
    pub letters: &'a D,
    /// The starter of slices.
    pub slices: &'a S,
    /// The database's time and this invocation's end.
    pub time: &'a T,
    /// How far ahead and how long a lease: as dispatch releases.
    pub rules: Rules,
    /// From one tick of dispatch to the next.
    pub tick: Duration,
    /// The stage's safety margin.
    pub margin: Duration,
    /// From one slice to the next.
    pub interval: Duration,
    /// Joins history and logs.
    pub by: Correlation,
}

impl<L: Ledger, C: Control + Operations, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    /// Does what an event asks for; an operator's write between two writes of its record. Bad input is an answer, not an
    /// error, and is not recorded.
    ///
    /// # Errors
    /// [`FlowError`] if a table, the scheduler or the database's time cannot be had: the same event may be sent again.
    pub async fn handle(&self, event: &RawValue) -> Result<Response, FlowError> {
        match input::read(event) {
            Ok(Action::Plan(input)) => self.plan(*input).await,
            Ok(Action::Start(order)) => self.start(*order).await,
            Ok(Action::Status(input)) => self.status(input.run_id).await,
            Ok(Action::Abort(input)) => self.abort(input).await,
            Ok(Action::Resume(input)) => self.resume(input).await,
            Ok(Action::Freeze(input)) => self.freeze(input).await,
            Ok(Action::Unfreeze(input)) => self.unfreeze(input).await,
            Ok(Action::Slice(input)) => {
                let report = self.slice(&input.run_id, input.slice).await?;
                if report.unknown_run {
                    return Ok(Response::unknown_run());
                }
                Ok(Response { ok: report.failed.is_none(), slice: Some(report.clone()), ..Response::answered(report.lines()) })
            }
            Err(errors) => Ok(Response::refused(errors)),
        }
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    /// Plans a slice that comes soon, under a number that no earlier plan of the run has used. Says whether it worked: the
    /// chain of slices may be alive all the same.
    async fn nudge(&self, run: &Run, at: Timestamp) -> bool {
        match self.slices.schedule(&run.id, run.slice.saturating_add(1), at).await {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(run_id = %run.id, by = %self.by, error = %chain(&error), "a slice could not be planned");
                false
            }
        }
    }

    /// What to do if a slice could not be planned.
    fn by_hand(run: &RunId, slice: u32) -> String {
        format!("Its next slice could not be planned; send {{\"action\": \"slice\", \"run_id\": \"{run}\", \"slice\": {slice}}}.")
    }
}
