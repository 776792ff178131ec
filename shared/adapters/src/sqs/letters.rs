//! I am the dead-letter queue, read: received and hidden, released or deleted, in batches whose every entry is checked.

use std::collections::BTreeMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, MessageSystemAttributeName,
};
use futures::StreamExt as _;
use punctual_core::id::MessageId;
use punctual_core::ports::{Letter, Letters, PortError};
use punctual_core::time::Timestamp;

use super::{BATCH, CONCURRENT_BATCHES, error_text, port_error};

/// A receive waits so long for the first message, in seconds: without a wait, only some of the queue's servers are asked.
const WAIT_SECONDS: i32 = 1;

/// The dead-letter queue, read.
#[derive(Debug, Clone)]
pub struct SqsLetters {
    client: Client,
    url: String,
}

impl SqsLetters {
    /// The queue at `url`.
    #[must_use]
    pub fn new(client: Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into() }
    }

    async fn delete_batch(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        let what = "DeleteMessageBatch";
        let entry = |(i, receipt): (usize, &String)| {
            DeleteMessageBatchRequestEntry::builder().id(i.to_string()).receipt_handle(receipt).build()
        };
        let entries: Result<Vec<_>, _> = receipts.iter().enumerate().map(entry).collect();
        let answer = match entries {
            Ok(entries) => {
                let request = self.client.delete_message_batch().queue_url(&self.url).set_entries(Some(entries));
                request.send().await.map_err(|e| port_error(what, e))
            }
            Err(e) => Err(PortError::Refused { what, source: Box::new(e) }),
        };
        let answer = answer.map(|output| (output.successful.into_iter().map(|done| done.id).collect(), output.failed));
        results(what, receipts.len(), answer)
    }

    async fn release_batch(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        let what = "ChangeMessageVisibilityBatch";
        let entry = |(i, receipt): (usize, &String)| {
            let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(i.to_string()).receipt_handle(receipt);
            entry.visibility_timeout(0).build()
        };
        let entries: Result<Vec<_>, _> = receipts.iter().enumerate().map(entry).collect();
        let answer = match entries {
            Ok(entries) => {
                let request = self.client.change_message_visibility_batch().queue_url(&self.url).set_entries(Some(entries));
                request.send().await.map_err(|e| port_error(what, e))
            }
            Err(e) => Err(PortError::Refused { what, source: Box::new(e) }),
        };
        let answer = answer.map(|output| (output.successful.into_iter().map(|done| done.id).collect(), output.failed));
        results(what, receipts.len(), answer)
    }
}

/// One result for each entry of a batch: HTTP 200 can carry failed entries, and an entry that is not named has not happened.
fn results(
    what: &'static str,
    entries: usize,
    answer: Result<(Vec<String>, Vec<BatchResultErrorEntry>), PortError>,
) -> Vec<Result<(), PortError>> {
    let unavailable = |text: String| PortError::Unavailable { what, source: text.into() };
    let (done, failed) = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let text = error_text(&error);
            return (0..entries).map(|_| Err(unavailable(text.clone()))).collect();
        }
    };
    let one = |i: usize| {
        let id = i.to_string();
        if let Some(failed) = failed.iter().find(|failed| failed.id == id) {
            let text = format!("{}: {}", failed.code(), failed.message().unwrap_or_default());
            return Err(match failed.sender_fault() {
                true => PortError::Refused { what, source: text.into() },
                false => unavailable(text),
            });
        }
        if done.contains(&id) { Ok(()) } else { Err(unavailable("the response does not name this entry".into())) }
    };
    (0..entries).map(one).collect()
}

fn letter(message: aws_sdk_sqs::types::Message) -> Result<Letter, PortError> {
    let corrupt = |problem: &str| PortError::Corrupt { item: "received dead letter".into(), problem: problem.to_owned() };
    let system = |name| message.attributes.as_ref().and_then(|attributes| attributes.get(&name));
    let sent_at = system(MessageSystemAttributeName::SentTimestamp).and_then(|ms| ms.parse().ok());
    let receives = system(MessageSystemAttributeName::ApproximateReceiveCount).and_then(|count| count.parse().ok());
    let attributes: BTreeMap<String, String> = message
        .message_attributes
        .iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.clone(), value.string_value.clone()?)))
        .collect();
    Ok(Letter {
        sent_at: Timestamp::from_millis(sent_at.unwrap_or_default()),
        receives: receives.unwrap_or(1),
        attributes,
        id: message.message_id.and_then(|id| MessageId::new(id).ok()).ok_or_else(|| corrupt("it has no readable message id"))?,
        receipt: message.receipt_handle.ok_or_else(|| corrupt("it has no receipt handle"))?,
        body: message.body.unwrap_or_default(),
    })
}

impl Letters for SqsLetters {
    /// Waits up to a second for the first message. One that cannot be handled at all (it has no receipt) is reported to the
    /// log and shows itself again by its visibility.
    async fn receive(&self, most: u32, hide_seconds: u32) -> Result<Vec<Letter>, PortError> {
        let answer = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(i32::try_from(most.clamp(1, 10)).unwrap_or(10))
            .visibility_timeout(i32::try_from(hide_seconds).unwrap_or(43_200))
            .wait_time_seconds(WAIT_SECONDS)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_attribute_names("All")
            .send()
            .await
            .map_err(|e| port_error("ReceiveMessage", e))?;
        let report = |problem: PortError| tracing::error!(%problem, "a dead letter is left out");
        Ok(answer.messages.unwrap_or_default().into_iter().filter_map(|m| letter(m).map_err(report).ok()).collect())
    }

    async fn delete(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        let batches: Vec<Vec<String>> = receipts.chunks(BATCH).map(<[String]>::to_vec).collect();
        let results: Vec<_> = futures::stream::iter(batches)
            .map(|batch| async move { self.delete_batch(&batch).await })
            .buffered(CONCURRENT_BATCHES)
            .collect()
            .await;
        results.into_iter().flatten().collect()
    }

    async fn release(&self, receipts: &[String]) -> Vec<Result<(), PortError>> {
        let batches: Vec<Vec<String>> = receipts.chunks(BATCH).map(<[String]>::to_vec).collect();
        let results: Vec<_> = futures::stream::iter(batches)
            .map(|batch| async move { self.release_batch(&batch).await })
            .buffered(CONCURRENT_BATCHES)
            .collect()
            .await;
        results.into_iter().flatten().collect()
    }
}
