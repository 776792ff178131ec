//! I name a run's figures: what becomes a metric, and what is told beside it.

use punctual_adapters::telemetry::metric;
use punctual_core::figures::Figures;
use serde_json::Value;

/// The metrics of a run: every name in [`metric::OF_MONITOR`].
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts and seconds far below 2^52")]
pub fn metrics(figures: &Figures) -> Vec<(&'static str, f64)> {
    let Figures { queue, dead_letters, .. } = figures;
    let sum = |by_reason: &std::collections::BTreeMap<_, u64>| by_reason.values().sum::<u64>();
    let mut values = vec![
        (metric::MONITOR_HEARTBEAT, 1),
        (metric::DISPATCH_HEARTBEAT_AGE_SECONDS, figures.dispatch_age_seconds),
        (metric::PROJECTED_LATE, figures.late),
        (metric::BREACH_IN_SECONDS, figures.breach_in_seconds),
        (metric::OVERBOOKED_WINDOWS, figures.overbooked),
        (metric::DRAIN_SECONDS, figures.drain_seconds),
        (metric::DUE, figures.due_estimated),
        (metric::OUT, figures.out),
        (metric::FROZEN, figures.asleep),
        (metric::HELD_BACK_NEAR_DEADLINE, figures.held_back_near),
        (metric::OLDEST_DUE_SECONDS, figures.oldest_due_seconds),
        (metric::OLDEST_OVERDUE_SECONDS, figures.oldest_overdue_seconds),
        (metric::TIME_USED_PERCENT, u64::from(figures.used_percent)),
        (metric::NEXT_LAST_START_SECONDS, figures.next_last_start_seconds),
        (metric::OLDEST_OUT_SECONDS, figures.oldest_out_seconds),
        (metric::QUEUED_AGE_SECONDS, figures.queued.oldest_seconds),
        (metric::EXPIRED_LEASES, figures.ended_leases.count),
        (metric::DEAD_ROWS, sum(&figures.dead)),
        (metric::EXPIRED_ROWS, sum(&figures.expired)),
        (metric::DEAD_REACHABLE, figures.dead_reachable),
        (metric::LETTERS_OWED, figures.letters_owed),
        (metric::OPEN_BREAKERS, figures.open_breakers),
        (metric::PAUSED_DESTINATIONS, figures.paused),
        (metric::PAUSED_BY_DELIVER, figures.paused_by_itself),
        (metric::LONGEST_PAUSE_SECONDS, figures.longest_pause_seconds),
        (metric::REJECTING_DESTINATIONS, figures.rejecting),
        (metric::ACTIVE_REDRIVES, figures.redrives),
        (metric::CURSORS, figures.cursors),
        (metric::RETRIES_DISABLED, u64::from(figures.retries_disabled)),
        (metric::QUEUE_VISIBLE, queue.visible),
        (metric::QUEUE_VISIBLE_LATELY, figures.visible_lately),
        (metric::QUEUE_IN_FLIGHT, queue.in_flight),
        (metric::QUEUE_DELAYED, queue.delayed),
        (metric::DEAD_LETTERS, dead_letters.visible + dead_letters.in_flight),
        (metric::TRUNCATED, figures.truncated + figures.unread),
        (metric::ENTRIES_READ, figures.entries_read),
    ]
    .into_iter()
    .map(|(name, value)| (name, value as f64))
    .collect::<Vec<_>>();
    values.push((metric::READ_UNITS, figures.read_units));
    values
}

/// What stands beside the metrics in their line, and is no metric: who stands out, and why rows ended.
#[must_use]
pub fn properties(figures: &Figures) -> Vec<(&'static str, Value)> {
    let json = |value: serde_json::Result<Value>| value.unwrap_or_default();
    vec![
        ("Offenders", json(serde_json::to_value(&figures.offenders))),
        ("DeadByReason", json(serde_json::to_value(&figures.dead))),
        ("ExpiredByReason", json(serde_json::to_value(&figures.expired))),
    ]
}

#[cfg(test)]
mod tests {
    use punctual_core::time::Timestamp;

    use super::*;

    #[test]
    fn emits_every_metric_of_monitor() {
        let figures = Figures::begin(Timestamp::from_millis(1_796_115_600_000));
        let names: Vec<&str> = metrics(&figures).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, metric::OF_MONITOR);
        assert!(properties(&figures).iter().all(|(name, value)| !value.is_null() && !metric::OF_MONITOR.contains(name)));
    }
}
