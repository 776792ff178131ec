//! I show the business calendars: what is stored, in which version, by whom, and by which zone data it is read.

use punctual_core::calendar::{CalendarInput, StoredCalendar, zone_data};
use punctual_core::destination::{Change, FieldError};
use punctual_core::id::CalendarId;
use punctual_core::ports::{Control, Ledger, Letters, Time};
use punctual_flows::FlowError;
use punctual_flows::input::strict;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Inspect, Response};

/// The `calendar` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarQuestion {
    /// Always `calendar`.
    pub action: String,
    /// Which calendar, with all its days; without it every one, each in a line.
    #[serde(default)]
    pub calendar_id: Option<CalendarId>,
}

/// Business calendars.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Calendars {
    /// The bundled zone data, by the name of its IANA release. Every function of a deployment has the same.
    pub zone_data: &'static str,
    /// One for each.
    pub found: Vec<Shown>,
}

/// One calendar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its name.
    pub calendar_id: CalendarId,
    /// Counts the writes, from 1.
    pub version: u64,
    /// The last write: when, who, why.
    pub changed: Change,
    /// Its first holiday, its last one, and how many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holidays: Option<Holidays>,
    /// What was written, if it was asked for by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calendar: Option<CalendarInput>,
}

/// How far a calendar knows its holidays: after the last one it takes every weekday for a business day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holidays {
    /// How many.
    pub count: usize,
    /// The first day.
    pub first: String,
    /// The last day.
    pub last: String,
}

impl<L: Ledger, C: Control, D: Letters, T: Time> Inspect<'_, L, C, D, T> {
    pub(crate) async fn calendar(&self, event: &RawValue) -> Result<Response, FlowError> {
        let question: CalendarQuestion = match strict(event, "") {
            Ok(question) => question,
            Err(error) => return Ok(Response::refused(error)),
        };
        let stored = match &question.calendar_id {
            Some(id) => self.control.lookup_calendars(std::slice::from_ref(id)).await?,
            None => self.control.calendars().await?,
        };
        if stored.is_empty() && question.calendar_id.is_some() {
            let right = "a calendar that operate put_calendar has registered";
            return Ok(Response::refused(FieldError::new("not_found", "calendar_id", right)));
        }
        let whole = question.calendar_id.is_some();
        let text = std::iter::once(format!("zone data {}", zone_data())).chain(stored.iter().flat_map(|one| lines(one, whole)));
        let answer = Response::answered(text.collect());
        let found = stored.into_iter().map(|one| shown(one, whole)).collect();
        Ok(Response { calendars: Some(Calendars { zone_data: zone_data(), found }), ..answer })
    }
}

fn shown(stored: StoredCalendar, whole: bool) -> Shown {
    let days = || stored.spec.holidays.iter().map(|holiday| holiday.date.as_str());
    let holidays = days().min().zip(days().max()).map(|(first, last)| Holidays {
        count: days().count(),
        first: first.to_owned(),
        last: last.to_owned(),
    });
    let StoredCalendar { id, spec, version, changed } = stored;
    Shown { calendar_id: id, version, changed, holidays, calendar: whole.then_some(spec) }
}

fn lines(stored: &StoredCalendar, whole: bool) -> Vec<String> {
    let StoredCalendar { id, spec, version, changed } = stored;
    let until = spec.holidays.iter().map(|day| day.date.as_str()).max().map_or_else(String::new, |last| format!(" until {last}"));
    let mut lines = vec![format!(
        "{id}: {}, {} holidays{until}, {} openings; version {version} of {} by {}: {}",
        spec.time_zone,
        spec.holidays.len(),
        spec.openings.len(),
        changed.at,
        changed.by,
        changed.why
    )];
    if whole {
        lines.extend(spec.holidays.iter().map(|day| format!("holiday {} {}", day.date, day.name).trim_end().to_owned()));
        lines.extend(spec.openings.iter().map(|day| {
            let hours: Vec<String> = day.hours.iter().map(|[from, to]| format!("{from}-{to}")).collect();
            format!("opening {} {} {}", day.date, hours.join(", "), day.name).trim_end().to_owned()
        }));
    }
    lines
}
