//! I am a business calendar: a time zone, opening hours for each weekday, holidays. I say whether an instant lies in them.
//!
//! Hours are half open: at the opening instant it is open, at the closing one it is not. The zone's rules are bundled.

use std::collections::BTreeMap;
use std::fmt;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::destination::FieldError;
use crate::time::Timestamp;

/// The most holidays of one calendar.
const MOST_HOLIDAYS: usize = 2_000;
/// The most intervals of one weekday.
const MOST_INTERVALS: usize = 8;

/// A holiday as it is written: `"2026-12-25"`, or `{"date": "2026-12-25", "name": "Christmas Day"}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HolidayInput {
    /// The day.
    pub date: String,
    /// What it is called; at most 64 characters.
    #[serde(default)]
    pub name: String,
}

/// Reads a date alone as a holiday without a name.
fn holidays<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HolidayInput>, D::Error> {
    struct Either(HolidayInput);
    impl<'de> Deserialize<'de> for Either {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visit;
            impl<'de> Visitor<'de> for Visit {
                type Value = Either;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a date, or an object with date and name")
                }
                fn visit_str<E: de::Error>(self, date: &str) -> Result<Either, E> {
                    Ok(Either(HolidayInput { date: date.to_owned(), name: String::new() }))
                }
                fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Either, A::Error> {
                    HolidayInput::deserialize(MapAccessDeserializer::new(map)).map(Either)
                }
            }
            deserializer.deserialize_any(Visit)
        }
    }
    Ok(Vec::<Either>::deserialize(deserializer)?.into_iter().map(|Either(holiday)| holiday).collect())
}

/// The intervals of one day: `["09:00", "17:00"]` each, in order and apart; at most 8. `24:00` closes with the day.
pub type Intervals = Vec<[String; 2]>;

/// Opening hours as they are written. A day left out is closed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the days of the week")]
pub struct HoursInput {
    pub mon: Intervals,
    pub tue: Intervals,
    pub wed: Intervals,
    pub thu: Intervals,
    pub fri: Intervals,
    pub sat: Intervals,
    pub sun: Intervals,
}

/// A calendar as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarInput {
    /// An IANA zone, like `Europe/London`.
    pub time_zone: String,
    /// When it is open.
    pub hours: HoursInput,
    /// Days on which it is closed whatever the hours say; at most 2,000.
    #[serde(default, deserialize_with = "holidays")]
    pub holidays: Vec<HolidayInput>,
}

/// A validated calendar.
#[derive(Debug, Clone, PartialEq)]
pub struct Calendar {
    zone: TimeZone,
    /// Opening intervals from Monday to Sunday, in order.
    hours: [Vec<(Time, Close)>; 7],
    holidays: BTreeMap<Date, String>,
}

/// When an interval closes: at a time of the day, or with the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Close {
    At(Time),
    EndOfDay,
}

impl HoursInput {
    fn days(&self) -> [(&'static str, &Intervals); 7] {
        let Self { mon, tue, wed, thu, fri, sat, sun } = self;
        [("mon", mon), ("tue", tue), ("wed", wed), ("thu", thu), ("fri", fri), ("sat", sat), ("sun", sun)]
    }
}

impl CalendarInput {
    /// Validates it. `field` is where the calendar stands in the input, like `calendar`.
    ///
    /// # Errors
    /// Everything that is wrong, each with its field.
    pub fn check(&self, field: &str) -> Result<Calendar, Vec<FieldError>> {
        let mut errors = Vec::new();
        let zone = TimeZone::get(&self.time_zone).ok();
        if zone.is_none() {
            errors.push(FieldError::new("unknown_time_zone", format!("{field}.time_zone"), "an IANA zone, like Europe/London"));
        }
        let mut hours: [Vec<(Time, Close)>; 7] = Default::default();
        for (slot, (day, intervals)) in hours.iter_mut().zip(self.hours.days()) {
            match read_intervals(intervals) {
                Ok(read) => *slot = read,
                Err(problem) => errors.push(FieldError::new("invalid_hours", format!("{field}.hours.{day}"), problem)),
            }
        }
        let mut holidays = BTreeMap::new();
        if self.holidays.len() > MOST_HOLIDAYS {
            errors.push(FieldError::new("out_of_bounds", format!("{field}.holidays"), format!("at most {MOST_HOLIDAYS}")));
        }
        for (i, holiday) in self.holidays.iter().take(MOST_HOLIDAYS).enumerate() {
            let HolidayInput { date, name } = holiday;
            match date.parse::<Date>() {
                Ok(day) if name.chars().count() <= 64 => _ = holidays.insert(day, name.clone()),
                Ok(_) => {
                    errors.push(FieldError::new("out_of_bounds", format!("{field}.holidays[{i}].name"), "at most 64 characters"));
                }
                Err(_) => {
                    errors.push(FieldError::new("invalid_date", format!("{field}.holidays[{i}]"), "a date, like 2026-12-25"))
                }
            }
        }
        match zone {
            Some(zone) if errors.is_empty() => Ok(Calendar { zone, hours, holidays }),
            _ => Err(errors),
        }
    }
}

fn read_intervals(intervals: &[[String; 2]]) -> Result<Vec<(Time, Close)>, String> {
    if intervals.len() > MOST_INTERVALS {
        return Err(format!("at most {MOST_INTERVALS} intervals"));
    }
    let mut read: Vec<(Time, Close)> = Vec::new();
    for [open, close] in intervals {
        let opens = minute(open).ok_or_else(|| format!("an opening time HH:MM; got {open:?}"))?;
        let closes = match close.as_str() {
            "24:00" => Close::EndOfDay,
            text => Close::At(minute(text).ok_or_else(|| format!("a closing time HH:MM or 24:00; got {close:?}"))?),
        };
        if closes <= Close::At(opens) {
            return Err(format!("a closing time after the opening time; got {open} to {close}"));
        }
        if read.last().is_some_and(|(_, before)| *before > Close::At(opens)) {
            return Err(format!("intervals in order and apart; {open} is not after the one before it"));
        }
        read.push((opens, closes));
    }
    Ok(read)
}

/// `HH:MM`, nothing else.
fn minute(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let two =
        |digits: &str| digits.parse::<i8>().ok().filter(|_| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit()));
    Time::new(two(hour)?, two(minute)?, 0, 0).ok()
}

impl Calendar {
    /// The local date and time of an instant.
    #[must_use]
    pub fn local(&self, at: Timestamp) -> DateTime {
        self.zone.to_datetime(instant(at))
    }

    /// Whether an instant is a business instant.
    #[must_use]
    pub fn is_open(&self, at: Timestamp) -> bool {
        let local = self.local(at);
        let open_on = |intervals: &Vec<(Time, Close)>| {
            intervals.iter().any(|(opens, closes)| *opens <= local.time() && Close::At(local.time()) < *closes)
        };
        !self.holidays.contains_key(&local.date()) && self.hours_of(local.date().weekday()).is_some_and(open_on)
    }

    /// The holidays from a day up to, but not including, another, with their names.
    pub fn holidays(&self, from: Date, until: Date) -> impl Iterator<Item = (Date, &str)> {
        self.holidays.iter().filter(move |(day, _)| (from..until).contains(*day)).map(|(day, name)| (*day, name.as_str()))
    }

    /// The first instant of a day (where midnight is skipped, the end of the gap); none outside the years 2000 to 9999.
    #[must_use]
    pub fn start_of(&self, day: Date) -> Option<Timestamp> {
        let start = self.zone.to_ambiguous_timestamp(day.to_datetime(Time::midnight())).compatible().ok()?;
        Some(Timestamp::from_millis(start.as_millisecond()))
    }

    fn hours_of(&self, day: Weekday) -> Option<&Vec<(Time, Close)>> {
        self.hours.get(usize::try_from(day.to_monday_zero_offset()).ok()?)
    }
}

fn instant(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or(jiff::Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(json: &str) -> CalendarInput {
        serde_json::from_str(json).expect("a calendar")
    }

    fn london() -> Calendar {
        input(
            r#"{"time_zone":"Europe/London","hours":{"mon":[["09:00","12:30"],["13:30","17:00"]],"sat":[["22:00","24:00"]]},
                "holidays":["2026-05-25",{"date":"2026-12-28","name":"Boxing Day (substitute)"}]}"#,
        )
        .check("calendar")
        .expect("valid")
    }

    #[test]
    fn is_open_within_its_hours() {
        for (at, open) in [
            // A Monday in winter, at UTC.
            ("2026-11-30T08:59:59.999Z", false),
            ("2026-11-30T09:00:00.000Z", true),
            ("2026-11-30T12:29:59.999Z", true),
            ("2026-11-30T12:30:00.000Z", false),
            ("2026-11-30T13:30:00.000Z", true),
            ("2026-11-30T17:00:00.000Z", false),
            ("2026-12-01T10:00:00.000Z", false),
            // A Monday in summer, an hour ahead of UTC.
            ("2026-06-01T08:00:00.000Z", true),
            ("2026-06-01T16:00:00.000Z", false),
            // Holidays.
            ("2026-05-25T10:00:00.000Z", false),
            ("2026-12-28T10:00:00.000Z", false),
            // Open until the day's end.
            ("2026-12-05T23:59:59.999Z", true),
            ("2026-12-06T00:00:00.000Z", false),
        ] {
            assert_eq!(london().is_open(at.parse().expect("an instant")), open, "{at}");
        }
    }

    #[test]
    fn days_begin_in_its_zone() {
        let day: Date = "2026-06-01".parse().expect("a day");
        assert_eq!(london().start_of(day).map(|at| at.to_string()), Some("2026-05-31T23:00:00.000Z".into()));
        let (from, until) = ("2026-05-25".parse().expect("a day"), "2026-12-28".parse().expect("a day"));
        assert_eq!(london().holidays(from, until).map(|(day, _)| day).collect::<Vec<_>>(), [from]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = input(
            r#"{"time_zone":"Europe/Londinium","hours":{"mon":[["9:00","17:00"]],"tue":[["09:00","09:00"]],
                "wed":[["09:00","12:00"],["11:00","13:00"]],"thu":[["09:00","25:00"]],"fri":[["09:00","24:00"]]},
                "holidays":["2026-02-30"]}"#,
        );
        let fields: Vec<String> = wrong.check("calendar").expect_err("wrong").into_iter().map(|e| e.field).collect();
        let expected = ["time_zone", "hours.mon", "hours.tue", "hours.wed", "hours.thu", "holidays[0]"];
        assert_eq!(fields, expected.map(|field| format!("calendar.{field}")));
    }
}
