//! I say which days a calendar loses, gains and changes when another one takes its place.

use std::collections::BTreeMap;

use super::check::also_named;
use super::input::{CalendarInput, HolidayInput, OpeningInput};

/// At most so many days of one kind are told one by one; all are counted.
pub const MOST_DAYS_TOLD: usize = 100;

/// What becomes of a calendar's holidays, or of its openings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    kind: &'static str,
    removed: Vec<String>,
    added: Vec<String>,
    changed: Vec<String>,
}

impl CalendarInput {
    /// What becomes of the holidays, and of the openings, when `next` takes this one's place; what stays as it is, is left out.
    #[must_use]
    pub fn replaced_by(&self, next: &Self) -> Vec<Replaced> {
        let all = [
            Replaced::of("holiday", &holidays(&self.holidays), &holidays(&next.holidays)),
            Replaced::of("opening", &openings(&self.openings), &openings(&next.openings)),
        ];
        all.into_iter().filter(|one| !one.is_nothing()).collect()
    }
}

impl Replaced {
    fn of(kind: &'static str, before: &BTreeMap<&str, String>, after: &BTreeMap<&str, String>) -> Self {
        let line = |date: &str, text: &str| format!("{date} {text}").trim_end().to_owned();
        let without = |these: &BTreeMap<&str, String>, others: &BTreeMap<&str, String>| {
            these.iter().filter(|(date, _)| !others.contains_key(*date)).map(|(date, text)| line(date, text)).collect()
        };
        let changed = after.iter().filter_map(|(date, text)| {
            let was = before.get(date).filter(|was| *was != text)?;
            let was = if was.is_empty() { "no name" } else { was };
            Some(format!("{}; before: {was}", line(date, text)))
        });
        Self { kind, removed: without(before, after), added: without(after, before), changed: changed.collect() }
    }

    fn is_nothing(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && self.changed.is_empty()
    }

    /// How many of each: `holidays: 2 removed, 1 added, 0 changed`.
    #[must_use]
    pub fn counts(&self) -> String {
        let Self { kind, removed, added, changed } = self;
        format!("{kind}s: {} removed, {} added, {} changed", removed.len(), added.len(), changed.len())
    }

    /// The counts, and a line for each day, in the order of their dates; at most [`MOST_DAYS_TOLD`] of each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let Self { kind, removed, added, changed } = self;
        let mut lines = vec![self.counts()];
        for (what, days) in [("removed", removed), ("added", added), ("changed", changed)] {
            lines.extend(days.iter().take(MOST_DAYS_TOLD).map(|day| format!("{kind} {what}: {day}")));
            if days.len() > MOST_DAYS_TOLD {
                lines.push(format!("{kind}s {what}: {} more", days.len() - MOST_DAYS_TOLD));
            }
        }
        lines
    }
}

/// The names by day. Dates are of one form, so that the order of texts is theirs.
fn holidays(all: &[HolidayInput]) -> BTreeMap<&str, String> {
    let mut days: BTreeMap<&str, String> = BTreeMap::new();
    all.iter().for_each(|HolidayInput { date, name }| also_named(days.entry(date).or_default(), name));
    days
}

/// The hours and the name by day.
fn openings(all: &[OpeningInput]) -> BTreeMap<&str, String> {
    let text = |OpeningInput { hours, name, .. }: &OpeningInput| {
        let hours: Vec<String> = hours.iter().map(|[from, until]| format!("{from} to {until}")).collect();
        format!("{} {name}", hours.join(", ")).trim_end().to_owned()
    };
    all.iter().map(|opening| (opening.date.as_str(), text(opening))).collect()
}
