//! I start a run: only what is complete, moves something, keeps to the caps, and takes no row from another active run.

use std::collections::BTreeMap;

use punctual_core::destination::{Destination, FieldError};
use punctual_core::id::{DestinationId, RunId};
use punctual_core::ports::{Control, Ledger, Letters, Operations, Queue, Slices, Stored, Time};
use punctual_core::redrive::selection::MOST_IDS;
use punctual_core::redrive::{Order, Run, SkipReason, Totals};
use punctual_flows::FlowError;

use crate::input::signed_order;
use crate::plan::{Plan, unregistered};
use crate::status::RunView;
use crate::text::counts;
use crate::{LEAD, Redrive, Response};

impl<L: Ledger, C: Control + Operations, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    pub(crate) async fn start(&self, order: Order) -> Result<Response, FlowError> {
        let destinations = self.destinations().await?;
        let mut problems = order.problems(self.time.now()?.hi);
        let readable = problems.is_empty();
        problems.extend(unregistered(&order.selection, &destinations));
        if !readable {
            return Ok(Response::refused(problems));
        }
        self.recorded(signed_order(&order), self.begin(order, problems, &destinations)).await
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    async fn begin(
        &self,
        order: Order,
        problems: Vec<FieldError>,
        destinations: &BTreeMap<DestinationId, Destination>,
    ) -> Result<Response, FlowError> {
        if !problems.is_empty() {
            return Ok(Response::refused(problems));
        }
        let plan = self.survey(&order, Some(order.rate_per_second), destinations).await?;
        let problems = objections(&plan, &order);
        if !problems.is_empty() {
            return Ok(Response { plan: Some(plan), ..Response::refused(problems) });
        }
        let order = narrowed(order, &plan);
        let now = self.time.now()?;
        let first_at = now.hi.plus(LEAD);
        let run = Run { next_slice_at: Some(first_at), ..Run::new(RunId::started(now.lo, &self.by), order, now.lo) };
        // Before the run itself: a crash in between leaves a slice that finds no run, and never a run that nobody moves.
        self.slices.schedule(&run.id, run.slice, first_at).await?;
        if self.control.put_run(&run, 0).await? == Stored::Conflict {
            return Ok(Response::wrong("conflict", "action", "sent again: another run was started in this very second"));
        }
        // Whoever was written last sees the other here; both may withdraw, and never do both go on.
        let others = self.overlapping(&run).await?;
        if !others.is_empty() {
            self.withdraw(&run, &others).await?;
            return Ok(Response::refused(vec![overlapping(&others)]));
        }
        let mut text = vec![format!("Run {} is started; its first slice comes at {first_at} or soon after.", run.id)];
        if self.time.now()?.hi >= first_at && !self.nudge(&run, self.time.now()?.hi.plus(LEAD)).await {
            text.push(Self::by_hand(&run.id, run.slice));
        }
        let canary = run.order.canary_size.min(plan.would_move);
        text.push(format!("First {canary} rows as a canary, then the others, at most {} a second.", run.order.rate_per_second));
        if plan.would_move > run.order.max_count {
            text.push(format!("It ends after {} of the {} rows that it could move.", run.order.max_count, plan.would_move));
        }
        text.extend(plan.lines());
        let view = RunView { run, totals: Totals::default() };
        Ok(Response { plan: Some(plan), run: Some(Box::new(view)), ..Response::answered(text) })
    }

    /// Ends a run that has moved nothing, in favour of others.
    async fn withdraw(&self, run: &Run, others: &[RunId]) -> Result<(), FlowError> {
        let names: Vec<&str> = others.iter().map(RunId::as_str).collect();
        let why = format!("It was started at the same time as {}, which may take the same rows.", names.join(", "));
        let mut stored = run.clone();
        while let Ok(aborted) = stored.abort(self.by.as_str(), &why, self.time.now()?.lo) {
            if self.control.put_run(&aborted, stored.version).await? == Stored::Done {
                break;
            }
            let Some(current) = self.control.run(&run.id).await? else { break };
            stored = current;
        }
        Ok(())
    }
}

/// Everything that the plan says against a start.
fn objections(plan: &Plan, order: &Order) -> Vec<FieldError> {
    let unknown = plan.would_move == 0 || order.selection.destination_ids.is_none();
    if !plan.complete && unknown {
        let message = "given: not all of the dead and expired could be read in time";
        return vec![FieldError::new("too_much", "selection.destination_ids", message)];
    }
    if plan.matched == 0 {
        return vec![FieldError::new("matches_nothing", "selection", "one that takes at least one dead or expired row")];
    }
    if plan.would_move == 0 {
        let message = format!(
            "one that takes at least one row that can be moved; {} match: {}",
            plan.matched,
            counts(&plan.would_skip, SkipReason::code)
        );
        return vec![FieldError::new("nothing_to_move", "selection", message)];
    }
    let mut problems = plan.above_cap(order.rate_per_second);
    if !plan.overlapping.is_empty() {
        problems.push(overlapping(&plan.overlapping));
    }
    if order.selection.destination_ids.is_none() && plan.destinations.len() > MOST_IDS {
        let message =
            format!("given: rows of {} destinations match, and a run takes {MOST_IDS} at most", plan.destinations.len());
        problems.push(FieldError::new("too_many", "selection.destination_ids", message));
    }
    problems
}

/// The destinations that the run is about, by name: signs are looked for there and nowhere else.
fn narrowed(mut order: Order, plan: &Plan) -> Order {
    if order.selection.destination_ids.is_none() {
        order.selection.destination_ids = Some(plan.destinations.iter().map(|load| load.destination_id.clone()).collect());
    }
    order
}

pub(crate) fn overlapping(runs: &[RunId]) -> FieldError {
    let names: Vec<&str> = runs.iter().map(RunId::as_str).collect();
    let message = format!("apart from that of {}, which is active and may take the same rows", names.join(", "));
    FieldError::new("overlapping_run", "selection", message)
}
