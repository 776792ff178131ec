//! I settle one row that was read: decide by the core, write the transition, and say what is to be published.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_core::clock::Now;
use punctual_core::decide::{ForDispatch, Handoff, for_dispatch};
use punctual_core::delivery::Delivery;
use punctual_core::destination::Destination;
use punctual_core::ports::{DeadLetters, Ledger, Queue, Time, Written};
use punctual_core::reason::Reason;
use punctual_core::settings::RetryMode;
use punctual_core::state::State;
use punctual_core::transition::{self, Terms, Transition};
use punctual_flows::bury::bury;
use punctual_flows::release::Releaser;
use punctual_flows::{FlowError, stamp};

use crate::summary::Summary;

/// A row is decided at most so often in one run: each step writes, so a longer chain is somebody else's race.
const MOST_STEPS: usize = 4;

/// What settling needs.
#[derive(Debug)]
pub struct Settler<'a, L, Q, D, T> {
    /// Claims.
    pub releaser: &'a Releaser<'a, L, Q, T>,
    /// Where dead work goes.
    pub dead_letters: &'a D,
    /// When a message counts as overdue.
    pub handoff_threshold: Duration,
    /// The destination's safety margin.
    pub margin: Duration,
    /// Whose rows.
    pub destination: &'a Destination,
    /// The kill switch.
    pub retry_mode: RetryMode,
    /// Whether rows may be claimed: not for a paused destination, nor for one whose breaker is open.
    pub may_claim: bool,
    /// One row may be claimed all the same, to probe: taken by the first that would be.
    pub spare: AtomicBool,
}

impl<L: Ledger, Q: Queue, D: DeadLetters, T: Time> Settler<'_, L, Q, D, T> {
    /// Settles a row; a row that was claimed comes back, to be published.
    ///
    /// # Errors
    /// [`FlowError`] if a port or the clock fails: a later run repeats it.
    pub async fn settle(&self, mut row: Delivery, summary: &mut Summary) -> Result<Option<Delivery>, FlowError> {
        let (ledger, time, by) = (self.releaser.ledger, self.releaser.time, &self.releaser.by);
        for _ in 0..MOST_STEPS {
            let now = time.now()?;
            let due_by = now.lo.plus(self.releaser.rules.horizon);
            let decision = for_dispatch(&row, now, due_by, self.margin, self.handoff());
            let transition = match decision {
                ForDispatch::Nothing => return Ok(None),
                ForDispatch::Outstanding => {
                    summary.outstanding += 1;
                    return Ok(None);
                }
                ForDispatch::Bury => {
                    bury(ledger, self.dead_letters, time, row, by).await?;
                    summary.buried += 1;
                    return Ok(None);
                }
                ForDispatch::Claim | ForDispatch::Rescue if !self.may_claim && !self.spare.swap(false, Ordering::Relaxed) => {
                    return Ok(None);
                }
                ForDispatch::Claim | ForDispatch::Rescue => {
                    let mode = self.destination.spec.mode;
                    transition::dispatch_claimed(&row, self.releaser.claimer(now)?, mode, &stamp(time, by)?).ok()
                }
                ForDispatch::Sleep => Some(transition::asleep(&row, self.margin)).filter(|t| t.before.wake_at != t.after.wake_at),
                ForDispatch::Return => transition::returned(&row, Reason::Held, self.margin, &stamp(time, by)?).ok(),
                ForDispatch::CloseUnknown => transition::closed_as_unknown(&row, &self.terms(), &stamp(time, by)?).ok(),
                ForDispatch::Expire => transition::expired(&row, &stamp(time, by)?).ok(),
            };
            let Some(transition) = transition else { return Ok(None) };
            match ledger.write(&transition).await? {
                Written::Absent => return Ok(None),
                Written::Conflict(current) => {
                    summary.released.lost_races += 1;
                    row = *current;
                }
                Written::Done => {
                    count(&transition, decision, now, summary);
                    row = transition.after;
                    if row.owes_dead_letter() {
                        // This run has recorded the death: nobody else sends its letter for now.
                        bury(ledger, self.dead_letters, time, row, by).await?;
                        summary.buried += 1;
                        return Ok(None);
                    }
                    if matches!(decision, ForDispatch::Claim | ForDispatch::Rescue) {
                        return Ok(Some(row));
                    }
                    if matches!(decision, ForDispatch::Sleep | ForDispatch::Return) {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    fn handoff(&self) -> Handoff {
        Handoff { threshold: self.handoff_threshold, lease: Some(self.releaser.rules.lease) }
    }

    /// A lost attempt goes back to the ledger: this run publishes it again.
    fn terms(&self) -> Terms<'_> {
        Terms {
            policy: &self.destination.spec.retry,
            destination_version: self.destination.version,
            review_unknown: self.destination.spec.on_unknown == punctual_core::destination::OnUnknown::Review,
            margin: self.margin,
            measured: Duration::ZERO,
            retry_mode: self.retry_mode,
            queue_reach: Duration::ZERO,
        }
    }
}

fn count(transition: &Transition, decision: ForDispatch, now: Now, summary: &mut Summary) {
    match decision {
        ForDispatch::Claim => summary.released.claimed += 1,
        ForDispatch::Rescue => {
            summary.rescued += 1;
            summary.overdue += usize::from(transition.before.state != State::Dispatching);
            let late = now.lo.since(transition.before.next_attempt_at).as_secs();
            summary.oldest_overdue_seconds = summary.oldest_overdue_seconds.max(late);
        }
        ForDispatch::Sleep | ForDispatch::Return => summary.slept += 1,
        ForDispatch::CloseUnknown => summary.closed_unknown += 1,
        _ => {}
    }
    match transition.after.state {
        State::Expired => summary.expired += 1,
        State::Dead => summary.dead += 1,
        _ => {}
    }
}
