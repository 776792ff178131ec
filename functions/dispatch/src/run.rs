//! I am one run of dispatch, in the order of its steps.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::StreamExt as _;
use punctual_core::admission::{Admitted, Candidate, Pace, admit, budget};
use punctual_core::breaker::{Gate, Reach};
use punctual_core::clock::Now;
use punctual_core::delivery::{Delivery, Lane};
use punctual_core::destination::Destination;
use punctual_core::figures::Heartbeat;
use punctual_core::id::{Correlation, DeliveryId, DestinationId};
use punctual_core::ports::{Acquired, Control, Cursor, DeadLetters, Ledger, Queue, Time, WakeQuery};
use punctual_core::settings::RetryMode;
use punctual_core::time::Timestamp;
use punctual_flows::release::{ARRIVAL_LEAD, CHUNK, CONCURRENCY, Releaser, Rules};
use punctual_flows::{FlowError, chain};

use crate::scan::{Scan, Window, scan};
use crate::settle::Settler;
use crate::summary::Summary;

/// A run stops taking new work when less than this is left of its invocation.
const RESERVE: Duration = Duration::from_secs(12);
/// The most rows that a run rescues for one destination.
const RESCUE_CAP: usize = 500;
/// How many destinations are worked on at once.
const DESTINATIONS_AT_ONCE: usize = 4;
/// So many rows are tried until one of them becomes the probe of an open breaker: the index is behind the rows.
const PROBE_TRIES: usize = 10;
/// What of a summary is left behind: with its names it stays within one write unit.
const MOST_OF_A_LINE: usize = 900;
/// How many entries of a paused lane are looked through in one run.
const PAUSED_PAGE: u32 = 1_000;

/// Dispatch with its ports.
#[derive(Debug)]
pub struct Dispatch<'a, L, C, Q, D, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The control table.
    pub control: &'a C,
    /// The queue.
    pub queue: &'a Q,
    /// The dead-letter queue.
    pub dead_letters: &'a D,
    /// The database's time and this invocation's end.
    pub time: &'a T,
    /// How far ahead and how long a lease.
    pub rules: Rules,
    /// From one tick to the next: the least that an incomplete scan admits for.
    pub tick: Duration,
    /// The stage's safety margin.
    pub margin: Duration,
    /// When a message counts as overdue.
    pub handoff_threshold: Duration,
    /// Joins history and logs.
    pub by: Correlation,
}

impl<L: Ledger, C: Control, Q: Queue, D: DeadLetters, T: Time> Dispatch<'_, L, C, Q, D, T> {
    /// Runs once.
    ///
    /// # Errors
    /// [`FlowError`] if the destinations cannot be read or the database's time is not known well enough. A destination
    /// that fails is counted and logged, and stops no other.
    pub async fn run(&self) -> Result<Summary, FlowError> {
        let destinations = self.control.destinations().await?;
        let cursors = self.control.cursors().await?;
        let reach: BTreeMap<DestinationId, Reach> = self.control.reaches().await?.into_iter().collect();
        let (_, settings) = self.control.lookup(&[]).await?;
        self.time.now()?;
        let (mut paused, mut active): (Vec<Destination>, Vec<Destination>) =
            destinations.into_iter().partition(|d| d.paused.is_some());
        let retry_mode = settings.retry_mode;
        // Each run begins somewhere else, so that a run that stops early starves none for ever.
        rotate(&mut active, self.time.random());
        rotate(&mut paused, self.time.random());

        let mut summary = Summary::default();
        for (destinations, is_active) in [(&active, true), (&paused, false)] {
            let parts: Vec<Summary> = futures::stream::iter(destinations)
                .map(|destination| {
                    let reach = reach.get(&destination.spec.id).filter(|_| is_active);
                    self.destination(destination, reach, &cursors, retry_mode, is_active)
                })
                .buffer_unordered(DESTINATIONS_AT_ONCE)
                .collect()
                .await;
            parts.iter().for_each(|part| summary.add(part));
        }
        match self.ledger.count_reachable_dead(self.time.now()?.hi).await {
            Ok(count) => summary.dead_reachable = count,
            Err(error) => {
                summary.failed += 1;
                tracing::error!(error = %chain(&error), "dead work could not be counted");
            }
        }
        self.beat(&summary).await;
        Ok(summary)
    }

    /// Leaves behind that this run came to its end. Who looks for it finds a lost one in the next run.
    async fn beat(&self, summary: &Summary) {
        let Ok(now) = self.time.now() else { return };
        let line = serde_json::to_string(summary).unwrap_or_default().chars().take(MOST_OF_A_LINE).collect();
        if let Err(error) = self.control.note_heartbeat("dispatch", &Heartbeat { at: now.lo, line }).await {
            tracing::warn!(error = %chain(&error), "the heartbeat could not be left");
        }
    }

    async fn destination(
        &self,
        destination: &Destination,
        reach: Option<&Reach>,
        cursors: &[(Lane, Cursor)],
        retry_mode: RetryMode,
        active: bool,
    ) -> Summary {
        let mut summary = Summary::default();
        if self.out_of_time() {
            summary.stopped_early = true;
            return summary;
        }
        let done = if active {
            self.release(destination, reach, cursors, retry_mode, &mut summary).await
        } else {
            self.sweep_paused(destination, cursors, retry_mode, &mut summary).await
        };
        if let Err(error) = done {
            summary.failed += 1;
            tracing::error!(destination_id = %destination.spec.id, error = %chain(&error), "a destination could not be finished in this run");
        }
        summary
    }

    fn out_of_time(&self) -> bool {
        self.time.time_left() < RESERVE
    }

    fn releaser(&self) -> Releaser<'_, L, Q, T> {
        Releaser { ledger: self.ledger, queue: self.queue, time: self.time, rules: self.rules, by: self.by.clone() }
    }

    /// Releases what an active destination can take, after looking at every row whose hold has ended.
    async fn release(
        &self,
        destination: &Destination,
        reach: Option<&Reach>,
        cursors: &[(Lane, Cursor)],
        retry_mode: RetryMode,
        summary: &mut Summary,
    ) -> Result<(), FlowError> {
        let now = self.time.now()?;
        let until = now.lo.plus(self.rules.horizon);
        let margin = destination.margin(self.margin);
        let mut scan = scan(self.ledger, self.control, destination, cursors, Window { until, now, margin }, summary).await?;
        note_overdue(&scan.fresh, now, summary);
        summary.outstanding += scan.outstanding.len();

        let releaser = self.releaser();
        // An open breaker: one row at most, to probe.
        let probe_at = match reach.map_or(Gate::Closed, |reach| reach.gate(now)) {
            Gate::Closed => None,
            Gate::MayProbe => Some(now.lo),
            Gate::OpenUntil(at) => Some(at),
        };
        let settler = Settler {
            releaser: &releaser,
            dead_letters: self.dead_letters,
            handoff_threshold: self.handoff_threshold,
            margin,
            destination,
            retry_mode,
            may_claim: probe_at.is_none(),
            spare: AtomicBool::new(false),
        };
        if let Some(at) = probe_at {
            return self.release_probe(settler, scan, at, summary).await;
        }
        let taken_back = self.look_at(&settler, &scan.ended, None, summary).await?;

        let outstanding = summary.outstanding + taken_back;
        // What was looked at and is in order, or was taken back, is out as well, and due when the index says.
        scan.outstanding.extend(scan.ended.iter().map(|candidate| candidate.wake_at));
        scan.outstanding.resize(outstanding, now.lo);
        let budget = budget(destination.capacity(reach), self.rules.horizon, self.tick, outstanding, scan.complete);
        let waiting = scan.fresh.len();
        let pace = Pace {
            now: self.time.now()?.lo,
            rate_per_second: destination.spec.rate_per_second,
            horizon: self.rules.horizon,
            tick: self.tick,
            margin,
            outstanding: &scan.outstanding,
        };
        let admission = admit(scan.fresh, budget, &pace);
        summary.note(budget, &admission);
        let line = admission.rows;
        summary.left += waiting - line.len();
        for (i, chunk) in line.chunks(CHUNK).enumerate() {
            if self.out_of_time() {
                summary.left += line.len() - i * CHUNK;
                summary.stopped_early = true;
                break;
            }
            if !self.claim_and_publish(&settler, chunk, summary).await? {
                // The queue takes nothing: more claims would only add lines to the rows' histories.
                summary.left += line.len().saturating_sub((i + 1) * CHUNK);
                break;
            }
        }
        Ok(())
    }

    /// Releases one row of a destination whose breaker is open, if the next probe may start before the next run: the one
    /// with the nearest deadline that can be claimed, so that its message is seen when a probe may start. Where none waits
    /// in the ledger, one whose message is lost is taken back for it: nobody else may ever come.
    async fn release_probe(
        &self,
        mut settler: Settler<'_, L, Q, D, T>,
        scan: Scan,
        at: Timestamp,
        summary: &mut Summary,
    ) -> Result<(), FlowError> {
        let (waiting, claimed) = (scan.fresh.len(), summary.released.claimed);
        let near = at <= self.time.now()?.hi.plus(self.tick);
        if near {
            let mut nearest = scan.fresh;
            nearest.sort_by(|a, b| (a.deliver_by, a.wake_at, &a.id).cmp(&(b.deliver_by, b.wake_at, &b.id)));
            for candidate in nearest.into_iter().take(PROBE_TRIES) {
                let Candidate { id, wake_at, deliver_by, .. } = candidate;
                let probe = Admitted { id, due: wake_at, slot: seen_from(at), deliver_by };
                self.claim_and_publish(&settler, std::slice::from_ref(&probe), summary).await?;
                if summary.released.claimed > claimed {
                    break;
                }
            }
        }
        let probes = summary.released.claimed - claimed;
        summary.left += waiting.saturating_sub(probes);
        settler.spare = AtomicBool::new(near && probes == 0);
        self.look_at(&settler, &scan.ended, Some(at), summary).await?;
        Ok(())
    }

    /// Claims rows without having read them; what a guard refuses is settled by what the refusal showed. Says whether the
    /// queue took anything at all of what was claimed.
    async fn claim_and_publish(
        &self,
        settler: &Settler<'_, L, Q, D, T>,
        line: &[Admitted],
        summary: &mut Summary,
    ) -> Result<bool, FlowError> {
        let claims: Vec<Result<Acquired, FlowError>> = futures::stream::iter(line)
            .map(|row| settler.releaser.claim(row, settler.destination.spec.mode, self.tick, settler.margin))
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let mut rows = Vec::new();
        let mut refused = Vec::new();
        let mut clock = None;
        for claim in claims {
            match claim {
                Ok(Acquired::Won(row)) => rows.push(*row),
                Ok(Acquired::Refused(row)) => refused.push(*row),
                Ok(Acquired::Absent) => {}
                Err(error @ FlowError::Clock(_)) => clock = Some(error),
                Err(error) => {
                    summary.failed += 1;
                    tracing::warn!(error = %chain(&error), "a claim failed; the next run tries it again");
                }
            }
        }
        summary.released.claimed += rows.len();
        for row in refused {
            // Another run or a delivery was faster, or the row is held, expired, dead: the row itself says which.
            summary.released.lost_races += usize::from(row.lease_may_be_live(self.time.now()?));
            if let Some(row) = settler.settle(row, summary).await? {
                rows.push(row);
            }
        }
        if let Some(error) = clock {
            return Err(error);
        }
        let claimed = rows.len();
        let published = settler.releaser.publish(rows, line, settler.margin).await?;
        summary.released.add(published);
        Ok(claimed == 0 || published.published > 0)
    }

    /// Reads rows whose hold has ended, and settles each; gives how many were published.
    async fn look_at(
        &self,
        settler: &Settler<'_, L, Q, D, T>,
        candidates: &[Candidate],
        from: Option<Timestamp>,
        summary: &mut Summary,
    ) -> Result<usize, FlowError> {
        let mut rescued = 0_usize;
        for chunk in candidates.chunks(CHUNK) {
            if self.out_of_time() || rescued >= RESCUE_CAP {
                summary.stopped_early = true;
                break;
            }
            let ids: Vec<DeliveryId> = chunk.iter().map(|c| c.id.clone()).collect();
            let rows = self.ledger.read(&ids).await?;
            let settled = self.settle_all(settler, rows, summary).await?;
            rescued += settled.len();
            let admitted = |(slot, row): (Timestamp, &Delivery)| Admitted {
                id: row.id.clone(),
                due: row.next_attempt_at,
                slot,
                deliver_by: row.deliver_by,
            };
            let line: Vec<Admitted> = settled.iter().filter_map(|row| from.map(|at| admitted((seen_from(at), row)))).collect();
            summary.released.add(settler.releaser.publish(settled, &line, settler.margin).await?);
        }
        Ok(rescued)
    }

    async fn settle_all(
        &self,
        settler: &Settler<'_, L, Q, D, T>,
        rows: Vec<Delivery>,
        summary: &mut Summary,
    ) -> Result<Vec<Delivery>, FlowError> {
        let results: Vec<(Summary, Result<Option<Delivery>, FlowError>)> = futures::stream::iter(rows)
            .map(|row| async move {
                let mut part = Summary::default();
                let result = settler.settle(row, &mut part).await;
                (part, result)
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let mut claimed = Vec::new();
        for (part, result) in results {
            summary.add(&part);
            match result {
                Ok(row) => claimed.extend(row),
                Err(error) => {
                    summary.failed += 1;
                    tracing::warn!(error = %chain(&error), "a row could not be settled; the next run tries it again");
                }
            }
        }
        Ok(claimed)
    }

    /// A paused destination is not read for what is due; one page of each lane is looked through for deadlines.
    async fn sweep_paused(
        &self,
        destination: &Destination,
        cursors: &[(Lane, Cursor)],
        retry_mode: RetryMode,
        summary: &mut Summary,
    ) -> Result<(), FlowError> {
        let releaser = self.releaser();
        let margin = destination.margin(self.margin);
        let settler = Settler {
            releaser: &releaser,
            dead_letters: self.dead_letters,
            handoff_threshold: self.handoff_threshold,
            margin,
            destination,
            retry_mode,
            may_claim: false,
            spare: AtomicBool::new(false),
        };
        for lane in destination.lanes() {
            let now = self.time.now()?;
            let start = cursors.iter().find(|(at, _)| *at == lane).map(|(_, cursor)| cursor.clone());
            let began = start.clone();
            let query = WakeQuery {
                lane: lane.clone(),
                until: now.lo,
                deadline_by: Some(now.hi.plus(margin)),
                start,
                limit: PAUSED_PAGE,
            };
            let page = self.ledger.wake(&query).await?;
            summary.pages += 1;
            summary.read_units += page.read_units;
            summary.seen += page.candidates.len();
            self.look_at(&settler, &page.candidates, None, summary).await?;
            if began != page.next {
                self.control.keep_cursor(&lane, page.next.as_ref()).await?;
            }
        }
        Ok(())
    }
}

/// The slot of a message that must not be seen before `at`: messages arrive a second early, and to the second.
fn seen_from(at: Timestamp) -> Timestamp {
    at.plus(ARRIVAL_LEAD * 2)
}

/// How long the oldest row that nobody holds has been due.
fn note_overdue(fresh: &[Candidate], now: Now, summary: &mut Summary) {
    let oldest = fresh.iter().map(|c| now.lo.since(c.wake_at).as_secs()).max().unwrap_or(0);
    summary.oldest_overdue_seconds = summary.oldest_overdue_seconds.max(oldest);
}

/// Begins the list at a place that `random` in `[0, 1)` chooses.
fn rotate(list: &mut [Destination], random: f64) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a short list"
    )]
    let turn = (list.len() as f64 * random) as usize;
    list.rotate_left(turn.min(list.len()));
}
