//! I steer runs: abort, resume, freeze, unfreeze. Each write is versioned or a whole row, says who, why and on what evidence,
//! and is recorded.

use punctual_core::destination::Change;
use punctual_core::ports::{Control, Ledger, Letters, Operations, Queue, Slices, Stored, Time};
use punctual_core::redrive::{Phase, Run};
use punctual_flows::FlowError;

use crate::input::{OnAll, OnRun};
use crate::record::NOTHING;
use crate::start::overlapping;
use crate::status::{RunView, is_late, lines};
use crate::{LEAD, Redrive, Response};

/// A slice may write in between so often before the operator is asked to try again.
const MOST_TRIES: usize = 8;

impl<L: Ledger, C: Control + Operations, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    pub(crate) async fn abort(&self, input: OnRun) -> Result<Response, FlowError> {
        let read = self.control.run(&input.run_id).await?;
        self.recorded(input.signed(), self.end(&input, read)).await
    }

    pub(crate) async fn resume(&self, input: OnRun) -> Result<Response, FlowError> {
        let read = self.control.run(&input.run_id).await?;
        self.recorded(input.signed(), self.go_on(&input, read)).await
    }

    pub(crate) async fn freeze(&self, input: OnAll) -> Result<Response, FlowError> {
        let frozen = self.control.freeze().await?;
        self.recorded(input.signed(), self.stop_all(&input, frozen)).await
    }

    pub(crate) async fn unfreeze(&self, input: OnAll) -> Result<Response, FlowError> {
        let frozen = self.control.freeze().await?;
        self.recorded(input.signed(), self.let_all_go_on(&input, frozen)).await
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    /// Ends the run as it was read, and reads it again if a slice has written since.
    async fn end(&self, input: &OnRun, mut read: Option<Run>) -> Result<Response, FlowError> {
        for _ in 0..MOST_TRIES {
            let Some(run) = read else { return Ok(Response::unknown_run()) };
            let now = self.time.now()?;
            let Ok(mut aborted) = run.abort(&input.by, &input.why, now.lo) else {
                return match run.phase {
                    Phase::Aborted => self.told(format!("{NOTHING}it was aborted already."), run).await,
                    phase => Ok(Response::wrong("refused", "run_id", format!("a run that is not {phase}"))),
                };
            };
            aborted.counters.left.clear();
            if self.control.put_run(&aborted, run.version).await? == Stored::Conflict {
                read = self.control.run(&input.run_id).await?;
                continue;
            }
            let did = "Aborted: nothing more is moved. What was moved already goes on by itself; cancel, hold or pause stops it.";
            let swept = "Its last slices delete the dead letters of what it moved.";
            let text = format!("{did} {}", if aborted.needs_slice() { swept } else { "" });
            let planned = !aborted.needs_slice() || self.nudge(&aborted, now.hi.plus(LEAD)).await;
            return self.told_with(text.trim_end().to_owned(), aborted, planned).await;
        }
        Ok(busy())
    }

    /// The same for a run that shall go on.
    async fn go_on(&self, input: &OnRun, mut read: Option<Run>) -> Result<Response, FlowError> {
        for _ in 0..MOST_TRIES {
            let Some(run) = read else { return Ok(Response::unknown_run()) };
            let now = self.time.now()?;
            if run.phase.is_active() {
                if !is_late(&run, now.lo, self.interval) {
                    return self.told(format!("{NOTHING}it is active."), run).await;
                }
                let planned = self.nudge(&run, now.hi.plus(LEAD)).await;
                return self.told_with("Its slices had stopped coming; another one is planned.".to_owned(), run, planned).await;
            }
            let totals = self.totals(&run.id).await?;
            let Ok(mut resumed) = run.resume(&totals, &input.by, &input.why, now.lo) else {
                return Ok(Response::wrong("refused", "run_id", format!("a run that stopped by itself; it is {}", run.phase)));
            };
            let others = self.overlapping(&run).await?;
            if !others.is_empty() {
                return Ok(Response::refused(vec![overlapping(&others)]));
            }
            // The number of a slice that was planned and found nothing to do is not used again.
            resumed.slice = run.slice.saturating_add(1);
            resumed.next_slice_at = Some(now.hi.plus(LEAD));
            resumed.last_error = None;
            if self.control.put_run(&resumed, run.version).await? == Stored::Conflict {
                read = self.control.run(&input.run_id).await?;
                continue;
            }
            let others = self.overlapping(&run).await?;
            if !others.is_empty() {
                self.put_back(&run).await?;
                return Ok(Response::refused(vec![overlapping(&others)]));
            }
            let planned = self.nudge(&resumed, now.hi.plus(LEAD)).await;
            let text = "Resumed: a canary goes first again, and the failures so far count no more.".to_owned();
            return self.told_with(text, resumed, planned).await;
        }
        Ok(busy())
    }

    /// Undoes a resume that met another run's start.
    async fn put_back(&self, was: &Run) -> Result<(), FlowError> {
        while let Some(run) = self.control.run(&was.id).await?.filter(|run| run.phase.is_active()) {
            let back = Run {
                phase: was.phase,
                stopped: was.stopped.clone(),
                base: was.base.clone(),
                canary_until: was.canary_until,
                swept: false,
                resumed: was.resumed.clone(),
                ..run.next()
            };
            if self.control.put_run(&back, run.version).await? == Stored::Done {
                break;
            }
        }
        Ok(())
    }

    async fn stop_all(&self, input: &OnAll, frozen: Option<Change>) -> Result<Response, FlowError> {
        if let Some(frozen) = frozen {
            let text = format!("{NOTHING}{} has frozen it already since {}.", frozen.by, frozen.at);
            return Ok(Response { frozen: Some(frozen), ..Response::answered(vec![text]) });
        }
        let frozen = Change { at: self.time.now()?.lo, by: input.by.clone(), why: input.why.clone() };
        self.control.put_freeze(Some(&frozen)).await?;
        let text = "All redriving is frozen: no run moves a row or deletes a letter until it is unfrozen. What was moved already \
                    goes on by itself; cancel, hold or pause stops it.";
        Ok(Response { frozen: Some(frozen), ..Response::answered(vec![text.to_owned()]) })
    }

    async fn let_all_go_on(&self, input: &OnAll, frozen: Option<Change>) -> Result<Response, FlowError> {
        let Some(frozen) = frozen else {
            return Ok(Response::answered(vec![format!("{NOTHING}nothing was frozen.")]));
        };
        self.control.put_freeze(None).await?;
        tracing::info!(by = %self.by, who = %input.by, why = %input.why, "redriving is unfrozen");
        let runs = self.control.runs().await?.into_iter().filter(|run| run.phase.is_active()).count();
        let text = format!("Unfrozen after {} by {}: {runs} active runs go on with their next slices.", frozen.at, frozen.by);
        Ok(Response::answered(vec![text]))
    }

    async fn told(&self, did: String, run: Run) -> Result<Response, FlowError> {
        self.told_with(did, run, true).await
    }

    async fn told_with(&self, did: String, run: Run, planned: bool) -> Result<Response, FlowError> {
        let totals = self.totals(&run.id).await?;
        let mut text = vec![did];
        if !planned {
            text.push(Self::by_hand(&run.id, run.slice));
        }
        text.extend(lines(&run, &totals, self.time.now()?.lo, self.interval));
        Ok(Response { run: Some(Box::new(RunView { run, totals })), ..Response::answered(text) })
    }
}

fn busy() -> Response {
    Response::wrong("conflict", "run_id", "sent again: its slice keeps writing")
}
