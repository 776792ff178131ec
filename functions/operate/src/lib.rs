//! I am operate: the operator's writes. Each says who, why, and what it did.
//!
//! Destinations: `put_destination`, `pause`, `resume`, `promote`. Deliveries: `hold`, `release`, `cancel`.

pub mod cancel;
pub mod delivery;
pub mod destination;
pub mod input;

use std::time::Duration;

use punctual_core::destination::{FieldError, StageRules};
use punctual_core::id::Correlation;
use punctual_core::ports::{Control, Ledger, Time};
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::input::Action;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Response {
    /// Whether it was done.
    pub ok: bool,
    /// What was done, and what was not, for a person.
    pub did: String,
    /// The version of the row after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// After a cancel: a call before it may have had its effect, because its answer was lost. Absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_have_been_delivered: bool,
    /// What a cancel that was refused for it has to wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlight>,
    /// What is wrong with the input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// An attempt that may be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct InFlight {
    /// Its number, from 1.
    pub attempt: u32,
    /// The end of its lease: by then it has ended, or can be closed as unknown.
    pub lease_until: Option<Timestamp>,
}

impl Response {
    pub(crate) fn done(did: String, version: u64) -> Self {
        Self { ok: true, did, version: Some(version), may_have_been_delivered: false, in_flight: None, errors: Vec::new() }
    }

    pub(crate) fn refused(errors: Vec<FieldError>) -> Self {
        let did = "nothing".into();
        Self { ok: false, did, version: None, may_have_been_delivered: false, in_flight: None, errors }
    }

    pub(crate) fn wrong(code: &'static str, field: &str, message: impl Into<String>) -> Self {
        Self::refused(vec![FieldError::new(code, field, message)])
    }
}

/// Operate with its ports.
#[derive(Debug)]
pub struct Operate<'a, L, C, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The control table.
    pub control: &'a C,
    /// The database's time.
    pub time: &'a T,
    /// What this stage allows.
    pub rules: &'a StageRules,
    /// The stage's safety margin.
    pub margin: Duration,
    /// Joins history and logs.
    pub by: Correlation,
}

impl<L: Ledger, C: Control, T: Time> Operate<'_, L, C, T> {
    /// Does what an event asks for. Bad input is an answer, not an error.
    ///
    /// # Errors
    /// [`FlowError`] if a table or the database's time cannot be had: nothing was done.
    pub async fn handle(&self, event: &RawValue) -> Result<Response, FlowError> {
        match input::read(event) {
            Ok(Action::PutDestination(input)) => self.put_destination(*input).await,
            Ok(Action::Pause(input)) => self.pause(input).await,
            Ok(Action::Resume(input)) => self.resume(input).await,
            Ok(Action::Promote(input)) => self.promote(input).await,
            Ok(Action::Hold(input)) => self.hold(input).await,
            Ok(Action::Release(input)) => self.release(input).await,
            Ok(Action::Cancel(input)) => self.cancel(input).await,
            Err(errors) => Ok(Response::refused(errors)),
        }
    }
}
