//! I take one record from its text to a claimed row, in the order of cost: what can be decided without a write first.

use std::time::Duration;

use punctual_core::acquire::{Acquire, Claimer, can_start};
use punctual_core::breaker::Gate;
use punctual_core::clock::Now;
use punctual_core::dead_letter::DeadLetter;
use punctual_core::decide::{Barrier, ForDeliver, for_deliver};
use punctual_core::delivery::Delivery;
use punctual_core::destination::{Destination, OnUnknown};
use punctual_core::id::{DeliveryId, Owner};
use punctual_core::measured::queue_delay;
use punctual_core::message::Message;
use punctual_core::ports::{Acquired, Control, DeadLetters, Ledger, PortError, Queue, Secrets, Time, Webhook, Written};
use punctual_core::reason::Reason;
use punctual_core::retry::RetryPolicy;
use punctual_core::settings::Settings;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::{self, QUEUE_REACH, Terms};
use punctual_flows::bury::bury;
use punctual_flows::fault::{self, Point};
use punctual_flows::{FlowError, stamp};

use crate::attempt::Begun;
use crate::batch::{Known, Record, TRY_AGAIN};
use crate::slots::{Office, Ready};
use crate::tally::Tally;
use crate::{CLOCK_BOUND, Deliver, Disposition, MAX_WAIT, RESERVE};

/// A row is decided at most so often for one record: each step writes or waits, so a longer chain is a race to retry.
const MOST_STEPS: usize = 8;
/// SQS lets a message be hidden for 12 hours from its first receive in all; this much of it is left unused.
const CEILING_SLACK: Duration = Duration::from_secs(600);
const CEILING: Duration = Duration::from_secs(43_200);
/// A message that meets a live lease is hidden for so much longer than the lease.
const LEASE_SLACK: Duration = Duration::from_secs(1);
/// Past this many receives a message has served: its row goes back to the ledger. Half of the queue's backstop.
const MOST_RECEIVES: u32 = 500;

impl<L: Ledger, C: Control, Q: Queue, D: DeadLetters, S: Secrets, W: Webhook, T: Time> Deliver<'_, L, C, Q, D, S, W, T> {
    /// Handles one record.
    ///
    /// # Errors
    /// [`FlowError`] for a passing fault: the message is seen again, and the row is as the ledger has it.
    pub async fn process(&self, record: &Record<'_>, known: &Known, tally: &mut Tally) -> Result<Disposition, FlowError> {
        let message = match &record.message {
            Ok(message) => message,
            Err(error) => {
                tally.malformed += 1;
                tracing::warn!(by = %self.by, reason = %error.reason(), error = %error, "a message cannot be read");
                self.dead_letters.send(&DeadLetter::unreadable(record.body, error.reason())).await?;
                tally.buried += 1;
                return Ok(Disposition::Acknowledge);
            }
        };
        if known.unreadable.contains(&message.destination_id) {
            tally.failed += 1;
            return Ok(Disposition::HideFor(TRY_AGAIN));
        }
        let Some(destination) = known.destinations.get(&message.destination_id) else {
            return self.without_destination(message, record, tally).await;
        };
        fault::point(Point::Received, &message.delivery_id);
        let margin = destination.margin(self.margin);
        let now = self.time.now()?;
        if let (0..=1, Some(sent)) = (record.receive_count, record.sent) {
            self.measure.queue_delay(&message.destination_id, queue_delay(sent, message.not_before, now.lo), now.lo);
        }
        // A claim takes the very attempt that its message names: past the policy's budget the row must say what was granted.
        let hint_is_good = record.receive_count <= 1
            && destination.paused.is_none()
            && known.lines.gate(&message.destination_id, now) == Gate::Closed
            && message.attempt <= destination.spec.retry.attempts
            && can_start(message.deliver_by, margin, now);
        let row = if hint_is_good {
            // The first receive of a message: one conditional write claims the row and loads it.
            if let Err(later) = self.wait_for(message.not_before, now).await? {
                tally.waiting += 1;
                return Ok(later);
            }
            // Other records of this batch may have found meanwhile that nobody answers: no slot is booked for that.
            let closed = |now| known.lines.gate(&message.destination_id, now) == Gate::Closed;
            let ready = if closed(self.time.now()?) {
                self.ready(destination, record, (message.deliver_by, message.redriven), known, tally).await?
            } else {
                Ready::Return
            };
            match ready {
                Ready::Later(later) => return Ok(later),
                Ready::Claim(now) if closed(now) => {
                    let begun = Begun { now, left: self.time.time_left() };
                    let claimer = self.claimer(now)?;
                    let acquire = Acquire::for_deliver(message.delivery_id.clone(), message.attempt, claimer, now, margin);
                    match self.ledger.acquire(&acquire).await? {
                        Acquired::Won(row) if row.destination != message.destination_id => {
                            return self.misdirected(*row, margin, tally).await;
                        }
                        Acquired::Won(row) if row.is_redriven() && !message.redriven => {
                            return self.unbooked(*row, margin, tally).await;
                        }
                        Acquired::Won(row) => {
                            let terms = self.terms(destination, record, known, now);
                            return self.attempt(*row, destination, &terms, begun, known, tally).await;
                        }
                        Acquired::Refused(row) => Some(*row),
                        Acquired::Absent => None,
                    }
                }
                Ready::Claim(_) | Ready::Return => self.read(&message.delivery_id).await?,
            }
        } else {
            self.read(&message.delivery_id).await?
        };
        match row {
            Some(row) if row.destination == message.destination_id => self.settle(row, destination, record, known, tally).await,
            Some(row) => self.elsewhere(row, record, known, tally).await,
            None => self.unknown(record, tally).await,
        }
    }

    /// Decides on a row that was read, writes, and decides again until the message has its end.
    async fn settle(
        &self,
        mut row: Delivery,
        destination: &Destination,
        record: &Record<'_>,
        known: &Known,
        tally: &mut Tally,
    ) -> Result<Disposition, FlowError> {
        let margin = destination.margin(self.margin);
        for _ in 0..MOST_STEPS {
            let mut now = self.time.now()?;
            let barrier = |now| match known.lines.gate(&row.destination, now) {
                _ if destination.paused.is_some() => Barrier::Paused,
                Gate::OpenUntil(_) => Barrier::Open,
                Gate::Closed | Gate::MayProbe => Barrier::None,
            };
            let decide = |now| for_deliver(&row, now, margin, barrier(now), destination.spec.retry.attempts);
            let mut decision = decide(now);
            if decision == ForDeliver::Claim {
                match self.ready(destination, record, (row.deliver_by, row.is_redriven()), known, tally).await? {
                    Ready::Later(later) => return Ok(later),
                    Ready::Return => {
                        tally.slots_denied += 1;
                        decision = ForDeliver::Return(Reason::RateLimitedHere);
                    }
                    Ready::Claim(at) => {
                        now = at;
                        decision = decide(now);
                    }
                }
            }
            let begun = Begun { now, left: self.time.time_left() };
            let terms = self.terms(destination, record, known, now);
            let gate = known.lines.gate(&row.destination, now);
            if matches!(decision, ForDeliver::Wait(_)) && row.state != State::Delivering && record.receive_count > MOST_RECEIVES {
                decision = ForDeliver::Return(Reason::TooFarForQueue);
            }
            let probes = decision == ForDeliver::Claim && gate == Gate::MayProbe && self.fits(destination);
            if probes && !self.may_probe(&row.destination, known, now).await? {
                decision = ForDeliver::Return(Reason::BreakerOpen);
            }
            let transition = match decision {
                ForDeliver::Suppress => {
                    tally.suppressed += 1;
                    return Ok(Disposition::Acknowledge);
                }
                ForDeliver::Stale => {
                    tally.stale += 1;
                    return Ok(Disposition::Acknowledge);
                }
                ForDeliver::Bury => {
                    bury(self.ledger, self.dead_letters, self.time, row, &self.by).await?;
                    tally.buried += 1;
                    return Ok(Disposition::Acknowledge);
                }
                ForDeliver::Wait(at) if row.state == State::Delivering => {
                    // An attempt is in flight: seen again once its lease has surely ended, not a moment before.
                    tally.waiting += 1;
                    return Ok(Disposition::HideFor(at.since(now.lo) + LEASE_SLACK));
                }
                ForDeliver::Wait(at) => match self.wait_for(at, now).await? {
                    Ok(_) => continue,
                    Err(later) => {
                        tally.waiting += 1;
                        return Ok(later);
                    }
                },
                ForDeliver::Claim => transition::deliver_claimed(&row, self.claimer(now)?, &stamp(self.time, &self.by)?),
                ForDeliver::Return(reason) => transition::returned(&row, reason, margin, &stamp(self.time, &self.by)?),
                ForDeliver::CloseUnknown => transition::closed_as_unknown(&row, &terms, &stamp(self.time, &self.by)?),
                ForDeliver::Expire => transition::expired(&row, &stamp(self.time, &self.by)?),
                ForDeliver::Exhausted => {
                    transition::dead_without_attempt(&row, Reason::AttemptsExhausted, &stamp(self.time, &self.by)?)
                }
            };
            let Ok(transition) = transition else { return Ok(Disposition::HideFor(Duration::ZERO)) };
            match self.ledger.write(&transition).await? {
                Written::Absent => return self.unknown(record, tally).await,
                Written::Conflict(current) => row = *current,
                Written::Done => {
                    row = transition.after;
                    match decision {
                        ForDeliver::Claim => return self.attempt(row, destination, &terms, begun, known, tally).await,
                        ForDeliver::CloseUnknown => tally.closed_unknown += 1,
                        ForDeliver::Return(_) => tally.returned += 1,
                        ForDeliver::Expire => tally.expired += 1,
                        ForDeliver::Exhausted => tally.dead += 1,
                        _ => {}
                    }
                    if row.owes_dead_letter() {
                        // This invocation has recorded the death: nobody else sends its letter for now.
                        bury(self.ledger, self.dead_letters, self.time, row, &self.by).await?;
                        tally.buried += 1;
                        return Ok(Disposition::Acknowledge);
                    }
                }
            }
        }
        Ok(Disposition::HideFor(Duration::ZERO))
    }

    /// Waits in this process for an instant that is near; a message for a later one goes back into hiding.
    async fn wait_for(&self, at: Timestamp, now: Now) -> Result<Result<Now, Disposition>, FlowError> {
        if now.reached(at) {
            return Ok(Ok(now));
        }
        let wait = at.since(now.lo);
        if wait > MAX_WAIT || self.time.time_left() < wait + RESERVE {
            return Ok(Err(Disposition::HideUntil(at)));
        }
        Ok(Ok(self.time.wait_until(at).await?))
    }

    /// Whether a whole call of this destination still fits into this invocation.
    pub(crate) fn fits(&self, destination: &Destination) -> bool {
        self.time.time_left() >= destination.total_timeout() + RESERVE
    }

    /// A lease that ends no earlier than this invocation can: an ended lease proves that its holder is gone.
    fn claimer(&self, now: Now) -> Result<Claimer, FlowError> {
        let owner = Owner::new(self.time.unique())
            .map_err(|e| PortError::Corrupt { item: "lease owner".into(), problem: e.to_string() })?;
        Ok(Claimer { owner, by: self.by.clone(), until: now.hi.plus(self.time.time_left() + CLOCK_BOUND) })
    }

    fn terms<'t>(&self, destination: &'t Destination, record: &Record<'_>, known: &Known, now: Now) -> Terms<'t> {
        let used = record.first_received.map_or(Duration::ZERO, |first| now.hi.since(first));
        let left = CEILING.saturating_sub(CEILING_SLACK).saturating_sub(used);
        let queue_reach = if record.receive_count > MOST_RECEIVES { Duration::ZERO } else { QUEUE_REACH.min(left) };
        Terms {
            policy: &destination.spec.retry,
            destination_version: destination.version,
            review_unknown: destination.spec.on_unknown == OnUnknown::Review,
            margin: destination.margin(self.margin),
            measured: Duration::ZERO,
            retry_mode: known.settings.retry_mode,
            queue_reach,
        }
    }

    async fn read(&self, id: &DeliveryId) -> Result<Option<Delivery>, FlowError> {
        Ok(self.ledger.read_one(id).await?)
    }

    /// The ledger has no such delivery: a person must see the message.
    async fn unknown(&self, record: &Record<'_>, tally: &mut Tally) -> Result<Disposition, FlowError> {
        tally.malformed += 1;
        tracing::warn!(by = %self.by, reason = %Reason::UnknownDelivery, "a message names a delivery that the ledger does not have");
        self.dead_letters.send(&DeadLetter::unreadable(record.body, Reason::UnknownDelivery)).await?;
        tally.buried += 1;
        Ok(Disposition::Acknowledge)
    }

    /// The message names a destination that is not registered: the row decides.
    async fn without_destination(
        &self,
        message: &Message,
        record: &Record<'_>,
        tally: &mut Tally,
    ) -> Result<Disposition, FlowError> {
        let Some(row) = self.read(&message.delivery_id).await? else { return self.unknown(record, tally).await };
        self.elsewhere_or_dead(row, record, tally).await
    }

    /// A row was claimed by a message that names another destination: it goes back uncalled, and dispatch sends a right one.
    async fn misdirected(&self, row: Delivery, margin: Duration, tally: &mut Tally) -> Result<Disposition, FlowError> {
        tracing::error!(by = %self.by, delivery_id = %row.id, destination_id = %row.destination, "a message named another destination");
        if let Ok(back) = transition::returned(&row, Reason::MisdirectedMessage, margin, &stamp(self.time, &self.by)?) {
            self.ledger.write(&back).await?;
            tally.returned += 1;
        }
        Ok(Disposition::Acknowledge)
    }

    /// A row was claimed by a message from before its redrive, and nothing is booked of the cap: it goes back uncalled.
    async fn unbooked(&self, row: Delivery, margin: Duration, tally: &mut Tally) -> Result<Disposition, FlowError> {
        if let Ok(back) = transition::returned(&row, Reason::RateLimitedHere, margin, &stamp(self.time, &self.by)?) {
            self.ledger.write(&back).await?;
            tally.returned += 1;
        }
        Ok(Disposition::Acknowledge)
    }

    /// The row goes to another destination than its message says.
    async fn elsewhere(
        &self,
        row: Delivery,
        record: &Record<'_>,
        known: &Known,
        tally: &mut Tally,
    ) -> Result<Disposition, FlowError> {
        if let Some(destination) = known.destinations.get(&row.destination) {
            return self.settle(row, destination, record, known, tally).await;
        }
        self.elsewhere_or_dead(row, record, tally).await
    }

    async fn elsewhere_or_dead(&self, row: Delivery, record: &Record<'_>, tally: &mut Tally) -> Result<Disposition, FlowError> {
        let mut known = Known::default();
        known.learn(self.control.watch(std::slice::from_ref(&row.destination)).await?, &self.by);
        known.offices = known.destinations.keys().map(|id| (id.clone(), Office::default())).collect();
        if let Some(destination) = known.destinations.get(&row.destination) {
            let settled = self.settle(row, destination, record, &known, tally).await;
            self.note_reach(&known, tally).await;
            return settled;
        }
        self.without_any(row, known.settings, tally).await
    }

    /// A row whose destination is not registered dies, once no attempt is in flight.
    async fn without_any(&self, mut row: Delivery, settings: Settings, tally: &mut Tally) -> Result<Disposition, FlowError> {
        let policy = RetryPolicy::default();
        let terms = Terms {
            policy: &policy,
            destination_version: 0,
            review_unknown: false,
            margin: self.margin,
            measured: Duration::ZERO,
            retry_mode: settings.retry_mode,
            queue_reach: QUEUE_REACH,
        };
        for _ in 0..MOST_STEPS {
            let stamp = stamp(self.time, &self.by)?;
            let transition = match row.state {
                State::Delivering if row.lease_may_be_live(stamp.now) => {
                    tally.waiting += 1;
                    let left = row.lease_end().map_or(Duration::ZERO, |end| end.since(stamp.now.lo));
                    return Ok(Disposition::HideFor(left + LEASE_SLACK));
                }
                State::Delivering => transition::closed_as_unknown(&row, &terms, &stamp),
                State::Dead | State::Expired => {
                    bury(self.ledger, self.dead_letters, self.time, row, &self.by).await?;
                    tally.buried += 1;
                    return Ok(Disposition::Acknowledge);
                }
                _ => transition::dead_without_attempt(&row, Reason::UnknownDestination, &stamp),
            };
            // Terminal: nothing to do for this message.
            let Ok(transition) = transition else { return Ok(Disposition::Acknowledge) };
            match self.ledger.write(&transition).await? {
                Written::Done => {
                    tally.dead += usize::from(transition.after.state == State::Dead);
                    row = transition.after;
                }
                Written::Conflict(current) => row = *current,
                Written::Absent => return Ok(Disposition::Acknowledge),
            }
        }
        Ok(Disposition::HideFor(Duration::ZERO))
    }
}
