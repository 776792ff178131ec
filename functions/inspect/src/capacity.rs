//! I say whether what falls due soon can be called in time: each destination's lanes, read as far as the question and the
//! invocation reach, and the core's forecast of them.

use std::time::Duration;

use punctual_core::admission::Candidate;
use punctual_core::capacity::{Assumed, Forecast, forecast};
use punctual_core::delivery::Lane;
use punctual_core::destination::{Destination, FieldError};
use punctual_core::id::DestinationId;
use punctual_core::limiter::REDRIVE_PERCENT;
use punctual_core::ports::{Control, Cursor, Ledger, Letters, PortError, Time, WakeQuery};
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;
use punctual_flows::input::strict;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::capacity_text::{head, text};
use crate::{Inspect, Response};

/// The most destinations in one answer.
pub const MOST_DESTINATIONS: usize = 20;
/// The most entries of the wake index that one answer is made from.
pub const MOST_ENTRIES: usize = 200_000;
/// The most entries of one page.
const PAGE: usize = 1_000;
/// Reading stops when this little of the invocation is left: the forecast wants its time too.
const TIME_RESERVE: Duration = Duration::from_secs(4);
/// What one deliver invocation takes at a time.
pub const BATCH: u64 = 10;

/// The `capacity` action.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityInput {
    /// Always `capacity`.
    pub action: String,
    /// Which destination; none: all, the first 20 by their names.
    #[serde(default)]
    pub destination_id: Option<DestinationId>,
    /// How far to look ahead; 1 to 24.
    #[serde(default = "hours")]
    pub hours: u32,
    /// The length of a window; 5 to 240.
    #[serde(default = "window_minutes")]
    pub window_minutes: u32,
    /// How long a call takes, in milliseconds; 1 to 20,000. None: the destination's total timeout.
    #[serde(default)]
    pub latency_ms: Option<u64>,
    /// Calls for each hundred deliveries, retries included; 100 to 2,000. None: 100, every first call succeeds.
    #[serde(default)]
    pub amplification_percent: Option<u32>,
}

fn hours() -> u32 {
    24
}

fn window_minutes() -> u32 {
    15
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CapacityReport {
    /// The present.
    pub from: Timestamp,
    /// What falls due later is not looked at.
    pub until: Timestamp,
    /// How many entries of the wake index it is made from.
    pub entries_read: usize,
    /// Whether everything that was asked for is in it.
    pub complete: bool,
    /// One for each destination.
    pub destinations: Vec<DestinationCapacity>,
    /// Those that one answer has no room for: ask for them by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<DestinationId>,
}

/// One destination's load against its rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DestinationCapacity {
    /// Which one.
    pub destination_id: DestinationId,
    /// Nothing leaves the ledger while it is.
    pub paused: bool,
    /// Its rate, in calls a second.
    pub rate_per_second: u32,
    /// What redrives may take of it, in percent.
    pub redrive_reserve_percent: u32,
    /// What is left, in calls a minute.
    pub sustainable_per_minute: u64,
    /// The most that may be out at a time.
    pub max_in_flight: u32,
    /// Calls for each hundred deliveries.
    pub amplification_percent: u32,
    /// `stated` in the question, or `assumed`: no retries.
    pub amplification_from: &'static str,
    /// How long a call is taken to last, in milliseconds.
    pub latency_ms: u64,
    /// `stated` in the question, or `total_timeout`.
    pub latency_from: &'static str,
    /// Calls under way at a time at the full rate: rate × latency, rounded up.
    pub calls_at_once: u64,
    /// Deliver invocations at a time if each has one record.
    pub consumers_at_batch_1: u64,
    /// Deliver invocations at a time if each has ten.
    pub consumers_at_batch_10: u64,
    /// Up to this instant everything that is due was read; windows end here.
    pub read_until: Timestamp,
    /// Whether that is all that was asked for.
    pub complete: bool,
    /// What becomes of it.
    #[serde(flatten)]
    pub forecast: Forecast,
}

/// Reads and checks an event.
///
/// # Errors
/// Every [`FieldError`] that can be told from the input alone.
pub fn read(event: &RawValue) -> Result<CapacityInput, Vec<FieldError>> {
    let input: CapacityInput = strict(event, "").map_err(|error| vec![error])?;
    let mut problems = Vec::new();
    let mut bounds = |field: &str, value: u64, min: u64, max: u64| {
        if !(min..=max).contains(&value) {
            problems.push(FieldError::new("out_of_bounds", field, format!("{min} to {max}; got {value}")));
        }
    };
    bounds("hours", input.hours.into(), 1, 24);
    bounds("window_minutes", input.window_minutes.into(), 5, 240);
    bounds("latency_ms", input.latency_ms.unwrap_or(1), 1, 20_000);
    bounds("amplification_percent", input.amplification_percent.unwrap_or(100).into(), 100, 2_000);
    if problems.is_empty() { Ok(input) } else { Err(problems) }
}

/// What was read of a destination's lanes.
struct Reading {
    candidates: Vec<Candidate>,
    entries: usize,
    /// Everything up to this instant is in it.
    until: Timestamp,
    complete: bool,
}

impl<L: Ledger, C: Control, D: Letters, T: Time> Inspect<'_, L, C, D, T> {
    pub(crate) async fn capacity(&self, event: &RawValue) -> Result<Response, FlowError> {
        let input = match read(event) {
            Ok(input) => input,
            Err(errors) => return Ok(Response::wrong(errors)),
        };
        let mut destinations = match &input.destination_id {
            Some(id) => self.control.lookup(std::slice::from_ref(id)).await?.0,
            None => self.control.destinations().await?,
        };
        if destinations.is_empty() && input.destination_id.is_some() {
            return Ok(Response::refused(FieldError::new("unknown_destination", "destination_id", "a registered destination")));
        }
        destinations.sort_by(|a, b| a.spec.id.cmp(&b.spec.id));
        let beyond = destinations.split_off(destinations.len().min(MOST_DESTINATIONS));
        let left_out: Vec<DestinationId> = beyond.into_iter().map(|destination| destination.spec.id).collect();

        let from = self.time.now()?.lo;
        let until = from.plus(Duration::from_secs(u64::from(input.hours) * 3_600));
        let mut report =
            CapacityReport { from, until, entries_read: 0, complete: left_out.is_empty(), destinations: Vec::new(), left_out };
        for (i, destination) in destinations.iter().enumerate() {
            // What one does not need is the next ones'.
            let share = MOST_ENTRIES.saturating_sub(report.entries_read) / destinations.len().saturating_sub(i).max(1);
            let reading = self.lanes(destination, (from, until), share).await?;
            report.entries_read += reading.entries;
            report.complete &= reading.complete;
            report.destinations.push(self.judge_load(destination, &input, &reading, from));
        }
        let mut lines = vec![head(&report)];
        report.destinations.iter().for_each(|destination| lines.extend(text(destination)));
        Ok(Response { capacity: Some(report), ..Response::answered(lines) })
    }

    /// Reads a destination's lanes evenly: the one that is furthest behind goes on, so that what is read ends at one instant.
    async fn lanes(
        &self,
        destination: &Destination,
        (from, until): (Timestamp, Timestamp),
        most: usize,
    ) -> Result<Reading, PortError> {
        let mut open: Vec<(Lane, Option<Cursor>)> = destination.lanes().map(|lane| (lane, None)).collect();
        let mut reading = Reading { candidates: Vec::new(), entries: 0, until, complete: true };
        let place = |cursor: &Option<Cursor>| cursor.as_ref().map(|cursor| cursor.wake_at);
        loop {
            let behind = open.iter().enumerate().min_by_key(|(_, (_, cursor))| place(cursor)).map(|(i, _)| i);
            let Some(i) = behind else { return Ok(reading) };
            if reading.entries >= most || self.time.time_left() <= TIME_RESERVE {
                // All of an instant's entries, or none: its others may be behind the place.
                reading.until = open.iter().filter_map(|(_, cursor)| place(cursor)).min().unwrap_or(from).max(from).min(until);
                if open.iter().any(|(_, cursor)| cursor.is_none()) {
                    reading.until = from;
                }
                reading.complete = false;
                reading.candidates.retain(|candidate| candidate.wake_at < reading.until);
                return Ok(reading);
            }
            let (lane, start) = open.swap_remove(i);
            let limit = PAGE.min(most - reading.entries).max(1);
            let query = WakeQuery {
                lane: lane.clone(),
                until,
                deadline_by: None,
                start,
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
            };
            let page = self.ledger.wake(&query).await?;
            // An unreadable entry is left out of a page that has more; the page counts by what was asked for.
            reading.entries += if page.next.is_some() { limit } else { page.candidates.len() };
            reading.candidates.extend(page.candidates);
            if page.next.is_some() {
                open.push((lane, page.next));
            }
        }
    }

    fn judge_load(
        &self,
        destination: &Destination,
        input: &CapacityInput,
        reading: &Reading,
        from: Timestamp,
    ) -> DestinationCapacity {
        let spec = &destination.spec;
        let latency_ms = input.latency_ms.unwrap_or(spec.total_timeout_ms);
        let assumed = Assumed {
            rate_per_second: spec.rate_per_second,
            amplification_percent: input.amplification_percent.unwrap_or(100),
            margin: destination.margin(self.margin),
            from,
            until: reading.until,
            window: Duration::from_secs(u64::from(input.window_minutes) * 60),
        };
        let calls_at_once = u64::from(spec.rate_per_second).saturating_mul(latency_ms).div_ceil(1_000);
        DestinationCapacity {
            destination_id: spec.id.clone(),
            paused: destination.paused.is_some(),
            rate_per_second: spec.rate_per_second,
            redrive_reserve_percent: REDRIVE_PERCENT,
            sustainable_per_minute: u64::from(spec.rate_per_second) * 60 * u64::from(100 - REDRIVE_PERCENT) / 100,
            max_in_flight: spec.max_in_flight,
            amplification_percent: assumed.amplification_percent,
            amplification_from: if input.amplification_percent.is_some() { "stated" } else { "assumed" },
            latency_ms,
            latency_from: if input.latency_ms.is_some() { "stated" } else { "total_timeout" },
            calls_at_once,
            consumers_at_batch_1: calls_at_once,
            consumers_at_batch_10: calls_at_once.div_ceil(BATCH),
            read_until: reading.until,
            complete: reading.complete,
            forecast: forecast(&reading.candidates, &assumed),
        }
    }
}
