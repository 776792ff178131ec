//! I am the answer to the application: one result for each item, in order, and a summary.

use punctual_core::delivery::{Delivery, Instants};
use punctual_core::destination::FieldError;
use punctual_core::id::DeliveryId;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::may_have_been_delivered;
use punctual_flows::recall::{InFlight, Why};
use punctual_flows::release::Tally;
use serde::Serialize;

use crate::canary::Sent;
use crate::get::Standing;
use crate::when::Due;

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Stored.
    Created,
    /// It would be stored; nothing was.
    WouldCreate,
    /// It is so already; nothing changed.
    Unchanged,
    /// The same reminder was stored before with other content, or somebody else keeps writing the row; nothing changed.
    Conflict,
    /// Moved to other instants.
    Rescheduled,
    /// Taken back.
    Cancelled,
    /// Here it is.
    Found,
    /// The ledger has no such delivery.
    NotFound,
    /// A call may be under way; nothing changed. The result says which attempt, and until when.
    InFlight,
    /// It was delivered; nothing changed.
    AlreadyDelivered,
    /// It went to the shadow sink; nothing changed.
    AlreadyShadowed,
    /// It was taken back before; nothing changed.
    AlreadyCancelled,
    /// It has no attempts left, and other instants grant none; nothing changed.
    AttemptsExhausted,
    /// The answer of a call was lost, and its destination wants a person to look before another; nothing changed.
    NeedsReview,
    /// The input is wrong; nothing changed.
    Invalid,
    /// The ledger could not say: send it again.
    Failed,
    /// Time was up before this one: send it again.
    NotAttempted,
}

/// One item's result.
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
    /// An operator has frozen it: nothing is sent until it is released. Absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// The rule, calendar version and zone data that chose these instants; absent if they were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The next attempt starts no earlier than this, where a failed attempt has set a wait beyond `deliver_after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// How a rule was worked out, line by line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// What the input comes to now, where the stored row has other instants: it was rescheduled, or the calendar changed.
    /// Nothing but `reschedule` moves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comes_to: Option<Window>,
    /// The fields in which stored and sent content differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<&'static str>,
    /// A call before may have had its effect, because its answer was lost. Absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_have_been_delivered: bool,
    /// The attempt that may be under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlight>,
    /// What is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The row, for what follows in this invocation.
    #[serde(skip)]
    pub row: Option<Delivery>,
}

/// Two instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Not called before this instant.
    pub deliver_after: Timestamp,
    /// The deadline.
    pub deliver_by: Timestamp,
}

impl ItemResult {
    fn of(answer: Answer) -> Self {
        Self {
            answer,
            delivery_id: None,
            state: None,
            deliver_after: None,
            deliver_by: None,
            held: false,
            rule: None,
            next_attempt_at: None,
            steps: Vec::new(),
            comes_to: None,
            conflicts: Vec::new(),
            may_have_been_delivered: false,
            in_flight: None,
            standing: None,
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
            held: row.hold.is_some(),
            rule: row.rule.clone(),
            row: Some(row),
            ..Self::of(answer)
        }
    }

    /// Stored.
    #[must_use]
    pub fn created(row: Delivery) -> Self {
        Self::with_row(Answer::Created, row)
    }

    /// It would be stored.
    #[must_use]
    pub fn would_create(row: &Delivery) -> Self {
        Self { state: None, row: None, ..Self::with_row(Answer::WouldCreate, row.clone()) }
    }

    /// It is so already.
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

    /// Moved or taken back; the row as it is now, and whether a call before may have had its effect.
    #[must_use]
    pub fn recalled(answer: Answer, row: Delivery) -> Self {
        let waits = answer == Answer::Rescheduled && row.next_attempt_at > row.deliver_after;
        let next_attempt_at = waits.then_some(row.next_attempt_at);
        Self { next_attempt_at, may_have_been_delivered: may_have_been_delivered(&row), ..Self::with_row(answer, row) }
    }

    /// Not moved or taken back: the state says no.
    #[must_use]
    pub fn refused(row: Delivery, why: &Why, field: &str) -> Self {
        let answer = match why {
            Why::InFlight { .. } => Answer::InFlight,
            Why::AlreadyDelivered => Answer::AlreadyDelivered,
            Why::AlreadyShadowed => Answer::AlreadyShadowed,
            Why::AlreadyCancelled => Answer::AlreadyCancelled,
            Why::AttemptsExhausted { .. } => Answer::AttemptsExhausted,
            Why::NeedsReview { .. } => Answer::NeedsReview,
            Why::TooLate { .. } | Why::Waits { .. } | Why::NoPayload | Why::Refused { .. } => Answer::Invalid,
        };
        let in_flight = if let Why::InFlight { attempt, .. } = why { Some(*attempt) } else { None };
        let errors = vec![FieldError::new(why.code(), field, why.to_string())];
        Self { in_flight, errors, ..Self::recalled(answer, row) }
    }

    /// Somebody else keeps writing the row.
    #[must_use]
    pub fn busy(row: Delivery, field: &str) -> Self {
        let error = FieldError::new("conflict", field, "somebody else keeps writing this row; send this again");
        Self { errors: vec![error], ..Self::with_row(Answer::Conflict, row) }
    }

    /// Where a delivery stands.
    #[must_use]
    pub fn found(row: Delivery) -> Self {
        Self { standing: Some(Standing::of(&row)), ..Self::recalled(Answer::Found, row) }
    }

    /// The ledger does not have it.
    #[must_use]
    pub fn not_found(field: &str) -> Self {
        let error = FieldError::new("not_found", field, "a delivery that the ledger has");
        Self { errors: vec![error], ..Self::of(Answer::NotFound) }
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

    /// With how its instants were worked out.
    #[must_use]
    pub fn with_steps(self, due: &Due) -> Self {
        Self { steps: due.steps.clone(), ..self }
    }

    /// A stored row beside what its input comes to now.
    #[must_use]
    pub fn beside(self, due: &Due) -> Self {
        let stored = self.row.as_ref().map(|row| (row.deliver_after, row.deliver_by));
        let other = |now: &Instants| stored.is_some_and(|stored| stored != (now.deliver_after, now.deliver_by));
        let comes_to =
            due.instants.filter(other).map(|Instants { deliver_after, deliver_by }| Window { deliver_after, deliver_by });
        Self { comes_to, ..self.with_steps(due) }
    }
}

/// How many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Stored.
    pub created: usize,
    /// It was so already.
    pub unchanged: usize,
    /// Stored before with other content, or written by somebody else again and again.
    pub conflict: usize,
    /// Wrong input.
    pub invalid: usize,
    /// To be sent again.
    pub failed: usize,
    /// To be sent again.
    pub not_attempted: usize,
    /// A preview's: they would be stored.
    #[serde(skip_serializing_if = "none")]
    pub would_create: usize,
    /// Moved to other instants.
    #[serde(skip_serializing_if = "none")]
    pub rescheduled: usize,
    /// Taken back.
    #[serde(skip_serializing_if = "none")]
    pub cancelled: usize,
    /// Found.
    #[serde(skip_serializing_if = "none")]
    pub found: usize,
    /// Not found.
    #[serde(skip_serializing_if = "none")]
    pub not_found: usize,
    /// Not moved or taken back: a call may be under way.
    #[serde(skip_serializing_if = "none")]
    pub in_flight: usize,
    /// Not moved or taken back: they are delivered, shadowed or cancelled, or have no attempts left.
    #[serde(skip_serializing_if = "none")]
    pub too_late: usize,
    /// Not moved: the answer of a call was lost, and a person should look.
    #[serde(skip_serializing_if = "none")]
    pub needs_review: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn none(count: &usize) -> bool {
    *count == 0
}

impl Counts {
    fn of(results: &[ItemResult]) -> Self {
        let mut counts = Self::default();
        for result in results {
            *match result.answer {
                Answer::Created => &mut counts.created,
                Answer::WouldCreate => &mut counts.would_create,
                Answer::Unchanged => &mut counts.unchanged,
                Answer::Conflict => &mut counts.conflict,
                Answer::Rescheduled => &mut counts.rescheduled,
                Answer::Cancelled => &mut counts.cancelled,
                Answer::Found => &mut counts.found,
                Answer::NotFound => &mut counts.not_found,
                Answer::InFlight => &mut counts.in_flight,
                Answer::AlreadyDelivered | Answer::AlreadyShadowed | Answer::AlreadyCancelled | Answer::AttemptsExhausted => {
                    &mut counts.too_late
                }
                Answer::NeedsReview => &mut counts.needs_review,
                Answer::Invalid => &mut counts.invalid,
                Answer::Failed => &mut counts.failed,
                Answer::NotAttempted => &mut counts.not_attempted,
            } += 1;
        }
        counts
    }

    /// How many are as they were asked for.
    fn good(&self) -> usize {
        self.created + self.unchanged + self.would_create + self.rescheduled + self.cancelled + self.found
    }
}

/// So many bytes of steps an answer holds, as JSON. Lambda takes an answer of 6 MB (6,291,556 bytes); a thousand items without
/// steps stay below 2 MB.
const ROOM_FOR_STEPS: usize = 4_000_000;

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Response {
    /// Whether every item is as it was asked for.
    pub ok: bool,
    /// How many of each.
    pub summary: Counts,
    /// What was released at once.
    pub released: Tally,
    /// So many items are without their steps, because an answer has no room for them: ask for fewer at a time. Absent if none.
    #[serde(skip_serializing_if = "none")]
    pub steps_left_out: usize,
    /// The bundled zone data by which rules were worked out; absent where there was no rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_data: Option<&'static str>,
    /// One for each item, in order.
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
        Self { ok: false, errors, ..Self::of(Vec::new(), Tally::default()) }
    }

    /// What is stored must be told: an answer that is too long for Lambda would be an error. Steps go first, from the first item on
    /// that has no room for them.
    #[must_use]
    pub fn fitting(mut self) -> Self {
        let mut room = ROOM_FOR_STEPS;
        for result in self.results.iter_mut().filter(|result| !result.steps.is_empty()) {
            let bytes = serde_json::to_string(&result.steps).map_or(usize::MAX, |steps| steps.len());
            room = room.saturating_sub(bytes);
            if room == 0 {
                result.steps.clear();
                self.steps_left_out += 1;
            }
        }
        self
    }

    /// Results and what was released.
    #[must_use]
    pub fn of(results: Vec<ItemResult>, released: Tally) -> Self {
        let summary = Counts::of(&results);
        let ok = summary.good() == results.len();
        Self { ok, summary, released, steps_left_out: 0, zone_data: None, results, canary: None, errors: Vec::new() }
    }
}
