//! I say when a delivery is due: at given instants, or by a rule and a business calendar.
//!
//! What is wrong with the input itself is told apart from what stands in its way today (the time, a calendar): an input that
//! was stored before is the same one for ever, and sending it again is no error.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::calendar::Calendar;
use punctual_core::calendar::due::{DueInput, DueRule};
use punctual_core::clock::Now;
use punctual_core::delivery::Instants;
use punctual_core::destination::FieldError;
use punctual_core::id::CalendarId;
use punctual_core::retry::last_safe_start;
use punctual_core::time::Timestamp;

/// The calendars by name, each with its version; one that can no longer be read has its problem instead.
pub type Calendars = BTreeMap<CalendarId, Result<(Calendar, u64), FieldError>>;

/// When a delivery is due, well formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// At these instants.
    Given(Instants),
    /// By a rule; the deadline is given if the rule has none.
    Rule(Box<DueRule>, Option<Timestamp>),
}

/// What it comes to now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Due {
    /// The instants, if there are any.
    pub instants: Option<Instants>,
    /// By which rule, version of its calendar and zone data; none if they are given.
    pub rule: Option<String>,
    /// How a rule was worked out, line by line.
    pub steps: Vec<String>,
    /// What stands in its way now; none if nothing does.
    pub blocked: Vec<FieldError>,
}

impl When {
    /// Reads what is given of the three. `field` is where they stand, like `reminders[3]`.
    ///
    /// # Errors
    /// Every [`FieldError`] of the form.
    pub fn read(
        deliver_after: Option<Timestamp>,
        deliver_by: Option<Timestamp>,
        rule: Option<&DueInput>,
        field: &str,
    ) -> Result<Self, Vec<FieldError>> {
        let wrong = |code, name: &str, right: String| vec![FieldError::new(code, format!("{field}.{name}"), right)];
        match (deliver_after, deliver_by, rule) {
            (Some(_), _, Some(_)) => Err(wrong("one_of", "deliver_after", "either deliver_after or rule".into())),
            (None, _, None) => Err(wrong("missing_field", "deliver_after", "an instant; or a rule".into())),
            (Some(_), None, None) => Err(wrong("missing_field", "deliver_by", "an instant later than deliver_after".into())),
            (Some(after), Some(by), None) if by <= after => {
                Err(wrong("not_after", "deliver_by", format!("later than deliver_after {after}")))
            }
            (Some(deliver_after), Some(deliver_by), None) => Ok(Self::Given(Instants { deliver_after, deliver_by })),
            (None, deliver_by, Some(rule)) => {
                let read = rule.check(&format!("{field}.rule"))?;
                match (deliver_by, &read.deadline) {
                    (None, None) => Err(wrong("missing_field", "deliver_by", "an instant; or rule.deliver_by".into())),
                    (Some(_), Some(_)) => Err(wrong("one_of", "deliver_by", "either deliver_by or rule.deliver_by".into())),
                    _ => Ok(Self::Rule(Box::new(read), deliver_by)),
                }
            }
        }
    }

    /// The texts that a reminder's content is hashed over. Those of a rule are the rule's own, not the instants that it
    /// comes to: a calendar that changes makes no other reminder of it.
    #[must_use]
    pub fn content(&self) -> Vec<String> {
        match self {
            Self::Given(Instants { deliver_after, deliver_by }) => vec![deliver_after.to_string(), deliver_by.to_string()],
            Self::Rule(rule, by) => {
                vec!["rule".to_owned(), rule.to_string(), by.map_or_else(String::new, |by| by.to_string())]
            }
        }
    }

    /// The field that the deadline comes from.
    #[must_use]
    pub fn deadline_field(&self) -> &'static str {
        if matches!(self, Self::Rule(_, None)) { "rule.deliver_by" } else { "deliver_by" }
    }

    /// Works it out. `margin` is the destination's.
    #[must_use]
    pub fn due(&self, field: &str, calendars: &Calendars, margin: Duration, now: Now) -> Due {
        let mut due = match self {
            Self::Given(instants) => Due { instants: Some(*instants), ..Due::default() },
            Self::Rule(rule, by) => by_rule(rule, *by, field, calendars),
        };
        let by_field = self.deadline_field();
        let Some(Instants { deliver_after, deliver_by }) = due.instants else { return due };
        let last = last_safe_start(deliver_by, margin);
        let mut wrong = |code, right: String| due.blocked.push(FieldError::new(code, format!("{field}.{by_field}"), right));
        if last < deliver_after {
            wrong("too_narrow", format!("at least {} s after deliver_after {deliver_after}", margin.as_secs()));
        } else if now.may_have_reached(last) {
            wrong("in_the_past", format!("more than {} s after now; it is {}", margin.as_secs(), now.hi));
        }
        due
    }
}

fn by_rule(rule: &DueRule, by: Option<Timestamp>, field: &str, calendars: &Calendars) -> Due {
    let name = || format!("{field}.rule.calendar");
    let blocked = |error| Due { blocked: vec![error], ..Due::default() };
    let (calendar, version) = match calendars.get(&rule.calendar) {
        None => return blocked(FieldError::new("unknown_calendar", name(), "a calendar that operate has registered")),
        Some(Err(problem)) => {
            let right = format!("a calendar that can be read: {}: {}", problem.field, problem.message);
            return blocked(FieldError::new("invalid_calendar", name(), right));
        }
        Some(Ok(found)) => found,
    };
    match rule.window(calendar, by) {
        Ok(window) => Due {
            instants: window.deliver_by.map(|deliver_by| Instants { deliver_after: window.deliver_after, deliver_by }),
            rule: Some(rule.noted(*version)),
            steps: window.steps.iter().map(ToString::to_string).collect(),
            blocked: Vec::new(),
        },
        Err(refused) => Due {
            instants: None,
            rule: None,
            steps: refused.steps.iter().map(ToString::to_string).collect(),
            blocked: vec![refused.field_error(&format!("{field}.rule"), &format!("{field}.deliver_by"))],
        },
    }
}
