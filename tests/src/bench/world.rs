//! I am the functions in this process: the shipped handlers and adapters on dynoxide, with the template's own tables.
//!
//! Only three things are not what is deployed: the queue's service (below the SDK), the store of secrets, and the
//! receiver, which accepts every call at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use aws_lambda_events::event::sqs::SqsEvent;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::DeleteMessageBatchRequestEntry;
use punctual_adapters::aws::Aws;
use punctual_adapters::clock::{DatabaseClock, InvocationTime, Probe, machine_time};
use punctual_adapters::dynamodb::{DynamoControl, DynamoLedger, Meter};
use punctual_adapters::sqs::{SqsDeadLetters, SqsQueue};
use punctual_core::breaker::Reach;
use punctual_core::destination::Destination;
use punctual_core::id::Correlation;
use punctual_core::outcome::CallResult;
use punctual_core::ports::{Control as _, Request, SecretUnavailable, Secrets, Stored, Webhook};
use punctual_core::signature::Secret;
use punctual_deliver::Deliver;
use punctual_deliver::measure::Measure;
use punctual_dispatch::{Dispatch, Summary};
use punctual_flows::release::Rules;
use punctual_schedule::Schedule;
use punctual_schedule::result::Response;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use serde_norway::Value as Yaml;

use super::calls::Calls;
use super::queue::Sqs;
use crate::stack::dynamo::Dynoxide;
use crate::stack::http::Api;
use crate::stack::{sdk_config, template};

/// How long an invocation may take: deliver's timeout in the template, the shortest of the three.
pub(super) const INVOCATION: Duration = Duration::from_secs(30);
/// The most messages that Lambda's poller hands over at a time.
pub(super) const BATCH: usize = 10;

pub(super) const LEDGER: &str = "ledger";
pub(super) const CONTROL: &str = "control";
const QUEUE: &str = "http://sqs.invalid/deliveries";
const DEAD_LETTERS: &str = "http://sqs.invalid/dead-letters";

/// The functions and what they run on.
#[derive(Debug)]
pub(crate) struct World {
    dynamodb: aws_sdk_dynamodb::Client,
    sqs: aws_sdk_sqs::Client,
    queue: Sqs,
    clock: DatabaseClock,
    /// How dispatch releases: the template's defaults, as all that follow.
    pub(crate) rules: Rules,
    /// From one tick to the next.
    pub(crate) tick: Duration,
    /// The safety margin.
    pub(crate) margin: Duration,
    /// When a message counts as overdue.
    pub(crate) handoff_threshold: Duration,
    /// What calls to the ledger table cost.
    pub(super) ledger_meter: Arc<Meter>,
    /// What calls to the control table cost.
    pub(super) control_meter: Arc<Meter>,
    /// Requests to DynamoDB.
    pub(super) dynamodb_calls: Calls,
    /// Requests to SQS.
    pub(super) sqs_calls: Calls,
    // Last: it ends when nothing uses it any more.
    dynoxide: Dynoxide,
}

impl World {
    /// Starts an empty world.
    pub(crate) async fn start() -> Result<Self> {
        let dynoxide = Dynoxide::start()?;
        let template: Yaml = serde_norway::from_str(&template::read()?).context("the template is no YAML")?;
        create_tables(dynoxide.endpoint(), LEDGER, CONTROL).await?;
        let sdk = sdk_config(dynoxide.endpoint()).await;
        let clock = DatabaseClock::default();
        let (dynamodb_calls, sqs_calls, queue) = (Calls::default(), Calls::default(), Sqs::default());
        let dynamodb = aws_sdk_dynamodb::config::Builder::from(&sdk)
            .interceptor(clock.interceptor())
            .interceptor(dynamodb_calls.clone())
            .build();
        let sqs = aws_sdk_sqs::config::Builder::from(&sdk)
            .endpoint_url("http://sqs.invalid")
            .http_client(queue.http_client())
            .interceptor(sqs_calls.clone())
            .build();
        Ok(Self {
            dynamodb: aws_sdk_dynamodb::Client::from_conf(dynamodb),
            sqs: aws_sdk_sqs::Client::from_conf(sqs),
            queue,
            clock,
            rules: Rules {
                horizon: of_default_tick(&template, "HorizonSeconds")?,
                lease: default_seconds(&template, "DispatchLeaseSeconds")?,
            },
            tick: of_default_tick(&template, "PeriodSeconds")?,
            margin: default_seconds(&template, "SafetyMarginSeconds")?,
            handoff_threshold: default_seconds(&template, "HandoffThresholdSeconds")?,
            ledger_meter: Arc::default(),
            control_meter: Arc::default(),
            dynamodb_calls,
            sqs_calls,
            dynoxide,
        })
    }

    /// One more execution environment's own way to the tables: its clock is nobody else's.
    pub(super) async fn environment(&self) -> Aws {
        Aws::with(sdk_config(self.dynoxide.endpoint()).await)
    }

    /// The client of the tables.
    pub(super) fn client(&self) -> &aws_sdk_dynamodb::Client {
        &self.dynamodb
    }

    /// The stage's safety margin.
    pub(super) fn margin(&self) -> Duration {
        self.margin
    }

    /// The ledger, metered.
    pub(crate) fn ledger(&self) -> DynamoLedger {
        DynamoLedger::new(self.dynamodb.clone(), LEDGER).with_meter(self.ledger_meter.clone())
    }

    /// The control table, metered.
    pub(crate) fn control(&self) -> DynamoControl {
        DynamoControl::new(self.dynamodb.clone(), CONTROL).with_meter(self.control_meter.clone())
    }

    /// Who does it.
    pub(super) fn by() -> Result<Correlation> {
        // Longer than a request id's token, as long as the field takes.
        Correlation::new("c".repeat(Correlation::MAX)).context("a correlation id")
    }

    fn time(&self) -> InvocationTime {
        self.time_for(INVOCATION)
    }

    /// The time of an invocation that may take so long.
    pub(super) fn time_for(&self, timeout: Duration) -> InvocationTime {
        let client = self.dynamodb.clone();
        let probe: Probe = Arc::new(move || {
            let request = client.get_item().table_name(CONTROL);
            let request = request.key("kind", AttributeValue::S("settings".into())).key("id", AttributeValue::S("stage".into()));
            Box::pin(async move {
                // A failed probe narrows nothing; the wait that asked for it goes on.
                let _ = request.send().await;
            })
        });
        let ends = machine_time().plus(timeout).as_millis();
        InvocationTime::begin(&self.clock, probe, u64::try_from(ends).unwrap_or_default())
    }

    /// Registers a destination that has proven itself, or replaces the version before it.
    pub(super) async fn put_destination(&self, destination: &Destination) -> Result<()> {
        if destination.version == 1 {
            let unproven = Reach::unproven(Correlation::new("bench")?);
            let proven = Reach { version: 1, in_flight: destination.spec.max_in_flight, ..unproven };
            ensure!(self.control().note_reach(&destination.spec.id, &proven).await? == Stored::Done, "it was reached before");
        }
        match self.control().put_destination(destination, destination.version.saturating_sub(1)).await? {
            Stored::Done => Ok(()),
            Stored::Conflict => bail!("destination {} has another version", destination.spec.id),
        }
    }

    /// One invocation of schedule.
    pub(super) async fn schedule(&self, event: &RawValue) -> Result<Response> {
        let (ledger, control, time) = (self.ledger(), self.control(), self.time());
        let queue = SqsQueue::new(self.sqs.clone(), QUEUE);
        let schedule = Schedule {
            ledger: &ledger,
            control: &control,
            queue: &queue,
            time: &time,
            rules: self.rules,
            tick: self.tick,
            margin: self.margin,
            by: Self::by()?,
        };
        Ok(schedule.handle(event).await?)
    }

    /// One invocation of dispatch.
    pub(super) async fn dispatch(&self) -> Result<Summary> {
        let (ledger, control, time) = (self.ledger(), self.control(), self.time());
        let dispatch = Dispatch {
            ledger: &ledger,
            control: &control,
            queue: &SqsQueue::new(self.sqs.clone(), QUEUE),
            dead_letters: &SqsDeadLetters::new(self.sqs.clone(), DEAD_LETTERS),
            time: &time,
            rules: self.rules,
            tick: self.tick,
            margin: self.margin,
            handoff_threshold: self.handoff_threshold,
            by: Self::by()?,
        };
        Ok(dispatch.run().await?)
    }

    /// What Lambda's poller and one invocation of deliver do: receive a batch, handle it, delete it. Gives the number
    /// of records; all of them must have been delivered.
    pub(super) async fn deliver(&self) -> Result<usize> {
        let most = i32::try_from(BATCH).unwrap_or(i32::MAX);
        let received = self.sqs.receive_message().queue_url(QUEUE).max_number_of_messages(most).send().await?;
        let messages = received.messages.unwrap_or_default();
        let records: Vec<Value> = messages.iter().map(|m| record(m.message_id(), m.receipt_handle(), m.body())).collect();
        let event: SqsEvent = serde_json::from_value(json!({ "Records": records }))?;

        let (ledger, control, time) = (self.ledger(), self.control(), self.time());
        let deliver = Deliver {
            ledger: &ledger,
            control: &control,
            queue: &SqsQueue::new(self.sqs.clone(), QUEUE),
            dead_letters: &SqsDeadLetters::new(self.sqs.clone(), DEAD_LETTERS),
            secrets: &Longest,
            webhook: &Accepts,
            time: &time,
            measure: &Measure::default(),
            margin: self.margin,
            by: Self::by()?,
        };
        let (response, tally) = deliver.handle(&event).await;
        if !response.batch_item_failures.is_empty() || tally.delivered != records.len() {
            bail!("not every record was delivered: {tally:?}");
        }
        if records.is_empty() {
            return Ok(0);
        }
        let mut delete = self.sqs.delete_message_batch().queue_url(QUEUE);
        for (i, message) in messages.iter().enumerate() {
            let receipt = message.receipt_handle().unwrap_or_default();
            delete = delete.entries(DeleteMessageBatchRequestEntry::builder().id(i.to_string()).receipt_handle(receipt).build()?);
        }
        delete.send().await?;
        Ok(records.len())
    }

    /// Messages that were accepted and not deleted.
    pub(super) fn messages_left(&self) -> usize {
        self.queue.depth()
    }

    /// Forgets what was counted so far.
    pub(super) fn forget(&self) {
        self.ledger_meter.take();
        self.control_meter.take();
        let _ = (self.dynamodb_calls.take(), self.sqs_calls.take());
    }
}

fn record(id: Option<&str>, receipt: Option<&str>, body: Option<&str>) -> Value {
    let now = machine_time().as_millis().to_string();
    json!({
        "messageId": id,
        "receiptHandle": receipt,
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1", "ApproximateFirstReceiveTimestamp": now},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
    })
}

fn at<'t>(template: &'t Yaml, path: [&str; 3]) -> Result<&'t Yaml> {
    let found = path.iter().try_fold(template, |value, name| value.get(*name));
    found.ok_or_else(|| anyhow!("the template has no {}", path.join(".")))
}

/// The default of a parameter in seconds: the functions run with what the template gives them.
fn default_seconds(template: &Yaml, parameter: &str) -> Result<Duration> {
    let default = at(template, ["Parameters", parameter, "Default"])?.as_u64();
    default.map(Duration::from_secs).ok_or_else(|| anyhow!("the default of {parameter} is no number"))
}

/// A time that the template derives from the default of `TickMinutes`.
fn of_default_tick(template: &Yaml, name: &str) -> Result<Duration> {
    let minutes = at(template, ["Parameters", "TickMinutes", "Default"])?.as_u64();
    let minutes = minutes.context("the default of TickMinutes is no number")?.to_string();
    let seconds = at(template, ["Mappings", "TickEvery", &minutes])?.get(name).and_then(Yaml::as_str);
    let seconds = seconds.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    seconds.ok_or_else(|| anyhow!("{name} of a tick of {minutes} min is no number"))
}

/// Creates both tables with the keys and indexes of the template.
pub(crate) async fn create_tables(endpoint: &str, ledger: &str, control: &str) -> Result<()> {
    let template: Yaml = serde_norway::from_str(&template::read()?).context("the template is no YAML")?;
    let api = Api::new(endpoint)?;
    for (resource, table) in [("LedgerTable", ledger), ("ControlTable", control)] {
        let properties = at(&template, ["Resources", resource, "Properties"])?;
        let mut creation = json!({"TableName": table, "BillingMode": "PAY_PER_REQUEST"});
        for name in ["AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes"] {
            if let (Some(property), Some(creation)) = (properties.get(name), creation.as_object_mut()) {
                creation.insert(name.to_owned(), serde_norway::from_value(property.clone())?);
            }
        }
        api.dynamodb("CreateTable", &creation).await?;
    }
    Ok(())
}

/// A store with three secrets, as many as a destination may have, whose ids are as long as they may be.
#[derive(Debug)]
pub(super) struct Longest;

impl Secrets for Longest {
    async fn active(&self, references: &[String]) -> Result<Vec<Secret>, SecretUnavailable> {
        let secret = |reference: &String| {
            // A bare secret's id is the end of its reference.
            let id = reference.rsplit('/').next().unwrap_or_default();
            Secret::parse(id, "whsec_cHVuY3R1YWwtYmVuY2gtc2VjcmV0LTIwMjctMDE=")
                .map_err(|e| SecretUnavailable { reference: reference.clone(), problem: e.to_string() })
        };
        references.iter().map(secret).collect()
    }
}

/// A receiver that accepts every call at once.
#[derive(Debug)]
struct Accepts;

impl Webhook for Accepts {
    async fn call(&self, _request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if may_start() { CallResult::Answered { status: 200, retry_after: None } } else { CallResult::not_called() }
    }
}
