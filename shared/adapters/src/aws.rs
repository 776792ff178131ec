//! I connect a function to AWS: one SDK configuration, clients with bounded timeouts, the clock on the database's client.

use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_dynamodb::error::ProvideErrorMetadata as _;
use aws_sdk_dynamodb::types::AttributeValue;

use crate::clock::{DatabaseClock, InvocationTime, Probe, monotonic_since_now};
use crate::dynamodb::{DynamoControl, DynamoLedger};
use crate::scheduler::{SchedulerSlices, SchedulerTicks, SlicePlace};
use crate::secrets::{DEFAULT_TTL, SecretsManagerStore};
use crate::sqs::{SqsDeadLetters, SqsLetters, SqsQueue};

/// How many signing secrets are kept at most.
const MOST_SECRETS: usize = 256;

/// The AWS side of one function.
#[derive(Debug, Clone)]
pub struct Aws {
    sdk: SdkConfig,
    dynamodb: aws_sdk_dynamodb::Client,
    clock: DatabaseClock,
}

impl Aws {
    /// Connects with the process's own credentials, region and endpoints.
    pub async fn connect() -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(2))
            .operation_attempt_timeout(Duration::from_secs(4))
            .operation_timeout(Duration::from_secs(12))
            .build();
        let sdk = aws_config::defaults(BehaviorVersion::latest())
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .load()
            .await;
        Self::with(sdk)
    }

    /// Uses a configuration that was made elsewhere.
    #[must_use]
    pub fn with(sdk: SdkConfig) -> Self {
        let clock = DatabaseClock::default();
        let config = aws_sdk_dynamodb::config::Builder::from(&sdk).interceptor(clock.interceptor()).build();
        Self { dynamodb: aws_sdk_dynamodb::Client::from_conf(config), sdk, clock }
    }

    /// The ledger.
    #[must_use]
    pub fn ledger(&self, table: &str) -> DynamoLedger {
        DynamoLedger::new(self.dynamodb.clone(), table)
    }

    /// The control table.
    #[must_use]
    pub fn control(&self, table: &str) -> DynamoControl {
        DynamoControl::new(self.dynamodb.clone(), table)
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self, url: &str) -> SqsQueue {
        SqsQueue::new(aws_sdk_sqs::Client::new(&self.sdk), url)
    }

    /// The dead-letter queue.
    #[must_use]
    pub fn dead_letters(&self, url: &str) -> SqsDeadLetters {
        SqsDeadLetters::new(aws_sdk_sqs::Client::new(&self.sdk), url)
    }

    /// The dead-letter queue, read.
    #[must_use]
    pub fn letters(&self, url: &str) -> SqsLetters {
        SqsLetters::new(aws_sdk_sqs::Client::new(&self.sdk), url)
    }

    /// The starter of a redrive run's slices.
    #[must_use]
    pub fn slices(&self, place: SlicePlace) -> SchedulerSlices {
        SchedulerSlices::new(aws_sdk_scheduler::Client::new(&self.sdk), place)
    }

    /// Dispatch's schedule.
    #[must_use]
    pub fn ticks(&self, group: &str, name: &str) -> SchedulerTicks {
        SchedulerTicks::new(aws_sdk_scheduler::Client::new(&self.sdk), group, name)
    }

    /// The signing secrets below `prefix`.
    #[must_use]
    pub fn secrets(&self, prefix: &str) -> SecretsManagerStore {
        let client = aws_sdk_secretsmanager::Client::new(&self.sdk);
        SecretsManagerStore::new(client, prefix.to_owned(), MOST_SECRETS, DEFAULT_TTL, monotonic_since_now())
    }

    /// The time of an invocation that ends at `deadline_ms` (milliseconds since the Unix epoch). Reads of one small
    /// control row narrow the database's time while something waits for its instant.
    #[must_use]
    pub fn time(&self, control_table: &str, deadline_ms: u64) -> InvocationTime {
        let client = self.dynamodb.clone();
        let table = control_table.to_owned();
        let probe: Probe = Arc::new(move || {
            let request = client
                .get_item()
                .table_name(&table)
                .key("kind", AttributeValue::S("settings".into()))
                .key("id", AttributeValue::S("stage".into()))
                .projection_expression("kind");
            Box::pin(async move {
                if let Err(error) = request.send().await {
                    let code = error.code().unwrap_or("no answer");
                    tracing::warn!(code, error = %error, "a read of the database's time failed");
                }
            })
        });
        InvocationTime::begin(&self.clock, probe, deadline_ms)
    }
}
