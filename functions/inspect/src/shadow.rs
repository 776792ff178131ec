//! I report on a shadow run: what the sink has of a period, against the business calendar.
//!
//! I pass only what proves something: at least a week, with a weekend and a holiday, that has ended, of which nothing
//! still waits.

use std::time::Duration;

use jiff::civil::Date;
use punctual_core::calendar::{Calendar, CalendarInput};
use punctual_core::destination::{Destination, FieldError};
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::ports::{Control, Ledger, Letters, ShadowQuery, Time, WakeQuery};
use punctual_core::shadow::{Period, Report, Verdict};
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;
use punctual_flows::input::strict;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Inspect, Response};

/// So many rows of a lane are looked at.
const MOST_WAITING: u32 = 1_000;
/// A row that waits for a retry is looked at again within a day.
const NEXT_LOOK: Duration = Duration::from_secs(86_400);
/// Reading ends when so little of the invocation is left.
const RESERVE: Duration = Duration::from_secs(5);
/// The longest period, in days.
const MOST_DAYS: i32 = 366;

/// The `shadow_report` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShadowReportInput {
    /// Always `shadow_report`.
    pub action: String,
    /// Which destination.
    pub destination_id: DestinationId,
    /// The first day of the period, in the calendar's zone.
    pub from: String,
    /// The day after its last one; at most 366 days later.
    pub until: String,
    /// What due times are compared with.
    pub calendar: Box<RawValue>,
}

fn day(text: &str, field: &'static str) -> Result<Date, FieldError> {
    text.parse().map_err(|_| FieldError::new("invalid_date", field, "a date, like 2026-11-23"))
}

fn period(input: &ShadowReportInput) -> Result<Period, FieldError> {
    let period = Period { from: day(&input.from, "from")?, until: day(&input.until, "until")? };
    match period.until.since(period.from).map(|span| span.get_days()) {
        Ok(1..=MOST_DAYS) => Ok(period),
        _ => Err(FieldError::new("out_of_bounds", "until", format!("1 to {MOST_DAYS} days after from"))),
    }
}

/// Reads and checks an event.
///
/// # Errors
/// Every [`FieldError`] that can be told from the input alone.
pub fn read(event: &RawValue) -> Result<(ShadowReportInput, Period, Calendar), Vec<FieldError>> {
    let one = |error| vec![error];
    let input: ShadowReportInput = strict(event, "").map_err(one)?;
    let period = period(&input).map_err(one)?;
    let calendar = strict::<CalendarInput>(&input.calendar, "calendar").map_err(one)?.check("calendar")?;
    Ok((input, period, calendar))
}

impl<L: Ledger, C: Control, D: Letters, T: Time> Inspect<'_, L, C, D, T> {
    pub(crate) async fn shadow_report(&self, event: &RawValue) -> Result<Response, FlowError> {
        let (input, period, calendar) = match read(event) {
            Ok(read) => read,
            Err(errors) => return Ok(Response::wrong(errors)),
        };
        let (Some(from), Some(until)) = (calendar.start_of(period.from), calendar.start_of(period.until)) else {
            return Ok(Response::refused(FieldError::new("out_of_bounds", "from", "a day of the years 2000 to 9999")));
        };
        let (destinations, _) = self.control.lookup(std::slice::from_ref(&input.destination_id)).await?;
        let Some(destination) = destinations.first() else {
            return Ok(Response::refused(FieldError::new("unknown_destination", "destination_id", "a registered destination")));
        };
        let verdict = match self.judge(destination, &calendar, period, (from, until)).await? {
            Ok(verdict) => verdict,
            Err(reached) => {
                let message = format!("a shorter period: this one could be read only up to {reached}");
                return Ok(Response::refused(FieldError::new("too_much", "until", message)));
            }
        };
        let lines = text(&input, &verdict);
        Ok(Response { report: Some(verdict), ..Response::answered(lines) })
    }

    async fn judge(
        &self,
        destination: &Destination,
        calendar: &Calendar,
        period: Period,
        (from, until): (Timestamp, Timestamp),
    ) -> Result<Result<Verdict, Timestamp>, FlowError> {
        let mut report = Report::new(calendar, period);
        let mut query = ShadowQuery { destination: destination.spec.id.clone(), from, until, start: None };
        loop {
            if self.time.time_left() < RESERVE {
                return Ok(Err(query.start.map_or(from, |place| place.deliver_after)));
            }
            let page = self.control.shadow_entries(&query).await?;
            page.entries.iter().for_each(|entry| report.add(entry));
            query.start = page.next;
            if query.start.is_none() {
                break;
            }
        }
        let now = self.time.now()?.lo;
        let ended = self.ledger.count_ended(&destination.spec.id, from).await?;
        let waiting = self.waiting(destination, (from, until), now).await?;
        Ok(Ok(report.verdict(waiting, ended, now)))
    }

    /// Rows that fell due in the period and wait all the same: the index tells which may, the rows themselves which do.
    async fn waiting(
        &self,
        destination: &Destination,
        (from, until): (Timestamp, Timestamp),
        now: Timestamp,
    ) -> Result<usize, FlowError> {
        let mut waiting = 0;
        for lane in destination.lanes() {
            let head = WakeQuery { lane, until: now.plus(NEXT_LOOK), deadline_by: None, start: None, limit: MOST_WAITING };
            let ids: Vec<DeliveryId> = self.ledger.wake(&head).await?.candidates.into_iter().map(|one| one.id).collect();
            let rows = self.ledger.read(&ids).await?;
            waiting += rows.iter().filter(|row| (from..until).contains(&row.deliver_after) && !row.state.is_terminal()).count();
        }
        Ok(waiting)
    }
}

fn text(input: &ShadowReportInput, verdict: &Verdict) -> Vec<String> {
    let ShadowReportInput { destination_id, from, until, .. } = input;
    let mut lines = vec![format!("Shadow run of {destination_id} from {from} to {until}: {} deliveries.", verdict.deliveries)];
    if verdict.pass {
        lines.push(format!("Pass: every due time follows the calendar, over {}.", verdict.holidays.join(", ")));
    } else {
        let objections: Vec<String> = verdict.objections.iter().map(|objection| objection.text().to_owned()).collect();
        lines.push(format!("No pass: {}.", objections.join("; ")));
    }
    lines.extend(verdict.outside_hours_first.iter().map(|one| format!("outside the hours: {one}")));
    lines.extend(verdict.outside_window_first.iter().map(|one| format!("outside its window: {one}")));
    lines
}
