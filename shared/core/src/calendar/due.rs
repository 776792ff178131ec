//! I work out when a notice is due: a renewal date minus a notice period, at a local time, in a business calendar.
//!
//! Every answer, a refusal too, carries the steps that led to it, so that a person can check them.
//!
//! Seen as a function of the renewal date alone, with the same calendar, notice and local time, `deliver_after` never
//! decreases. It is not one to one: several dates can be due at one instant, because a month's end stands for the days that it does
//! not have (29, 30 and 31 March minus `P1M`), because a gap of a whole day makes one day of two, and because closed days
//! are passed over.

use std::fmt;

use jiff::civil::{Date, Time};
use serde::{Deserialize, Serialize};

use super::hours::{Close, close_at, minute};
use super::notice::{self, Counted, Notice};
use super::search::{NoneAhead, TooFew};
use super::step::{Step, skipped};
use super::{Calendar, Placed, check, zone};
use crate::destination::FieldError;
use crate::id::CalendarId;
use crate::time::Timestamp;

/// When a notice is due, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DueInput {
    /// Which calendar.
    pub calendar: String,
    /// The contract's renewal date, `YYYY-MM-DD`.
    pub renewal_date: String,
    /// How long before it: `P1M`, `P30D`, `P2W`, or `10BD` for business days.
    pub notice: String,
    /// At which time of that day, `HH:MM` in the calendar's zone.
    pub local_time: String,
    /// The business deadline by rule; left out where it is given as an instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_by: Option<DeadlineInput>,
}

/// A deadline by rule, as it is written. It is not moved to a business instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeadlineInput {
    /// How long before the renewal date: `P1D`, or `1BD`.
    pub notice: String,
    /// At which time of that day, `HH:MM` in the calendar's zone; `24:00` is the end of the day.
    pub local_time: String,
}

/// When a notice is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueRule {
    /// Which calendar.
    pub calendar: CalendarId,
    /// The contract's renewal date.
    pub renewal_date: Date,
    /// How long before it.
    pub notice: Notice,
    /// At which time of that day.
    pub local_time: Time,
    /// The business deadline by rule.
    pub deadline: Option<DeadlineRule>,
}

impl fmt::Display for DueRule {
    /// One readable text for one meaning. A reminder's content is hashed over it: it must never change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calendar, renewal_date, notice, local_time, deadline } = self;
        write!(f, "{calendar}: {renewal_date} minus {notice} at {}", local_time.strftime("%H:%M"))?;
        match deadline {
            Some(DeadlineRule { notice, closes: Close::At(time) }) => {
                write!(f, ", by minus {notice} at {}", time.strftime("%H:%M"))
            }
            Some(DeadlineRule { notice, closes: Close::EndOfDay }) => write!(f, ", by minus {notice} at 24:00"),
            None => Ok(()),
        }
    }
}

impl DueRule {
    /// The rule as a row keeps it, short: `uk@3 2027-04-28 -P1M 01:30 by -10BD 17:00, zones 2026a`, by version 3 of the calendar.
    #[must_use]
    pub fn noted(&self, version: u64) -> String {
        let Self { calendar, renewal_date, notice, local_time, deadline } = self;
        let by = deadline.as_ref().map_or_else(String::new, |DeadlineRule { notice, closes }| match closes {
            Close::At(time) => format!(" by -{notice} {}", time.strftime("%H:%M")),
            Close::EndOfDay => format!(" by -{notice} 24:00"),
        });
        let time = local_time.strftime("%H:%M");
        format!("{calendar}@{version} {renewal_date} -{notice} {time}{by}, zones {}", super::zone_data())
    }
}

/// A deadline by rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadlineRule {
    notice: Notice,
    closes: Close,
}

/// What a rule comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The business instant at which it is due.
    pub deliver_after: Timestamp,
    /// The deadline, if there is one; after `deliver_after`.
    pub deliver_by: Option<Timestamp>,
    /// How it was worked out.
    pub steps: Vec<Step>,
}

/// Why a rule comes to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDue {
    /// A date or an instant is outside the years 2000 to 9999.
    #[error("an instant of the years 2000 to 9999")]
    OutOfRange,
    /// The calendar has too few business days before the renewal date.
    #[error("fewer business days: {0}")]
    TooFew(#[from] TooFew),
    /// The calendar is not open in the year after the candidate.
    #[error("a calendar that opens: {0}")]
    NoneAhead(#[from] NoneAhead),
    /// The first business instant is not before the deadline.
    #[error("later than {deliver_after}, the first business instant; got {deliver_by}")]
    NoneLeft {
        /// The first business instant.
        deliver_after: Timestamp,
        /// The deadline.
        deliver_by: Timestamp,
    },
}

/// A refusal, with the steps up to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    /// Why.
    pub why: NotDue,
    /// Whether it is about the rule's own deadline.
    pub own_deadline: bool,
    /// How far it was worked out.
    pub steps: Vec<Step>,
}

impl Refused {
    /// As an error of the input. `rule` is where the rule stands in it, `given` where a deadline does that is given.
    #[must_use]
    pub fn field_error(&self, rule: &str, given: &str) -> FieldError {
        let (code, field) = match (&self.why, self.own_deadline) {
            (NotDue::OutOfRange, _) => ("out_of_bounds", format!("{rule}.renewal_date")),
            (NotDue::TooFew(_), false) => ("no_business_day", format!("{rule}.notice")),
            (NotDue::TooFew(_), true) => ("no_business_day", format!("{rule}.deliver_by.notice")),
            (NotDue::NoneAhead(_), _) => ("no_business_instant", format!("{rule}.calendar")),
            (NotDue::NoneLeft { .. }, false) => ("no_business_instant", given.to_owned()),
            (NotDue::NoneLeft { .. }, true) => ("no_business_instant", format!("{rule}.deliver_by")),
        };
        FieldError::new(code, field, self.why.to_string())
    }
}

impl DueInput {
    /// Validates it. `field` is where the rule stands in the input, like `reminders[3].rule`.
    ///
    /// # Errors
    /// Everything that is wrong, each with its field.
    pub fn check(&self, field: &str) -> Result<DueRule, Vec<FieldError>> {
        let mut errors = Vec::new();
        let mut wrong = |code, name: &str, right: String| errors.push(FieldError::new(code, format!("{field}.{name}"), right));
        let calendar = CalendarId::new(self.calendar.clone()).map_err(|e| wrong("invalid_field", "calendar", e.to_string()));
        let renewal_date = zone::day(&self.renewal_date);
        if renewal_date.is_none() {
            wrong("invalid_date", "renewal_date", check::DATE.to_owned());
        }
        let notice = self.notice.parse().map_err(|e: notice::NoticeError| wrong("invalid_notice", "notice", e.to_string()));
        let local_time = minute(&self.local_time);
        if local_time.is_none() {
            wrong("invalid_time", "local_time", "a time HH:MM".to_owned());
        }
        let deadline = self.deliver_by.as_ref().map(|DeadlineInput { notice, local_time }| {
            let notice: Result<Notice, _> = notice.parse();
            if let Err(error) = notice {
                wrong("invalid_notice", "deliver_by.notice", error.to_string());
            }
            let closes = close_at(local_time);
            if closes.is_none() {
                wrong("invalid_time", "deliver_by.local_time", "a time HH:MM, or 24:00".to_owned());
            }
            Some(DeadlineRule { notice: notice.ok()?, closes: closes? })
        });
        match (calendar, renewal_date, notice, local_time, deadline) {
            (Ok(calendar), Some(renewal_date), Ok(notice), Some(local_time), None) => {
                Ok(DueRule { calendar, renewal_date, notice, local_time, deadline: None })
            }
            (Ok(calendar), Some(renewal_date), Ok(notice), Some(local_time), Some(Some(deadline))) => {
                Ok(DueRule { calendar, renewal_date, notice, local_time, deadline: Some(deadline) })
            }
            _ => Err(errors),
        }
    }
}

impl DueRule {
    /// Works it out in a calendar. The deadline is `deliver_by`, or else the rule's own, or else none.
    ///
    /// # Errors
    /// [`Refused`] if the calendar has no business instant for it, or none before the deadline.
    pub fn window(&self, calendar: &Calendar, deliver_by: Option<Timestamp>) -> Result<Window, Refused> {
        let mut steps = vec![Step::RenewalDate(self.renewal_date)];
        let refused = |why: NotDue, own_deadline, steps| Refused { why, own_deadline, steps };
        let deliver_after = match self.due(calendar, &mut steps) {
            Ok(at) => at,
            Err(why) => return Err(refused(why, false, steps)),
        };
        let own_deadline = deliver_by.is_none();
        let deliver_by = match (deliver_by, self.deadline) {
            (Some(at), _) => {
                steps.push(Step::GivenDeadline(at));
                Some(at)
            }
            (None, Some(rule)) => match rule.at(self.renewal_date, calendar, &mut steps) {
                Ok(at) => Some(at),
                Err(why) => return Err(refused(why, true, steps)),
            },
            (None, None) => None,
        };
        match deliver_by {
            Some(by) if by <= deliver_after => {
                Err(refused(NotDue::NoneLeft { deliver_after, deliver_by: by }, own_deadline, steps))
            }
            _ => Ok(Window { deliver_after, deliver_by, steps }),
        }
    }

    fn due(&self, calendar: &Calendar, steps: &mut Vec<Step>) -> Result<Timestamp, NotDue> {
        let date = before(self.renewal_date, self.notice, calendar, steps)?;
        let candidate = calendar.place(date.to_datetime(self.local_time)).ok_or(NotDue::OutOfRange)?;
        let (from, at) = (candidate.local, candidate.at);
        steps.push(Step::at(candidate, None, calendar));
        let open = calendar.next_open(at)?;
        let local = calendar.local(open);
        steps.extend(skipped(calendar, from.date(), local.date()));
        steps.push(Step::Open { local, offset: calendar.offset(open), at: open, moved: open != at });
        Ok(open)
    }
}

impl DeadlineRule {
    fn at(self, renewal_date: Date, calendar: &Calendar, steps: &mut Vec<Step>) -> Result<Timestamp, NotDue> {
        steps.push(Step::Deadline);
        let date = before(renewal_date, self.notice, calendar, steps)?;
        let (local, end_of) = match self.closes {
            Close::At(time) => (date.to_datetime(time), None),
            Close::EndOfDay => (date.tomorrow().map_err(|_| NotDue::OutOfRange)?.to_datetime(Time::midnight()), Some(date)),
        };
        let placed: Placed = calendar.place(local).ok_or(NotDue::OutOfRange)?;
        let at = placed.at;
        steps.push(Step::at(placed, end_of, calendar));
        Ok(at)
    }
}

fn before(date: Date, notice: Notice, calendar: &Calendar, steps: &mut Vec<Step>) -> Result<Date, NotDue> {
    let counted = match notice {
        Notice::Civil { years, months, weeks, days } => {
            notice::civil(date, [years, months, weeks, days]).ok_or(NotDue::OutOfRange)?
        }
        Notice::BusinessDays(count) => {
            let counted = Counted { date: calendar.business_days_before(date, count)?, clamped: false };
            let passed = || calendar.holidays(counted.date, date);
            let named = passed().map(|(day, name)| Step::NotCounted { day, name: name.to_owned() });
            steps.extend(named.take(super::step::MOST_DAYS_NAMED));
            let more = passed().skip(super::step::MOST_DAYS_NAMED).count();
            steps.extend((more > 0).then_some(Step::NotCountedMore { holidays: more }));
            counted
        }
    };
    if counted.date.year() < 2000 {
        return Err(NotDue::OutOfRange);
    }
    steps.push(Step::Minus { notice, counted });
    Ok(counted.date)
}

#[cfg(test)]
#[path = "due_tests.rs"]
mod tests;
