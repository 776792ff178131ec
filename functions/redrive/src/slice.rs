//! I am one slice of a run: plan the next one, take the run, judge it, move rows, sweep letters, say how it stands.
//!
//! Slices come late, twice, or not at all. The next one is planned before anything else, so that a crash anywhere costs the
//! run a lease and an interval and never the run; a slice that is older than the run's own number does nothing, a newer one
//! goes on from where the last one was. One slice at a time works on a run: it holds a lease that every write renews.

use std::time::Duration;

use punctual_core::id::{DeliveryId, Owner, RunId};
use punctual_core::ports::{Control, Ledger, Letters, PortError, Queue, Slices, Stored, Time};
use punctual_core::redrive::{Phase, Run, Stop, Totals, Verdict, judge};
use punctual_core::time::Timestamp;
use punctual_flows::fault::{self, Point};
use punctual_flows::release::Tally;
use punctual_flows::{FlowError, chain};
use serde::Serialize;

use crate::Redrive;
use crate::book::Believed;
use crate::held::{Held, LEASE};
use crate::moving::{Passed, Passing};

/// Moving ends when so little of the invocation is left.
const RESERVE: Duration = Duration::from_secs(20);
/// A slice moves rows for this share of the interval: it is over when the next one comes.
const WORKING_PERCENT: u32 = 80;
/// Where rows wait for room, the next look comes no sooner than this.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// So long a slice moves by what it knows of the destinations, and then looks at them again: who is paused, and who is
/// shadowed. A claim follows its look by this and a call or two.
pub const FRESH: Duration = Duration::from_secs(20);
/// Somebody else's writes may get in between so often when the run is taken.
const MOST_TRIES: usize = 4;

/// What a slice did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SliceReport {
    /// Of which run.
    pub run_id: RunId,
    /// Its number.
    pub slice: u32,
    /// Why it did nothing, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// There is no such run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_run: bool,
    /// How far the run is after it.
    pub phase: Option<Phase>,
    /// Rows moved.
    pub moved: u32,
    /// Rows that could not be written.
    pub failed_writes: u32,
    /// What became of the moved rows on their way to the queue.
    pub released: Tally,
    /// Dead letters received.
    pub receives: u64,
    /// Dead letters deleted.
    pub deleted: u32,
    /// Dead letters that could not be deleted; another pass over the queue does it.
    pub undeleted: u32,
    /// It did not sweep, because this run does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<RunId>,
    /// It did not sweep, because letters may be hidden until this instant that a slice received which is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<Timestamp>,
    /// The run stopped in it, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// What failed, without ids or payloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl SliceReport {
    pub(crate) fn new(run_id: &RunId, slice: u32) -> Self {
        Self {
            run_id: run_id.clone(),
            slice,
            idle: None,
            unknown_run: false,
            phase: None,
            moved: 0,
            failed_writes: 0,
            released: Tally::default(),
            receives: 0,
            deleted: 0,
            undeleted: 0,
            waits_for: None,
            waits_until: None,
            stopped: None,
            failed: None,
        }
    }

    fn idle(self, why: impl Into<String>, run: &Run) -> Self {
        Self { idle: Some(why.into()), phase: Some(run.phase), ..self }
    }

    /// What this slice could not do, though nothing stood against it.
    fn left_undone(&self) -> Option<String> {
        let writes = Some(self.failed_writes).filter(|n| *n > 0).map(|n| format!("{n} rows could not be written"));
        let letters = Some(self.undeleted).filter(|n| *n > 0).map(|n| format!("{n} dead letters could not be deleted"));
        writes.or(letters)
    }

    /// For a person.
    pub(crate) fn lines(&self) -> Vec<String> {
        let head = format!("Slice {} of run {}", self.slice, self.run_id);
        if let Some(idle) = &self.idle {
            return vec![format!("{head} did nothing: {idle}.")];
        }
        let phase = self.phase.map_or("gone", Phase::as_str);
        let mut lines = vec![format!("{head} moved {} rows; the run is {phase}.", self.moved)];
        if self.receives > 0 {
            lines.push(format!("{} dead letters received, {} deleted.", self.receives, self.deleted));
        }
        lines.extend(self.waits_for.iter().map(|run| format!("It waits until run {run} has swept the dead letters.")));
        lines.extend(self.waits_until.iter().map(|at| format!("It waits until {at}: a slice that is gone has hidden letters.")));
        lines.extend(self.stopped.iter().map(|why| format!("The run stopped: {why}")));
        lines.extend(self.failed.iter().map(|what| format!("It failed: {what}. The next slice goes on.")));
        lines
    }
}

/// What may be told of an error: the call, never an id.
fn cause(error: &FlowError) -> String {
    match error {
        FlowError::Port(PortError::Corrupt { .. }) => "stored data cannot be read; the log names it".to_owned(),
        error => error.to_string(),
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    /// Takes a run one slice further.
    ///
    /// # Errors
    /// [`FlowError`] if the run cannot be read or its next slice cannot be planned: this slice must come again. What fails
    /// later is noted in the run and in the report, and the next slice goes on.
    pub async fn slice(&self, run_id: &RunId, slice: u32) -> Result<SliceReport, FlowError> {
        let report = SliceReport::new(run_id, slice);
        let Some(run) = self.control.run(run_id).await? else { return Ok(SliceReport { unknown_run: true, ..report }) };
        if !run.needs_slice() {
            return Ok(report.idle(format!("the run is {}", run.phase), &run));
        }
        if slice < run.slice {
            return Ok(report.idle(format!("slice {} comes next", run.slice), &run));
        }
        point(Point::SliceBegun, run_id);
        let next_at = self.time.now()?.hi.plus(self.interval);
        self.slices.schedule(run_id, slice.saturating_add(1), next_at).await?;
        point(Point::SliceScheduled, run_id);
        if let Some(frozen) = self.control.freeze().await? {
            return Ok(report.idle(format!("all redriving is frozen by {} since {}", frozen.by, frozen.at), &run));
        }
        let mut held = match self.take(run, slice, next_at).await? {
            Ok(held) => held,
            Err((why, run)) => return Ok(report.idle(why, &run)),
        };
        let mut report = report;
        if let Err(error) = self.work(&mut held, &mut report).await {
            tracing::error!(run_id = %run_id, slice, by = %self.by, error = %chain(&error), "a slice failed");
            report.failed = Some(cause(&error));
        }
        report.failed = report.failed.take().or_else(|| report.left_undone());
        self.leave(&mut held, slice, next_at, &report).await;
        report.phase = Some(held.run.phase);
        point(Point::SliceEnded, run_id);
        Ok(report)
    }

    /// Takes the run for this slice; otherwise says why not.
    async fn take(&self, mut run: Run, slice: u32, next_at: Timestamp) -> Result<Result<Held<'_, C>, (String, Run)>, FlowError> {
        let owner = Owner::new(self.time.unique())
            .map_err(|e| PortError::Corrupt { item: "lease owner".into(), problem: e.to_string() })?;
        for _ in 0..MOST_TRIES {
            let now = self.time.now()?;
            let claimed = match run.claimed(owner.clone(), now.hi.plus(LEASE), now) {
                Ok(claimed) => Run { slice, next_slice_at: Some(next_at), ..claimed },
                Err(refusal) => return Ok(Err((refusal.to_string(), run))),
            };
            if self.control.put_run(&claimed, run.version).await? == Stored::Done {
                return Ok(Ok(Held { control: self.control, run: claimed, owner }));
            }
            match self.control.run(&run.id).await? {
                Some(stored) if slice >= stored.slice => run = stored,
                Some(stored) => return Ok(Err((format!("slice {} comes next", stored.slice), stored))),
                None => return Ok(Err(("the run is gone".to_owned(), run))),
            }
        }
        Ok(Err(("others keep writing the run".to_owned(), run)))
    }

    /// Lets go of the run. What fails here costs the run a lease's time.
    async fn leave(&self, held: &mut Held<'_, C>, slice: u32, next_at: Timestamp, report: &SliceReport) {
        let Ok(now) = self.time.now() else { return };
        let failed = report.failed.clone();
        let left = held.save(now, |run| {
            run.lease = None;
            run.last_error.clone_from(&failed);
            run.slice = run.slice.max(slice.saturating_add(1));
            run.next_slice_at = run.needs_slice().then_some(next_at);
        });
        if let Err(error) = left.await {
            tracing::warn!(run_id = %held.run.id, by = %self.by, error = %chain(&error), "a run could not be let go of");
        }
    }

    async fn work(&self, held: &mut Held<'_, C>, report: &mut SliceReport) -> Result<(), FlowError> {
        if matches!(held.run.phase, Phase::Canary | Phase::Moving) || held.run.counters.moved == 0 {
            let totals = self.totals(&held.run.id).await?;
            // What a slice moved that died before it could count: the index shows it.
            if totals.rows > held.run.counters.moved
                && !held.save(self.time.now()?, |run| run.counters.moved = run.counters.moved.max(totals.rows)).await?
            {
                return Ok(());
            }
            self.advance(held, &totals, report).await?;
        }
        let sweeps = matches!(held.run.phase, Phase::Sweeping | Phase::Stopped | Phase::Aborted) && !held.run.swept;
        if sweeps { self.sweep(held, report).await } else { Ok(()) }
    }

    /// Judges the run and moves rows, until the phase is over, or there is no room, or no time.
    async fn advance(&self, held: &mut Held<'_, C>, totals: &Totals, report: &mut SliceReport) -> Result<(), FlowError> {
        let mut believed = Believed::new();
        let begun = self.time.now()?;
        let working = (self.interval * WORKING_PERCENT / 100).min(self.time.time_left().saturating_sub(RESERVE));
        let ends_at = begun.hi.plus(working);
        while matches!(held.run.phase, Phase::Canary | Phase::Moving) {
            let now = self.time.now()?;
            if !held.renew(now).await? {
                return Ok(());
            }
            let around = self.around(&held.run).await?;
            let signs = self.signs(&around, now).await?;
            match judge(&held.run, totals, &signs, now.hi) {
                Verdict::Wait => return Ok(()),
                Verdict::Stop(stop) => return self.stop(held, stop, report).await,
                Verdict::Go if held.run.phase == Phase::Canary && held.run.canary_is_moved() => {
                    let kept = held.save(now, |run| {
                        if run.phase == Phase::Canary {
                            run.phase = Phase::Moving;
                        }
                    });
                    if !kept.await? {
                        return Ok(());
                    }
                }
                Verdict::Go => {}
            }
            let fresh_until = now.hi.plus(FRESH);
            let mut passing = Passing { around: &around, believed: &mut believed, report, fresh_until, ends_at };
            match self.pass(held, &mut passing).await? {
                Passed::Exhausted | Passed::Enough => return self.end_phase(held).await,
                Passed::Stopped => return Ok(()),
                Passed::Changed => {}
                Passed::NoRoom => {
                    let soonest = around.destinations.values().map(|one| {
                        let id = &one.spec.id;
                        self.pace(one, around.reach.get(id), held.run.order.rate_per_second).ahead / 2
                    });
                    let wait = soonest.min().unwrap_or(self.interval).max(LEAST_WAIT);
                    // Rows are booked as far ahead as the next slice needs, or there is no time to wait.
                    if wait >= self.farthest() / 2 || self.time.now()?.hi.plus(wait) >= ends_at {
                        return Ok(());
                    }
                    self.time.pause(wait).await;
                }
            }
        }
        Ok(())
    }

    /// All that this phase moves is moved.
    async fn end_phase(&self, held: &mut Held<'_, C>) -> Result<(), FlowError> {
        let now = self.time.now()?;
        held.save(now, |run| match run.phase {
            Phase::Canary => {
                run.canary_until = Some(now.hi.plus(Duration::from_secs(run.order.canary_seconds.into())));
            }
            Phase::Moving => {
                run.phase = Phase::Sweeping;
                run.counters.left.clear();
            }
            _ => {}
        })
        .await?;
        Ok(())
    }

    async fn stop(&self, held: &mut Held<'_, C>, stop: Stop, report: &mut SliceReport) -> Result<(), FlowError> {
        let now = self.time.now()?;
        tracing::warn!(run_id = %held.run.id, by = %self.by, code = %stop.code, text = stop.text, "a redrive run stopped by itself");
        report.stopped = Some(stop.text.clone());
        held.save(now, |run| {
            if let Ok(stopped) = run.stop(stop.clone(), now.lo, self.by.as_str()) {
                *run = Run { version: run.version, ..stopped };
                run.counters.left.clear();
            }
        })
        .await?;
        Ok(())
    }
}

/// A boundary of the run itself, and not of one of its rows.
fn point(point: Point, run: &RunId) {
    // A run's name has the alphabet of a delivery's.
    if let Ok(name) = DeliveryId::new(run.as_str()) {
        fault::point(point, &name);
    }
}
