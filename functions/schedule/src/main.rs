//! Wires schedule: configuration, adapters, one answer for each event.

#![recursion_limit = "256"]

use lambda_runtime::{LambdaEvent, run, service_fn};
use punctual_adapters::aws::Aws;
use punctual_adapters::config::{ScheduleConfig, environment};
use punctual_adapters::telemetry::start_logs;
use punctual_core::id::Correlation;
use punctual_flows::release::Rules;
use punctual_schedule::Schedule;
use punctual_schedule::result::Response;
use serde_json::value::RawValue;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    start_logs(environment("LOG_LEVEL").as_deref())?;
    let config = ScheduleConfig::from_lookup(&environment)?;
    let aws = Aws::connect().await;
    run(service_fn(|event: LambdaEvent<Box<RawValue>>| answer(&config, &aws, event))).await
}

async fn answer(config: &ScheduleConfig, aws: &Aws, event: LambdaEvent<Box<RawValue>>) -> anyhow::Result<Response> {
    let schedule = Schedule {
        ledger: &aws.ledger(&config.stage.ledger_table),
        control: &aws.control(&config.stage.control_table),
        queue: &aws.queue(&config.queue_url),
        time: &aws.time(&config.stage.control_table, event.context.deadline),
        rules: Rules { horizon: config.release.horizon, lease: config.release.lease },
        tick: config.release.tick,
        margin: config.release.margin,
        by: Correlation::of_request(&event.context.request_id),
    };
    let response = schedule
        .handle(&event.payload)
        .await
        .inspect_err(|error| tracing::error!(by = %schedule.by, error = %error, "schedule failed"))?;
    tracing::info!(by = %schedule.by, summary = %serde_json::to_string(&response.summary)?, "scheduled");
    Ok(response)
}
