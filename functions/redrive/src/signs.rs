//! I look for what stops a run besides the fates of its rows: a breaker, a pause, fresh work that waits.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::acquire::can_start;
use punctual_core::admission::Candidate;
use punctual_core::breaker::Reach;
use punctual_core::clock::Now;
use punctual_core::delivery::{Delivery, Lane};
use punctual_core::destination::Destination;
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::ports::{Control, Ledger, Letters, PortError, Queue, Slices, Time, WakeQuery, Watched};
use punctual_core::redrive::{FreshWait, Run, Signs};
use punctual_core::state::State;

use crate::Redrive;

/// Fresh work that is due for longer waits.
const WAITS: Duration = Duration::from_secs(5);
/// Its deadline, less the margin, is nearer than this.
const NEAR: Duration = Duration::from_secs(120);
/// The most entries of one page of a lane.
const PAGE: u32 = 500;
/// The most pages of a lane, and the most rows that are read of it.
const MOST_PAGES: usize = 8;
const MOST_ROWS: usize = 100;

/// The run's destinations, as they are now.
#[derive(Debug, Default)]
pub(crate) struct Around {
    pub(crate) destinations: BTreeMap<DestinationId, Destination>,
    pub(crate) reach: BTreeMap<DestinationId, Reach>,
}

impl Around {
    /// Whether nothing has changed that a run goes by.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let open = |around: &Self| -> Vec<DestinationId> {
            around.reach.iter().filter(|(_, reach)| reach.open.is_some()).map(|(id, _)| id.clone()).collect()
        };
        self.destinations == other.destinations && open(self) == open(other)
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    /// The run's destinations.
    pub(crate) async fn around(&self, run: &Run) -> Result<Around, PortError> {
        let named = run.order.selection.destination_ids.as_deref().unwrap_or_default();
        let Watched { destinations, reach, .. } = self.control.watch(named).await?;
        Ok(Around {
            destinations: destinations.into_iter().map(|one| (one.spec.id.clone(), one)).collect(),
            reach: reach.into_iter().collect(),
        })
    }

    /// What the run's destinations show.
    pub(crate) async fn signs(&self, around: &Around, now: Now) -> Result<Signs, PortError> {
        let open = around.reach.iter().filter(|(_, reach)| reach.open.is_some()).map(|(id, _)| id.clone());
        let paused = around.destinations.values().filter(|one| one.paused.is_some()).map(|one| one.spec.id.clone());
        let mut signs = Signs { breaker_open: open.collect(), paused: paused.collect(), fresh: Vec::new() };
        for destination in around.destinations.values().filter(|one| one.paused.is_none()) {
            signs.fresh.extend(self.fresh(destination, now).await?);
        }
        Ok(signs)
    }

    /// Whether fresh work of a destination waits though its deadline is near.
    async fn fresh(&self, destination: &Destination, now: Now) -> Result<Option<FreshWait>, PortError> {
        let margin = destination.margin(self.margin);
        let due = now.lo.minus(WAITS);
        let mut waiting: Option<FreshWait> = None;
        for lane in destination.lanes() {
            let ids: Vec<DeliveryId> = self.near(lane, now, margin).await?.into_iter().map(|one| one.id).collect();
            let waits = |row: &Delivery| {
                matches!(row.state, State::Scheduled | State::Dispatching | State::Queued)
                    && row.redrives.is_empty()
                    && row.hold.is_none()
                    && row.next_attempt_at <= due
                    && can_start(row.deliver_by, margin, now)
            };
            for row in self.ledger.read(&ids).await?.into_iter().filter(waits) {
                let wait = waiting.get_or_insert_with(|| FreshWait {
                    destination: destination.spec.id.clone(),
                    rows: 0,
                    deliver_by: row.deliver_by,
                });
                wait.rows = wait.rows.saturating_add(1);
                wait.deliver_by = wait.deliver_by.min(row.deliver_by);
            }
        }
        Ok(waiting)
    }

    /// What a lane has that is due and near its deadline, the longest due first; not all of it where there is much.
    async fn near(&self, lane: Lane, now: Now, margin: Duration) -> Result<Vec<Candidate>, PortError> {
        let deadline_by = Some(now.hi.plus(margin).plus(NEAR));
        let mut query = WakeQuery { lane, until: now.lo.minus(WAITS), deadline_by, start: None, limit: PAGE };
        let mut near = Vec::new();
        for _ in 0..MOST_PAGES {
            let page = self.ledger.wake(&query).await?;
            near.extend(page.candidates.into_iter().filter(|one| can_start(one.deliver_by, margin, now)));
            query.start = page.next;
            if query.start.is_none() || near.len() >= MOST_ROWS {
                break;
            }
        }
        near.truncate(MOST_ROWS);
        Ok(near)
    }
}
