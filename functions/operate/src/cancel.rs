//! I take a delivery back. One write does it, and only that write is the acknowledgement.
//!
//! A call that may be under way cannot be called back, so nothing is promised while its lease may be live.

use punctual_core::delivery::{Cancel, Delivery};
use punctual_core::ports::{Control, Ledger, Time, Written};
use punctual_core::state::{Refusal, State};
use punctual_core::transition;
use punctual_flows::{FlowError, stamp};

use crate::delivery::{MOST_TRIES, busy, refused, unknown};
use crate::input::OnDelivery;
use crate::{InFlight, Operate, Response};

impl<L: Ledger, C: Control, K, T: Time> Operate<'_, L, C, K, T> {
    pub(crate) async fn cancel(&self, input: OnDelivery) -> Result<Response, FlowError> {
        let Some(mut row) = self.row(&input.delivery_id).await? else { return Ok(unknown()) };
        for _ in 0..MOST_TRIES {
            if row.state == State::Cancelled {
                return Ok(acknowledged("nothing: it was cancelled already".into(), &row));
            }
            let stamp = stamp(self.time, &self.by)?;
            let cancel = Cancel { since: stamp.now.lo, by: input.by.clone(), why: input.why.clone() };
            let cancelled = match transition::cancelled(&row, cancel, &stamp) {
                Ok(cancelled) => cancelled,
                Err(refusal) => return Ok(not_cancelled(&row, refusal)),
            };
            match self.ledger.write(&cancelled).await? {
                Written::Done => {
                    let did = format!("cancelled delivery {} in state {}", row.id, row.state);
                    return Ok(acknowledged(did, &cancelled.after));
                }
                Written::Conflict(current) => row = *current,
                Written::Absent => return Ok(unknown()),
            }
        }
        Ok(busy())
    }
}

fn acknowledged(did: String, row: &Delivery) -> Response {
    let may = transition::may_have_been_delivered(row);
    let did = if may { format!("{did}; a call before it may have had its effect") } else { did };
    Response { may_have_been_delivered: may, ..Response::done(did, row.version) }
}

fn not_cancelled(row: &Delivery, refusal: Refusal) -> Response {
    let wrong = |code, message: &str| Response::wrong(code, "delivery_id", message);
    match (refusal, row.state) {
        (Refusal::InFlight, _) => {
            let in_flight = InFlight { attempt: row.next_attempt(), lease_until: row.lease_until };
            Response { in_flight: Some(in_flight), ..wrong("in_flight", &in_the_way(row)) }
        }
        (_, State::Delivered) => wrong("already_delivered", "a delivery that was not delivered yet"),
        (_, State::Shadowed) => wrong("already_shadowed", "a delivery that did not go to the shadow sink yet"),
        _ => refused(row, refusal),
    }
}

/// What a cancel has to wait for.
fn in_the_way(row: &Delivery) -> String {
    let (attempt, until) = (row.next_attempt(), row.lease_until.map_or_else(|| "unknown".to_owned(), |end| end.to_string()));
    match row.late_success {
        Some(success) => {
            format!(
                "a delivery that is not delivered: attempt {success} was, and attempt {attempt} with lease_until {until} records it"
            )
        }
        None => format!(
            "a delivery without a call under way: attempt {attempt} may be, with lease_until {until}; send this again then"
        ),
    }
}
