//! I say what a run would do, to the row, and change nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use punctual_core::clock::Now;
use punctual_core::delivery::Delivery;
use punctual_core::destination::{Change, Destination, FieldError};
use punctual_core::id::{DestinationId, RunId};
use punctual_core::ports::{Control, Ledger, Letters, PortError, Queue, Slices, Time};
use punctual_core::reason::Reason;
use punctual_core::redrive::{ForRow, Order, Run, Selection, SkipReason, for_row};
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;
use punctual_flows::release::CONCURRENCY;
use serde::Serialize;

use crate::book::booked;
use crate::candidates::{Candidates, Margins};
use crate::input::PlanInput;
use crate::text::{counts, seconds};
use crate::{Redrive, Response};

/// Reading ends when so little of the invocation is left.
const RESERVE: Duration = Duration::from_secs(15);

/// What a run would do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Plan {
    /// Dead and expired rows that the selection takes.
    pub matched: u32,
    /// Of them, those that a run would move.
    pub would_move: u32,
    /// Of them, those that it would leave, by why.
    pub would_skip: BTreeMap<SkipReason, u32>,
    /// The same, one line for each destination and reason.
    pub groups: Vec<Group>,
    /// What each destination would have to take.
    pub destinations: Vec<Load>,
    /// Rows that are matched and whose own deadline can be kept.
    pub deadline_reachable: u32,
    /// Rows that are matched and whose own deadline cannot be kept.
    pub deadline_unreachable: u32,
    /// Rows that would be moved under the new deadline, because their own cannot be kept.
    pub with_new_deadline: u32,
    /// The nearest deadline of those that would be moved.
    pub nearest_deadline: Option<Timestamp>,
    /// Matched rows of whose present death no dead letter was sent: the queue does not show them.
    pub without_letter: u32,
    /// The most calls that the granted attempts allow.
    pub calls_at_most: u64,
    /// From the first slot to the last, in seconds, if nothing stops the run; the canary's wait comes on top.
    pub seconds: u64,
    /// Entries of the index that were read.
    pub entries_read: u64,
    /// Whether all of the dead and expired were looked at.
    pub complete: bool,
    /// Active runs whose selection may take some of the same rows: a start is refused until they have ended.
    pub overlapping: Vec<RunId>,
    /// Who has frozen all redriving, if it is frozen.
    pub frozen: Option<Change>,
}

/// The rows of one destination and one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Whom they go to.
    pub destination_id: DestinationId,
    /// Why they are dead or expired.
    pub reason: Option<Reason>,
    /// How many the selection takes.
    pub matched: u32,
    /// How many would be moved.
    pub would_move: u32,
}

/// What a destination would have to take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Which one.
    pub destination_id: DestinationId,
    /// How many rows the selection takes.
    pub matched: u32,
    /// How many would be moved.
    pub would_move: u32,
    /// The most calls a second that a redrive may make here; none if it is not registered.
    pub cap_per_second: Option<u32>,
    /// The most calls a second; slots are laid out at nine tenths of it.
    pub rate_per_second: u32,
    /// How long its rows take at that rate, in seconds.
    pub seconds: u64,
}

/// The most calls a second that a redrive may make at a destination.
pub(crate) fn cap(destination: &Destination) -> u32 {
    destination.limit().of_redrive().per_second
}

impl Plan {
    fn note(&mut self, row: &Delivery, decision: ForRow, reachable: bool) {
        let count = |counter: &mut u32, yes: bool| *counter = counter.saturating_add(u32::from(yes));
        let moves = matches!(decision, ForRow::Move(_));
        count(&mut self.matched, true);
        count(&mut self.would_move, moves);
        count(&mut self.deadline_reachable, reachable);
        count(&mut self.deadline_unreachable, !reachable);
        count(&mut self.without_letter, row.owes_dead_letter());
        match decision {
            ForRow::Move(this) => {
                count(&mut self.with_new_deadline, this.deliver_by.is_some());
                let deliver_by = this.deliver_by.unwrap_or(row.deliver_by);
                self.nearest_deadline = Some(self.nearest_deadline.map_or(deliver_by, |nearest| nearest.min(deliver_by)));
                self.calls_at_most = self.calls_at_most.saturating_add(u64::from(this.grant));
            }
            ForRow::Skip(why) => count(self.would_skip.entry(why).or_default(), true),
        }
        let place = self.groups.binary_search_by(|g| (&g.destination_id, g.reason).cmp(&(&row.destination, row.reason)));
        let place = place.unwrap_or_else(|place| {
            let (destination_id, reason) = (row.destination.clone(), row.reason);
            self.groups.insert(place, Group { destination_id, reason, matched: 0, would_move: 0 });
            place
        });
        if let Some(group) = self.groups.get_mut(place) {
            count(&mut group.matched, true);
            count(&mut group.would_move, moves);
        }
    }

    fn reckon(&mut self, destinations: &BTreeMap<DestinationId, Destination>, rate: Option<u32>) {
        for group in &self.groups {
            if self.destinations.last().is_none_or(|load| load.destination_id != group.destination_id) {
                let cap_per_second = destinations.get(&group.destination_id).map(cap);
                self.destinations.push(Load {
                    destination_id: group.destination_id.clone(),
                    matched: 0,
                    would_move: 0,
                    cap_per_second,
                    rate_per_second: rate.or(cap_per_second).unwrap_or(1),
                    seconds: 0,
                });
            }
            if let Some(load) = self.destinations.last_mut() {
                load.matched = load.matched.saturating_add(group.matched);
                load.would_move = load.would_move.saturating_add(group.would_move);
                load.seconds = u64::from(load.would_move).div_ceil(u64::from(booked(load.rate_per_second)));
            }
        }
        self.seconds = self.destinations.iter().map(|load| load.seconds).max().unwrap_or(0);
    }

    /// Where the rate is more than a destination's redrive cap: one error for each.
    pub(crate) fn above_cap(&self, rate: u32) -> Vec<FieldError> {
        let above = |load: &Load| {
            let cap = load.cap_per_second.filter(|cap| rate > *cap)?;
            let message = format!("1 to {cap}, what a redrive may take of destination {}; got {rate}", load.destination_id);
            Some(FieldError::new("out_of_bounds", "rate_per_second", message))
        };
        self.destinations.iter().filter_map(above).collect()
    }

    /// For a person.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} dead or expired rows match; a run would move {}.", self.matched, self.would_move)];
        for group in &self.groups {
            let reason = group.reason.map_or("unknown", Reason::code);
            lines.push(format!("{}, {reason}: {} match, {} would move.", group.destination_id, group.matched, group.would_move));
        }
        if !self.would_skip.is_empty() {
            lines.push(format!("Left as they are: {}.", counts(&self.would_skip, SkipReason::code)));
        }
        if self.would_move > 0 {
            let rates = self.destinations.iter().filter(|load| load.would_move > 0);
            let rates: Vec<String> =
                rates.map(|load| format!("{} a second for {}", load.rate_per_second, load.destination_id)).collect();
            let (time, calls) = (seconds(self.seconds), self.calls_at_most);
            lines.push(format!("About {time}, with no more than {}; at most {calls} calls.", rates.join(", ")));
        }
        if let Some(nearest) = self.nearest_deadline {
            let new = self.with_new_deadline;
            lines.push(format!("The nearest deadline is {nearest}; {new} would get the new one."));
        }
        if self.without_letter > 0 {
            lines.push(format!("{} of them have no dead letter yet; the ledger knows them all the same.", self.without_letter));
        }
        if !self.overlapping.is_empty() {
            let runs: Vec<&str> = self.overlapping.iter().map(RunId::as_str).collect();
            lines.push(format!("A start is refused while {} is active: it may take some of them.", runs.join(", ")));
        }
        if let Some(frozen) = &self.frozen {
            lines.push(format!("All redriving is frozen by {} since {}: {}.", frozen.by, frozen.at, frozen.why));
        }
        if !self.complete {
            lines.push("Not everything could be read in time: narrow the selection.".to_owned());
        }
        lines
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    pub(crate) async fn plan(&self, input: PlanInput) -> Result<Response, FlowError> {
        let destinations = self.destinations().await?;
        let mut problems = unregistered(&input.selection, &destinations);
        let now = self.time.now()?;
        if let Some(deliver_by) = input.deliver_by.filter(|deliver_by| *deliver_by <= now.hi) {
            let message = format!("later than now, {}; got {deliver_by}", now.hi);
            problems.push(FieldError::new("past_deadline", "deliver_by", message));
        }
        if !problems.is_empty() {
            return Ok(Response::refused(problems));
        }
        let order = Order {
            owner: String::new(),
            why: String::new(),
            evidence: String::new(),
            selection: input.selection,
            max_count: u32::MAX,
            rate_per_second: input.rate_per_second.unwrap_or(1),
            canary_size: 1,
            abort_threshold_percent: 100,
            canary_seconds: 60,
            attempts: input.attempts,
            deliver_by: input.deliver_by,
        };
        let plan = self.survey(&order, input.rate_per_second, &destinations).await?;
        let above = plan.above_cap(input.rate_per_second.unwrap_or(1));
        if !above.is_empty() {
            return Ok(Response::refused(above));
        }
        let lines = plan.lines();
        Ok(Response { plan: Some(plan), ..Response::answered(lines) })
    }

    /// What a run of this order would do.
    pub(crate) async fn survey(
        &self,
        order: &Order,
        rate: Option<u32>,
        destinations: &BTreeMap<DestinationId, Destination>,
    ) -> Result<Plan, FlowError> {
        let now = self.time.now()?;
        let run = Run::new(RunId::started(now.lo, &self.by), order.clone(), now.lo);
        let margins = Margins { destinations, stage: self.margin };
        let mut candidates = Candidates::new(self.ledger, &run.order.selection, margins);
        let mut plan = Plan { complete: true, ..Plan::default() };
        while let Some(rows) = candidates.batch(now).await? {
            if self.time.time_left() < RESERVE {
                plan.complete = false;
                break;
            }
            for (row, decision) in self.decide(rows, &run, destinations, now).await? {
                let margin = margins.of(&row.destination);
                plan.note(&row, decision, punctual_core::acquire::can_start(row.deliver_by, margin, now));
            }
        }
        plan.entries_read = candidates.seen;
        plan.reckon(destinations, rate);
        plan.overlapping = self.overlapping(&run).await?;
        plan.frozen = self.control.freeze().await?;
        Ok(plan)
    }

    /// Decides on rows as they were read; whether what they send is still there is asked for each.
    pub(crate) async fn decide(
        &self,
        rows: Vec<Delivery>,
        run: &Run,
        destinations: &BTreeMap<DestinationId, Destination>,
        now: Now,
    ) -> Result<Vec<(Delivery, ForRow)>, PortError> {
        let decided: Vec<Result<(Delivery, ForRow), PortError>> = futures::stream::iter(rows)
            .map(|row| async move {
                let decide =
                    |row: &Delivery, there| for_row(row, run, destinations.get(&row.destination), there, now, self.margin);
                let mut decision = decide(&row, true);
                if matches!(decision, ForRow::Move(_)) && self.ledger.payload(&row.id, &row.content).await?.is_none() {
                    decision = decide(&row, false);
                }
                Ok((row, decision))
            })
            .buffered(CONCURRENCY)
            .collect()
            .await;
        decided.into_iter().collect()
    }

    /// Every registered destination, by id.
    pub(crate) async fn destinations(&self) -> Result<BTreeMap<DestinationId, Destination>, PortError> {
        let destinations = self.control.destinations().await?;
        Ok(destinations.into_iter().map(|destination| (destination.spec.id.clone(), destination)).collect())
    }

    /// The other active runs whose selection may take some of this one's rows.
    pub(crate) async fn overlapping(&self, run: &Run) -> Result<Vec<RunId>, PortError> {
        let runs = self.control.runs().await?;
        let overlaps = |other: &Run| other.id != run.id && other.phase.is_active();
        let overlaps = |other: &Run| overlaps(other) && other.order.selection.overlaps(&run.order.selection);
        Ok(runs.into_iter().filter(overlaps).map(|other| other.id).collect())
    }
}

/// Destinations that a selection names and that nobody has registered.
pub(crate) fn unregistered(selection: &Selection, destinations: &BTreeMap<DestinationId, Destination>) -> Vec<FieldError> {
    let named = selection.destination_ids.iter().flatten().enumerate();
    let unknown = named.filter(|(_, id)| !destinations.contains_key(*id));
    let error =
        |(i, _)| FieldError::new("unknown_destination", format!("selection.destination_ids[{i}]"), "a registered destination");
    unknown.map(error).collect()
}
