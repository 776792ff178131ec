//! I find a delivery by the queue's name for its last message. No index has it: I look at what is on its way, and at what is
//! dead or expired, as far as my bounds go, and say how far that was.

use std::time::Duration;

use punctual_core::destination::FieldError;
use punctual_core::id::{DeliveryId, MessageId};
use punctual_core::ports::{Control, EndedQuery, Ledger, Time, WakeQuery};
use punctual_core::state::State;
use punctual_flows::FlowError;

use crate::Inspect;

/// A message waits in the queue for no longer than this: SQS's longest delay, and a few minutes for its retry.
const REACH: Duration = Duration::from_secs(1_200);
/// The most entries of indexes that are looked at.
const MOST_ENTRIES: usize = 10_000;
/// The most entries of one page; also the most rows of one read.
const PAGE: u32 = 100;
/// Looking ends when so little of the invocation is left.
const RESERVE: Duration = Duration::from_secs(5);

/// How far the search went.
#[derive(Default)]
struct Searched {
    entries: usize,
    rows: usize,
    stopped: bool,
}

impl Searched {
    fn goes_on(&mut self, left: Duration) -> bool {
        self.stopped |= self.entries >= MOST_ENTRIES || left <= RESERVE;
        !self.stopped
    }
}

impl<L: Ledger, C: Control, D, T: Time> Inspect<'_, L, C, D, T> {
    pub(crate) async fn of_message(&self, message: &MessageId) -> Result<Result<DeliveryId, FieldError>, FlowError> {
        let mut searched = Searched::default();
        // Read first: every answer of the database tells its time.
        let destinations = self.control.destinations().await?;
        let until = self.time.now()?.hi.plus(REACH);
        for lane in destinations.iter().flat_map(|destination| destination.lanes()) {
            let mut start = None;
            while searched.goes_on(self.time.time_left()) {
                let query = WakeQuery { lane: lane.clone(), until, deadline_by: None, start, limit: PAGE };
                let page = self.ledger.wake(&query).await?;
                searched.entries += page.candidates.len();
                // What was never claimed has no message.
                let out = page.candidates.into_iter().filter(|candidate| candidate.held_until.is_some());
                let ids: Vec<DeliveryId> = out.map(|candidate| candidate.id).collect();
                if let Some(id) = self.has_message(&ids, message, &mut searched).await? {
                    return Ok(Ok(id));
                }
                start = page.next;
                if start.is_none() {
                    break;
                }
            }
        }
        for state in [State::Dead, State::Expired] {
            let mut start = None;
            while searched.goes_on(self.time.time_left()) {
                let page = self.ledger.ended(&EndedQuery { state, start, limit: PAGE, from: None }).await?;
                searched.entries += page.entries.len();
                let ids: Vec<DeliveryId> = page.entries.into_iter().map(|entry| entry.id).collect();
                if let Some(id) = self.has_message(&ids, message, &mut searched).await? {
                    return Ok(Ok(id));
                }
                start = page.next;
                if start.is_none() {
                    break;
                }
            }
        }
        let Searched { entries, rows, stopped } = searched;
        let all = if stopped { "not all that is there" } else { "all that is there" };
        let told = format!(
            "the id of the last message of a delivery that is on its way, dead or expired; looked at {entries} index entries due by \
             {until} or ended ({all}) and at {rows} rows. One that is delivered, cancelled or shadowed is in no index: its \
             message's body has the delivery_id"
        );
        Ok(Err(FieldError::new("not_found", "message_id", told)))
    }

    async fn has_message(
        &self,
        ids: &[DeliveryId],
        message: &MessageId,
        searched: &mut Searched,
    ) -> Result<Option<DeliveryId>, FlowError> {
        if ids.is_empty() {
            return Ok(None);
        }
        let rows = self.ledger.read(ids).await?;
        searched.rows += rows.len();
        Ok(rows.into_iter().find(|row| row.message.as_ref() == Some(message)).map(|row| row.id))
    }
}
