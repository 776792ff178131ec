//! Wires dispatch: configuration, adapters, one run for each event.

#![recursion_limit = "256"]

use lambda_runtime::{LambdaEvent, run, service_fn};
use punctual_adapters::aws::Aws;
use punctual_adapters::config::{DispatchConfig, environment};
use punctual_adapters::telemetry::{Metrics, start_logs};
use punctual_core::id::Correlation;
use punctual_dispatch::{Dispatch, Summary, Tick};
use punctual_flows::release::Rules;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    start_logs(environment("LOG_LEVEL").as_deref())?;
    let config = DispatchConfig::from_lookup(&environment)?;
    let metrics = Metrics::start(&config.stage.name, "dispatch")?;
    let aws = Aws::connect().await;
    run(service_fn(|event: LambdaEvent<Tick>| tick(&config, &aws, metrics, event))).await
}

async fn tick(config: &DispatchConfig, aws: &Aws, metrics: Metrics, event: LambdaEvent<Tick>) -> anyhow::Result<Summary> {
    let time = aws.time(&config.stage.control_table, event.context.deadline);
    let release = config.release;
    let dispatch = Dispatch {
        ledger: &aws.ledger(&config.stage.ledger_table),
        control: &aws.control(&config.stage.control_table),
        queue: &aws.queue(&config.queues.queue_url),
        dead_letters: &aws.dead_letters(&config.queues.dead_letter_queue_url),
        time: &time,
        rules: Rules { horizon: release.horizon, lease: release.lease },
        tick: release.tick,
        margin: release.margin,
        handoff_threshold: config.handoff_threshold,
        by: Correlation::of_request(&event.context.request_id),
    };
    let summary =
        dispatch.run().await.inspect_err(|error| tracing::error!(error = %error, by = %dispatch.by, "dispatch failed"))?;
    tracing::info!(by = %dispatch.by, tick = ?event.payload.tick, summary = %serde_json::to_string(&summary)?, "dispatched");
    metrics.emit(&event.context.request_id, &summary.metrics());
    Ok(summary)
}
