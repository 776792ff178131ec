//! I write logs as JSON lines with `level` at the root, and metrics in CloudWatch's embedded format.
//!
//! I never see a payload, a subscriber, a reference or a secret: those types have no readable `Debug`, and the
//! functions log ids, states, reason codes and numbers only. A correlation id joins a line with a row's history.

use metrics_cloudwatch_embedded::Collector;
use serde_json::Value;
use tracing::Level;
use tracing_subscriber::EnvFilter;

/// The CloudWatch namespace of every metric.
pub const NAMESPACE: &str = "Punctual";

/// A metric's name: the alarms and the code share this list.
pub mod metric {
    /// Dispatch: one for each run that came to its end.
    pub const DISPATCH_HEARTBEAT: &str = "DispatchHeartbeat";
    /// Dispatch and monitor: seconds that the oldest due row has been waiting in the ledger, of destinations that may be called.
    pub const OLDEST_OVERDUE_SECONDS: &str = "OldestOverdueSeconds";
    /// Dispatch and deliver: rows that became expired, those among dispatch's that an operator's release of a lease has ended.
    pub const EXPIRED: &str = "Expired";
    /// Dispatch and deliver: rows that became dead, those among dispatch's that an operator's release of a lease has ended.
    pub const DEAD: &str = "Dead";
    /// Dispatch and monitor: dead rows whose deadline is still reachable.
    pub const DEAD_REACHABLE: &str = "DeadReachable";
    /// Dispatch: rows claimed.
    pub const CLAIMED: &str = "Claimed";
    /// Dispatch: messages published.
    pub const PUBLISHED: &str = "Published";
    /// Dispatch: rows taken back from a lost lease or message.
    pub const RESCUED: &str = "Rescued";
    /// Dispatch: rows whose message was overdue, published once more.
    pub const MESSAGES_OVERDUE: &str = "MessagesOverdue";
    /// Dispatch and deliver: rows taken back from leases that had ended, by an operator's release among dispatch's.
    pub const LEASES_ENDED: &str = "LeasesEnded";
    /// Dispatch and deliver: messages sent to the dead letters.
    pub const DEAD_LETTERS_SENT: &str = "DeadLettersSent";
    /// Deliver: one for each batch that came to its end.
    pub const DELIVER_HEARTBEAT: &str = "DeliverHeartbeat";
    /// Deliver: calls made.
    pub const CALLED: &str = "Called";
    /// Deliver: calls that got no answer.
    pub const UNANSWERED: &str = "Unanswered";
    /// Deliver: calls that the receiver refused for good.
    pub const REFUSED: &str = "Refused";
    /// Deliver: 2xx of calls that ended after the deadline.
    pub const DELIVERED_LATE: &str = "DeliveredLate";
    /// Deliver: seconds from `deliver_after` to the first call of a delivery, one value each.
    pub const FIRST_CALL_SECONDS: &str = "FirstCallSeconds";
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

    /// Monitor: one for each run that came to its end.
    pub const MONITOR_HEARTBEAT: &str = "MonitorHeartbeat";
    /// Monitor: seconds since dispatch came to its end last.
    pub const DISPATCH_HEARTBEAT_AGE_SECONDS: &str = "DispatchHeartbeatAgeSeconds";
    /// Monitor: of what is due or falls due within the hour, so many cannot start in time.
    pub const PROJECTED_LATE: &str = "ProjectedLate";
    /// Monitor: seconds until the first last safe start that cannot be met; a day if all can.
    pub const BREACH_IN_SECONDS: &str = "BreachInSeconds";
    /// Monitor: windows of the next day in which more falls due than can start in time.
    pub const OVERBOOKED_WINDOWS: &str = "OverbookedWindows";
    /// Monitor: seconds until all that is due has been called, at the destination where that takes longest.
    pub const DRAIN_SECONDS: &str = "DrainSeconds";
    /// Monitor: rows that are due and that nobody holds.
    pub const DUE: &str = "Due";
    /// Monitor: rows that are claimed, published, in a call, or waiting in the queue for a retry.
    pub const OUT: &str = "Out";
    /// Monitor: rows that an operator holds.
    pub const FROZEN: &str = "Frozen";
    /// Monitor: rows that a pause or a hold keeps back, and whose last safe start is near.
    pub const HELD_BACK_NEAR_DEADLINE: &str = "HeldBackNearDeadline";
    /// Monitor: seconds that the oldest due row has been due, whatever its destination.
    pub const OLDEST_DUE_SECONDS: &str = "OldestDueSeconds";
    /// Monitor: how much of its time the due row has used that has the least of it left, in percent.
    pub const TIME_USED_PERCENT: &str = "TimeUsedPercent";
    /// Monitor: seconds until the next last safe start of what is due; a day if nothing is.
    pub const NEXT_LAST_START_SECONDS: &str = "NextLastStartSeconds";
    /// Monitor: seconds that the oldest row that is out should have been called for.
    pub const OLDEST_OUT_SECONDS: &str = "OldestOutSeconds";
    /// Monitor: seconds that the oldest published row has not been taken for, past its time.
    pub const QUEUED_AGE_SECONDS: &str = "QueuedAgeSeconds";
    /// Monitor: rows held by leases that have ended, among those that are late for their call.
    pub const EXPIRED_LEASES: &str = "ExpiredLeases";
    /// Monitor: dead rows whose deadlines are at most a day past.
    pub const DEAD_ROWS: &str = "DeadRows";
    /// Monitor: expired rows whose deadlines are at most a day past.
    pub const EXPIRED_ROWS: &str = "ExpiredRows";
    /// Monitor: dead and expired rows that still owe the dead letters their message.
    pub const LETTERS_OWED: &str = "LettersOwed";
    /// Monitor: destinations whose breaker is open.
    pub const OPEN_BREAKERS: &str = "OpenBreakers";
    /// Monitor: paused destinations.
    pub const PAUSED_DESTINATIONS: &str = "PausedDestinations";
    /// Monitor: destinations that deliver has paused, and nobody has resumed.
    pub const PAUSED_BY_DELIVER: &str = "PausedByDeliver";
    /// Monitor: seconds that the first of the paused destinations has been paused.
    pub const LONGEST_PAUSE_SECONDS: &str = "LongestPauseSeconds";
    /// Monitor: destinations whose receivers rejected any of their last calls.
    pub const REJECTING_DESTINATIONS: &str = "RejectingDestinations";
    /// Monitor: redrive runs under way.
    pub const ACTIVE_REDRIVES: &str = "ActiveRedrives";
    /// Monitor: lanes that dispatch did not read to their end.
    pub const CURSORS: &str = "Cursors";
    /// Monitor: 1 while retryable failures go to the dead letters at once.
    pub const RETRIES_DISABLED: &str = "RetriesDisabled";
    /// Monitor: messages of the queue that can be received.
    pub const QUEUE_VISIBLE: &str = "QueueVisible";
    /// Monitor: messages that could be received at this look or the one before, whichever were more.
    pub const QUEUE_VISIBLE_LATELY: &str = "QueueVisibleLately";
    /// Monitor: messages of the queue that were received and are neither deleted nor seen again.
    pub const QUEUE_IN_FLIGHT: &str = "QueueInFlight";
    /// Monitor: messages of the queue that are not to be seen yet.
    pub const QUEUE_DELAYED: &str = "QueueDelayed";
    /// Monitor: messages among the dead letters.
    pub const DEAD_LETTERS: &str = "DeadLetters";
    /// Monitor: destinations that were not, or not to the end, read: the figures are the least that they can be.
    pub const TRUNCATED: &str = "Truncated";
    /// Monitor: entries of the wake index that were read.
    pub const ENTRIES_READ: &str = "EntriesRead";
    /// Monitor: read units that the wake index cost.
    pub const READ_UNITS: &str = "ReadUnits";

    /// Redrive: rows that a slice moved back to the ledger.
    pub const REDRIVEN: &str = "Redriven";
    /// Redrive: dead letters that a slice deleted, because their deaths are over.
    pub const LETTERS_SWEPT: &str = "LettersSwept";
    /// Redrive: runs that stopped by themselves.
    pub const REDRIVE_STOPPED: &str = "RedriveStopped";
    /// Redrive: runs that came to their end.
    pub const REDRIVE_DONE: &str = "RedriveDone";

    /// What redrive emits in every slice that did anything.
    pub const OF_REDRIVE: &[&str] = &[REDRIVEN, LETTERS_SWEPT, REDRIVE_STOPPED, REDRIVE_DONE];
    /// What operate emits for a lease that it has taken back, as dispatch would have for it: of [`OF_DISPATCH`].
    pub const OF_OPERATE: &[&str] = &[EXPIRED, DEAD, LEASES_ENDED];
    /// What monitor emits in every run.
    pub const OF_MONITOR: &[&str] = &[
        MONITOR_HEARTBEAT,
        DISPATCH_HEARTBEAT_AGE_SECONDS,
        PROJECTED_LATE,
        BREACH_IN_SECONDS,
        OVERBOOKED_WINDOWS,
        DRAIN_SECONDS,
        DUE,
        OUT,
        FROZEN,
        HELD_BACK_NEAR_DEADLINE,
        OLDEST_DUE_SECONDS,
        OLDEST_OVERDUE_SECONDS,
        TIME_USED_PERCENT,
        NEXT_LAST_START_SECONDS,
        OLDEST_OUT_SECONDS,
        QUEUED_AGE_SECONDS,
        EXPIRED_LEASES,
        DEAD_ROWS,
        EXPIRED_ROWS,
        DEAD_REACHABLE,
        LETTERS_OWED,
        OPEN_BREAKERS,
        PAUSED_DESTINATIONS,
        PAUSED_BY_DELIVER,
        LONGEST_PAUSE_SECONDS,
        REJECTING_DESTINATIONS,
        ACTIVE_REDRIVES,
        CURSORS,
        RETRIES_DISABLED,
        QUEUE_VISIBLE,
        QUEUE_VISIBLE_LATELY,
        QUEUE_IN_FLIGHT,
        QUEUE_DELAYED,
        DEAD_LETTERS,
        TRUNCATED,
        ENTRIES_READ,
        READ_UNITS,
    ];
    /// What dispatch emits in every run.
    pub const OF_DISPATCH: &[&str] = &[
        DISPATCH_HEARTBEAT,
        OLDEST_OVERDUE_SECONDS,
        EXPIRED,
        DEAD,
        DEAD_REACHABLE,
        CLAIMED,
        PUBLISHED,
        RESCUED,
        MESSAGES_OVERDUE,
        LEASES_ENDED,
        DEAD_LETTERS_SENT,
    ];
    /// What deliver emits in every invocation.
    pub const OF_DELIVER: &[&str] = &[
        DELIVER_HEARTBEAT,
        CALLED,
        UNANSWERED,
        REFUSED,
        DELIVERED,
        DELIVERED_LATE,
        DEFERRED,
        DEAD,
        EXPIRED,
        DEAD_LETTERS_SENT,
        LEASES_ENDED,
        SUPPRESSED,
        SHADOWED,
        SECRET_UNAVAILABLE,
        DESTINATION_PAUSED,
        RATE_LIMIT_DEFERRED,
        BREAKER_OPENED,
    ];
    /// What deliver emits as single values, in the invocations that have any.
    pub const SAMPLES_OF_DELIVER: &[&str] = &[FIRST_CALL_SECONDS];
}

/// The dimensions of every metric, in the order in which they are declared.
pub const DIMENSIONS: [&str; 2] = ["Stage", "Function"];

/// The function could not set up its telemetry.
#[derive(Debug, thiserror::Error)]
#[error("telemetry could not be set up: {0}")]
pub struct TelemetryError(String);

/// The crates whose lines follow the wished level: the libraries, by their common prefix, and the functions' binaries.
const OURS: [&str; 8] = ["punctual", "dispatch", "deliver", "schedule", "inspect", "operate", "redrive", "monitor"];

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

/// The most single values of one metric in one line.
const MOST_SAMPLES: usize = 100;

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
        self.emit_with(request_id, values, &[], &[]);
    }

    /// The same, with single values of which a share can be asked for (at most a hundred of each), and with properties: they
    /// are found in the logs, and are no metrics.
    pub fn emit_with(
        &self,
        request_id: &str,
        values: &[(&'static str, f64)],
        samples: &[(&'static str, Vec<f64>)],
        properties: &[(&'static str, Value)],
    ) {
        for (name, value) in values {
            metrics::gauge!(*name).set(*value);
        }
        for (name, samples) in samples {
            samples.iter().take(MOST_SAMPLES).for_each(|value| metrics::histogram!(*name).record(*value));
        }
        for (name, property) in properties {
            self.0.set_property(*name, property.clone());
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
