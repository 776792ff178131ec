//! I am schedule: the application's way to store reminders, to move them, to take them back, and to ask where they stand.
//!
//! Actions: `schedule`, `preview`, `reschedule`, `cancel`, `get`; each takes a list, and answers each item on its own.
//!
//! I check everything before I store anything, store payload and row each once, and release at once what is due within
//! the horizon, so that nobody waits for a tick. The same input again changes nothing and says so, also after a
//! reschedule, and also after a calendar changed: what is compared is what was asked for, not what it came to.

pub mod canary;
pub mod check;
pub mod get;
pub mod input;
mod once;
mod recall;
mod release;
pub mod result;
pub mod store;
pub mod when;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use punctual_core::calendar::due::DueInput;
use punctual_core::destination::FieldError;
use punctual_core::id::{CalendarId, Correlation, DestinationId};
use punctual_core::ports::{Control, Ledger, Queue, Time, Watched};
use punctual_flows::release::Rules;
use punctual_flows::{FlowError, chain};
use serde_json::value::RawValue;

use crate::check::{Checked, Known, Wrong};
use crate::input::{Action, Items, Reminder};
use crate::release::Places;
use crate::result::{ItemResult, Response};
use crate::when::Calendars;

/// The most items of one call.
pub const MAX_BATCH: usize = 1_000;
/// How many items are under way at once.
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
    /// [`FlowError`] if the control table or the database's time cannot be had: nothing was changed.
    pub async fn handle(&self, event: &RawValue) -> Result<Response, FlowError> {
        Ok(self.answered(event).await?.fitting())
    }

    async fn answered(&self, event: &RawValue) -> Result<Response, FlowError> {
        match input::read(event) {
            Ok(Action::Schedule(reminders)) => self.schedule(reminders, false).await,
            Ok(Action::Preview(reminders)) => self.schedule(reminders, true).await,
            Ok(Action::Reschedule(deliveries)) => self.reschedule(deliveries).await,
            Ok(Action::Cancel { by, why, deliveries }) => Ok(self.cancel(deliveries, &by, &why).await),
            Ok(Action::Canary(canary)) => self.canary(canary).await,
            Ok(Action::Get(deliveries)) => Ok(self.get(deliveries).await),
            Err(errors) => Ok(Response::refused(errors)),
        }
    }

    async fn schedule(&self, items: Items<Reminder>, preview: bool) -> Result<Response, FlowError> {
        let ids: BTreeSet<DestinationId> = items.iter().flatten().map(|r| r.destination_id.clone()).collect();
        let rules: Vec<&DueInput> = items.iter().flatten().filter_map(|r| r.rule.as_ref()).collect();
        let (calendars, by_rule) = (self.calendars(&rules).await?, !rules.is_empty());
        let places = self.places(ids).await?;
        let now = self.time.now()?;
        let known = Known { destinations: &places.destinations, calendars: &calendars, margin: self.margin, now, by: &self.by };

        let check = |(i, item): (usize, Result<Reminder, FieldError>)| match item {
            Ok(reminder) => reminder.check(i, &known),
            Err(error) => Err((vec![error], Vec::new())),
        };
        let checked = once::reminders(items.into_iter().enumerate().map(check).collect());
        let mut results: Vec<(usize, ItemResult)> = futures::stream::iter(checked.into_iter().enumerate())
            .map(|(i, checked)| async move { (i, self.store_one(checked, preview).await) })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        results.sort_by_key(|(i, _)| *i);
        let items: Vec<ItemResult> = results.into_iter().map(|(_, result)| result).collect();
        let released = self.release(&items, &places).await;
        Ok(Response { zone_data: recall::zone_data(by_rule), ..Response::of(items, released) })
    }

    async fn store_one(&self, checked: Result<Checked, Wrong>, preview: bool) -> ItemResult {
        let checked = match checked {
            Err((errors, steps)) => return ItemResult { steps, ..ItemResult::invalid(errors) },
            Ok(_) if self.time.time_left() < RESERVE => return ItemResult::not_attempted(),
            Ok(checked) => checked,
        };
        let stored = match preview {
            true => store::preview(self.ledger, &checked).await,
            false => store::store(self.ledger, &checked).await,
        };
        stored.unwrap_or_else(|error| {
            tracing::error!(by = %self.by, delivery_id = %checked.row.id, error = %chain(&error), "a reminder could not be stored");
            ItemResult::failed(&checked.row.id)
        })
    }

    /// The destinations with these names that exist, and how they have been reached.
    pub(crate) async fn places(&self, ids: BTreeSet<DestinationId>) -> Result<Places, FlowError> {
        let Watched { destinations, reach, .. } = self.control.watch(&ids.into_iter().collect::<Vec<_>>()).await?;
        let destinations = destinations.into_iter().map(|d| (d.spec.id.clone(), d)).collect();
        Ok(Places { destinations, reach: reach.into_iter().collect() })
    }

    /// The calendars that rules name, as far as they exist. Where no rule is, nothing is asked.
    pub(crate) async fn calendars(&self, rules: &[&DueInput]) -> Result<Calendars, FlowError> {
        let names: BTreeSet<CalendarId> = rules.iter().filter_map(|rule| CalendarId::new(rule.calendar.clone()).ok()).collect();
        if names.is_empty() {
            return Ok(Calendars::new());
        }
        let stored = self.control.lookup_calendars(&names.into_iter().collect::<Vec<_>>()).await?;
        let read = |spec: &punctual_core::calendar::CalendarInput| {
            spec.check("calendar").map_err(|errors| {
                let nothing = || FieldError::new("invalid_calendar", "calendar", "a valid calendar");
                errors.into_iter().next().unwrap_or_else(nothing)
            })
        };
        Ok(stored.into_iter().map(|one| (one.id, read(&one.spec).map(|calendar| (calendar, one.version)))).collect())
    }
}
