//! I am inspect: I answer questions from the ledger, and I change nothing but the receive counts of dead letters that I show.

pub mod calendar;
pub mod canary;
pub mod capacity;
mod capacity_text;
mod cursor;
pub mod explain;
pub mod letters;
pub mod list;
mod message;
pub mod operations;
pub mod reconcile;
pub mod shadow;

use std::time::Duration;

use punctual_core::destination::FieldError;
use punctual_core::explain::Explanation;
use punctual_core::operation::Operation;
use punctual_core::ports::{Control, Ledger, Letters, Limits, Operations, Overview, Time};
use punctual_core::shadow::Verdict;
use punctual_flows::FlowError;
use punctual_flows::input::{action, strict};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::calendar::Calendars;
use crate::capacity::CapacityReport;
pub use crate::explain::{ExplainInput, Identity};
use crate::letters::LettersView;
use crate::list::List;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Response {
    /// Whether the question could be answered.
    pub ok: bool,
    /// For a person: the first explanation as text, line by line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
    /// One for each delivery found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deliveries: Vec<Explanation>,
    /// What a shadow run proves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Verdict>,
    /// What falls due against what can be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CapacityReport>,
    /// What lies in the dead-letter queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters: Option<LettersView>,
    /// How far a canary has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<punctual_core::canary::Report>,
    /// Deliveries by state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<List>,
    /// What operators did, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operation>,
    /// Sent with the same question, it goes on where this answer ends; none if that was all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Business calendars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendars: Option<Calendars>,
    /// What is wrong with the question.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

impl Response {
    fn refused(error: FieldError) -> Self {
        Self::wrong(vec![error])
    }

    fn wrong(errors: Vec<FieldError>) -> Self {
        Self { ok: false, errors, ..Self::answered(Vec::new()) }
    }

    fn answered(text: Vec<String>) -> Self {
        Self {
            ok: true,
            text,
            deliveries: Vec::new(),
            report: None,
            capacity: None,
            dead_letters: None,
            canary: None,
            list: None,
            operations: Vec::new(),
            cursor: None,
            calendars: None,
            errors: Vec::new(),
        }
    }
}

/// Inspect with its ports.
#[derive(Debug)]
pub struct Inspect<'a, L, C, D, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The control table.
    pub control: &'a C,
    /// The dead-letter queue, read.
    pub letters: &'a D,
    /// The database's time and this invocation's end.
    pub time: &'a T,
    /// The stage's safety margin.
    pub margin: Duration,
    /// From one start of dispatch to the next.
    pub tick: Duration,
}

impl<L: Ledger, C: Control + Limits + Operations + Overview, D: Letters, T: Time> Inspect<'_, L, C, D, T> {
    /// Answers an event. A bad question is an answer, not an error.
    ///
    /// # Errors
    /// [`FlowError`] if the ledger or the database's time cannot be had.
    pub async fn handle(&self, event: &RawValue) -> Result<Response, FlowError> {
        match action(event, &["explain", "shadow_report", "capacity", "dead_letters", "canary", "list", "operations", "calendar"])
        {
            Ok("shadow_report") => self.shadow_report(event).await,
            Ok("capacity") => self.capacity(event).await,
            Ok("dead_letters") => self.dead_letters(event).await,
            Ok("canary") => self.canary(event).await,
            Ok("list") => self.list(event).await,
            Ok("operations") => self.operations(event).await,
            Ok("calendar") => self.calendar(event).await,
            Ok(_) => match strict::<ExplainInput>(event, "") {
                Ok(input) => self.explain(input).await,
                Err(error) => Ok(Response::refused(error)),
            },
            Err(error) => Ok(Response::refused(error)),
        }
    }
}
