//! Wires monitor: configuration, adapters, one run for each event.

#![recursion_limit = "256"]

use lambda_runtime::{LambdaEvent, run, service_fn};
use punctual_adapters::aws::Aws;
use punctual_adapters::config::{MonitorConfig, environment};
use punctual_adapters::telemetry::{Metrics, start_logs};
use punctual_core::figures::Figures;
use punctual_core::id::Correlation;
use punctual_flows::tick::Tick;
use punctual_monitor::metrics::{metrics, properties};
use punctual_monitor::{Memory, Monitor};

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    start_logs(environment("LOG_LEVEL").as_deref())?;
    let config = MonitorConfig::from_lookup(&environment)?;
    let telemetry = Metrics::start(&config.stage.name, "monitor")?;
    let (aws, memory) = (Aws::connect().await, Memory::default());
    run(service_fn(|event: LambdaEvent<Tick>| tick(&config, &aws, &memory, telemetry, event))).await
}

async fn tick(
    config: &MonitorConfig,
    aws: &Aws,
    memory: &Memory,
    telemetry: Metrics,
    event: LambdaEvent<Tick>,
) -> anyhow::Result<Figures> {
    let monitor = Monitor {
        ledger: &aws.ledger(&config.stage.ledger_table),
        control: &aws.control(&config.stage.control_table),
        queue: &aws.queue(&config.queues.queue_url),
        dead_letters: &aws.dead_letters(&config.queues.dead_letter_queue_url),
        time: &aws.time(&config.stage.control_table, event.context.deadline),
        memory,
        tick: config.tick,
        margin: config.margin,
        by: Correlation::of_request(&event.context.request_id),
    };
    let figures = monitor.run().await.inspect_err(|error| tracing::error!(error = %error, by = %monitor.by, "monitor failed"))?;
    tracing::info!(by = %monitor.by, tick = ?event.payload.tick, figures = %serde_json::to_string(&figures)?, "monitored");
    telemetry.emit_with(&event.context.request_id, &metrics(&figures), &[], &properties(&figures));
    Ok(figures)
}
