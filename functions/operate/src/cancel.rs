//! I take a delivery back, for a person: what `schedule` does for a producer, through the same code.

use punctual_core::delivery::Delivery;
use punctual_core::ports::{Control, Ledger, Time};
use punctual_core::transition::may_have_been_delivered;
use punctual_flows::FlowError;
use punctual_flows::recall::{Recalled, Recaller, Why};

use crate::delivery::{busy, unknown};
use crate::input::OnDelivery;
use crate::{Operate, Response};

impl<L: Ledger, C: Control, K, T: Time> Operate<'_, L, C, K, T> {
    pub(crate) async fn cancel(&self, input: OnDelivery) -> Result<Response, FlowError> {
        let Some(row) = self.row(&input.delivery_id).await? else { return Ok(unknown()) };
        let recaller = Recaller { ledger: self.ledger, time: self.time, by: self.by.clone() };
        Ok(match recaller.cancel(row, &input.by, &input.why).await? {
            Recalled::Done { from, row } => acknowledged(format!("cancelled delivery {} in state {from}", row.id), &row),
            Recalled::Unchanged(row) => acknowledged("nothing: it was cancelled already".into(), &row),
            Recalled::Refused(_, why) => not_cancelled(&why),
            Recalled::Absent => unknown(),
            Recalled::Busy(_) => busy(),
        })
    }
}

fn acknowledged(did: String, row: &Delivery) -> Response {
    let may = may_have_been_delivered(row);
    let did = if may { format!("{did}; a call before it may have had its effect") } else { did };
    Response { may_have_been_delivered: may, ..Response::done(did, row.version) }
}

fn not_cancelled(why: &Why) -> Response {
    let in_flight = if let Why::InFlight { attempt, .. } = why { Some(*attempt) } else { None };
    Response { in_flight, ..Response::wrong(why.code(), "delivery_id", why.to_string()) }
}
