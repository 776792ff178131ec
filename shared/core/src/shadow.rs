//! I am what the shadow sink keeps, and the report that decides on promotion.
//!
//! A destination in shadow mode runs the whole path but the call. What would have been sent is posted to the sink: ids,
//! times, the hash and size of the body and the ids of the secrets, never the body itself, and never a signature.

use std::fmt;

use jiff::civil::{Date, Weekday};
use serde::Serialize;

use crate::calendar::Calendar;
use crate::id::{Content, DeliveryId, DestinationId};
use crate::time::Timestamp;

/// The fewest days that a pass can rest on.
const FEWEST_DAYS: i32 = 7;
/// A report names at most so many deliveries that break a rule; it counts them all.
const MOST_NAMED: usize = 20;

/// One request that was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowEntry {
    /// Whom it would have gone to.
    pub destination: DestinationId,
    /// Whose request.
    pub delivery_id: DeliveryId,
    /// Not before this instant.
    pub deliver_after: Timestamp,
    /// The business deadline.
    pub deliver_by: Timestamp,
    /// When it was posted, by the database's time, rounded down to what was certain.
    pub posted_at: Timestamp,
    /// The attempt's number.
    pub attempt: u32,
    /// The version of the destination row that was used.
    pub destination_version: u64,
    /// The hash of what was asked for.
    pub content: Content,
    /// The size of the body.
    pub body_bytes: u64,
    /// The ids of the secrets that would have signed it, comma separated.
    pub key_ids: String,
}

/// A place in a destination's entries, which are in the order of `deliver_after`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShadowPlace {
    /// The entry's due time.
    pub deliver_after: Timestamp,
    /// The entry's delivery.
    pub delivery_id: DeliveryId,
}

impl fmt::Display for ShadowPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.deliver_after, self.delivery_id)
    }
}

impl ShadowEntry {
    /// Where it stands among its destination's entries.
    #[must_use]
    pub fn place(&self) -> ShadowPlace {
        ShadowPlace { deliver_after: self.deliver_after, delivery_id: self.delivery_id.clone() }
    }
}

/// Why a shadow run is no proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Objection {
    /// The period is shorter than a week.
    PeriodTooShort,
    /// The period has not ended yet.
    PeriodNotOver,
    /// No whole weekend lies in the period.
    NoWeekend,
    /// No holiday of the calendar lies in the period.
    NoHoliday,
    /// The sink has nothing of the period.
    NoDeliveries,
    /// Work of the period still waits in the ledger.
    StillWaiting,
    /// Work with a deadline in or after the period is dead or expired: it fell due, or will, and never reached the sink.
    EndedUnshadowed,
    /// Something fell due when the calendar is closed.
    OutsideHours,
    /// Something was posted before it was due, or after its deadline.
    OutsideWindow,
}

impl Objection {
    /// What is missing, for a person.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Objection::PeriodTooShort => "the period is shorter than a week",
            Objection::PeriodNotOver => "the period has not ended yet",
            Objection::NoWeekend => "no whole weekend lies in it",
            Objection::NoHoliday => "no holiday of the calendar lies in it",
            Objection::NoDeliveries => "the sink has nothing of it",
            Objection::StillWaiting => "some of its work still waits in the ledger",
            Objection::EndedUnshadowed => "some of its work is dead or expired and never reached the sink",
            Objection::OutsideHours => "something fell due when the calendar is closed",
            Objection::OutsideWindow => "something was posted too early or too late",
        }
    }
}

/// A period of whole days, in the calendar's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The first day.
    pub from: Date,
    /// The day after the last one.
    pub until: Date,
}

/// The report, while it is being made.
#[derive(Debug)]
pub struct Report<'a> {
    calendar: &'a Calendar,
    period: Period,
    entries: usize,
    outside_hours: Vec<String>,
    outside_hours_count: usize,
    outside_window: Vec<String>,
    outside_window_count: usize,
    days: Vec<(Date, usize)>,
}

/// What the report says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the run proves that due times follow the calendar.
    pub pass: bool,
    /// Why not; empty with a pass.
    pub objections: Vec<Objection>,
    /// How many deliveries the sink has of the period.
    pub deliveries: usize,
    /// Rows of the period that still wait in the ledger, among those that something happens to within a day.
    pub waiting: usize,
    /// Dead and expired rows of the destination with a deadline in the period or after it.
    pub ended: u64,
    /// The days of the period on which the calendar is closed by a holiday, with their names.
    pub holidays: Vec<String>,
    /// How many fell due on each day that had any.
    pub by_day: Vec<String>,
    /// How many fell due when the calendar is closed.
    pub outside_hours: usize,
    /// The first of them: id and local time.
    pub outside_hours_first: Vec<String>,
    /// How many were posted too early or too late.
    pub outside_window: usize,
    /// The first of them: id and times.
    pub outside_window_first: Vec<String>,
}

impl<'a> Report<'a> {
    /// A report on a period.
    #[must_use]
    pub fn new(calendar: &'a Calendar, period: Period) -> Self {
        Self {
            calendar,
            period,
            entries: 0,
            outside_hours: Vec::new(),
            outside_hours_count: 0,
            outside_window: Vec::new(),
            outside_window_count: 0,
            days: Vec::new(),
        }
    }

    /// Takes the next entry, in the order of due times.
    pub fn add(&mut self, entry: &ShadowEntry) {
        self.entries += 1;
        let local = self.calendar.local(entry.deliver_after);
        match self.days.last_mut() {
            Some((day, count)) if *day == local.date() => *count += 1,
            _ => self.days.push((local.date(), 1)),
        }
        if !self.calendar.is_open(entry.deliver_after) {
            self.outside_hours_count += 1;
            if self.outside_hours.len() < MOST_NAMED {
                self.outside_hours.push(format!("{} due {local}", entry.delivery_id));
            }
        }
        if entry.posted_at < entry.deliver_after || entry.posted_at > entry.deliver_by {
            self.outside_window_count += 1;
            if self.outside_window.len() < MOST_NAMED {
                let ShadowEntry { delivery_id, deliver_after, deliver_by, posted_at, .. } = entry;
                self.outside_window.push(format!("{delivery_id} posted {posted_at}, not in {deliver_after} to {deliver_by}"));
            }
        }
    }

    /// Judges. `waiting` is how many rows of the period still wait in the ledger, `ended` how many are dead or expired.
    #[must_use]
    pub fn verdict(self, waiting: usize, ended: u64, now: Timestamp) -> Verdict {
        let Period { from, until } = self.period;
        let holidays: Vec<String> =
            self.calendar.holidays(from, until).map(|(day, name)| format!("{day} {name}").trim_end().to_owned()).collect();
        let saturdays = || {
            from.series(jiff::Span::new().days(1)).take_while(|day| *day < until).filter(|day| day.weekday() == Weekday::Saturday)
        };
        let sunday_too = |saturday: Date| saturday.tomorrow().is_ok_and(|sunday| sunday < until);
        let over = self.calendar.start_of(until).is_some_and(|end| end <= now);
        let objections = [
            (until.since(from).map_or(0, |span| span.get_days()) < FEWEST_DAYS, Objection::PeriodTooShort),
            (!over, Objection::PeriodNotOver),
            (!saturdays().any(sunday_too), Objection::NoWeekend),
            (holidays.is_empty(), Objection::NoHoliday),
            (self.entries == 0, Objection::NoDeliveries),
            (waiting > 0, Objection::StillWaiting),
            (ended > 0, Objection::EndedUnshadowed),
            (self.outside_hours_count > 0, Objection::OutsideHours),
            (self.outside_window_count > 0, Objection::OutsideWindow),
        ];
        let objections: Vec<Objection> = objections.into_iter().filter_map(|(is, objection)| is.then_some(objection)).collect();
        Verdict {
            pass: objections.is_empty(),
            objections,
            deliveries: self.entries,
            waiting,
            ended,
            holidays,
            by_day: self.days.into_iter().map(|(day, count)| format!("{day} {count}")).collect(),
            outside_hours: self.outside_hours_count,
            outside_hours_first: self.outside_hours,
            outside_window: self.outside_window_count,
            outside_window_first: self.outside_window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::CalendarInput;

    fn calendar() -> Calendar {
        let hours = r#"[["09:00","17:00"]]"#;
        let json = format!(
            r#"{{"time_zone":"Europe/London","hours":{{"mon":{hours},"tue":{hours},"wed":{hours},"thu":{hours},"fri":{hours}}},
                "holidays":[{{"date":"2026-05-25","name":"Spring bank holiday"}}]}}"#
        );
        serde_json::from_str::<CalendarInput>(&json).expect("a calendar").check("calendar").expect("valid")
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    fn entry(due: &str) -> ShadowEntry {
        let due = at(due);
        ShadowEntry {
            destination: DestinationId::new("acme").expect("a destination"),
            delivery_id: DeliveryId::new("dlv_x").expect("an id"),
            deliver_after: due,
            deliver_by: due.plus(std::time::Duration::from_secs(60)),
            posted_at: due,
            attempt: 1,
            destination_version: 1,
            content: Content::new("00ff").expect("a hash"),
            body_bytes: 2,
            key_ids: "a".into(),
        }
    }

    /// `left`: so many wait, and for each hundred one has ended.
    fn verdict(from: &str, until: &str, entries: &[ShadowEntry], left: usize, now: &str) -> Verdict {
        let calendar = calendar();
        let period = Period { from: from.parse().expect("a day"), until: until.parse().expect("a day") };
        let mut report = Report::new(&calendar, period);
        entries.iter().for_each(|entry| report.add(entry));
        report.verdict(left % 100, u64::try_from(left / 100).expect("few"), at(now))
    }

    #[test]
    fn a_week_with_a_weekend_and_a_holiday_passes() {
        let entries = [entry("2026-05-22T08:00:00.000Z"), entry("2026-05-22T09:00:00.000Z"), entry("2026-05-26T08:00:00.000Z")];
        let verdict = verdict("2026-05-21", "2026-05-28", &entries, 0, "2026-05-27T23:00:00.000Z");
        assert_eq!((verdict.pass, verdict.objections), (true, vec![]));
        assert_eq!(verdict.by_day, ["2026-05-22 2", "2026-05-26 1"]);
        assert_eq!(verdict.holidays, ["2026-05-25 Spring bank holiday"]);
    }

    #[test]
    fn what_proves_too_little_does_not_pass() {
        let good = entry("2026-05-22T09:00:00.000Z");
        let late = ShadowEntry { posted_at: at("2026-05-22T09:01:00.001Z"), ..good.clone() };
        let early = ShadowEntry { posted_at: at("2026-05-22T08:59:59.999Z"), ..good.clone() };
        type Case = (&'static str, &'static str, Vec<ShadowEntry>, usize, &'static str, Vec<Objection>);
        let cases: [Case; 10] = [
            ("2026-05-22", "2026-05-28", vec![good.clone()], 0, "2026-06-30", vec![Objection::PeriodTooShort]),
            ("2026-05-21", "2026-05-28", vec![good.clone()], 0, "2026-05-27", vec![Objection::PeriodNotOver]),
            (
                "2026-05-24",
                "2026-05-30",
                vec![],
                0,
                "2026-06-30",
                vec![Objection::PeriodTooShort, Objection::NoWeekend, Objection::NoDeliveries],
            ),
            ("2026-06-01", "2026-06-08", vec![entry("2026-06-01T09:00:00.000Z")], 0, "2026-06-30", vec![Objection::NoHoliday]),
            ("2026-05-21", "2026-05-28", vec![good.clone()], 3, "2026-06-30", vec![Objection::StillWaiting]),
            ("2026-05-21", "2026-05-28", vec![good.clone()], 200, "2026-06-30", vec![Objection::EndedUnshadowed]),
            // On the holiday, on a Sunday, an hour too early: summer time.
            ("2026-05-21", "2026-05-28", vec![entry("2026-05-25T10:00:00.000Z")], 0, "2026-06-30", vec![Objection::OutsideHours]),
            ("2026-05-21", "2026-05-28", vec![entry("2026-05-22T07:30:00.000Z")], 0, "2026-06-30", vec![Objection::OutsideHours]),
            ("2026-05-21", "2026-05-28", vec![late], 0, "2026-06-30", vec![Objection::OutsideWindow]),
            ("2026-05-21", "2026-05-28", vec![early], 0, "2026-06-30", vec![Objection::OutsideWindow]),
        ];
        for (from, until, entries, waiting, now, expected) in cases {
            let verdict = verdict(from, until, &entries, waiting, &format!("{now}T12:00:00.000Z"));
            assert_eq!((verdict.pass, &verdict.objections), (false, &expected), "{from} {until} {entries:?}");
        }
    }
}
