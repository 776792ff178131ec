//! I sweep the dead-letter queue: one pass that deletes the letters of deaths that are over and leaves all others as they are.
//!
//! A letter that is left is hidden while the pass goes on, so that it is received once, and shown again at its end. What
//! memory has no room for shows itself when its time is up. A pass that runs out of time goes on in the next slice. After one
//! that died, letters may be hidden that nobody has decided on: another one begins when their time is up.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::clock::Now;
use punctual_core::dead_letter::told;
use punctual_core::delivery::Delivery;
use punctual_core::id::{DeliveryId, RunId};
use punctual_core::ports::{Control, Ledger, Letter, Letters, PortError, Queue, Slices, Time};
use punctual_core::redrive::{DeleteWhy, ForLetter, LeaveWhy, Pass, Phase, Run, for_letter};
use punctual_flows::fault::{self, Point};
use punctual_flows::{FlowError, chain};

use crate::Redrive;
use crate::held::Held;
use crate::slice::SliceReport;

/// How long a letter is hidden that is left: longer than a pass, so that it sees none twice.
const HIDE: Duration = Duration::from_secs(900);
/// From one word of what was received to the next, and until a request of a slice that is gone has surely arrived, at most.
const LATE: Duration = Duration::from_secs(120);
/// The most letters of one receive.
const MOST_RECEIVED: u32 = 10;
/// How many receives are under way at once.
const RECEIVES_AT_ONCE: usize = 8;
/// So many rounds in a row that receive nothing are the end of the queue.
const EMPTY_ROUNDS: u32 = 2;
/// The most letters that are remembered, to be shown again.
const MOST_REMEMBERED: usize = 20_000;
/// So many are shown again at once.
const RELEASE_AT_ONCE: usize = 200;
/// Receiving ends when so little of the invocation is left, and so much for each letter that is remembered.
const RESERVE: Duration = Duration::from_secs(20);
const RESERVE_EACH: Duration = Duration::from_millis(4);
/// The run is written at least every so many rounds: progress is told, and an abort is seen.
const ROUNDS: u32 = 25;

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The queue has nothing more that it would show.
    Whole,
    /// The invocation has too little time left; a later slice goes on.
    OutOfTime,
    /// All redriving is frozen, or another slice has the run.
    Stopped,
}

/// What a pass has counted since the run was last written.
#[derive(Debug, Default, Clone)]
struct Counted {
    deleted: BTreeMap<DeleteWhy, u32>,
    left: BTreeMap<LeaveWhy, u32>,
    receives: u64,
}

impl Counted {
    fn add_to(&self, run: &mut Run) {
        for (why, n) in &self.deleted {
            let counter = run.counters.deleted.entry(*why).or_default();
            *counter = counter.saturating_add(*n);
        }
        for (why, n) in &self.left {
            let counter = run.counters.left.entry(*why).or_default();
            *counter = counter.saturating_add(*n);
        }
        run.counters.scan_receives = run.counters.scan_receives.saturating_add(self.receives);
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: Letters, S: Slices, T: Time> Redrive<'_, L, C, Q, D, S, T> {
    /// Sweeps, and says in the run when it is done.
    ///
    /// # Errors
    /// [`FlowError`] if a table or the queue cannot be had: a later slice begins another pass.
    pub(crate) async fn sweep(&self, held: &mut Held<'_, C>, report: &mut SliceReport) -> Result<(), FlowError> {
        let now = self.time.now()?;
        let mut swept = held.run.counters.moved == 0;
        if !swept {
            if let Some(until) = held.run.pass.and_then(|pass| pass.undecided_until).filter(|until| !now.reached(*until)) {
                report.waits_until = Some(until);
                return Ok(());
            }
            if let Some(other) = self.sweeping(&held.run, now).await? {
                report.waits_for = Some(other);
                return Ok(());
            }
            // Between two slices a pass has nothing undecided; any other is over, and this is another one.
            let goes_on = held.run.pass.filter(|pass| pass.undecided_until.is_none());
            let begun_at = goes_on.map_or(now.lo, |pass| pass.begun_at);
            let begin = |run: &mut Run| {
                if goes_on.is_none() {
                    run.counters.left.clear();
                }
                run.pass = Some(Pass { begun_at, undecided_until: Some(now.hi.plus(HIDE + LATE)) });
            };
            if !held.save(now, begin).await? {
                return Ok(());
            }
            let mut remembered = Vec::new();
            let end = self.receive_all(held, &mut remembered, report).await;
            if !matches!(end, Ok(End::OutOfTime)) {
                self.show_again(held, &remembered).await?;
            }
            let end = end?;
            let now = self.time.now()?;
            // Letters that it has left show themselves again: it would go on for ever.
            let endless = end == End::OutOfTime && now.reached(begun_at.plus(HIDE));
            if endless {
                let receives = held.run.counters.scan_receives;
                tracing::error!(run_id = %held.run.id, receives, "the dead-letter queue is too long for a pass; letters are left");
            }
            swept = (end == End::Whole || endless) && report.undeleted == 0;
            if !swept {
                // What could not be deleted shows itself when its time is up: another pass finds it then.
                let undecided_until = (report.undeleted > 0).then(|| now.hi.plus(HIDE));
                let goes_on = end == End::OutOfTime || undecided_until.is_some();
                let goes_on = goes_on.then_some(Pass { begun_at, undecided_until });
                held.save(now, |run| run.pass = goes_on).await?;
            }
        }
        if swept {
            let done = |run: &mut Run| {
                run.pass = None;
                // Resumed in between: what it moves from now on is swept at its next end.
                run.swept = !matches!(run.phase, Phase::Canary | Phase::Moving);
                if run.phase == Phase::Sweeping {
                    run.phase = Phase::Done;
                }
            };
            held.save(self.time.now()?, done).await?;
        }
        Ok(())
    }

    /// An earlier run whose slice sweeps now: two passes would hide letters from each other.
    async fn sweeping(&self, run: &Run, now: Now) -> Result<Option<RunId>, FlowError> {
        let sweeps = |other: &Run| {
            let phase = matches!(other.phase, Phase::Sweeping | Phase::Stopped | Phase::Aborted);
            let live = other.lease.as_ref().is_some_and(|lease| !now.reached(lease.until));
            other.id < run.id && phase && other.needs_slice() && live
        };
        Ok(self.control.runs().await?.into_iter().find(sweeps).map(|other| other.id))
    }

    /// Receives until the queue seems empty.
    async fn receive_all(
        &self,
        held: &mut Held<'_, C>,
        remembered: &mut Vec<String>,
        report: &mut SliceReport,
    ) -> Result<End, FlowError> {
        let (mut empty, mut rounds, mut counted) = (0, 0_u32, Counted::default());
        while empty < EMPTY_ROUNDS {
            let reserve = RESERVE + RESERVE_EACH.saturating_mul(u32::try_from(remembered.len()).unwrap_or(u32::MAX));
            let out_of_time = self.time.time_left() < reserve;
            if out_of_time || (rounds.is_multiple_of(ROUNDS) && self.control.freeze().await?.is_some()) {
                self.note(held, &mut counted).await?;
                return Ok(if out_of_time { End::OutOfTime } else { End::Stopped });
            }
            let letters = self.receive().await?;
            empty = if letters.is_empty() { empty + 1 } else { 0 };
            counted.receives = counted.receives.saturating_add(u64::try_from(letters.len()).unwrap_or(0));
            let outcome = self.settle(letters, remembered, &mut counted, report).await;
            rounds += 1;
            if rounds.is_multiple_of(ROUNDS) || outcome.is_err() {
                let kept = self.note(held, &mut counted).await?;
                outcome?;
                if !kept {
                    return Ok(End::Stopped);
                }
            }
        }
        Ok(if self.note(held, &mut counted).await? { End::Whole } else { End::Stopped })
    }

    /// Writes what was counted into the run. False: another slice has the run now.
    async fn note(&self, held: &mut Held<'_, C>, counted: &mut Counted) -> Result<bool, FlowError> {
        let (these, now) = (std::mem::take(counted), self.time.now()?);
        let note = |run: &mut Run| {
            these.add_to(run);
            run.pass.iter_mut().for_each(|pass| pass.undecided_until = Some(now.hi.plus(HIDE + LATE)));
        };
        Ok(held.save(now, note).await?)
    }

    async fn receive(&self) -> Result<Vec<Letter>, PortError> {
        let hide_seconds = u32::try_from(HIDE.as_secs()).unwrap_or(u32::MAX);
        let receives = (0..RECEIVES_AT_ONCE).map(|_| self.letters.receive(MOST_RECEIVED, hide_seconds));
        let mut letters = Vec::new();
        for received in futures::future::join_all(receives).await {
            letters.extend(received?);
        }
        Ok(letters)
    }

    /// Deletes the letters whose death is over, and remembers the others.
    async fn settle(
        &self,
        letters: Vec<Letter>,
        remembered: &mut Vec<String>,
        counted: &mut Counted,
        report: &mut SliceReport,
    ) -> Result<(), FlowError> {
        report.receives = report.receives.saturating_add(u64::try_from(letters.len()).unwrap_or(0));
        let told: Vec<_> = letters.iter().map(told).collect();
        let mut ids: Vec<DeliveryId> = told.iter().flatten().map(|told| told.delivery_id.clone()).collect();
        ids.sort_unstable();
        ids.dedup();
        // Read after the letters were received: a row that was moved by then shows it.
        let rows: BTreeMap<DeliveryId, Delivery> =
            self.ledger.read(&ids).await?.into_iter().map(|row| (row.id.clone(), row)).collect();
        let mut doomed = Vec::new();
        for (letter, told) in letters.into_iter().zip(told) {
            let decision = match &told {
                Some(told) => for_letter(told.death, rows.get(&told.delivery_id)),
                None => ForLetter::Leave(LeaveWhy::Malformed),
            };
            match decision {
                ForLetter::Delete(why) => {
                    told.iter().for_each(|told| fault::point(Point::BeforeLetterDelete, &told.delivery_id));
                    doomed.push((letter.receipt, why));
                }
                ForLetter::Leave(why) => {
                    count(&mut counted.left, why);
                    if remembered.len() < MOST_REMEMBERED {
                        remembered.push(letter.receipt);
                    }
                }
            }
        }
        let receipts: Vec<String> = doomed.iter().map(|(receipt, _)| receipt.clone()).collect();
        for ((_, why), deleted) in doomed.iter().zip(self.letters.delete(&receipts).await) {
            match deleted {
                Ok(()) => {
                    count(&mut counted.deleted, *why);
                    report.deleted = report.deleted.saturating_add(1);
                }
                Err(error) => {
                    report.undeleted = report.undeleted.saturating_add(1);
                    tracing::warn!(error = %chain(&error), "a dead letter could not be deleted; a later pass does it");
                }
            }
        }
        Ok(())
    }

    /// Shows the letters again that were left.
    async fn show_again(&self, held: &mut Held<'_, C>, remembered: &[String]) -> Result<(), FlowError> {
        for some in remembered.chunks(RELEASE_AT_ONCE) {
            if !held.renew(self.time.now()?).await? {
                return Ok(());
            }
            let failed = self.letters.release(some).await.into_iter().filter(Result::is_err).count();
            if failed > 0 {
                tracing::warn!(failed, "dead letters could not be shown again; they show themselves when their time is up");
            }
        }
        Ok(())
    }
}

fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, why: K) {
    let n = counts.entry(why).or_default();
    *n = n.saturating_add(1);
}
