//! I write logs as JSON lines with `level` at the root, and metrics in CloudWatch's embedded format.
//!
//! I never see a payload, a subscriber, a reference or a secret: those types have no readable `Debug`, and the
//! functions log ids, states, reason codes and numbers only. A correlation id joins a line with a row's history.

use metrics_cloudwatch_embedded::Collector;
use tracing::Level;
use tracing_subscriber::EnvFilter;

/// The CloudWatch namespace of every metric.
pub const NAMESPACE: &str = "Punctual";

/// A metric's name: the alarms and the code share this list.
pub mod metric {
    /// Dispatch: one for each run that came to its end.
    pub const DISPATCH_HEARTBEAT: &str = "DispatchHeartbeat";
    /// Dispatch: seconds that the oldest due row has been waiting in the ledger.
    pub const OLDEST_OVERDUE_SECONDS: &str = "OldestOverdueSeconds";
    /// Dispatch and deliver: rows that became expired.
    pub const EXPIRED: &str = "Expired";
    /// Dispatch and deliver: rows that became dead.
    pub const DEAD: &str = "Dead";
    /// Dispatch: dead rows whose deadline is still reachable.
    pub const DEAD_REACHABLE: &str = "DeadReachable";
    /// Dispatch: rows claimed.
    pub const CLAIMED: &str = "Claimed";
    /// Dispatch: messages published.
    pub const PUBLISHED: &str = "Published";
    /// Dispatch: rows taken back from a lost lease or message.
    pub const RESCUED: &str = "Rescued";
    /// Deliver: 2xx recorded.
    pub const DELIVERED: &str = "Delivered";
    /// Deliver: attempts that will be repeated.
    pub const DEFERRED: &str = "Deferred";
    /// Deliver: messages of rows that need no call.
    pub const SUPPRESSED: &str = "Suppressed";
    /// Deliver: requests posted to the shadow sink.
    pub const SHADOWED: &str = "Shadowed";
    /// Deliver: attempts not made for want of a signing secret.
    pub const SECRET_UNAVAILABLE: &str = "SecretUnavailable";
    /// Deliver: destinations that it paused, after a 410 or too many rejections.
    pub const DESTINATION_PAUSED: &str = "DestinationPaused";
    /// Deliver: breakers that it opened, after too many calls in a row without an answer.
    pub const BREAKER_OPENED: &str = "BreakerOpened";

    /// Deliver: records that the destination's rate left no room for.
    pub const RATE_LIMIT_DEFERRED: &str = "RateLimitDeferred";

    /// What dispatch emits in every run.
    pub const OF_DISPATCH: &[&str] =
        &[DISPATCH_HEARTBEAT, OLDEST_OVERDUE_SECONDS, EXPIRED, DEAD, DEAD_REACHABLE, CLAIMED, PUBLISHED, RESCUED];
    /// What deliver emits in every invocation.
    pub const OF_DELIVER: &[&str] = &[
        DELIVERED,
        DEFERRED,
        DEAD,
        EXPIRED,
        SUPPRESSED,
        SHADOWED,
        SECRET_UNAVAILABLE,
        DESTINATION_PAUSED,
        RATE_LIMIT_DEFERRED,
        BREAKER_OPENED,
    ];
}

/// The dimensions of every metric, in the order in which they are declared.
pub const DIMENSIONS: [&str; 2] = ["Stage", "Function"];

/// The function could not set up its telemetry.
#[derive(Debug, thiserror::Error)]
#[error("telemetry could not be set up: {0}")]
pub struct TelemetryError(String);

/// The crates whose lines follow the wished level: the libraries, by their common prefix, and the functions' binaries.
const OURS: [&str; 7] = ["punctual", "dispatch", "deliver", "schedule", "inspect", "operate", "redrive"];

/// Other crates are never heard below `WARN`, whatever is wished for: there the runtime shows the whole event, and the
/// SDK what it sends and receives.
fn filter(level: Option<&str>) -> EnvFilter {
    let ours = level.and_then(|text| text.parse().ok()).unwrap_or(Level::INFO);
    let theirs = Level::WARN.min(ours);
    EnvFilter::new(OURS.iter().fold(theirs.to_string(), |filter, name| format!("{filter},{name}={ours}")))
}

/// Starts logging to standard output. `level` is a level (`INFO`); anything else counts as `INFO`.
///
/// # Errors
/// [`TelemetryError`] if logging was started already.
pub fn start_logs(level: Option<&str>) -> Result<(), TelemetryError> {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_target(false)
        .with_env_filter(filter(level))
        .try_init()
        .map_err(|e| TelemetryError(e.to_string()))
}

/// A function's metrics.
#[derive(Clone, Copy)]
pub struct Metrics(&'static Collector);

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Starts the metrics of one function of one stage.
    ///
    /// # Errors
    /// [`TelemetryError`] if metrics were started already.
    pub fn start(stage: &str, function: &str) -> Result<Self, TelemetryError> {
        metrics_cloudwatch_embedded::Builder::new()
            .cloudwatch_namespace(NAMESPACE)
            .with_dimension(DIMENSIONS[0], stage.to_owned())
            .with_dimension(DIMENSIONS[1], function.to_owned())
            .emit_zeros(true)
            .init()
            .map(Self)
            .map_err(|e| TelemetryError(e.to_string()))
    }

    /// Writes one line with these values and one property that joins it with the logs.
    pub fn emit(&self, request_id: &str, values: &[(&'static str, f64)]) {
        for (name, value) in values {
            metrics::gauge!(*name).set(*value);
        }
        self.0.set_property("RequestId", request_id);
        if let Err(error) = self.0.flush(std::io::stdout()) {
            tracing::error!(error = %error, "metrics could not be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wish_is_for_our_own_lines() {
        for (wish, expected) in [
            (Some("TRACE"), "warn,operate=trace"),
            (Some("error"), "error,operate=error"),
            (Some("aws_smithy_runtime=trace"), "warn,operate=info"),
            (None, "warn,operate=info"),
        ] {
            let said = filter(wish).to_string();
            let (theirs, ours) = expected.split_once(',').expect("two");
            assert!(said.split(',').any(|part| part == ours) && said.split(',').any(|part| part == theirs), "{wish:?}: {said}");
            assert!(!said.contains("aws"), "{said}");
        }
    }
}
