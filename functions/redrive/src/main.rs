//! Wires redrive: configuration, adapters, one answer for each event.

#![recursion_limit = "256"]

use lambda_runtime::{LambdaEvent, run, service_fn};
use punctual_adapters::aws::Aws;
use punctual_adapters::config::{RedriveConfig, environment};
use punctual_adapters::scheduler::SlicePlace;
use punctual_adapters::telemetry::{Metrics, start_logs};
use punctual_core::id::Correlation;
use punctual_flows::release::Rules;
use punctual_redrive::{Redrive, Response};
use serde_json::value::RawValue;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    start_logs(environment("LOG_LEVEL").as_deref())?;
    let config = RedriveConfig::from_lookup(&environment)?;
    let (metrics, aws) = (Metrics::start(&config.stage.name, "redrive")?, Aws::connect().await);
    run(service_fn(|event: LambdaEvent<Box<RawValue>>| answer(&config, &aws, metrics, event))).await
}

async fn answer(
    config: &RedriveConfig,
    aws: &Aws,
    metrics: Metrics,
    event: LambdaEvent<Box<RawValue>>,
) -> anyhow::Result<Response> {
    let release = config.release;
    let redrive = Redrive {
        ledger: &aws.ledger(&config.stage.ledger_table),
        control: &aws.control(&config.stage.control_table),
        queue: &aws.queue(&config.queues.queue_url),
        letters: &aws.letters(&config.queues.dead_letter_queue_url),
        slices: &aws.slices(SlicePlace {
            stage: config.stage.name.clone(),
            group: config.schedule_group.clone(),
            function_arn: event.context.invoked_function_arn.clone(),
            role_arn: config.slice_role_arn.clone(),
        }),
        time: &aws.time(&config.stage.control_table, event.context.deadline),
        rules: Rules { horizon: release.horizon, lease: release.lease },
        tick: release.tick,
        margin: release.margin,
        interval: config.slice,
        by: Correlation::of_request(&event.context.request_id),
    };
    let response = redrive
        .handle(&event.payload)
        .await
        .inspect_err(|error| tracing::error!(by = %redrive.by, error = %error, "redrive failed"))?;
    tracing::info!(by = %redrive.by, ok = response.ok, slice = %serde_json::to_string(&response.slice)?, "redriven");
    if let Some(values) = response.slice.as_ref().and_then(punctual_redrive::metrics::metrics) {
        metrics.emit(&event.context.request_id, &values);
    }
    Ok(response)
}
