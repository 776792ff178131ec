//! The demo's input: reminders with instants relative to the start, one JSON object a line.

use std::time::Duration;

use anyhow::{Context as _, Result};
use punctual_core::time::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::stack::root;

/// A line of the input.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reminder {
    tenant: String,
    subscriber: String,
    renewal_period: String,
    reminder_kind: String,
    destination_id: String,
    reference: String,
    due_in_s: u64,
    deadline_in_s: u64,
    payload: Map<String, Value>,
}

/// Reads `events/demo.reminders.jsonl`.
pub(super) fn read() -> Result<Vec<Reminder>> {
    let path = root().join("events/demo.reminders.jsonl");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    text.lines().enumerate().map(|(i, line)| serde_json::from_str(line).with_context(|| format!("line {}", i + 1))).collect()
}

impl Reminder {
    /// What schedule takes. The body names its due time, so that the receiver can tell an early call by itself.
    pub(super) fn event(&self, start: Timestamp) -> Value {
        let due = start.plus(Duration::from_secs(self.due_in_s));
        let mut payload = self.payload.clone();
        payload.insert("due".into(), json!(due));
        json!({
            "tenant": self.tenant,
            "subscriber": self.subscriber,
            "renewal_period": self.renewal_period,
            "reminder_kind": self.reminder_kind,
            "destination_id": self.destination_id,
            "reference": self.reference,
            "deliver_after": due,
            "deliver_by": start.plus(Duration::from_secs(self.deadline_in_s)),
            "payload": payload,
        })
    }
}
