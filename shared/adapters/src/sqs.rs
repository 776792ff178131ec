//! I am the queue and the dead-letter queue on SQS. Only I know receipt handles, batches and attributes.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry};
use futures::StreamExt as _;
use punctual_core::dead_letter::DeadLetter;
use punctual_core::figures::Depth;
use punctual_core::id::MessageId;
use punctual_core::ports::{DeadLetters, Gauge, Outgoing, PortError, Queue};

mod letters;

pub use letters::SqsLetters;

/// The most entries of one batch.
const BATCH: usize = 10;
/// How many batches are under way at once.
const CONCURRENT_BATCHES: usize = 4;

fn port_error<E>(what: &'static str, error: SdkError<E>) -> PortError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let refused = error.as_service_error().is_some_and(|e| {
        e.code().is_some_and(|code| {
            code.contains("AccessDenied") || code.contains("NonExistentQueue") || code.contains("InvalidParameter")
        })
    });
    let source = error.into_source().unwrap_or_else(|e| Box::new(e));
    if refused { PortError::Refused { what, source } } else { PortError::Unavailable { what, source } }
}

/// The queue of deliveries.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    client: Client,
    url: String,
}

impl SqsQueue {
    /// The queue at `url`.
    #[must_use]
    pub fn new(client: Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into() }
    }

    /// Sends up to ten messages. HTTP 200 can carry failed entries: each entry has a result of its own.
    async fn publish_batch(&self, messages: &[Outgoing]) -> Vec<Result<MessageId, PortError>> {
        let mut results: Vec<Option<Result<MessageId, PortError>>> = messages.iter().map(|_| None).collect();
        let entries: Result<Vec<_>, _> = messages
            .iter()
            .enumerate()
            .map(|(i, outgoing)| {
                SendMessageBatchRequestEntry::builder()
                    .id(i.to_string())
                    .message_body(outgoing.message.body())
                    .delay_seconds(i32::from(outgoing.delay_seconds))
                    .message_group_id(outgoing.message.destination_id.as_str())
                    .build()
            })
            .collect();
        let sent = match entries {
            Ok(entries) => {
                let request = self.client.send_message_batch().queue_url(&self.url).set_entries(Some(entries));
                request.send().await.map_err(|e| port_error("SendMessageBatch", e))
            }
            Err(e) => Err(PortError::Refused { what: "SendMessageBatch", source: Box::new(e) }),
        };
        match sent {
            Ok(output) => {
                for done in output.successful() {
                    let id = MessageId::new(done.message_id())
                        .map_err(|e| PortError::Corrupt { item: "message id".into(), problem: e.to_string() });
                    place(&mut results, done.id(), id);
                }
                for failed in output.failed() {
                    let source = format!("{}: {}", failed.code(), failed.message().unwrap_or_default()).into();
                    let what = "SendMessageBatch entry";
                    let error = if failed.sender_fault() {
                        PortError::Refused { what, source }
                    } else {
                        PortError::Unavailable { what, source }
                    };
                    place(&mut results, failed.id(), Err(error));
                }
                results
                    .into_iter()
                    .map(|r| r.unwrap_or_else(|| Err(unanswered("the response does not name this entry"))))
                    .collect()
            }
            Err(error) => {
                let text = error_text(&error);
                messages.iter().map(|_| Err(unanswered(&text))).collect()
            }
        }
    }
}

fn unanswered(text: &str) -> PortError {
    PortError::Unavailable { what: "SendMessageBatch", source: text.to_owned().into() }
}

fn error_text(error: &PortError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}

fn place(results: &mut [Option<Result<MessageId, PortError>>], id: &str, result: Result<MessageId, PortError>) {
    if let Some(slot) = id.parse::<usize>().ok().and_then(|i| results.get_mut(i)) {
        *slot = Some(result);
    }
}

impl Queue for SqsQueue {
    async fn publish(&self, messages: &[Outgoing]) -> Vec<Result<MessageId, PortError>> {
        let batches: Vec<Vec<Outgoing>> = messages.chunks(BATCH).map(<[Outgoing]>::to_vec).collect();
        let results: Vec<_> = futures::stream::iter(batches)
            .map(|batch| async move { self.publish_batch(&batch).await })
            .buffered(CONCURRENT_BATCHES)
            .collect()
            .await;
        results.into_iter().flatten().collect()
    }

    async fn hide(&self, receipt: &str, seconds: u32) -> Result<(), PortError> {
        self.client
            .change_message_visibility()
            .queue_url(&self.url)
            .receipt_handle(receipt)
            .visibility_timeout(i32::try_from(seconds).unwrap_or(43_200))
            .send()
            .await
            .map_err(|e| port_error("ChangeMessageVisibility", e))?;
        Ok(())
    }
}

/// The dead-letter queue.
#[derive(Debug, Clone)]
pub struct SqsDeadLetters {
    client: Client,
    url: String,
}

impl SqsDeadLetters {
    /// The queue at `url`.
    #[must_use]
    pub fn new(client: Client, url: impl Into<String>) -> Self {
        Self { client, url: url.into() }
    }
}

impl DeadLetters for SqsDeadLetters {
    async fn send(&self, letter: &DeadLetter) -> Result<(), PortError> {
        // SQS takes no empty body; a message without one has nothing else to show.
        let body = if letter.body.is_empty() { "(empty)" } else { &letter.body };
        let mut request = self.client.send_message().queue_url(&self.url).message_body(body);
        for (name, value) in &letter.attributes {
            let attribute = MessageAttributeValue::builder().data_type("String").string_value(value).build();
            let attribute = attribute.map_err(|e| PortError::Refused { what: "SendMessage", source: Box::new(e) })?;
            request = request.message_attributes(*name, attribute);
        }
        request.send().await.map_err(|e| port_error("SendMessage", e))?;
        Ok(())
    }
}

/// How full the queue at `url` is.
async fn fill(client: &Client, url: &str) -> Result<Depth, PortError> {
    let what = "GetQueueAttributes";
    let (visible, in_flight, delayed) = (
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        QueueAttributeName::ApproximateNumberOfMessagesDelayed,
    );
    let names = [&visible, &in_flight, &delayed].map(Clone::clone).to_vec();
    let answer = client.get_queue_attributes().queue_url(url).set_attribute_names(Some(names)).send().await;
    let attributes = answer.map_err(|e| port_error(what, e))?.attributes.unwrap_or_default();
    let count = |name: &QueueAttributeName| {
        let digits = attributes.get(name).and_then(|text| text.parse().ok());
        digits.ok_or_else(|| PortError::Corrupt { item: what.into(), problem: format!("no number for {}", name.as_str()) })
    };
    Ok(Depth { visible: count(&visible)?, in_flight: count(&in_flight)?, delayed: count(&delayed)? })
}

impl Gauge for SqsQueue {
    async fn fill(&self) -> Result<Depth, PortError> {
        fill(&self.client, &self.url).await
    }
}

impl Gauge for SqsDeadLetters {
    async fn fill(&self) -> Result<Depth, PortError> {
        fill(&self.client, &self.url).await
    }
}
