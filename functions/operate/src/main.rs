//! Wires operate: configuration, adapters, one answer for each event.

#![recursion_limit = "256"]

use lambda_runtime::{LambdaEvent, run, service_fn};
use punctual_adapters::aws::Aws;
use punctual_adapters::config::{OperateConfig, environment};
use punctual_adapters::telemetry::{Metrics, start_logs};
use punctual_core::id::Correlation;
use punctual_operate::{Operate, Response, metrics};
use serde_json::value::RawValue;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    start_logs(environment("LOG_LEVEL").as_deref())?;
    let config = OperateConfig::from_lookup(&environment)?;
    let (counts, aws) = (Metrics::start(&config.stage.name, metrics::COUNTED_AS)?, Aws::connect().await);
    run(service_fn(|event: LambdaEvent<Box<RawValue>>| answer(&config, &aws, counts, event))).await
}

async fn answer(
    config: &OperateConfig,
    aws: &Aws,
    counts: Metrics,
    event: LambdaEvent<Box<RawValue>>,
) -> anyhow::Result<Response> {
    let operate = Operate {
        ledger: &aws.ledger(&config.stage.ledger_table),
        control: &aws.control(&config.stage.control_table),
        ticks: &aws.ticks(&config.schedule_group, &config.tick_schedule),
        time: &aws.time(&config.stage.control_table, event.context.deadline),
        rules: &config.rules,
        margin: config.margin,
        by: Correlation::of_request(&event.context.request_id),
    };
    let response = operate
        .handle(&event.payload)
        .await
        .inspect_err(|error| tracing::error!(by = %operate.by, error = %error, "operate failed"))?;
    tracing::info!(by = %operate.by, ok = response.ok, "operated");
    if let Some(values) = metrics::metrics(&response) {
        counts.emit(&event.context.request_id, &values);
    }
    Ok(response)
}
