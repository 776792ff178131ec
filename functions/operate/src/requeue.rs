//! I bring one dead or expired delivery back, by the rules that a redrive run follows, with attempts that are granted by name.

use punctual_core::ports::{Control, Ledger, Time, Written};
use punctual_core::redrive::{ForRow, Move, Offer, SkipReason, for_offer};
use punctual_core::transition::{self, Grant};
use punctual_flows::{FlowError, stamp};

use crate::delivery::{MOST_TRIES, busy, refused, unknown};
use crate::input::Requeue;
use crate::{Operate, Response};

impl<L: Ledger, C: Control, K, T: Time> Operate<'_, L, C, K, T> {
    pub(crate) async fn requeue(&self, input: &Requeue) -> Result<Response, FlowError> {
        let Some(mut row) = self.row(&input.delivery_id).await? else { return Ok(unknown()) };
        let has_payload = self.ledger.payload(&row.id, &row.content).await?.is_some();
        let (destinations, _) = self.control.lookup(std::slice::from_ref(&row.destination)).await?;
        let destination = destinations.first();
        let margin = destination.map_or(self.margin, |d| d.margin(self.margin));
        let offer = Offer { attempts: input.attempts, deliver_by: input.deliver_by };
        for _ in 0..MOST_TRIES {
            if !row.state.needs_operator() {
                let message = format!("a delivery that is dead or expired; it is {}", row.state);
                return Ok(Response::wrong("not_dead", "delivery_id", message));
            }
            let stamp = stamp(self.time, &self.by)?;
            let Move { grant, deliver_by, not_before, start_by } =
                match for_offer(&row, offer, destination, has_payload, stamp.now, self.margin) {
                    ForRow::Move(back) => back,
                    ForRow::Skip(why) => return Ok(not_requeued(why)),
                };
            let slot = not_before.max(stamp.now.lo);
            let given = Grant { owner: input.by.clone(), attempts: grant, slot, deliver_by };
            let requeued = match transition::requeued(&row, given, margin, &stamp) {
                Ok(requeued) => requeued,
                Err(refusal) => return Ok(refused(&row, refusal)),
            };
            match self.ledger.write(&requeued).await? {
                Written::Done => {
                    let deadline = deliver_by.map_or_else(
                        || format!("its deadline stays {}", row.deliver_by),
                        |to| format!("its deadline was {} and is {to}", row.deliver_by),
                    );
                    let did = format!(
                        "requeued delivery {}, {} as death {}: attempt {} is due at {} and starts by {start_by} at the latest; \
                         {grant} attempts granted, {deadline}",
                        row.id,
                        row.state,
                        row.death,
                        row.next_attempt(),
                        requeued.after.next_attempt_at
                    );
                    let may = transition::may_have_been_delivered(&row);
                    return Ok(Response { may_have_been_delivered: may, ..Response::done(did, requeued.after.version) });
                }
                Written::Conflict(current) => row = *current,
                Written::Absent => return Ok(unknown()),
            }
        }
        Ok(busy())
    }
}

fn not_requeued(why: SkipReason) -> Response {
    let (field, message) = match why {
        SkipReason::Held => ("delivery_id", "a delivery that nobody holds; release it first"),
        SkipReason::DeadlineUnreachable => {
            ("deliver_by", "a deadline that leaves time for a call: the delivery's own cannot be kept any more")
        }
        SkipReason::UnknownDestination => ("delivery_id", "a delivery whose destination is registered"),
        SkipReason::DestinationPaused => ("delivery_id", "a delivery whose destination is not paused; resume that first"),
        SkipReason::NoPayload => ("delivery_id", "a delivery whose payload is there: this one's is missing or was erased"),
        SkipReason::AlreadyMoved | SkipReason::Changed => ("delivery_id", "a delivery that is dead or expired"),
    };
    Response::wrong(why.code(), field, message)
}
