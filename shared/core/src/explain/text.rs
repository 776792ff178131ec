//! I write an explanation as a person wants to read it.

use std::fmt::Write as _;

use super::Explanation;
use crate::state::State;

/// The explanation as lines of a label and a value.
#[must_use]
pub fn text(e: &Explanation) -> String {
    let mut out = String::new();
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(out, "{label:<16}{value}");
    };
    line("delivery", &e.delivery_id);
    if e.idempotency_key != e.delivery_id {
        line("key", &e.idempotency_key);
    }
    line("reference", &e.reference);
    line("destination", &e.destination_id);
    line("state", e.state.as_str());
    line("why", &e.why);
    line("next", &e.next.map_or_else(|| "nothing by itself".to_owned(), |at| at.to_string()));
    if let Some(expected) = &e.expected_start {
        line("expected start", &expected.told);
    }
    let left = match e.state {
        State::Delivered | State::Cancelled | State::Shadowed => String::new(),
        _ if e.seconds_left < 0 => format!(" (passed {} s ago)", -e.seconds_left),
        _ => format!(" ({} s left)", e.seconds_left),
    };
    if let Some(rule) = &e.rule {
        line("rule", rule);
    }
    line("due", &e.deliver_after.to_string());
    line("last safe start", &format!("{}{left}", e.last_safe_start));
    let late = if e.late_at.is_some() { " (late from then on)" } else { "" };
    line("deadline", &format!("{}{late}", e.deliver_by));
    line("attempts", &format!("{} of {}", e.attempts_made, e.attempts_allowed));
    for attempt in &e.attempts {
        line("", attempt);
    }
    for (i, entry) in e.history.iter().enumerate() {
        line(if i == 0 { "history" } else { "" }, entry);
    }
    for (i, entry) in e.moves.iter().enumerate() {
        line(if i == 0 { "moved" } else { "" }, entry);
    }
    for (i, entry) in e.redrives.iter().enumerate() {
        line(if i == 0 { "redriven" } else { "" }, entry);
    }
    if let Some(redrive) = &e.redrive {
        line("redrive", redrive);
    }
    line("allowed now", &if e.allowed.is_empty() { "nothing".to_owned() } else { e.allowed.join(", ") });
    out
}
