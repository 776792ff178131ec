//! I am operate: the operator's writes. Each says who, why and on what evidence, is recorded, and tells what it did and what
//! it did not.
//!
//! Destinations: `put_destination`, `pause`, `resume`, `promote`. Calendars: `put_calendar`,
//! `import_holidays`. Deliveries: `hold`, `release`, `cancel`, `requeue`, `release_lease`. The stage: `retry_mode`, `pause_dispatch`, `resume_dispatch`.

pub mod calendar;
pub mod cancel;
pub mod delivery;
pub mod destination;
pub mod input;
mod lease;
pub mod metrics;
mod record;
mod requeue;
mod stage;

use std::time::Duration;

use punctual_core::destination::{FieldError, StageRules};
use punctual_core::id::Correlation;
use punctual_core::ports::{Control, Ledger, Operations, Ticks, Time};
use punctual_core::state::State;
use punctual_flows::FlowError;
pub use punctual_flows::recall::InFlight;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::input::Action;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Response {
    /// Whether it was done.
    pub ok: bool,
    /// What was done, for a person.
    pub did: String,
    /// What was not, though one might think so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub did_not: String,
    /// The version of the row after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// After a cancel: a call before it may have had its effect, because its answer was lost. Absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_have_been_delivered: bool,
    /// What a cancel that was refused for it has to wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlight>,
    /// After a lease was taken back: the state in which that has left its row. It is told in `did`, and counted.
    #[serde(skip)]
    pub left_in: Option<State>,
    /// Line by line: what was read of a file, what was ignored and why, and what it changed; which days of a calendar that was
    /// replaced went, came and changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub report: Vec<String>,
    /// What is wrong with the input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

impl Response {
    pub(crate) fn done(did: String, version: u64) -> Self {
        Self { ok: true, did, version: Some(version), ..Self::refused(Vec::new()) }
    }

    pub(crate) fn refused(errors: Vec<FieldError>) -> Self {
        let did = "nothing".into();
        let (did_not, report) = (String::new(), Vec::new());
        let (in_flight, left_in) = (None, None);
        Self { ok: false, did, did_not, version: None, may_have_been_delivered: false, in_flight, left_in, report, errors }
    }

    pub(crate) fn wrong(code: &'static str, field: &str, message: impl Into<String>) -> Self {
        Self::refused(vec![FieldError::new(code, field, message)])
    }
}

/// Operate with its ports.
#[derive(Debug)]
pub struct Operate<'a, L, C, K, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The control table, with the record of operations.
    pub control: &'a C,
    /// Dispatch's schedule.
    pub ticks: &'a K,
    /// The database's time.
    pub time: &'a T,
    /// What this stage allows.
    pub rules: &'a StageRules,
    /// The stage's safety margin.
    pub margin: Duration,
    /// Joins history and logs.
    pub by: Correlation,
}

impl<L: Ledger, C: Control + Operations, K: Ticks, T: Time> Operate<'_, L, C, K, T> {
    /// Does what an event asks for, between two writes of its record. Bad input is an answer, not an error, and is not recorded.
    ///
    /// # Errors
    /// [`FlowError`] if a table, the schedule or the database's time cannot be had. Its record says whether anything was begun.
    pub async fn handle(&self, event: &RawValue) -> Result<Response, FlowError> {
        let action = match input::read(event) {
            Ok(action) => action,
            Err(errors) => return Ok(Response::refused(errors)),
        };
        let signed = action.signed();
        let begun = self.begin(&signed).await?;
        let mut answer = self.act(action).await;
        if let Ok(response) = &mut answer
            && response.ok
            && !response.did.starts_with("nothing")
        {
            response.did_not = record::did_not(&signed.action).to_owned();
        }
        self.end(begun, &answer).await;
        answer
    }

    async fn act(&self, action: Action) -> Result<Response, FlowError> {
        match action {
            Action::PutDestination(input) => self.put_destination(*input).await,
            Action::PutCalendar(input) => self.put_calendar(*input).await,
            Action::ImportHolidays(input) => self.import_holidays(input).await,
            Action::Pause(input) => self.pause(input).await,
            Action::Resume(input) => self.resume(input).await,
            Action::Promote(input) => self.promote(input).await,
            Action::Hold(input) => self.hold(input).await,
            Action::Release(input) => self.release(input).await,
            Action::Cancel(input) => self.cancel(input).await,
            Action::ReleaseLease(input) => self.release_lease(&input).await,
            Action::Requeue(input) => self.requeue(&input).await,
            Action::RetryMode(input) => self.retry_mode(input.mode).await,
            Action::PauseDispatch(_) => self.pause_dispatch().await,
            Action::ResumeDispatch(_) => self.resume_dispatch().await,
        }
    }
}
