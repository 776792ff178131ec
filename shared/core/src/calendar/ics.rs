//! I read holidays from a plain iCalendar file (RFC 5545), and say what I read and what I did not, line by line.
//!
//! A holiday is an all-day event: `DTSTART` is a date; `DTEND` is the day after the last one, and without it, and without
//! `DURATION`, the event is one day long. Lines may end in CRLF or LF and may be folded, within a character too. What repeats
//! (`RRULE`), has a time of day, was cancelled, or is no event, is left out and reported with the line on which it
//! begins: I never guess a holiday, and never drop one silently. A line that cannot be read is reported; an event that has one is
//! left out too, unless the line's name says that no day depends on it. A file that is cut off or wrongly nested is refused as a
//! whole.
//!
//! Two crates were weighed, `icalendar` 0.17 and `ical` 0.11. `icalendar` takes text, so a character that was folded apart is
//! lost before it begins; its components have no line numbers, and one bad line fails the whole file. `ical` ends silently at
//! the first line that is no UTF-8, and takes any `END` for the end of what is open. Neither bounds what it reads. What is
//! needed here is small: lines, properties, and the meaning of a few of them.

mod event;
mod line;
mod report;

use std::collections::BTreeMap;

use jiff::civil::Date;

use super::check::{LONGEST_NAME, MOST_HOLIDAYS, also_named};
use super::input::HolidayInput;
use event::Event;
use line::{Content, Line, property, text, unfold};
pub use report::{Ignored, Import, MOST_TOLD, Read, WhyIgnored};

use crate::destination::FieldError;

/// The most bytes of a file.
pub const MOST_FILE_BYTES: usize = 1_048_576;
/// The most days of one event.
pub const MOST_EVENT_DAYS: i32 = 62;
/// The most components within one another.
const DEEPEST: usize = 8;

/// Why a file as a whole is not read. Lines are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IcsError {
    /// It is larger than 1 MiB.
    #[error("at most {MOST_FILE_BYTES} bytes; got {bytes}")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// It does not begin as an iCalendar file does.
    #[error("an iCalendar file, which begins with BEGIN:VCALENDAR; line {line} is something else")]
    NoCalendar {
        /// Its first line.
        line: usize,
    },
    /// A component ends that is not the one that began last.
    #[error("END:{expected} before END:{got} in line {line}")]
    Nesting {
        /// Where it ends.
        line: usize,
        /// What should end.
        expected: String,
        /// What ends.
        got: String,
    },
    /// Components are too deep within one another.
    #[error("at most {DEEPEST} components within one another; line {line} begins one more")]
    TooDeep {
        /// Where the one too many begins.
        line: usize,
    },
    /// It ends within a component: most likely it was cut off.
    #[error("a whole file: the {component} of line {line} has no end")]
    CutOff {
        /// Where the component begins.
        line: usize,
        /// Which one.
        component: String,
    },
    /// It takes events back instead of stating them.
    #[error("a file that states events: line {line} says METHOD:CANCEL")]
    Cancels {
        /// Where it says so.
        line: usize,
    },
    /// It has more events, or days, than a calendar has holidays.
    #[error("at most {MOST_HOLIDAYS} events and as many days; the event of line {line} goes past that")]
    TooMany {
        /// The event that is too many.
        line: usize,
    },
}

impl IcsError {
    /// As an error of the input; `field` is where the file stands in it.
    #[must_use]
    pub fn field_error(&self, field: &str) -> FieldError {
        let code = match self {
            Self::TooLarge { .. } | Self::TooMany { .. } | Self::TooDeep { .. } => "out_of_bounds",
            Self::NoCalendar { .. } | Self::Nesting { .. } | Self::CutOff { .. } | Self::Cancels { .. } => "invalid_file",
        };
        FieldError::new(code, field, self.to_string())
    }
}

/// Reads a file. An answer without a holiday is possible, when all is ignored.
///
/// # Errors
/// [`IcsError`] if the file as a whole is not to be trusted.
pub fn read(file: &[u8]) -> Result<Import, IcsError> {
    if file.len() > MOST_FILE_BYTES {
        return Err(IcsError::TooLarge { bytes: file.len() });
    }
    let mut reader = Reader::default();
    for line in unfold(file) {
        reader.line(&line)?;
    }
    reader.end()
}

/// A component's name in capitals, as it can be shown.
fn component(value: &str) -> String {
    text(value).to_ascii_uppercase().chars().take(LONGEST_NAME).collect()
}

#[derive(Debug, Default)]
struct Reader {
    /// The components that are open, outermost first, and where they begin.
    open: Vec<(String, usize)>,
    event: Option<Event>,
    began: bool,
    days: BTreeMap<Date, String>,
    import: Import,
}

impl Reader {
    fn line(&mut self, line: &Line) -> Result<(), IcsError> {
        let content = property(line);
        if self.open.is_empty() && !self.began && !content.is("BEGIN", "VCALENDAR") {
            return Err(IcsError::NoCalendar { line: line.number });
        }
        self.began = true;
        match content {
            Content::Property(property) if property.name == "BEGIN" => self.begin(component(property.value), line.number),
            Content::Property(property) if property.name == "END" => self.end_of(&component(property.value), line.number),
            Content::Property(property) => {
                let within: Vec<&str> = self.open.iter().map(|(name, _)| name.as_str()).collect();
                match (within.as_slice(), &mut self.event) {
                    ([], _) => self.import.ignore(line.number, property.name, WhyIgnored::Outside),
                    (["VCALENDAR"], _) if property.name == "METHOD" && property.value.eq_ignore_ascii_case("CANCEL") => {
                        return Err(IcsError::Cancels { line: line.number });
                    }
                    (["VCALENDAR", "VEVENT"], Some(event)) => event.take(&property),
                    _ => {}
                }
                Ok(())
            }
            Content::Wrong(name, why) => {
                self.import.ignore(line.number, "line".to_owned(), why);
                if let (2, Some(event)) = (self.open.len(), &mut self.event) {
                    event.unread(line.number, name.as_deref());
                }
                Ok(())
            }
        }
    }

    fn begin(&mut self, name: String, line: usize) -> Result<(), IcsError> {
        match self.open.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().as_slice() {
            [] if name != "VCALENDAR" => self.import.ignore(line, name.clone(), WhyIgnored::Outside),
            ["VCALENDAR"] if name == "VEVENT" => self.event = Some(Event::begin(line)),
            // What is within something that is reported, or within an event, is reported once.
            ["VCALENDAR"] | ["VCALENDAR", "VEVENT"] => self.import.ignore(line, name.clone(), WhyIgnored::OtherComponent),
            _ => {}
        }
        if self.open.len() >= DEEPEST {
            return Err(IcsError::TooDeep { line });
        }
        self.open.push((name, line));
        Ok(())
    }

    fn end_of(&mut self, name: &str, line: usize) -> Result<(), IcsError> {
        let expected = match self.open.pop() {
            Some((expected, _)) if expected == name => expected,
            other => {
                let expected = other.map_or_else(|| "nothing".to_owned(), |(expected, _)| expected);
                return Err(IcsError::Nesting { line, expected, got: name.to_owned() });
            }
        };
        if expected == "VEVENT" && self.open.len() == 1 {
            self.event.take().map_or(Ok(()), |event| self.close(event))?;
        }
        Ok(())
    }

    fn close(&mut self, event: Event) -> Result<(), IcsError> {
        let (line, name) = (event.line, event.name());
        match event.days() {
            Err(why) => self.import.ignore(line, format!("event {name:?}"), why),
            Ok((from, until)) => {
                let days = from.series(jiff::Span::new().days(1)).take_while(|day| *day < until);
                for day in days {
                    also_named(self.days.entry(day).or_default(), &name);
                }
                self.import.read.push(Read { line, from, until, name });
                if self.days.len().max(self.import.read.len()) > MOST_HOLIDAYS {
                    return Err(IcsError::TooMany { line });
                }
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Import, IcsError> {
        if let Some((component, line)) = self.open.pop() {
            return Err(IcsError::CutOff { line, component });
        }
        if !self.began {
            return Err(IcsError::NoCalendar { line: 1 });
        }
        let shortened = |name: String| name.chars().take(LONGEST_NAME).collect();
        self.import.holidays =
            self.days.into_iter().map(|(day, name)| HolidayInput { date: day.to_string(), name: shortened(name) }).collect();
        Ok(self.import)
    }
}

#[cfg(test)]
#[path = "ics_tests.rs"]
mod tests;
