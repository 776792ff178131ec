//! I make a calendar of what is written, or say all that is wrong with it.

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::hours::{self, Interval};
use super::input::{CalendarInput, HolidayInput, OpeningInput};
use super::{Calendar, Opening, zone};
use crate::destination::FieldError;

/// The most holidays of one calendar.
pub const MOST_HOLIDAYS: usize = 2_000;
/// The most exceptional openings of one calendar.
pub const MOST_OPENINGS: usize = 366;
/// The longest name of a day, in characters.
pub const LONGEST_NAME: usize = 64;
/// A day that has so many bytes of names gets no more.
const MOST_NAME_BYTES: usize = 256;
/// The most bytes of a calendar written as JSON, so that it fits into a row.
pub const MOST_BYTES: usize = 262_144;

impl CalendarInput {
    /// Validates it. `field` is where the calendar stands in the input, like `calendar`.
    ///
    /// # Errors
    /// Everything that is wrong, each with its field.
    pub fn check(&self, field: &str) -> Result<Calendar, Vec<FieldError>> {
        let mut errors = Vec::new();
        let zone = zone::zone(&self.time_zone)
            .map_err(|right| errors.push(FieldError::new("unknown_time_zone", format!("{field}.time_zone"), right)))
            .ok();
        let mut hours: [Vec<Interval>; 7] = Default::default();
        for (slot, (day, intervals)) in hours.iter_mut().zip(self.hours.days()) {
            match hours::read(intervals) {
                Ok(read) => *slot = read,
                Err(problem) => errors.push(FieldError::new("invalid_hours", format!("{field}.hours.{day}"), problem)),
            }
        }
        let holidays = holidays(&self.holidays, field, &mut errors);
        let openings = openings(&self.openings, field, &mut errors);
        if serde_json::to_string(self).is_ok_and(|text| text.len() > MOST_BYTES) {
            errors.push(FieldError::new("out_of_bounds", field, format!("at most {MOST_BYTES} bytes as JSON")));
        }
        if errors.is_empty() && openings.is_empty() && hours.iter().all(Vec::is_empty) {
            errors.push(FieldError::new("never_open", format!("{field}.hours"), "at least one opening interval in the week"));
        }
        match zone {
            Some(zone) if errors.is_empty() => Ok(Calendar { zone, hours, holidays, openings }),
            _ => Err(errors),
        }
    }
}

fn holidays(written: &[HolidayInput], field: &str, errors: &mut Vec<FieldError>) -> BTreeMap<Date, String> {
    let mut holidays: BTreeMap<Date, String> = BTreeMap::new();
    if written.len() > MOST_HOLIDAYS {
        errors.push(FieldError::new("out_of_bounds", format!("{field}.holidays"), format!("at most {MOST_HOLIDAYS}")));
    }
    for (i, HolidayInput { date, name }) in written.iter().take(MOST_HOLIDAYS).enumerate() {
        let place = format!("{field}.holidays[{i}]");
        match (zone::day(date), name_problem(name)) {
            (Some(day), None) => also_named(holidays.entry(day).or_default(), name),
            (None, _) => errors.push(FieldError::new("invalid_date", place, DATE)),
            (_, Some(problem)) => errors.push(FieldError::new("out_of_bounds", format!("{place}.name"), problem)),
        }
    }
    holidays
}

fn openings(written: &[OpeningInput], field: &str, errors: &mut Vec<FieldError>) -> BTreeMap<Date, Opening> {
    let mut openings = BTreeMap::new();
    if written.len() > MOST_OPENINGS {
        errors.push(FieldError::new("out_of_bounds", format!("{field}.openings"), format!("at most {MOST_OPENINGS}")));
    }
    for (i, OpeningInput { date, hours, name }) in written.iter().take(MOST_OPENINGS).enumerate() {
        let place = format!("{field}.openings[{i}]");
        let hours = match hours::read(hours) {
            Ok(hours) if hours.is_empty() => Err("at least one interval; a day that is closed is a holiday".to_owned()),
            other => other,
        };
        if let Some(problem) = name_problem(name) {
            errors.push(FieldError::new("out_of_bounds", format!("{place}.name"), problem));
        }
        match (zone::day(date), hours) {
            (None, _) => errors.push(FieldError::new("invalid_date", format!("{place}.date"), DATE)),
            (_, Err(problem)) => errors.push(FieldError::new("invalid_hours", format!("{place}.hours"), problem)),
            (Some(day), Ok(hours)) => {
                if openings.insert(day, Opening { hours, name: name.clone() }).is_some() {
                    let right = format!("each day once; {day} has hours already");
                    errors.push(FieldError::new("duplicate", format!("{place}.date"), right));
                }
            }
        }
    }
    openings
}

/// What a date must look like.
pub(super) const DATE: &str = "a date of the years 2000 to 9999, like 2026-12-25";

fn name_problem(name: &str) -> Option<String> {
    let right = name.chars().count() <= LONGEST_NAME && !name.chars().any(char::is_control);
    (!right).then(|| format!("at most {LONGEST_NAME} characters, no control character"))
}

/// Gives a day one more name, unless it has it, or has names enough.
pub(super) fn also_named(names: &mut String, name: &str) {
    if names.is_empty() {
        name.clone_into(names);
    } else if !name.is_empty() && names.len() < MOST_NAME_BYTES && !names.split(" / ").any(|one| one == name) {
        *names = format!("{names} / {name}");
    }
}
