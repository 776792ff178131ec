//! I say what became of a file, to a person and, item by item, to a program.

use std::time::Duration;

use punctual_core::state::State;

use super::Outcome;

/// So many problems are printed; the others are in the file of results.
const MOST_SHOWN: usize = 20;

/// What became of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many reminders the file has.
    pub reminders: usize,
    /// What became of each that is answered, in the order of the file once all are.
    pub outcomes: Vec<Outcome>,
}

impl Summary {
    pub(super) fn of_file(reminders: usize) -> Self {
        Self { reminders, outcomes: Vec::new() }
    }

    pub(super) fn add(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    fn count(&self, what: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes.iter().filter(|outcome| what(outcome)).count()
    }

    /// How many were answered so.
    #[must_use]
    pub fn answered(&self, answer: &str) -> usize {
        self.count(|outcome| outcome.answer == answer)
    }

    /// How many are wrong: schedule refused them, or they could not be read.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.answered("invalid") + self.answered("unreadable")
    }

    /// Whether the ledger has every reminder as the file says.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.outcomes.len() == self.reminders && self.outcomes.iter().all(Outcome::is_good)
    }

    /// The counts in one line.
    #[must_use]
    pub fn counts(&self) -> String {
        let open = self.count(Outcome::is_open);
        format!(
            "{} created, {} unchanged, {} conflict, {} refused, {open} failed",
            grouped(self.answered("created")),
            grouped(self.answered("unchanged")),
            grouped(self.answered("conflict")),
            grouped(self.refused()),
        )
    }

    /// How far it is.
    #[must_use]
    pub fn progress(&self) -> String {
        format!("  {:>8} of {}  {}", grouped(self.outcomes.len()), grouped(self.reminders), self.counts())
    }

    /// The end of the story, for a person.
    #[must_use]
    pub fn lines(&self, took: Duration) -> Vec<String> {
        let wrong: Vec<&Outcome> = self.outcomes.iter().filter(|outcome| !outcome.is_good()).collect();
        let shown = wrong.iter().take(MOST_SHOWN).map(|outcome| {
            let Outcome { line, answer, problems, .. } = outcome;
            format!("  line {line}: {answer}: {}", problems.join("; "))
        });
        let mut lines: Vec<String> = shown.collect();
        if wrong.len() > MOST_SHOWN {
            lines.push(format!("  and {} more", grouped(wrong.len() - MOST_SHOWN)));
        }
        let rate = per_second(self.reminders, took);
        lines.push(format!("{} reminders: {}; {rate:.0} a second", grouped(self.reminders), self.counts()));
        let elsewhere = self.count(|outcome| outcome.comes_to.is_some());
        if elsewhere > 0 {
            lines.push(format!(
                "{} of the unchanged are stored with other instants than they come to now: they were rescheduled, or their \
                 calendar changed. Only reschedule moves them.",
                grouped(elsewhere)
            ));
        }
        lines.extend(self.ended());
        if self.answered("created") == 0 {
            let rest = if self.is_good() { ": every reminder of this file is stored already, and nothing changed" } else { "" };
            lines.push(format!("Nothing was created{rest}."));
        }
        lines
    }

    /// How many of the unchanged ones are at an end at which the receiver hears nothing of them, if any is.
    fn ended(&self) -> Option<String> {
        let at = |state: State| {
            let is = |outcome: &Outcome| outcome.answer == "unchanged" && outcome.state.as_deref() == Some(state.as_str());
            (self.count(is), state)
        };
        let states = [State::Cancelled, State::Dead, State::Expired];
        let counts: Vec<(usize, State)> = states.into_iter().map(at).filter(|(n, _)| *n > 0).collect();
        let told = counts.iter().map(|(n, state)| format!("{} {} {state}", grouped(*n), if *n == 1 { "is" } else { "are" }));
        let told: Vec<String> = told.collect();
        let (last, before) = told.split_last()?;
        let told = if before.is_empty() { last.clone() } else { format!("{} and {last}", before.join(", ")) };
        let whom = if counts.iter().map(|(n, _)| n).sum::<usize>() == 1 { "it" } else { "them" };
        Some(format!("Of the unchanged, {told}: nothing will be sent for {whom}."))
    }

    /// One JSON object for each reminder, in the order of the file.
    ///
    /// # Errors
    /// None that is known: texts and numbers are JSON.
    pub fn json_lines(&self) -> serde_json::Result<String> {
        self.outcomes.iter().map(|outcome| serde_json::to_string(outcome).map(|line| line + "\n")).collect()
    }
}

/// How many a second.
#[must_use]
pub fn per_second(count: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / took.as_secs_f64().max(0.001)
}

/// A number with its thousands apart.
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
