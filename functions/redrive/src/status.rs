//! I tell how runs stand: what was ordered, how far it has come, and what became of what it moved.

use std::time::Duration;

use punctual_core::id::RunId;
use punctual_core::ports::{Control, Ledger, Letters, PortError, Queue, Slices, Time};
use punctual_core::reason::Reason;
use punctual_core::redrive::{DeleteWhy, LeaveWhy, Phase, Run, SkipReason, Totals};
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;
use serde::Serialize;

use crate::text::counts;
use crate::{Redrive, Response};

/// The most runs of one answer.
const MOST: usize = 100;

/// A run, and what became of what it moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunView {
    /// The run as it is stored.
    pub run: Run,
    /// The fates of its rows, as of a moment ago.
    pub totals: Totals,
}

/// A run in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Brief {
    /// Its name.
    pub run_id: RunId,
    /// How far it has come.
    pub phase: Phase,
    /// Who answers for it.
    pub owner: String,
    /// Why it was started.
    pub why: String,
    /// When it was started.
    pub created_at: Timestamp,
    /// How many rows it has moved.
    pub moved: u32,
    /// Why it stopped, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    pub(crate) async fn status(&self, run_id: Option<RunId>) -> Result<Response, FlowError> {
        let frozen = self.control.freeze().await?;
        let mut text: Vec<String> =
            frozen.iter().map(|f| format!("All redriving is frozen by {} since {}: {}.", f.by, f.at, f.why)).collect();
        let Some(id) = run_id else {
            let mut runs = self.control.runs().await?;
            runs.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
            let active = runs.iter().filter(|run| run.phase.is_active()).count();
            text.push(format!("{} runs, {active} of them active.", runs.len()));
            let briefs: Vec<Brief> = runs.into_iter().take(MOST).map(brief).collect();
            text.extend(briefs.iter().map(|b| format!("{}: {}, {} moved. {}: {}", b.run_id, b.phase, b.moved, b.owner, b.why)));
            return Ok(Response { runs: Some(briefs), frozen, ..Response::answered(text) });
        };
        let Some(run) = self.control.run(&id).await? else { return Ok(Response::unknown_run()) };
        let totals = self.totals(&id).await?;
        text.extend(lines(&run, &totals, self.time.now()?.lo, self.interval));
        Ok(Response { run: Some(Box::new(RunView { run, totals })), frozen, ..Response::answered(text) })
    }

    /// What became of the rows that a run moved, as the index shows it.
    pub(crate) async fn totals(&self, run: &RunId) -> Result<Totals, PortError> {
        let mut totals = Totals::default();
        let mut start = None;
        loop {
            let page = self.ledger.of_run(run, start.as_ref()).await?;
            page.rows.iter().for_each(|row| totals.add(row));
            start = page.next;
            if start.is_none() {
                return Ok(totals);
            }
        }
    }
}

fn brief(run: Run) -> Brief {
    Brief {
        run_id: run.id,
        phase: run.phase,
        owner: run.order.owner,
        why: run.order.why,
        created_at: run.created_at,
        moved: run.counters.moved,
        stopped: run.stopped.map(|stopped| format!("{}: {}", stopped.code, stopped.text)),
    }
}

/// Whether the next slice should have come long ago: two intervals, and the minute that a schedule may be late.
pub(crate) fn is_late(run: &Run, now: Timestamp, interval: Duration) -> bool {
    run.needs_slice() && run.next_slice_at.is_some_and(|at| at.plus(interval * 2 + Duration::from_secs(60)) < now)
}

/// A run for a person.
pub(crate) fn lines(run: &Run, totals: &Totals, now: Timestamp, interval: Duration) -> Vec<String> {
    let (order, counters) = (&run.order, &run.counters);
    let moved = counters.moved.max(totals.rows);
    let mut lines = vec![format!(
        "Run {} is {}: {moved} of at most {} rows moved, at most {} a second. {}: {}",
        run.id, run.phase, order.max_count, order.rate_per_second, order.owner, order.why
    )];
    if moved > 0 {
        let mut fates = vec![format!("{} are delivered", totals.delivered), format!("{} wait", totals.waiting)];
        for (what, classes) in [("failed again", &totals.failed_again), ("have failed and try again", &totals.failing)] {
            if !classes.is_empty() {
                fates.push(format!("{} {what} ({})", classes.values().sum::<u32>(), counts(classes, Reason::code)));
            }
        }
        for (what, n) in [("cancelled", totals.cancelled), ("shadowed", totals.shadowed)] {
            if n > 0 {
                fates.push(format!("{n} are {what}"));
            }
        }
        lines.push(format!("Of them {}.", fates.join(", ")));
    }
    if let (Phase::Canary, Some(until)) = (run.phase, run.canary_until) {
        lines.push(format!("The canary is moved and must have ended well by {until}."));
    }
    if let Some(stopped) = &run.stopped {
        lines.push(format!("Ended by {} at {} ({}): {}", stopped.by, stopped.at, stopped.code, stopped.text));
    }
    if !counters.skipped.is_empty() {
        lines.push(format!("Left as they are: {}.", counts(&counters.skipped, SkipReason::code)));
    }
    if counters.scan_receives > 0 {
        let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
        let deleted = or_none(counts(&counters.deleted, DeleteWhy::code));
        let left = or_none(counts(&counters.left, LeaveWhy::code));
        lines.push(format!("Dead letters deleted: {deleted}; left: {left}; {} receives.", counters.scan_receives));
    }
    if let Some(error) = &run.last_error {
        lines.push(format!("The last slice failed: {error}."));
    }
    match run.next_slice_at.filter(|_| run.needs_slice()) {
        Some(at) if is_late(run, now, interval) => {
            lines.push(format!("Slice {} was due at {at} and has not come: resume starts the run again.", run.slice));
        }
        Some(at) => lines.push(format!("Slice {} comes at {at} or soon after.", run.slice)),
        None => {}
    }
    lines
}
