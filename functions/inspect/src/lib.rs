//! I am inspect: I answer questions from the ledger, and I change nothing but the receive counts of dead letters that I show.

pub mod canary;
pub mod capacity;
mod capacity_text;
pub mod letters;
pub mod reconcile;
pub mod shadow;

use std::time::Duration;

use punctual_core::destination::FieldError;
use punctual_core::explain::{Explanation, Whither, explain, text};
use punctual_core::id::{DeliveryId, IdentityParts, Reference};
use punctual_core::ports::{Control, Ledger, Letters, Limits, Time};
use punctual_core::shadow::Verdict;
use punctual_flows::FlowError;
use punctual_flows::input::{action, strict};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::capacity::CapacityReport;
use crate::letters::LettersView;

/// The `explain` action: exactly one of the three.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainInput {
    /// Always `explain`.
    pub action: String,
    /// By id.
    #[serde(default)]
    pub delivery_id: Option<DeliveryId>,
    /// By reference: every delivery that has it, at most 20.
    #[serde(default)]
    pub reference: Option<Reference>,
    /// By what the reminder is.
    #[serde(default)]
    pub identity: Option<Identity>,
}

/// What the reminder is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Whose product.
    pub tenant: String,
    /// Who is reminded.
    pub subscriber: String,
    /// Which period.
    pub renewal_period: String,
    /// Which of the period's reminders.
    pub reminder_kind: String,
}

/// The most deliveries explained in one answer.
const MOST: usize = 20;

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

impl<L: Ledger, C: Control + Limits, D: Letters, T: Time> Inspect<'_, L, C, D, T> {
    /// Answers an event. A bad question is an answer, not an error.
    ///
    /// # Errors
    /// [`FlowError`] if the ledger or the database's time cannot be had.
    pub async fn handle(&self, event: &RawValue) -> Result<Response, FlowError> {
        match action(event, &["explain", "shadow_report", "capacity", "dead_letters", "canary"]) {
            Ok("shadow_report") => self.shadow_report(event).await,
            Ok("capacity") => self.capacity(event).await,
            Ok("dead_letters") => self.dead_letters(event).await,
            Ok("canary") => self.canary(event).await,
            Ok(_) => match strict::<ExplainInput>(event, "") {
                Ok(input) => self.explain(input).await,
                Err(error) => Ok(Response::refused(error)),
            },
            Err(error) => Ok(Response::refused(error)),
        }
    }

    async fn explain(&self, input: ExplainInput) -> Result<Response, FlowError> {
        let (ids, field) = match (input.delivery_id, input.reference, input.identity) {
            (Some(id), None, None) => (vec![id], "delivery_id"),
            (None, Some(reference), None) => (self.ledger.by_reference(&reference).await?, "reference"),
            (None, None, Some(i)) => {
                let parts = IdentityParts {
                    tenant: i.tenant,
                    subscriber: i.subscriber,
                    renewal_period: i.renewal_period,
                    reminder_kind: i.reminder_kind,
                };
                (vec![DeliveryId::derive(&parts)], "identity")
            }
            _ => {
                let error = FieldError::new("one_of", "delivery_id", "exactly one of delivery_id, reference, identity");
                return Ok(Response::refused(error));
            }
        };
        let mut deliveries = Vec::new();
        for id in ids.iter().take(MOST) {
            let Some(found) = self.ledger.partition(id).await? else { continue };
            let watched = self.control.watch(std::slice::from_ref(&found.row.destination)).await?;
            let whither = Whither { destination: watched.destinations.first(), reach: watched.reach.first().map(|(_, r)| r) };
            deliveries.push(explain(&found.row, found.payload.as_ref(), whither, self.margin, self.time.now()?));
        }
        if deliveries.is_empty() {
            return Ok(Response::refused(FieldError::new("not_found", field, "a delivery that the ledger has")));
        }
        let text = deliveries.first().map(text).unwrap_or_default().lines().map(str::to_owned).collect();
        Ok(Response { deliveries, ..Response::answered(text) })
    }
}
