//! I write single deliveries: freeze and release. A freeze takes nobody's lease away.

use punctual_core::delivery::{Delivery, Hold};
use punctual_core::id::DeliveryId;
use punctual_core::ports::{Control, Ledger, Time, Written};
use punctual_core::state::Refusal;
use punctual_core::transition::{self, Transition};
use punctual_flows::{FlowError, stamp};

use crate::input::OnDelivery;
use crate::{Operate, Response};

/// Somebody else's writes may get in between so often before the operator is asked to try again.
pub(crate) const MOST_TRIES: usize = 5;

impl<L: Ledger, C: Control, K, T: Time> Operate<'_, L, C, K, T> {
    pub(crate) async fn hold(&self, input: OnDelivery) -> Result<Response, FlowError> {
        let Some(mut row) = self.row(&input.delivery_id).await? else { return Ok(unknown()) };
        for _ in 0..MOST_TRIES {
            if let Some(hold) = &row.hold {
                return Ok(Response::done(format!("nothing: {} held it already since {}", hold.by, hold.since), row.version));
            }
            let stamp = stamp(self.time, &self.by)?;
            let hold = Hold { since: stamp.now.lo, by: input.by.clone(), why: input.why.clone() };
            let margin = self.margin_of(&row).await?;
            let held = match transition::held(&row, hold, margin, &stamp) {
                Ok(held) => held,
                Err(refusal) => return Ok(refused(&row, refusal)),
            };
            match self.ledger.write(&held).await? {
                Written::Done => return Ok(Response::done(said(&held, "held"), held.after.version)),
                Written::Conflict(current) => row = *current,
                Written::Absent => return Ok(unknown()),
            }
        }
        Ok(busy())
    }

    pub(crate) async fn release(&self, input: OnDelivery) -> Result<Response, FlowError> {
        let Some(mut row) = self.row(&input.delivery_id).await? else { return Ok(unknown()) };
        for _ in 0..MOST_TRIES {
            if row.hold.is_none() {
                return Ok(Response::done("nothing: it was not held".into(), row.version));
            }
            let stamp = stamp(self.time, &self.by)?;
            let margin = self.margin_of(&row).await?;
            let released = match transition::unheld(&row, margin, &stamp) {
                Ok(released) => released,
                Err(refusal) => return Ok(refused(&row, refusal)),
            };
            match self.ledger.write(&released).await? {
                Written::Done => return Ok(Response::done(said(&released, "released"), released.after.version)),
                Written::Conflict(current) => row = *current,
                Written::Absent => return Ok(unknown()),
            }
        }
        Ok(busy())
    }

    pub(crate) async fn row(&self, id: &DeliveryId) -> Result<Option<Delivery>, FlowError> {
        Ok(self.ledger.read(std::slice::from_ref(id)).await?.into_iter().next())
    }

    async fn margin_of(&self, row: &Delivery) -> Result<std::time::Duration, FlowError> {
        let (destinations, _) = self.control.lookup(std::slice::from_ref(&row.destination)).await?;
        Ok(destinations.first().map_or(self.margin, |d| d.margin(self.margin)))
    }
}

fn said(transition: &Transition, verb: &str) -> String {
    let row = &transition.after;
    let end = row.lease_end().map_or_else(String::new, |end| format!("; whoever holds its lease until {end} finishes first"));
    format!("{verb} delivery {} in state {}{end}", row.id, row.state)
}

pub(crate) fn refused(row: &Delivery, refusal: Refusal) -> Response {
    Response::wrong("refused", "delivery_id", format!("a delivery that is not {}: {refusal}", row.state))
}

pub(crate) fn unknown() -> Response {
    Response::wrong("unknown_delivery", "delivery_id", "a delivery that the ledger has")
}

pub(crate) fn busy() -> Response {
    Response::wrong("conflict", "delivery_id", "somebody else keeps writing this row; send this again")
}
