//! I read the dead letters, of which one can be sent again: counts are of distinct deaths.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};

use crate::stack::Stack;

/// The dead letters of one delivery.
#[derive(Debug, Clone, Default)]
pub(crate) struct Letters {
    /// Repetitions included.
    pub(crate) sent: usize,
    /// Of which deaths.
    pub(crate) deaths: BTreeSet<String>,
}

impl Letters {
    /// Distinct deaths, and how often a letter was sent for them.
    pub(crate) fn shown(&self) -> String {
        match (self.deaths.len(), self.sent) {
            (0, _) => "-".to_owned(),
            (deaths, sent) if deaths == sent => deaths.to_string(),
            (deaths, sent) => format!("{deaths} ({sent}x)"),
        }
    }
}

/// The dead letters by delivery. They stay in their queue, hidden for ten minutes.
pub(crate) async fn read(stack: &Stack) -> Result<BTreeMap<String, Letters>> {
    let (sqs, url) = (stack.sqs().await, stack.dead_letter_queue_url()?);
    let mut letters: BTreeMap<String, Letters> = BTreeMap::new();
    loop {
        let request = sqs.receive_message().queue_url(&url).max_number_of_messages(10).visibility_timeout(600);
        let batch = request.message_attribute_names("All").send().await.context("read the dead letters")?.messages;
        let batch = batch.unwrap_or_default();
        if batch.is_empty() {
            return Ok(letters);
        }
        for message in batch {
            let attributes = message.message_attributes.unwrap_or_default();
            let text = |name: &str| attributes.get(name).and_then(|a| a.string_value.clone()).unwrap_or_default();
            let of_delivery = letters.entry(text("delivery_id")).or_default();
            of_delivery.sent += 1;
            of_delivery.deaths.insert(text("death"));
        }
    }
}
