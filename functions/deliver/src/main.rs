//! Wires deliver: configuration, adapters, one batch for each event.

#![recursion_limit = "256"]

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::{LambdaEvent, run, service_fn};
use punctual_adapters::aws::Aws;
use punctual_adapters::config::{DeliverConfig, environment};
use punctual_adapters::secrets::SecretsManagerStore;
use punctual_adapters::telemetry::{Metrics, start_logs};
use punctual_adapters::webhook::{HttpWebhook, WebhookConfig};
use punctual_core::id::Correlation;
use punctual_deliver::{Deliver, measure::Measure};

/// What lives as long as the execution environment.
struct Wired {
    config: DeliverConfig,
    aws: Aws,
    secrets: SecretsManagerStore,
    webhook: HttpWebhook,
    measure: Measure,
    metrics: Metrics,
}

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    start_logs(environment("LOG_LEVEL").as_deref())?;
    let config = DeliverConfig::from_lookup(&environment)?;
    let aws = Aws::connect().await;
    let wired = Wired {
        secrets: aws.secrets(&config.rules.secret_prefix),
        webhook: HttpWebhook::new(WebhookConfig::for_stage(&config.rules))?,
        measure: Measure::default(),
        metrics: Metrics::start(&config.stage.name, "deliver")?,
        config,
        aws,
    };
    run(service_fn(|event: LambdaEvent<SqsEvent>| batch(&wired, event))).await
}

async fn batch(wired: &Wired, event: LambdaEvent<SqsEvent>) -> anyhow::Result<SqsBatchResponse> {
    let Wired { config, aws, secrets, webhook, measure, metrics } = wired;
    let deliver = Deliver {
        ledger: &aws.ledger(&config.stage.ledger_table),
        control: &aws.control(&config.stage.control_table),
        queue: &aws.queue(&config.queues.queue_url),
        dead_letters: &aws.dead_letters(&config.queues.dead_letter_queue_url),
        time: &aws.time(&config.stage.control_table, event.context.deadline),
        secrets,
        webhook,
        measure,
        margin: config.margin,
        by: Correlation::of_request(&event.context.request_id),
    };
    let (response, tally) = deliver.handle(&event.payload).await;
    tracing::info!(by = %deliver.by, tally = %serde_json::to_string(&tally)?, "handled a batch");
    metrics.emit_with(&event.context.request_id, &tally.metrics(), &tally.samples(), &[]);
    Ok(response)
}
