//! I am the answer to the application: one result for each reminder, in order, and a summary.

use punctual_core::delivery::Delivery;
use punctual_core::destination::FieldError;
use punctual_core::id::DeliveryId;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_flows::release::Tally;
use serde::Serialize;

use crate::canary::Sent;

/// What became of a reminder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Stored.
    Created,
    /// The same reminder was stored before; nothing changed.
    Unchanged,
    /// The same reminder was stored before with other content; nothing changed.
    Conflict,
    /// The input is wrong; nothing was stored.
    Invalid,
    /// The ledger could not say: send it again.
    Failed,
    /// Time was up before this one: send it again.
    NotAttempted,
}

/// One reminder's result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemResult {
    /// What became of it.
    pub answer: Answer,
    /// Its delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<DeliveryId>,
    /// Where the delivery stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Not called before this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_after: Option<Timestamp>,
    /// The deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_by: Option<Timestamp>,
    /// The fields in which stored and sent content differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<&'static str>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The row, for what follows in this invocation.
    #[serde(skip)]
    pub row: Option<Delivery>,
}

impl ItemResult {
    fn of(answer: Answer) -> Self {
        Self {
            answer,
            delivery_id: None,
            state: None,
            deliver_after: None,
            deliver_by: None,
            conflicts: Vec::new(),
            errors: Vec::new(),
            row: None,
        }
    }

    fn with_row(answer: Answer, row: Delivery) -> Self {
        Self {
            delivery_id: Some(row.id.clone()),
            state: Some(row.state),
            deliver_after: Some(row.deliver_after),
            deliver_by: Some(row.deliver_by),
            row: Some(row),
            ..Self::of(answer)
        }
    }

    /// Stored.
    #[must_use]
    pub fn created(row: Delivery) -> Self {
        Self::with_row(Answer::Created, row)
    }

    /// Stored before with this content.
    #[must_use]
    pub fn unchanged(row: Delivery) -> Self {
        Self::with_row(Answer::Unchanged, row)
    }

    /// Stored before with other content.
    #[must_use]
    pub fn conflict(row: Delivery, conflicts: Vec<&'static str>) -> Self {
        Self { conflicts, ..Self::with_row(Answer::Conflict, row) }
    }

    /// Another delivery has the key, or this reminder was migrated under another id.
    #[must_use]
    pub fn taken(holder: &DeliveryId) -> Self {
        Self { delivery_id: Some(holder.clone()), conflicts: vec!["idempotency_key"], ..Self::of(Answer::Conflict) }
    }

    /// The input is wrong.
    #[must_use]
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        Self { errors, ..Self::of(Answer::Invalid) }
    }

    /// The ledger could not say.
    #[must_use]
    pub fn failed(id: &DeliveryId) -> Self {
        let error = FieldError::new("unavailable", "", "the ledger could not say; send it again");
        Self { delivery_id: Some(id.clone()), errors: vec![error], ..Self::of(Answer::Failed) }
    }

    /// Time was up.
    #[must_use]
    pub fn not_attempted() -> Self {
        let error = FieldError::new("no_time_left", "", "the invocation's time was up; send it again");
        Self { errors: vec![error], ..Self::of(Answer::NotAttempted) }
    }
}

/// How many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Stored.
    pub created: usize,
    /// Stored before.
    pub unchanged: usize,
    /// Stored before with other content.
    pub conflict: usize,
    /// Wrong input.
    pub invalid: usize,
    /// To be sent again.
    pub failed: usize,
    /// To be sent again.
    pub not_attempted: usize,
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Response {
    /// Whether every reminder is stored.
    pub ok: bool,
    /// How many of each.
    pub summary: Counts,
    /// What was released at once.
    pub released: Tally,
    /// One for each reminder, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ItemResult>,
    /// The canary that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Sent>,
    /// What is wrong with the event as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

impl Response {
    /// The event as a whole is wrong.
    #[must_use]
    pub fn refused(errors: Vec<FieldError>) -> Self {
        Self { ok: false, summary: Counts::default(), released: Tally::default(), results: Vec::new(), canary: None, errors }
    }

    /// Results and what was released.
    #[must_use]
    pub fn of(results: Vec<ItemResult>, released: Tally) -> Self {
        let mut summary = Counts::default();
        for result in &results {
            match result.answer {
                Answer::Created => summary.created += 1,
                Answer::Unchanged => summary.unchanged += 1,
                Answer::Conflict => summary.conflict += 1,
                Answer::Invalid => summary.invalid += 1,
                Answer::Failed => summary.failed += 1,
                Answer::NotAttempted => summary.not_attempted += 1,
            }
        }
        let ok = summary.created + summary.unchanged == results.len();
        Self { ok, summary, released, results, canary: None, errors: Vec::new() }
    }
}
