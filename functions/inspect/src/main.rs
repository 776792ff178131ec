//! Wires inspect: configuration, adapters, one answer for each event.

#![recursion_limit = "256"]

use lambda_runtime::{LambdaEvent, run, service_fn};
use punctual_adapters::aws::Aws;
use punctual_adapters::config::{InspectConfig, environment};
use punctual_adapters::telemetry::start_logs;
use punctual_inspect::{Inspect, Response};
use serde_json::value::RawValue;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    start_logs(environment("LOG_LEVEL").as_deref())?;
    let config = InspectConfig::from_lookup(&environment)?;
    let aws = Aws::connect().await;
    run(service_fn(|event: LambdaEvent<Box<RawValue>>| answer(&config, &aws, event))).await
}

async fn answer(config: &InspectConfig, aws: &Aws, event: LambdaEvent<Box<RawValue>>) -> anyhow::Result<Response> {
    let inspect = Inspect {
        ledger: &aws.ledger(&config.stage.ledger_table),
        control: &aws.control(&config.stage.control_table),
        letters: &aws.letters(&config.dead_letter_queue_url),
        time: &aws.time(&config.stage.control_table, event.context.deadline),
        margin: config.margin,
        tick: config.tick,
    };
    let by = &event.context.request_id;
    Ok(inspect.handle(&event.payload).await.inspect_err(|error| tracing::error!(by, error = %error, "inspect failed"))?)
}
