//! What a producer does with its file: `make schedule FILE=…` sends it to the schedule function in batches, and says what became
//! of each reminder.
//!
//! The file is sent again whenever it is wanted: what is stored already is `unchanged`. I keep nothing between two runs; the
//! ledger knows.

mod cells;
pub mod read;
pub mod report;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde_json::Value;

use read::{Entry, Item};
use report::Summary;

/// So many reminders go into one call at most; schedule takes 1,000.
pub const BATCH: usize = 500;
/// So many bytes go into one call at most; Lambda takes 6 MB.
const BATCH_BYTES: usize = 4_000_000;
/// A reminder is sent so often at most: the ledger may be unavailable, or an invocation's time up.
const MOST_SENDS: u32 = 3;

/// What became of one reminder of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Where it begins in the file, from 1.
    pub line: u64,
    /// Schedule's answer; `unreadable` if it was not sent.
    pub answer: String,
    /// Its delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_id: Option<String>,
    /// Where the delivery stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Not called before this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliver_after: Option<String>,
    /// What the file comes to now, where the stored delivery has other instants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comes_to: Option<String>,
    /// What is wrong, each with the field's path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl Outcome {
    fn unreadable(line: u64, problem: String) -> Self {
        let answer = "unreadable".to_owned();
        let (delivery_id, state, deliver_after, comes_to) = (None, None, None, None);
        Self { line, answer, delivery_id, state, deliver_after, comes_to, problems: vec![problem] }
    }

    /// `place` is where the item stood in its batch: errors name their fields, and other items, from there.
    fn of(batch: &[Item], (place, item): (usize, &Item), result: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut problems: Vec<String> = list(result, "errors").iter().map(|error| problem(error, place, batch)).collect();
        let differing: Vec<&str> = list(result, "conflicts").iter().filter_map(Value::as_str).collect();
        if !differing.is_empty() {
            problems.push(format!("stored before with other content: {}", differing.join(", ")));
        }
        Ok(Self {
            line: item.line,
            answer: result.get("answer").and_then(Value::as_str).context("a result without an answer")?.to_owned(),
            delivery_id: result.get("delivery_id").and_then(text),
            state: result.get("state").and_then(text),
            deliver_after: result.get("deliver_after").and_then(text),
            comes_to: result.pointer("/comes_to/deliver_after").and_then(text),
            problems,
        })
    }

    /// Whether the same may succeed when it is sent again.
    fn is_open(&self) -> bool {
        matches!(self.answer.as_str(), "failed" | "not_attempted")
    }

    /// Whether the ledger has it as the file says.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self.answer.as_str(), "created" | "unchanged")
    }
}

/// An error of schedule, with its field named from the reminder on, and another reminder by its line.
fn problem(error: &Value, place: usize, batch: &[Item]) -> String {
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let (field, root) = (text("field"), format!("reminders[{place}]"));
    let field = field.strip_prefix(&root).map_or(field, |rest| rest.trim_start_matches('.'));
    let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
    let message = by_line(text("message"), batch).unwrap_or_else(|| text("message").to_owned());
    format!("{field}{message} ({})", text("code"))
}

/// A text that names an item of the batch, with the item's line instead.
fn by_line(text: &str, batch: &[Item]) -> Option<String> {
    let (before, rest) = text.split_once("reminders[")?;
    let (place, after) = rest.split_once(']')?;
    let item = batch.get(place.parse::<usize>().ok()?)?;
    Some(format!("{before}line {}{after}", item.line))
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Sends a file's reminders, batch by batch, in their order. `send` hands an event to schedule and gives its answer; `progress`
/// hears how far it is after each batch.
///
/// # Errors
/// If a call of schedule fails as a whole: what was sent before it is stored, and the file may be sent again.
pub async fn send(
    entries: Vec<Entry>,
    mut send: impl AsyncFnMut(String) -> Result<Value>,
    mut progress: impl FnMut(&Summary),
) -> Result<Summary> {
    let mut summary = Summary::of_file(entries.len());
    let mut open = Vec::new();
    for entry in entries {
        match entry {
            Ok(item) => open.push(item),
            Err(wrong) => summary.add(Outcome::unreadable(wrong.line, wrong.problem)),
        }
    }
    for round in 1..=MOST_SENDS {
        let mut again = Vec::new();
        for batch in batches(std::mem::take(&mut open)) {
            let outcomes = send_batch(&batch, &mut send).await?;
            for (item, outcome) in batch.into_iter().zip(outcomes) {
                if outcome.is_open() && round < MOST_SENDS {
                    again.push(item);
                } else {
                    summary.add(outcome);
                }
            }
            progress(&summary);
        }
        open = again;
    }
    summary.outcomes.sort_by_key(|outcome| outcome.line);
    Ok(summary)
}

async fn send_batch(batch: &[Item], send: &mut impl AsyncFnMut(String) -> Result<Value>) -> Result<Vec<Outcome>> {
    let reminders: Vec<&str> = batch.iter().map(|item| item.text.as_str()).collect();
    let event = format!(r#"{{"action":"schedule","reminders":[{}]}}"#, reminders.join(","));
    let answer = send(event).await?;
    let results = list(&answer, "results");
    if results.len() != batch.len() {
        bail!("schedule refused the call: {answer}");
    }
    batch.iter().enumerate().zip(results).map(|(item, result)| Outcome::of(batch, item, result)).collect()
}

/// Cuts a file into calls.
fn batches(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut batches: Vec<Vec<Item>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes + item.text.len() <= BATCH_BYTES => {
                bytes += item.text.len() + 1;
                batch.push(item);
            }
            _ => {
                bytes = item.text.len() + 1;
                batches.push(vec![item]);
            }
        }
    }
    batches
}
