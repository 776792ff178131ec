//! I tell from what dispatch leaves behind whether a run comes by itself: a switch alone does not show that nobody else moved the
//! schedule, or that its runs fail.

use std::time::Duration;

use super::Whither;
use crate::clock::Now;
use crate::delivery::Delivery;
use crate::state::State;
use crate::time::Timestamp;

/// How long a run takes at most, whatever it finds.
const RUN: Duration = Duration::from_secs(60);

/// What is known of dispatch's runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Runs {
    /// From one run's start to the next one's.
    pub tick: Duration,
    /// When one came to its end last, if any ever did.
    pub last: Option<Timestamp>,
}

/// Why no run comes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Still {
    /// An operator switched the schedule off at this instant.
    Paused(Timestamp),
    /// None came to its end since this instant, or ever.
    Silent(Option<Timestamp>),
}

/// Whether dispatch stands still, as far as it can be told. One late run and one that is under way are no standstill.
pub(super) fn still(row: &Delivery, whither: Whither<'_>, now: Now) -> Option<Still> {
    if let Some(since) = whither.settings.dispatch_paused {
        return contradicted(since, whither).is_none().then_some(Still::Paused(since));
    }
    let runs = whither.runs?;
    let patience = runs.tick.saturating_mul(2).saturating_add(RUN);
    match runs.last {
        Some(last) => (now.lo.since(last) > patience).then_some(Still::Silent(Some(last))),
        // A stage that nobody has used yet has nothing to be silent about.
        None => (row.state == State::Scheduled && now.lo.since(row.next_attempt_at) > patience).then_some(Still::Silent(None)),
    }
}

/// A run that came to its end although the schedule had been switched off before it can have begun.
fn contradicted(since: Timestamp, whither: Whither<'_>) -> Option<Timestamp> {
    let runs = whither.runs?;
    runs.last.filter(|last| *last > since.plus(runs.tick).plus(RUN))
}

/// What is to be said of it; empty if runs come as they should.
pub(super) fn told(row: &Delivery, whither: Whither<'_>, now: Now) -> String {
    let rest = "what waits in the ledger stays there and nothing is rescued";
    let every = whither.runs.map_or(0, |runs| runs.tick.as_secs());
    match still(row, whither, now) {
        Some(Still::Paused(since)) => format!(
            " An operator switched dispatch's schedule off at {since}: until it is resumed, {rest}, unless a run is started by hand."
        ),
        Some(Still::Silent(Some(last))) => format!(
            " No dispatch run has come to its end since {last}, though one is due every {every} s: until one does, {rest}. Look at \
             dispatch's schedule and at its log."
        ),
        Some(Still::Silent(None)) => format!(
            " No dispatch run has come to its end so far, though one is due every {every} s: until one does, {rest}. Look at \
             dispatch's schedule and at its log."
        ),
        None => match whither.settings.dispatch_paused.and_then(|since| Some((since, contradicted(since, whither)?))) {
            Some((since, last)) => format!(
                " An operator switched dispatch's schedule off at {since}, and yet a run came to its end at {last}: runs are started by \
                 hand, or something else switched it on again."
            ),
            None => String::new(),
        },
    }
}
