//! I judge a run between two slices: it goes on, waits for its canary, or stops by itself and says why.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::DestinationId;
use crate::reason::Reason;
use crate::time::Timestamp;

use super::run::{Phase, Run};
use super::totals::Totals;

/// Fresh work of a destination that waits though its deadline is near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshWait {
    /// Whose.
    pub destination: DestinationId,
    /// How many rows.
    pub rows: u32,
    /// The nearest of their deadlines.
    pub deliver_by: Timestamp,
}

/// What the run's destinations show besides the fates of moved rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signs {
    /// Their breaker is open.
    pub breaker_open: Vec<DestinationId>,
    /// They are paused.
    pub paused: Vec<DestinationId>,
    /// Fresh work waits.
    pub fresh: Vec<FreshWait>,
}

/// Why a run stopped, as one stable word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCode {
    /// One class of failures is past the run's threshold.
    AbortThreshold,
    /// The canary did not end well in time.
    CanaryTimeout,
    /// A destination does not answer.
    BreakerOpen,
    /// A destination is paused.
    DestinationPaused,
    /// Fresh work with a near deadline waits.
    FreshWorkWaits,
    /// An operator ended it.
    Aborted,
}

impl StopCode {
    /// The stable word.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::AbortThreshold => "abort_threshold",
            Self::CanaryTimeout => "canary_timeout",
            Self::BreakerOpen => "breaker_open",
            Self::DestinationPaused => "destination_paused",
            Self::FreshWorkWaits => "fresh_work_waits",
            Self::Aborted => "aborted",
        }
    }
}

impl fmt::Display for StopCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Why a run stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The stable word.
    pub code: StopCode,
    /// In one sentence.
    pub text: String,
}

/// What a slice does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It moves rows, as many as [`Run::may_move`] allows; a run whose canary is wholly moved goes on to `moving`.
    Go,
    /// The canary is moved and has not ended yet: nothing is moved.
    Wait,
    /// The run stops.
    Stop(Stop),
}

/// Failures since the run's last resume: in all, and by class.
struct Failures {
    all: u32,
    classes: BTreeMap<Reason, u32>,
}

impl Failures {
    fn of(run: &Run, totals: &Totals) -> Self {
        let (now, base) = (totals.failures(), &run.base.failures);
        let sum = |classes: &BTreeMap<Reason, u32>| classes.values().fold(0_u32, |sum, n| sum.saturating_add(*n));
        let all = sum(&now).saturating_sub(sum(base));
        // A forgiven failure whose class changes (its attempts are exhausted now) is no new one.
        let new = |(class, n): (Reason, u32)| (class, n.saturating_sub(base.get(&class).copied().unwrap_or(0)).min(all));
        Self { all, classes: now.into_iter().map(new).collect() }
    }
}

/// Judges a run. `totals` are those of its rows as of now; a row of the run that the index does not show yet counts as
/// waiting. `now` is the latest that it may be.
#[must_use]
pub fn judge(run: &Run, totals: &Totals, signs: &Signs, now: Timestamp) -> Verdict {
    if !matches!(run.phase, Phase::Canary | Phase::Moving) {
        return Verdict::Go;
    }
    let moved = run.counters.moved.max(totals.rows);
    let since = moved.saturating_sub(run.base.moved);
    // Until the canary is wholly moved it is judged by its full size: it stops as soon as it can no longer end well.
    let of = if run.phase == Phase::Canary && !run.canary_is_moved() { run.order.canary_size } else { since };
    let percent = run.order.abort_threshold_percent;
    let past = |failures: u32| u64::from(failures) * 100 > u64::from(percent) * u64::from(of);
    let failures = Failures::of(run, totals);
    let worst = failures.classes.iter().filter(|(_, n)| past(**n)).max_by_key(|(_, n)| **n);
    if let Some((class, n)) = worst {
        let rows = if run.phase == Phase::Canary { "rows of the canary" } else { "moved rows" };
        return stop(StopCode::AbortThreshold, format!("{n} of {of} {rows} failed with {class}: more than {percent} %."));
    }
    if let Some(destination) = signs.breaker_open.first() {
        return stop(StopCode::BreakerOpen, format!("Destination {destination} does not answer: its breaker is open."));
    }
    if let Some(destination) = signs.paused.first() {
        return stop(StopCode::DestinationPaused, format!("Destination {destination} is paused."));
    }
    if let Some(FreshWait { destination, rows, deliver_by }) = signs.fresh.first() {
        let text = format!("{rows} fresh deliveries of destination {destination} wait, the nearest deadline is {deliver_by}.");
        return stop(StopCode::FreshWorkWaits, text);
    }
    let Some(until) = run.canary_until.filter(|_| run.phase == Phase::Canary) else { return Verdict::Go };
    // What the index does not show yet waits too.
    let unseen = run.counters.moved.saturating_sub(totals.rows).saturating_sub(run.base.elsewhere);
    let waiting = totals.waiting.saturating_add(unseen);
    if waiting == 0 && !past(failures.all) {
        return Verdict::Go;
    }
    if now > until {
        let text = format!(
            "The canary did not end well by {until}: {waiting} of {since} rows wait, {} failed, at most {percent} % may.",
            failures.all
        );
        return stop(StopCode::CanaryTimeout, text);
    }
    Verdict::Wait
}

fn stop(code: StopCode, text: String) -> Verdict {
    Verdict::Stop(Stop { code, text })
}
