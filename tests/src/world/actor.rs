//! I start actors: the shipped handlers, as Lambda would call them.

use punctual_adapters::memory::MemoryTicks;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use punctual_core::destination::StageRules;
use punctual_core::id::Correlation;
use punctual_deliver::Deliver;
use punctual_deliver::tally::Tally;
use punctual_dispatch::{Dispatch, Summary};
use punctual_flows::release::Rules;
use punctual_operate::Operate;
use punctual_redrive::{Redrive, Response as Redriven};
use punctual_schedule::Schedule;
use punctual_schedule::result::Response;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::effect::Effect;
use super::ports::Port;
use super::queue::Received;

/// How the stage is configured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage {
    pub(super) rules: Rules,
    pub(super) tick: Duration,
    pub(super) margin: Duration,
    pub(super) handoff_threshold: Duration,
    /// From one slice of a redrive run to the next.
    pub(super) interval: Duration,
}

/// What an actor leaves behind.
#[derive(Debug)]
pub(super) enum Done {
    Dispatched(Box<Summary>),
    Delivered(Box<Tally>),
    Scheduled(Box<Response>),
    Operated(bool),
    Redriven(Box<Redriven>),
    Failed(String),
}

pub(super) type Running = Pin<Box<dyn Future<Output = Done>>>;

fn by(port: &Port) -> Correlation {
    Correlation::of_request(&format!("a{}", port.actor))
}

pub(super) fn dispatch(port: Port, stage: Stage) -> Running {
    Box::pin(async move {
        let dispatch = Dispatch {
            ledger: &port,
            control: &port,
            queue: &port,
            dead_letters: &port,
            time: &port,
            rules: stage.rules,
            tick: stage.tick,
            margin: stage.margin,
            handoff_threshold: stage.handoff_threshold,
            by: by(&port),
        };
        match dispatch.run().await {
            Ok(summary) => Done::Dispatched(Box::new(summary)),
            Err(error) => Done::Failed(error.to_string()),
        }
    })
}

pub(super) fn schedule(port: Port, stage: Stage, event: Value) -> Running {
    Box::pin(async move {
        let schedule = Schedule {
            ledger: &port,
            control: &port,
            queue: &port,
            time: &port,
            rules: stage.rules,
            tick: stage.tick,
            margin: stage.margin,
            by: by(&port),
        };
        match RawValue::from_string(event.to_string()) {
            Ok(event) => match schedule.handle(&event).await {
                Ok(response) => Done::Scheduled(Box::new(response)),
                Err(error) => Done::Failed(error.to_string()),
            },
            Err(error) => Done::Failed(error.to_string()),
        }
    })
}

pub(super) fn operate(port: Port, stage: Stage, event: Value) -> Running {
    Box::pin(async move {
        let rules = StageRules { allow_local: false, secret_prefix: "punctual/sim/".into() };
        let operate = Operate {
            ledger: &port,
            control: &port,
            ticks: &MemoryTicks::default(),
            time: &port,
            rules: &rules,
            margin: stage.margin,
            by: by(&port),
        };
        match RawValue::from_string(event.to_string()) {
            Ok(event) => match operate.handle(&event).await {
                Ok(response) => Done::Operated(response.ok),
                Err(error) => Done::Failed(error.to_string()),
            },
            Err(error) => Done::Failed(error.to_string()),
        }
    })
}

pub(super) fn redrive(port: Port, stage: Stage, event: Value) -> Running {
    Box::pin(async move {
        let redrive = Redrive {
            ledger: &port,
            control: &port,
            queue: &port,
            letters: &port,
            slices: &port,
            time: &port,
            rules: stage.rules,
            tick: stage.tick,
            margin: stage.margin,
            interval: stage.interval,
            by: by(&port),
        };
        match RawValue::from_string(event.to_string()) {
            Ok(event) => match redrive.handle(&event).await {
                Ok(response) => Done::Redriven(Box::new(response)),
                Err(error) => Done::Failed(error.to_string()),
            },
            Err(error) => Done::Failed(error.to_string()),
        }
    })
}

/// One batch, and what the poller does with the answer: it deletes what is not named; a name that it does not know makes
/// it see the whole batch again.
pub(super) fn deliver(port: Port, stage: Stage, batch: Vec<Received>) -> Running {
    Box::pin(async move {
        // Where rates bind, some invocations have an environment of their own: what they believe of a number is old.
        let apart = port.inner().limits && port.actor.is_multiple_of(3);
        let measure = if apart { Arc::default() } else { Arc::clone(&port.inner().measure) };
        let deliver = Deliver {
            ledger: &port,
            control: &port,
            queue: &port,
            dead_letters: &port,
            secrets: &port,
            webhook: &port,
            time: &port,
            measure: &measure,
            margin: stage.margin,
            by: by(&port),
        };
        let records: Vec<Value> = batch.iter().map(record).collect();
        let event: SqsEvent = match serde_json::from_value(json!({ "Records": records })) {
            Ok(event) => event,
            Err(error) => return Done::Failed(error.to_string()),
        };
        let (response, tally) = deliver.handle(&event).await;
        let failed: BTreeSet<&str> = response.batch_item_failures.iter().map(|f| f.item_identifier.as_str()).collect();
        let known = failed.iter().all(|id| batch.iter().any(|message| message.id == *id));
        if !known {
            port.inner().violate("unknown_item", "a batch answer names an item that the batch does not have".to_owned());
        }
        let receipts: Vec<String> =
            batch.iter().filter(|message| !failed.contains(message.id.as_str())).map(|message| message.receipt.clone()).collect();
        if known && !receipts.is_empty() {
            port.ask(Effect::Acknowledge(receipts)).await;
        }
        Done::Delivered(Box::new(tally))
    })
}

fn record(message: &Received) -> Value {
    json!({
        "messageId": message.id,
        "receiptHandle": message.receipt,
        "body": message.body,
        "attributes": {
            "SentTimestamp": message.sent.to_string(),
            "ApproximateReceiveCount": message.receives.to_string(),
            "ApproximateFirstReceiveTimestamp": message.first_received.to_string(),
        },
        "messageAttributes": {},
        "eventSource": "aws:sqs",
    })
}
