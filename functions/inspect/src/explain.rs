//! I explain deliveries: by id, by reference, by what the reminder is, or by the queue's name of a message.

use punctual_core::delivery::Delivery;
use punctual_core::destination::{Destination, FieldError};
use punctual_core::explain::{Backlog, Runs, Whither, explain, text};
use punctual_core::id::{DeliveryId, IdentityParts, MessageId, Reference};
use punctual_core::ports::{Control, Ledger, Overview, Time, WakeQuery};
use punctual_core::state::State;
use punctual_flows::FlowError;
use serde::Deserialize;

use crate::{Inspect, Response};

/// The most deliveries explained in one answer.
const MOST: usize = 20;
/// So many entries of a lane are looked at for what goes before a row: one page.
const MOST_AHEAD: u32 = 1_000;

/// The `explain` action: exactly one of the four.
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
    /// By the queue's name for its last message, as far as a bounded search finds it.
    #[serde(default)]
    pub message_id: Option<MessageId>,
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

impl<L: Ledger, C: Control + Overview, D, T: Time> Inspect<'_, L, C, D, T> {
    pub(crate) async fn explain(&self, input: ExplainInput) -> Result<Response, FlowError> {
        let (ids, field) = match (input.delivery_id, input.reference, input.identity, input.message_id) {
            (Some(id), None, None, None) => (vec![id], "delivery_id"),
            (None, Some(reference), None, None) => (self.ledger.by_reference(&reference).await?, "reference"),
            (None, None, Some(i), None) => {
                let parts = IdentityParts {
                    tenant: i.tenant,
                    subscriber: i.subscriber,
                    renewal_period: i.renewal_period,
                    reminder_kind: i.reminder_kind,
                };
                (vec![DeliveryId::derive(&parts)], "identity")
            }
            (None, None, None, Some(message)) => match self.of_message(&message).await? {
                Ok(id) => (vec![id], "message_id"),
                Err(error) => return Ok(Response::refused(error)),
            },
            _ => {
                let message = "exactly one of delivery_id, reference, identity, message_id";
                return Ok(Response::refused(FieldError::new("one_of", "delivery_id", message)));
            }
        };
        let mut deliveries = Vec::new();
        let mut runs = None;
        for id in ids.iter().take(MOST) {
            let Some(found) = self.ledger.partition(id).await? else { continue };
            if runs.is_none() {
                let last = self.control.heartbeat("dispatch").await?.map(|heartbeat| heartbeat.at);
                runs = Some(Runs { tick: self.tick, last });
            }
            let watched = self.control.watch(std::slice::from_ref(&found.row.destination)).await?;
            let destination = watched.destinations.first();
            let backlog = match destination {
                Some(destination) => self.backlog(&found.row, destination).await?,
                None => None,
            };
            let whither = Whither {
                destination,
                reach: watched.reach.first().map(|(_, reach)| reach),
                settings: watched.settings,
                backlog: backlog.as_ref(),
                runs,
            };
            deliveries.push(explain(&found.row, found.payload.as_ref(), whither, self.margin, self.time.now()?));
        }
        if deliveries.is_empty() {
            return Ok(Response::refused(FieldError::new("not_found", field, "a delivery that the ledger has")));
        }
        let mut text: Vec<String> = deliveries.first().map(text).unwrap_or_default().lines().map(str::to_owned).collect();
        if ids.len() > MOST {
            text.push(format!(
                "These are {MOST} of {} deliveries with that reference: ask for the others by their ids.",
                ids.len()
            ));
        }
        Ok(Response { deliveries, ..Response::answered(text) })
    }

    /// What falls due for the destination by the row's own time: one page of each of its lanes. None of a row that waits for no
    /// call.
    async fn backlog(&self, row: &Delivery, destination: &Destination) -> Result<Option<Backlog>, FlowError> {
        if !matches!(row.state, State::Scheduled | State::Dispatching | State::Queued | State::Deferred) {
            return Ok(None);
        }
        let until = row.next_attempt_at.max(self.time.now()?.lo);
        let mut backlog = Backlog { candidates: Vec::new(), complete: true };
        for lane in destination.lanes() {
            // What has a later deadline does not go before it.
            let query = WakeQuery { lane, until, deadline_by: Some(row.deliver_by), start: None, limit: MOST_AHEAD };
            let page = self.ledger.wake(&query).await?;
            backlog.complete &= page.next.is_none();
            backlog.candidates.extend(page.candidates);
        }
        Ok(Some(backlog))
    }
}
