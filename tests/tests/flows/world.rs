//! I am what every flow needs: a stack, a receiver, a ledger to look into, and waiting for a condition with a bound.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use punctual_adapters::aws::Aws;
use punctual_adapters::clock::machine_time;
use punctual_adapters::dynamodb::{DynamoControl, DynamoLedger};
use punctual_core::breaker::Reach;
use punctual_core::delivery::Delivery;
use punctual_core::destination::Destination;
use punctual_core::id::{Correlation, DeliveryId, DestinationId};
use punctual_core::ports::{Control as _, Ledger as _, Stored};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_tests::console::Console;
use punctual_tests::receiver::{Receiver, ReceiverOptions};
use punctual_tests::stack::{Stack, StackOptions, sdk_config};
use serde_json::{Value, json};
use tokio::sync::RwLock;

/// The signing secret of every destination; the receiver verifies with it.
pub(crate) const SECRET: &str = "whsec_cHVuY3R1YWwtZmxvd3Mtc2VjcmV0LTIwMjYtMDE=";
/// Its name below the stage's path.
pub(crate) const SECRET_NAME: &str = "punctual/local/flows";

/// The longest that anything without a bound of its own may take.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(50);
/// How many reminders go into one call of schedule.
const BATCH: usize = 250;

/// The one test that asserts wall-clock times writes; tests that keep the machine busy read.
pub(crate) static MACHINE: RwLock<()> = RwLock::const_new(());

/// A stack with a receiver.
pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) receiver: Receiver,
    pub(crate) ledger: DynamoLedger,
    pub(crate) control: DynamoControl,
}

/// A message of the dead-letter queue.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) body: String,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Letter {
    /// An attribute; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

impl World {
    /// A stack whose safety margin is one second: a deadline can pass within a test.
    pub(crate) async fn start() -> Self {
        Self::start_with(StackOptions::default(), ReceiverOptions::default()).await
    }

    pub(crate) async fn start_with(options: StackOptions, receiver: ReceiverOptions) -> Self {
        Self::start_with_margin(options, receiver, Duration::from_secs(1)).await
    }

    pub(crate) async fn start_with_margin(options: StackOptions, receiver: ReceiverOptions, margin: Duration) -> Self {
        let stack = Stack::start(options.parameter("SafetyMarginSeconds", margin.as_secs())).await.unwrap();
        let receiver = Receiver::start_with(&[SECRET], receiver).await.unwrap();
        let aws = Aws::with(sdk_config(stack.dynamodb_endpoint()).await);
        let ledger = aws.ledger(&stack.ledger_table().unwrap());
        let control = aws.control(&stack.control_table().unwrap());
        let world = Self { stack, receiver, ledger, control };
        world.console().create_secret(SECRET_NAME, SECRET).await.unwrap();
        world
    }

    pub(crate) fn console(&self) -> Console<'_> {
        Console::new(&self.stack)
    }

    /// Registers a destination for a path of the receiver: fast, and repeating soon. `change` overrides single fields.
    pub(crate) async fn destination(&self, id: &str, path: &str, change: Value) {
        let mut spec = json!({
            "id": id,
            "url": self.receiver.url(path),
            "secrets": [SECRET_NAME],
            "connect_timeout_ms": 300,
            "total_timeout_ms": 1_000,
            "rate_per_second": 1_000,
            "max_in_flight": 10_000,
            "retry": {"base_ms": 100, "cap_ms": 1_000, "attempts": 5},
        });
        spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        self.console().put_destination(spec).await.unwrap();
    }

    /// Lets a destination pass for proven: as much may be out for it as it allows.
    pub(crate) async fn proven(&self, id: &str) {
        let by = Correlation::new("proven").unwrap();
        let reach = Reach { version: 1, in_flight: 10_000, ..Reach::unproven(by) };
        assert_eq!(self.control.note_reach(&DestinationId::new(id).unwrap(), &reach).await.unwrap(), Stored::Done);
    }

    /// Schedules reminders; all must be new.
    pub(crate) async fn schedule(&self, reminders: &[Value]) -> Vec<DeliveryId> {
        let mut ids = Vec::new();
        for batch in reminders.chunks(BATCH) {
            let answer = self.console().schedule(batch).await.unwrap();
            assert_eq!(answer["summary"]["created"], batch.len(), "{answer}");
            ids.extend(list(&answer["results"]).iter().map(|one| id(one["delivery_id"].as_str().unwrap())));
        }
        ids
    }

    /// Rows in the order of their ids in `ids`.
    pub(crate) async fn rows(&self, ids: &[DeliveryId]) -> Vec<Delivery> {
        let mut rows: BTreeMap<DeliveryId, Delivery> =
            self.ledger.read(ids).await.unwrap().into_iter().map(|row| (row.id.clone(), row)).collect();
        ids.iter().map(|id| rows.remove(id).unwrap_or_else(|| panic!("the ledger has no {id}"))).collect()
    }

    pub(crate) async fn row(&self, id: &DeliveryId) -> Delivery {
        self.rows(std::slice::from_ref(id)).await.remove(0)
    }

    /// Waits until every row is as wanted.
    pub(crate) async fn until_rows(&self, what: &str, ids: &[DeliveryId], wanted: impl Fn(&Delivery) -> bool) -> Vec<Delivery> {
        until(what, BOUND, async || {
            let rows = self.rows(ids).await;
            let open: Vec<String> = rows
                .iter()
                .filter(|row| !wanted(row))
                .take(3)
                .map(|row| format!("{} {:?}", row.id, row.history.last()))
                .collect();
            if open.is_empty() { Ok(rows) } else { Err(open.join(", ")) }
        })
        .await
    }

    /// Waits until every row has come to its end.
    pub(crate) async fn settled(&self, ids: &[DeliveryId]) -> Vec<Delivery> {
        self.until_rows("the end of every delivery", ids, ended).await
    }

    pub(crate) async fn stored_destination(&self, id: &str) -> Destination {
        let id = DestinationId::new(id).unwrap();
        self.control.lookup(std::slice::from_ref(&id)).await.unwrap().0.remove(0)
    }

    /// How many messages wait in the queue, visible or not.
    pub(crate) async fn queued_messages(&self) -> usize {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        let request = self.stack.sqs().await.get_queue_attributes().queue_url(self.stack.queue_url().unwrap());
        let answer = request.set_attribute_names(Some(names.to_vec())).send().await.unwrap();
        let counts = answer.attributes().unwrap();
        names.iter().map(|name| counts[name].parse::<usize>().unwrap()).sum()
    }

    /// Takes all messages out of the dead-letter queue.
    pub(crate) async fn dead_letters(&self) -> Vec<Letter> {
        let (sqs, url) = (self.stack.sqs().await, self.stack.dead_letter_queue_url().unwrap());
        let mut letters = Vec::new();
        loop {
            let request = sqs.receive_message().queue_url(&url).max_number_of_messages(10).message_attribute_names("All");
            let messages = request.send().await.unwrap().messages.unwrap_or_default();
            if messages.is_empty() {
                return letters;
            }
            for message in messages {
                sqs.delete_message().queue_url(&url).receipt_handle(message.receipt_handle.unwrap()).send().await.unwrap();
                let attributes = message.message_attributes.unwrap_or_default();
                let text = |(name, value): (String, aws_sdk_sqs::types::MessageAttributeValue)| {
                    (name, value.string_value.unwrap_or_default())
                };
                letters.push(Letter {
                    body: message.body.unwrap_or_default(),
                    attributes: attributes.into_iter().map(text).collect(),
                });
            }
        }
    }

    /// Waits until the machine's clock has passed an instant.
    pub(crate) async fn until_after(&self, at: Timestamp) {
        until("an instant", BOUND, async || if machine_time() > at { Ok(()) } else { Err(at.to_string()) }).await;
    }

    /// Ends the world, and the test if the receiver saw what must never happen.
    pub(crate) async fn stop(self) {
        assert_eq!(self.receiver.calls_before_due(), [], "calls before due");
        assert_eq!(self.receiver.badly_signed(), [], "badly signed calls");
        assert_eq!(self.receiver.duplicate_effects(), 0, "duplicate effects");
        self.receiver.stop().await.unwrap();
        self.stack.stop().await.unwrap();
    }
}

/// Whether nothing happens to a row any more by itself.
pub(crate) fn ended(row: &Delivery) -> bool {
    row.state.is_terminal() || (row.state.needs_operator() && !row.owes_dead_letter())
}

/// How often a row was in a state.
pub(crate) fn times(row: &Delivery, state: State) -> usize {
    row.history.iter().filter(|entry| entry.state == state).count()
}

/// A reminder; `n` tells the reminders of one destination apart.
pub(crate) fn reminder(destination: &str, n: usize, after: Timestamp, by: Timestamp) -> Value {
    json!({
        "tenant": "acme",
        "subscriber": format!("subscriber-{n}"),
        "renewal_period": "2027",
        "reminder_kind": destination,
        "destination_id": destination,
        "reference": format!("contract-{destination}-{n}"),
        "deliver_after": after,
        "deliver_by": by,
        "payload": {"due": after, "n": n},
    })
}

/// Reminders that are due now, with an hour to go.
pub(crate) fn due_now(destination: &str, count: usize) -> Vec<Value> {
    let now = machine_time();
    (0..count).map(|n| reminder(destination, n, now, now.plus(Duration::from_secs(3_600)))).collect()
}

/// Asks until there is an answer, at most for `bound`; a refusal says what is still missing.
pub(crate) async fn until<T>(what: &str, bound: Duration, mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    let mut missing = String::new();
    let wait = async {
        loop {
            match ask().await {
                Ok(answer) => return answer,
                Err(why) => missing = why,
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(bound, wait).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what} did not come within {} s: {missing}", bound.as_secs()),
    }
}

pub(crate) fn id(text: &str) -> DeliveryId {
    DeliveryId::new(text).unwrap()
}

/// The items of a JSON list.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// A number of a JSON answer.
pub(crate) fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))).unwrap()
}
