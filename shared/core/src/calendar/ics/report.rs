//! I am what became of a file: the holidays, and a line for everything that was read or ignored.

use std::fmt;

use jiff::civil::Date;

use super::super::input::HolidayInput;
use super::MOST_EVENT_DAYS;

/// At most so many things that were ignored are told one by one; all are counted.
pub const MOST_TOLD: usize = 200;

/// What was read of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Import {
    /// The holidays, in the order of their dates, each date once. A day of two events has both names.
    pub holidays: Vec<HolidayInput>,
    /// The events that they come from, in the file's order.
    pub read: Vec<Read>,
    /// What was ignored, in the file's order; at most [`MOST_TOLD`].
    pub ignored: Vec<Ignored>,
    /// How much was ignored.
    pub ignored_count: usize,
}

/// An event that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// Its first day.
    pub from: Date,
    /// The day after its last.
    pub until: Date,
    /// What it is called; may be empty.
    pub name: String,
}

/// Something that was ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    /// The line on which it begins, from 1.
    pub line: usize,
    /// What it is.
    pub what: String,
    /// Why.
    pub why: WhyIgnored,
}

/// Why something is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyIgnored {
    /// The event repeats, by this property.
    Repeats(&'static str),
    /// The event begins at a time of day.
    Timed,
    /// The event begins with a day and ends, or lasts, by the time of day.
    EndsWithinADay,
    /// The event has no `DTSTART`.
    NoStart,
    /// This property is no date.
    NoDate(&'static str),
    /// This property comes twice.
    Twice(&'static str),
    /// `DTEND` is not after `DTSTART`.
    EndsBeforeItsEnd,
    /// The event has too many days.
    TooLong,
    /// The event was cancelled.
    Cancelled,
    /// The event's `STATUS` is none that an event has.
    NoStatus,
    /// This line of the event cannot be read, and may say which days it takes.
    Unread(usize),
    /// It is another component than an event.
    OtherComponent,
    /// It stands outside a calendar.
    Outside,
    /// The line is no property.
    NoProperty,
    /// The line is no UTF-8.
    NotUtf8,
}

impl fmt::Display for WhyIgnored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeats(property) => write!(f, "it repeats ({property}); give each day as an event of its own"),
            Self::Timed => f.write_str("it has a time of day; a holiday is an all-day event"),
            Self::EndsWithinADay => f.write_str("it begins with a day but ends at a time of day"),
            Self::NoStart => f.write_str("it has no DTSTART"),
            Self::NoDate(property) => write!(f, "its {property} is no date of the years 2000 to 9999, like 20261225"),
            Self::Twice(property) => write!(f, "it has {property} twice"),
            Self::EndsBeforeItsEnd => f.write_str("its DTEND is not after its DTSTART; DTEND is the day after the last one"),
            Self::TooLong => write!(f, "it has more than {MOST_EVENT_DAYS} days"),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::NoStatus => f.write_str("its STATUS is none of CONFIRMED, TENTATIVE, CANCELLED"),
            Self::Unread(line) => write!(f, "its line {line} cannot be read, and may say which days it takes"),
            Self::OtherComponent => f.write_str("it is no event"),
            Self::Outside => f.write_str("it stands outside a VCALENDAR"),
            Self::NoProperty => f.write_str("it is no property, like NAME:value"),
            Self::NotUtf8 => f.write_str("it is no UTF-8"),
        }
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.until.yesterday().unwrap_or(self.until);
        write!(f, "line {}: {}", self.line, self.from)?;
        if last != self.from {
            write!(f, " to {last}")?;
        }
        if self.name.is_empty() { Ok(()) } else { write!(f, " {}", self.name) }
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.what, self.why)
    }
}

impl Import {
    pub(super) fn ignore(&mut self, line: usize, what: String, why: WhyIgnored) {
        self.ignored_count += 1;
        if self.ignored.len() < MOST_TOLD {
            self.ignored.push(Ignored { line, what: what.chars().take(80).collect(), why });
        }
    }

    /// The report: a total, a line for each event that was read, and one for each thing that was ignored.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Self { holidays, read, ignored, ignored_count } = self;
        let mut lines = vec![format!("{} events read, {} days; {ignored_count} ignored", read.len(), holidays.len())];
        lines.extend(read.iter().map(|one| format!("read: {one}")));
        lines.extend(ignored.iter().map(|one| format!("ignored: {one}")));
        let untold = ignored_count.saturating_sub(ignored.len());
        if untold > 0 {
            lines.push(format!("ignored: {untold} more"));
        }
        lines
    }
}
