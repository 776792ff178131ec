//! I move rows: read, decided, booked, written back to the ledger with their slot, handed to the ordinary path.
//!
//! A crash in between leaves rows that dispatch finds in the ledger when their slot comes; the next slice counts them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use punctual_core::admission::Admitted;
use punctual_core::delivery::Delivery;
use punctual_core::destination::Destination;
use punctual_core::id::DestinationId;
use punctual_core::ports::{Control, Ledger, Letters, Queue, Slices, Time, Written};
use punctual_core::redrive::{ForRow, Move, SkipReason};
use punctual_core::time::Timestamp;
use punctual_core::transition::{self, Grant};
use punctual_flows::fault::{self, Point};
use punctual_flows::release::{CONCURRENCY, Releaser, Rules};
use punctual_flows::{FlowError, chain, stamp};

use crate::Redrive;
use crate::book::{Believed, Pace};
use crate::candidates::{Candidates, Margins};
use crate::held::Held;
use crate::signs::Around;
use crate::slice::{FRESH, SliceReport};

/// The most rows between two writes of the run. No more than one second's calls either: so many at most wait for dispatch
/// after a crash.
const MOST_AT_ONCE: u32 = 50;

/// How a pass over the candidates ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// All were looked at, and nothing is left that this run could move.
    Exhausted,
    /// Something is left, and there is no room for it now.
    NoRoom,
    /// As many are moved as this phase, or the whole run, may move.
    Enough,
    /// A destination was changed, or is not reached any more: the run is to be judged again.
    Changed,
    /// The slice has no more time, or the run was changed, frozen or taken in between, or rows may or may not have been
    /// written: the next slice counts them.
    Stopped,
}

/// What a slice carries through its passes.
#[derive(Debug)]
pub(crate) struct Passing<'p> {
    pub(crate) around: &'p Around,
    pub(crate) believed: &'p mut Believed,
    pub(crate) report: &'p mut SliceReport,
    /// So long the destinations count as known.
    pub(crate) fresh_until: Timestamp,
    /// Nothing is begun later than this.
    pub(crate) ends_at: Timestamp,
}

/// What became of one row's move.
enum Fate {
    Moved(Admitted),
    Skipped(SkipReason),
    Failed,
}

/// Rows that go one after another, and those that must wait for room.
#[derive(Default)]
struct Sorted {
    booked: Vec<(Delivery, Move, Timestamp)>,
    waiting: bool,
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    /// Moves what the run may move and there is room for, nearest deadline first.
    ///
    /// # Errors
    /// [`FlowError`] if a table, the queue or the database's time cannot be had; what was moved by then is counted.
    pub(crate) async fn pass(&self, held: &mut Held<'_, C>, p: &mut Passing<'_>) -> Result<Passed, FlowError> {
        let run = held.run.clone();
        let (destinations, rate) = (&p.around.destinations, run.order.rate_per_second);
        let paces: BTreeMap<&DestinationId, Pace> =
            destinations.iter().map(|(id, destination)| (id, self.pace(destination, p.around.reach.get(id), rate))).collect();
        let at_once = usize::try_from(rate.clamp(1, MOST_AT_ONCE)).unwrap_or(1);
        let margins = Margins { destinations, stage: self.margin };
        let mut candidates = Candidates::new(self.ledger, &run.order.selection, margins);
        let mut skipped: BTreeMap<SkipReason, u32> = BTreeMap::new();
        let mut full: BTreeSet<DestinationId> = BTreeSet::new();
        let mut waiting = false;
        while let Some(mut rows) = candidates.batch(self.time.now()?).await? {
            waiting |= rows.iter().any(|row| full.contains(&row.destination));
            rows.retain(|row| !full.contains(&row.destination));
            let mut line = Vec::new();
            for (row, decision) in self.decide(rows, &run, destinations, self.time.now()?).await? {
                match decision {
                    ForRow::Move(this) => line.push((row, this)),
                    ForRow::Skip(why) => count(&mut skipped, why),
                }
            }
            let mut line = line.into_iter().peekable();
            while line.peek().is_some() {
                // A write that failed may have been made all the same.
                let unknown = p.report.failed_writes;
                let room = held.run.may_move(held.run.counters.moved.saturating_add(unknown));
                if room == 0 {
                    return Ok(if unknown == 0 { Passed::Enough } else { Passed::Stopped });
                }
                if held.run.phase != run.phase || !self.may_go_on(held, p).await? {
                    return Ok(Passed::Stopped);
                }
                if self.time.now()?.hi >= p.fresh_until {
                    if !self.around(&run).await?.is_like(p.around) {
                        return Ok(Passed::Changed);
                    }
                    p.fresh_until = self.time.now()?.hi.plus(FRESH);
                }
                let most = at_once.min(usize::try_from(room).unwrap_or(usize::MAX));
                let some: Vec<(Delivery, Move)> = line.by_ref().take(most).collect();
                let sorted = self.sort(some, &paces, &mut full, &mut skipped, p.believed).await?;
                waiting |= sorted.waiting;
                let (moved, lost) = self.move_these(held, sorted.booked, destinations, p, &mut skipped).await?;
                if lost {
                    return Ok(Passed::Stopped);
                }
                p.report.moved = p.report.moved.saturating_add(moved);
            }
            if !full.is_empty() && destinations.keys().all(|id| full.contains(id)) {
                return Ok(Passed::NoRoom);
            }
        }
        if !held.save(self.time.now()?, |run| run.counters.skipped.clone_from(&skipped)).await? {
            return Ok(Passed::Stopped);
        }
        Ok(match (waiting, p.report.failed_writes) {
            (true, _) => Passed::NoRoom,
            (false, 0) => Passed::Exhausted,
            // They are tried again.
            (false, _) => Passed::Stopped,
        })
    }

    /// Whether there is time, the run is ours, and nobody has frozen it.
    async fn may_go_on(&self, held: &mut Held<'_, C>, p: &Passing<'_>) -> Result<bool, FlowError> {
        let now = self.time.now()?;
        if now.hi >= p.ends_at || self.control.freeze().await?.is_some() {
            return Ok(false);
        }
        Ok(held.renew(now).await?)
    }

    /// Books a slot for each row; one whose slot would come too late for it is skipped.
    async fn sort(
        &self,
        rows: Vec<(Delivery, Move)>,
        paces: &BTreeMap<&DestinationId, Pace>,
        full: &mut BTreeSet<DestinationId>,
        skipped: &mut BTreeMap<SkipReason, u32>,
        believed: &mut Believed,
    ) -> Result<Sorted, FlowError> {
        let mut sorted = Sorted::default();
        let mut lines: BTreeMap<DestinationId, Vec<(Delivery, Move)>> = BTreeMap::new();
        let now = self.time.best_guess()?;
        for (row, this) in rows {
            let Some(pace) = paces.get(&row.destination) else { continue };
            let known = believed.get(&row.destination).copied().flatten();
            if Self::guess(known, pace.limit, this.not_before, now) > this.start_by {
                count(skipped, SkipReason::DeadlineUnreachable);
            } else if this.not_before > now.plus(pace.ahead) {
                // Its own time is later than anything that is booked now.
                sorted.waiting = true;
            } else {
                lines.entry(row.destination.clone()).or_default().push((row, this));
            }
        }
        for (id, line) in lines {
            let Some(pace) = paces.get(&id) else { continue };
            let calls: Vec<Timestamp> = line.iter().map(|(_, this)| this.not_before).collect();
            let slots = self.book(&id, *pace, &calls, believed).await?;
            if slots.len() < line.len() {
                sorted.waiting = true;
                full.insert(id);
            }
            for ((row, this), slot) in line.into_iter().zip(slots) {
                if slot > this.start_by {
                    // Others have booked before it: its slot is spent.
                    count(skipped, SkipReason::DeadlineUnreachable);
                } else {
                    sorted.booked.push((row, this, slot));
                }
            }
        }
        Ok(sorted)
    }

    /// Writes rows back to the ledger, releases them, and counts them in the run. Says how many, and whether the run is lost.
    async fn move_these(
        &self,
        held: &mut Held<'_, C>,
        rows: Vec<(Delivery, Move, Timestamp)>,
        destinations: &BTreeMap<DestinationId, Destination>,
        p: &mut Passing<'_>,
        skipped: &mut BTreeMap<SkipReason, u32>,
    ) -> Result<(u32, bool), FlowError> {
        let (id, owner) = (&held.run.id, &held.run.order.owner);
        let fates: Vec<(DestinationId, Result<Fate, FlowError>)> = futures::stream::iter(rows)
            .map(|(row, this, slot)| async move {
                let margin = destinations.get(&row.destination).map_or(self.margin, |one| one.margin(self.margin));
                let grant = Grant { owner: owner.clone(), attempts: this.grant, slot, deliver_by: this.deliver_by };
                (row.destination.clone(), self.move_one(&row, id, grant, margin).await)
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let mut lines: BTreeMap<DestinationId, Vec<Admitted>> = BTreeMap::new();
        let (mut moved, mut clock) = (0_u32, None);
        for (destination, fate) in fates {
            match fate {
                Ok(Fate::Moved(row)) => {
                    moved = moved.saturating_add(1);
                    lines.entry(destination).or_default().push(row);
                }
                Ok(Fate::Skipped(why)) => count(skipped, why),
                Ok(Fate::Failed) => p.report.failed_writes = p.report.failed_writes.saturating_add(1),
                Err(error) => clock = Some(error),
            }
        }
        for (id, mut line) in lines {
            let Some(destination) = destinations.get(&id) else { continue };
            line.sort_by_key(|row| row.slot);
            if let Err(error) = self.release(destination, &line, p.report).await {
                tracing::error!(run_id = %held.run.id, by = %self.by, error = %chain(&error), "a release failed; dispatch does it");
            }
        }
        let now = self.time.now()?;
        let kept = moved == 0 || held.save(now, |run| run.counters.moved = run.counters.moved.saturating_add(moved)).await?;
        clock.map_or(Ok((moved, !kept)), Err)
    }

    /// Writes one row back to the ledger.
    async fn move_one(
        &self,
        row: &Delivery,
        run: &punctual_core::id::RunId,
        grant: Grant,
        margin: Duration,
    ) -> Result<Fate, FlowError> {
        let slot = grant.slot;
        let Ok(moved) = transition::redriven(row, run, grant, margin, &stamp(self.time, &self.by)?) else {
            return Ok(Fate::Skipped(SkipReason::Changed));
        };
        match self.ledger.write(&moved).await {
            Ok(Written::Done) => {
                fault::point(Point::RowMoved, &row.id);
                Ok(Fate::Moved(Admitted { id: row.id.clone(), due: slot, slot, deliver_by: moved.after.deliver_by }))
            }
            Ok(Written::Conflict(_) | Written::Absent) => Ok(Fate::Skipped(SkipReason::Changed)),
            Err(error) => {
                tracing::warn!(delivery_id = %row.id, error = %chain(&error), "a row could not be moved; a later slice tries it again");
                Ok(Fate::Failed)
            }
        }
    }

    /// Hands rows of one destination to the ordinary path.
    async fn release(&self, destination: &Destination, line: &[Admitted], report: &mut SliceReport) -> Result<(), FlowError> {
        // All that was booked is within reach: the bound on what may be out is in the booking.
        let horizon = self.rules.horizon.max(self.farthest() + LATE);
        let rules = Rules { horizon, ..self.rules };
        let releaser = Releaser { ledger: self.ledger, queue: self.queue, time: self.time, rules, by: self.by.clone() };
        let tally = releaser.release(line, destination.spec.mode, self.tick, destination.margin(self.margin)).await?;
        report.released.add(tally);
        line.iter().for_each(|row| fault::point(Point::RowSent, &row.id));
        Ok(())
    }
}

/// Between a booking and its claim at most.
const LATE: Duration = Duration::from_secs(30);

fn count(counts: &mut BTreeMap<SkipReason, u32>, why: SkipReason) {
    let n = counts.entry(why).or_default();
    *n = n.saturating_add(1);
}
