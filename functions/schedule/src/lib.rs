//! I am schedule: the application's way to store reminders.
//!
//! I check everything before I store anything, store payload and row each once, and release at once what is due within
//! the horizon, so that nobody waits for a tick. The same input again changes nothing and says so.

pub mod canary;
pub mod input;
pub mod result;
pub mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use punctual_core::admission::{Candidate, Pace, admit, budget};
use punctual_core::breaker::Reach;
use punctual_core::destination::{Destination, FieldError};
use punctual_core::id::{Correlation, DestinationId};
use punctual_core::ports::{Control, Ledger, Queue, Time, Watched};
use punctual_flows::input::action;
use punctual_flows::release::{Releaser, Rules, Tally};
use punctual_flows::{FlowError, chain};
use serde_json::value::RawValue;

use crate::input::Checked;
use crate::result::{Answer, ItemResult, Response};

/// The most reminders of one call.
pub const MAX_BATCH: usize = 1_000;
/// How many reminders are stored at once.
const CONCURRENCY: usize = 32;
/// What is not begun when less than this is left is answered as not attempted.
const RESERVE: Duration = Duration::from_secs(10);

/// Schedule with its ports.
#[derive(Debug)]
pub struct Schedule<'a, L, C, Q, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The control table.
    pub control: &'a C,
    /// The queue.
    pub queue: &'a Q,
    /// The database's time and this invocation's end.
    pub time: &'a T,
    /// How far ahead and how long a lease.
    pub rules: Rules,
    /// From one tick to the next: so much may be released without knowing what is outstanding.
    pub tick: Duration,
    /// The stage's safety margin.
    pub margin: Duration,
    /// Joins history and logs.
    pub by: Correlation,
}

impl<L: Ledger, C: Control, Q: Queue, T: Time> Schedule<'_, L, C, Q, T> {
    /// Answers an event. Bad input is an answer, not an error.
    ///
    /// # Errors
    /// [`FlowError`] if the control table or the database's time cannot be had: nothing was stored.
    pub async fn handle(&self, event: &RawValue) -> Result<Response, FlowError> {
        match action(event, &["schedule", "canary"]) {
            Ok("canary") => self.canary(event).await,
            Ok(_) => match input::read(event) {
                Ok(items) => self.schedule(items).await,
                Err(error) => Ok(Response::refused(vec![error])),
            },
            Err(error) => Ok(Response::refused(vec![error])),
        }
    }

    async fn schedule(&self, items: Vec<Result<input::Reminder, FieldError>>) -> Result<Response, FlowError> {
        let ids: BTreeSet<DestinationId> = items.iter().flatten().map(|r| r.destination_id.clone()).collect();
        let Watched { destinations, reach, .. } = self.control.watch(&ids.into_iter().collect::<Vec<_>>()).await?;
        let reach: BTreeMap<DestinationId, Reach> = reach.into_iter().collect();
        let destinations: BTreeMap<DestinationId, Destination> =
            destinations.into_iter().map(|d| (d.spec.id.clone(), d)).collect();
        let now = self.time.now()?;

        let checked: Vec<Result<Checked, Vec<FieldError>>> = items
            .into_iter()
            .enumerate()
            .map(|(i, item)| item.map_err(|e| vec![e]).and_then(|r| r.check(i, &destinations, self.margin, now, &self.by)))
            .collect();
        let mut results: Vec<(usize, ItemResult)> = futures::stream::iter(checked.into_iter().enumerate())
            .map(|(i, checked)| async move { (i, self.store_one(checked).await) })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        results.sort_by_key(|(i, _)| *i);
        let items: Vec<ItemResult> = results.into_iter().map(|(_, result)| result).collect();
        let released = self.release(&items, &destinations, &reach).await;
        Ok(Response::of(items, released))
    }

    async fn store_one(&self, checked: Result<Checked, Vec<FieldError>>) -> ItemResult {
        match checked {
            Err(errors) => ItemResult::invalid(errors),
            Ok(_) if self.time.time_left() < RESERVE => ItemResult::not_attempted(),
            Ok(checked) => match store::store(self.ledger, &checked).await {
                Ok(result) => result,
                Err(error) => {
                    tracing::error!(by = %self.by, delivery_id = %checked.row.id, error = %chain(&error), "a reminder could not be stored");
                    ItemResult::failed(&checked.row.id)
                }
            },
        }
    }

    /// Releases what is new and due within the horizon. What fails here is left to dispatch.
    async fn release(
        &self,
        items: &[ItemResult],
        destinations: &BTreeMap<DestinationId, Destination>,
        reach: &BTreeMap<DestinationId, Reach>,
    ) -> Tally {
        let mut released = Tally::default();
        let Ok(now) = self.time.now() else { return released };
        let until = now.lo.plus(self.rules.horizon);
        let mut due: BTreeMap<&DestinationId, Vec<Candidate>> = BTreeMap::new();
        for row in items.iter().filter(|item| item.answer == Answer::Created).filter_map(|item| item.row.as_ref()) {
            if row.next_attempt_at <= until {
                let (id, wake_at, deliver_by) = (row.id.clone(), row.next_attempt_at, row.deliver_by);
                due.entry(&row.destination).or_default().push(Candidate { id, wake_at, held_until: None, deliver_by });
            }
        }
        let releaser =
            Releaser { ledger: self.ledger, queue: self.queue, time: self.time, rules: self.rules, by: self.by.clone() };
        for (id, candidates) in due {
            let Some(destination) = destinations.get(id).filter(|d| d.paused.is_none()) else { continue };
            let reach = reach.get(id);
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
