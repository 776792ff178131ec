//! I release at once what is new, or was moved, and is due within the horizon: nobody waits for a tick. What fails here is
//! left to dispatch.

use std::collections::BTreeMap;

use punctual_core::admission::{Candidate, Pace, admit, budget};
use punctual_core::breaker::Reach;
use punctual_core::destination::Destination;
use punctual_core::id::DestinationId;
use punctual_core::ports::{Control, Ledger, Queue, Time};
use punctual_flows::chain;
use punctual_flows::release::{Releaser, Tally};

use crate::Schedule;
use crate::result::{Answer, ItemResult};

/// The destinations of a call, and how they have been reached lately.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) destinations: BTreeMap<DestinationId, Destination>,
    pub(crate) reach: BTreeMap<DestinationId, Reach>,
}

impl<L: Ledger, C: Control, Q: Queue, T: Time> Schedule<'_, L, C, Q, T> {
    pub(crate) async fn release(&self, items: &[ItemResult], places: &Places) -> Tally {
        let mut released = Tally::default();
        let Ok(now) = self.time.now() else { return released };
        let until = now.lo.plus(self.rules.horizon);
        let mut due: BTreeMap<&DestinationId, Vec<Candidate>> = BTreeMap::new();
        let fresh = items.iter().filter(|item| matches!(item.answer, Answer::Created | Answer::Rescheduled));
        for row in fresh.filter_map(|item| item.row.as_ref()) {
            if row.next_attempt_at <= until && row.hold.is_none() {
                let (id, wake_at, deliver_by) = (row.id.clone(), row.next_attempt_at, row.deliver_by);
                due.entry(&row.destination).or_default().push(Candidate { id, wake_at, held_until: None, deliver_by });
            }
        }
        let releaser =
            Releaser { ledger: self.ledger, queue: self.queue, time: self.time, rules: self.rules, by: self.by.clone() };
        for (id, candidates) in due {
            let Some(destination) = places.destinations.get(id).filter(|d| d.paused.is_none()) else { continue };
            let reach = places.reach.get(id);
            if reach.is_some_and(|reach| reach.open.is_some()) {
                // Nobody answers there: dispatch probes, and releases when somebody does.
                continue;
            }
            let (mode, margin) = (destination.spec.mode, destination.margin(self.margin));
            let budget = budget(destination.capacity(reach), self.rules.horizon, self.tick, 0, false);
            let pace = Pace {
                now: now.lo,
                rate_per_second: destination.spec.rate_per_second,
                horizon: self.rules.horizon,
                tick: self.tick,
                margin,
                outstanding: &[],
            };
            match releaser.release(&admit(candidates, budget, &pace).rows, mode, self.tick, margin).await {
                Ok(tally) => released.add(tally),
                Err(error) => tracing::error!(by = %self.by, error = %chain(&error), "a release failed; dispatch does it"),
            }
        }
        released
    }
}
