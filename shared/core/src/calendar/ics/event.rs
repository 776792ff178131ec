//! I am an event of a file while it is read, and the days that it takes.

use jiff::Span;
use jiff::civil::Date;

use super::super::check::LONGEST_NAME;
use super::super::zone;
use super::MOST_EVENT_DAYS;
use super::line::{Property, text};
use super::report::WhyIgnored;

/// What `DTSTART` or `DTEND` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Day(Date),
    Time,
    Wrong,
}

/// An event. A property that comes twice is remembered as such.
#[derive(Debug, Default)]
pub(super) struct Event {
    /// The line on which it begins.
    pub(super) line: usize,
    summary: Option<String>,
    start: Option<When>,
    end: Option<When>,
    /// How many days it takes; `None` inside if that is not said in whole days.
    duration: Option<Option<i32>>,
    repeats: Option<&'static str>,
    twice: Option<&'static str>,
    cancelled: bool,
    no_status: bool,
    /// The first line that cannot be read and may say which days it takes.
    unread: Option<usize>,
}

/// Whether a property decides which days an event takes, or whether it takes any. What begins or ends within it does: it says
/// whose the other lines are.
fn decides(name: &str) -> bool {
    let dates = ["DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXRULE", "EXDATE", "RECURRENCE-ID"];
    dates.contains(&name) || matches!(name, "STATUS" | "BEGIN" | "END")
}

impl Event {
    pub(super) fn begin(line: usize) -> Self {
        Self { line, ..Self::default() }
    }

    pub(super) fn take(&mut self, property: &Property<'_>) {
        match property.name.as_str() {
            "DTSTART" => self.twice = self.twice.or(self.start.replace(when(property)).and(Some("DTSTART"))),
            "DTEND" => self.twice = self.twice.or(self.end.replace(when(property)).and(Some("DTEND"))),
            "DURATION" => {
                self.twice = self.twice.or(self.duration.replace(days(property.value)).and(Some("DURATION")));
            }
            "RRULE" => self.repeats = Some("RRULE"),
            "RDATE" => self.repeats = Some("RDATE"),
            "EXRULE" => self.repeats = Some("EXRULE"),
            "EXDATE" => self.repeats = Some("EXDATE"),
            "RECURRENCE-ID" => self.repeats = Some("RECURRENCE-ID"),
            "STATUS" => {
                let is = |status: &&str| property.value.eq_ignore_ascii_case(status);
                self.cancelled |= is(&"CANCELLED");
                self.no_status |= !["CANCELLED", "CONFIRMED", "TENTATIVE"].iter().any(is);
            }
            // Of several languages, the first.
            "SUMMARY" => _ = self.summary.get_or_insert_with(|| text(property.value)),
            _ => {}
        }
    }

    /// A line of it cannot be read; its name, if that can.
    pub(super) fn unread(&mut self, line: usize, name: Option<&str>) {
        if name.is_none_or(decides) {
            self.unread.get_or_insert(line);
        }
    }

    /// What it is called, shortened to what a holiday's name may have; empty if it has no name.
    pub(super) fn name(&self) -> String {
        self.summary.as_deref().unwrap_or_default().chars().take(LONGEST_NAME).collect::<String>().trim_end().to_owned()
    }

    /// Its first day, and the day after its last.
    ///
    /// # Errors
    /// Why it is no holiday.
    pub(super) fn days(&self) -> Result<(Date, Date), WhyIgnored> {
        if let Some(line) = self.unread {
            return Err(WhyIgnored::Unread(line));
        }
        if self.cancelled {
            return Err(WhyIgnored::Cancelled);
        }
        if self.no_status {
            return Err(WhyIgnored::NoStatus);
        }
        if let Some(property) = self.repeats {
            return Err(WhyIgnored::Repeats(property));
        }
        if let Some(property) = self.twice {
            return Err(WhyIgnored::Twice(property));
        }
        let from = match self.start {
            Some(When::Day(from)) => from,
            Some(When::Time) => return Err(WhyIgnored::Timed),
            Some(When::Wrong) => return Err(WhyIgnored::NoDate("DTSTART")),
            None => return Err(WhyIgnored::NoStart),
        };
        let after = |days: i32| {
            let span = Span::new().try_days(days).map_err(|_| WhyIgnored::TooLong)?;
            from.checked_add(span).map_err(|_| WhyIgnored::NoDate("DTEND"))
        };
        let until = match (self.end, self.duration) {
            (Some(_), Some(_)) => return Err(WhyIgnored::Twice("DTEND or DURATION")),
            (Some(When::Day(until)), None) => until,
            (Some(When::Time), None) => return Err(WhyIgnored::EndsWithinADay),
            (Some(When::Wrong), None) => return Err(WhyIgnored::NoDate("DTEND")),
            (None, Some(days)) => after(days.ok_or(WhyIgnored::EndsWithinADay)?)?,
            (None, None) => after(1)?,
        };
        match until.since(from).map(|span| span.get_days()) {
            Ok(1..=MOST_EVENT_DAYS) => Ok((from, until)),
            Ok(..=0) => Err(WhyIgnored::EndsBeforeItsEnd),
            _ => Err(WhyIgnored::TooLong),
        }
    }
}

/// `20261225` is a day, whether the file says `VALUE=DATE` or forgets to.
fn when(property: &Property<'_>) -> When {
    let (value, kind) = (property.value, property.kind.as_deref());
    if kind == Some("DATE") || (kind.is_none() && value.len() == 8 && value.bytes().all(|b| b.is_ascii_digit())) {
        return compact(value).map_or(When::Wrong, When::Day);
    }
    if value.contains(['T', 't']) { When::Time } else { When::Wrong }
}

/// `YYYYMMDD` of the years 2000 to 9999.
fn compact(value: &str) -> Option<Date> {
    let (year, rest) = value.split_at_checked(4)?;
    let (month, day) = rest.split_at_checked(2)?;
    zone::day(&format!("{year}-{month}-{day}"))
}

/// `P2D` or `P1W`, in days.
fn days(value: &str) -> Option<i32> {
    let value = value.strip_prefix('+').unwrap_or(value).strip_prefix('P')?;
    let (digits, unit) = value.strip_suffix('D').map(|d| (d, 1)).or_else(|| value.strip_suffix('W').map(|w| (w, 7)))?;
    let number: i32 = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
    number.checked_mul(unit)
}
