//! I am one step of working out when a notice is due, as a line that a person can check.

use std::fmt;

use jiff::civil::{Date, DateTime};

use super::notice::{Counted, Notice};
use super::{Calendar, Clock, Day, Interval, Placed, UtcOffset};
use crate::time::Timestamp;

/// At most so many days, or runs of days, are told one by one; the rest is counted.
pub const MOST_DAYS_NAMED: usize = 40;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It begins with the renewal date.
    RenewalDate(Date),
    /// A holiday that does not count as a business day.
    NotCounted {
        /// The day.
        day: Date,
        /// What it is called; may be empty.
        name: String,
    },
    /// More holidays do not count than are told one by one.
    NotCountedMore {
        /// How many.
        holidays: usize,
    },
    /// The notice is taken off.
    Minus {
        /// The notice.
        notice: Notice,
        /// The date that is left.
        counted: Counted,
    },
    /// The local time of that date is an instant.
    At {
        /// The local time and its instant.
        placed: Placed,
        /// In which zone.
        zone: String,
        /// The day whose end it is, where it was asked for as `24:00`.
        end_of: Option<Date>,
        /// What its day is: a holiday's name, or opening hours.
        day: String,
    },
    /// Days without a business instant are passed over.
    Skipped {
        /// The first day.
        from: Date,
        /// The last one.
        to: Date,
        /// Why.
        why: Skip,
    },
    /// More days are passed over than are told one by one.
    SkippedMore {
        /// How many.
        days: usize,
    },
    /// The business instant.
    Open {
        /// Its local time.
        local: DateTime,
        /// The zone's offset there.
        offset: UtcOffset,
        /// The instant.
        at: Timestamp,
        /// Whether it is later than the candidate.
        moved: bool,
    },
    /// What follows is about the deadline.
    Deadline,
    /// The deadline was given.
    GivenDeadline(Timestamp),
}

/// Why days are passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skip {
    /// It is a holiday of this name, which may be empty.
    Holiday(String),
    /// The weekday, or each of them, has no opening hours.
    Closed,
    /// Its opening hours are over, or are skipped by the clock.
    Over(String),
}

impl Step {
    /// A local time at its instant; `end_of` is the day whose end it is, where it was asked for as `24:00`.
    pub(super) fn at(placed: Placed, end_of: Option<Date>, calendar: &Calendar) -> Self {
        let day = match calendar.day(end_of.unwrap_or(placed.local.date())) {
            Day::Holiday(name) => named("holiday", name),
            Day::Weekday([]) => "closed".to_owned(),
            Day::Weekday(hours) => format!("open {}", hours_text(hours)),
            Day::Opening(hours, name) => format!("{}, open {}", named("its own hours", name), hours_text(hours)),
        };
        Self::At { placed, zone: calendar.zone_name().to_owned(), end_of, day }
    }
}

/// The days from `from` up to, but not including, `until`, in which there is no business instant any more.
pub(super) fn skipped(calendar: &Calendar, from: Date, until: Date) -> Vec<Step> {
    let mut runs: Vec<(Date, Date, Skip)> = Vec::new();
    let mut more = 0;
    for day in from.series(jiff::Span::new().days(1)).take_while(|day| *day < until) {
        let why = match calendar.day(day) {
            Day::Holiday(name) => Skip::Holiday(name.to_owned()),
            Day::Weekday([]) => Skip::Closed,
            Day::Weekday(hours) | Day::Opening(hours, _) => Skip::Over(hours_text(hours)),
        };
        let full = runs.len() >= MOST_DAYS_NAMED;
        match runs.last_mut() {
            Some((_, to, Skip::Closed)) if why == Skip::Closed && more == 0 => *to = day,
            _ if full => more += 1,
            _ => runs.push((day, day, why)),
        }
    }
    let mut steps: Vec<Step> = runs.into_iter().map(|(from, to, why)| Step::Skipped { from, to, why }).collect();
    if more > 0 {
        steps.push(Step::SkippedMore { days: more });
    }
    steps
}

fn hours_text(hours: &[Interval]) -> String {
    hours.iter().map(Interval::to_string).collect::<Vec<_>>().join(", ")
}

fn named(what: &str, name: &str) -> String {
    if name.is_empty() { what.to_owned() } else { format!("{what} {name}") }
}

/// `Fri 2026-12-25`.
fn on(date: Date) -> impl fmt::Display {
    date.strftime("%a %Y-%m-%d")
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RenewalDate(date) => write!(f, "renewal date: {}", on(*date)),
            Self::NotCounted { day, name } => write!(f, "no business day: {} ({})", on(*day), named("holiday", name)),
            Self::NotCountedMore { holidays } => write!(f, "no business day: {holidays} more holidays"),
            Self::Minus { notice, counted: Counted { date, clamped } } => {
                write!(f, "minus {notice}: {}", on(*date))?;
                if *clamped { f.write_str(" (counted from the end of a month that has no such day)") } else { Ok(()) }
            }
            Self::At { placed: Placed { asked, local, offset, clock, at }, zone, end_of, day } => {
                let moved = local.strftime("%H:%M");
                match end_of {
                    None => write!(f, "at {} in {zone}", asked.strftime("%H:%M"))?,
                    Some(day) => write!(f, "at 24:00, the end of {}, in {zone}", on(*day))?,
                }
                match clock {
                    Clock::Plain => {}
                    Clock::Gap { minutes } => {
                        write!(f, ", which clocks skip (a gap: {minutes} minutes forward), so {} {moved}", on(local.date()))?;
                    }
                    Clock::Fold => f.write_str(", which comes twice (a fold: clocks go back), so the earlier")?,
                }
                write!(f, ": {at} ({offset}; {day})")
            }
            Self::Skipped { from, to, why } => {
                write!(f, "passed over: {}", on(*from))?;
                if from != to {
                    write!(f, " to {}", on(*to))?;
                }
                match why {
                    Skip::Holiday(name) => write!(f, " ({})", named("holiday", name)),
                    Skip::Closed => f.write_str(" (closed)"),
                    Skip::Over(hours) => write!(f, " (open {hours}, which is over)"),
                }
            }
            Self::SkippedMore { days } => write!(f, "passed over: {days} more days"),
            Self::Open { local, offset, at, moved } => {
                let how = if *moved { "next business instant" } else { "a business instant" };
                let wall = if local.second() == 0 { local.strftime("%H:%M") } else { local.strftime("%H:%M:%S") };
                write!(f, "deliver_after {at}: {how}, {} {wall} ({offset})", on(local.date()))
            }
            Self::Deadline => f.write_str("deliver_by, from the renewal date:"),
            Self::GivenDeadline(at) => write!(f, "deliver_by {at}: as given"),
        }
    }
}
