//! I take back a lease whose holder is surely gone: what rescue does by itself, at once.

use std::time::Duration;

use punctual_core::destination::OnUnknown;
use punctual_core::ports::{Control, Ledger, Time, Written};
use punctual_core::state::{Refusal, State};
use punctual_core::transition::{self, Terms};
use punctual_flows::{FlowError, stamp};

use crate::delivery::{MOST_TRIES, busy, refused, unknown};
use crate::input::OnDelivery;
use crate::{InFlight, Operate, Response};

impl<L: Ledger, C: Control, K, T: Time> Operate<'_, L, C, K, T> {
    pub(crate) async fn release_lease(&self, input: &OnDelivery) -> Result<Response, FlowError> {
        let Some(mut row) = self.row(&input.delivery_id).await? else { return Ok(unknown()) };
        let (destinations, settings) = self.control.lookup(std::slice::from_ref(&row.destination)).await?;
        let Some(destination) = destinations.first() else {
            return Ok(Response::wrong("unknown_destination", "delivery_id", "a delivery whose destination is registered"));
        };
        let terms = Terms {
            policy: &destination.spec.retry,
            destination_version: destination.version,
            review_unknown: destination.spec.on_unknown == OnUnknown::Review,
            margin: destination.margin(self.margin),
            measured: Duration::ZERO,
            retry_mode: settings.retry_mode,
            // There may be no message any more.
            queue_reach: Duration::ZERO,
        };
        for _ in 0..MOST_TRIES {
            let released = match transition::lease_taken_back(&row, &terms, &stamp(self.time, &self.by)?) {
                Ok(released) => released,
                Err(Refusal::InFlight) => {
                    let in_flight = InFlight { attempt: row.next_attempt(), lease_until: row.lease_end() };
                    let until = row.lease_end().map_or_else(|| "unknown".to_owned(), |end| end.to_string());
                    let message = format!("a delivery whose lease has surely ended: it ends at {until}; send this again then");
                    return Ok(Response { in_flight: Some(in_flight), ..Response::wrong("in_flight", "delivery_id", message) });
                }
                Err(Refusal::LeaseNotHeld) => {
                    let message = format!("a delivery that is dispatching or delivering; it is {} and has no lease", row.state);
                    return Ok(Response::wrong("no_lease", "delivery_id", message));
                }
                Err(refusal) => return Ok(refused(&row, refusal)),
            };
            match self.ledger.write(&released).await? {
                Written::Done => {
                    let what = match row.state {
                        State::Dispatching => "a dispatch run's".to_owned(),
                        _ => format!("attempt {}'s, which is closed as unknown", row.next_attempt()),
                    };
                    let after = &released.after;
                    let did = format!("took back the lease of delivery {}, {what}; it is {} now", row.id, after.state);
                    let may = transition::may_have_been_delivered(after) && after.state != State::Delivered;
                    let left_in = Some(after.state);
                    return Ok(Response { may_have_been_delivered: may, left_in, ..Response::done(did, after.version) });
                }
                Written::Conflict(current) => row = *current,
                Written::Absent => return Ok(unknown()),
            }
        }
        Ok(busy())
    }
}
