//! I release rows to the queue: claim, publish, mark. Dispatch does it for a lane, schedule for what it just stored.
//!
//! A crash between any two of these steps is repaired by dispatch when the lease of the claim has ended.

use std::time::Duration;

use futures::StreamExt as _;
use punctual_core::acquire::{Acquire, Claimer};
use punctual_core::admission::{Admitted, held_until};
use punctual_core::clock::Now;
use punctual_core::delivery::Delivery;
use punctual_core::destination::Mode;
use punctual_core::id::{Correlation, Owner};
use punctual_core::message::Message;
use punctual_core::ports::{Acquired, Ledger, Outgoing, PortError, Queue, Time, Written};
use punctual_core::reason::Reason;
use punctual_core::time::Timestamp;
use punctual_core::transition::{self, QUEUE_REACH};

use crate::fault::{self, Point};
use crate::{FlowError, chain, stamp};

/// How many claims or marks are under way at once.
pub const CONCURRENCY: usize = 32;
/// So many rows are claimed before they are published: a crash leaves no more than these to rescue.
pub const CHUNK: usize = 100;
/// A message becomes visible this much before its instant, and deliver waits the rest: SQS delays whole seconds.
pub const ARRIVAL_LEAD: Duration = Duration::from_millis(1_000);

/// How rows are released.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// How far ahead.
    pub horizon: Duration,
    /// How long a run holds a row.
    pub lease: Duration,
}

/// What became of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Claimed by this run.
    pub claimed: usize,
    /// Accepted by the queue.
    pub published: usize,
    /// Not accepted by the queue; back in the ledger, or left to rescue.
    pub publish_failed: usize,
    /// Claimed or moved by somebody else first: a normal outcome.
    pub lost_races: usize,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.claimed += other.claimed;
        self.published += other.published;
        self.publish_failed += other.publish_failed;
        self.lost_races += other.lost_races;
    }
}

/// The ports that releasing needs, and who does it.
#[derive(Debug)]
pub struct Releaser<'a, L, Q, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The queue.
    pub queue: &'a Q,
    /// The database's time.
    pub time: &'a T,
    /// How.
    pub rules: Rules,
    /// Joins history and logs.
    pub by: Correlation,
}

/// How long a message stays invisible, in whole seconds: it never arrives later than its instant because of rounding,
/// and deliver waits out what it arrives early.
#[must_use]
pub fn invisible_seconds(until: Timestamp, now: Now) -> u64 {
    until.since(now.lo).saturating_sub(ARRIVAL_LEAD).as_secs()
}

impl<L: Ledger, Q: Queue, T: Time> Releaser<'_, L, Q, T> {
    /// A lease for a claim made now.
    ///
    /// # Errors
    /// [`FlowError::Clock`] if the database's time is not known well enough.
    pub fn claimer(&self, now: Now) -> Result<Claimer, FlowError> {
        let owner = Owner::new(self.time.unique())
            .map_err(|e| PortError::Corrupt { item: "lease owner".into(), problem: e.to_string() })?;
        Ok(Claimer { owner, by: self.by.clone(), until: now.hi.plus(self.rules.lease) })
    }

    /// Claims one row that may be due within the horizon, and stamps it by its destination's mode. The claim holds it until
    /// its slot where that is far off: in the one write that it is anyway.
    ///
    /// # Errors
    /// [`FlowError`] if the clock or the ledger fails; the row is then as it was, or claimed and rescued later.
    pub async fn claim(&self, row: &Admitted, mode: Mode, tick: Duration, margin: Duration) -> Result<Acquired, FlowError> {
        fault::point(Point::BeforeClaim, &row.id);
        let now = self.time.now()?;
        let due_by = now.lo.plus(self.rules.horizon);
        let claimer = Claimer { until: held_until(row, now, self.rules.lease, tick, margin), ..self.claimer(now)? };
        let acquire = Acquire::for_dispatch(row.id.clone(), claimer, mode, due_by, now, margin);
        Ok(self.ledger.acquire(&acquire).await?)
    }

    /// Publishes claimed rows and marks those that the queue accepted; the others go back to the ledger. A message becomes
    /// visible when its row is due, and not before the slot of its row in `line`, if it has one there.
    ///
    /// # Errors
    /// [`FlowError::Clock`] if the database's time is not known well enough: nothing was sent.
    pub async fn publish(&self, rows: Vec<Delivery>, line: &[Admitted], margin: Duration) -> Result<Tally, FlowError> {
        let now = self.time.now()?;
        let outgoing: Vec<Outgoing> = rows.iter().map(|row| outgoing(row, line, now)).collect();
        rows.iter().for_each(|row| fault::point(Point::Claimed, &row.id));
        let accepted = self.queue.publish(&outgoing).await;
        rows.iter().for_each(|row| fault::point(Point::Published, &row.id));
        let results: Vec<Tally> = futures::stream::iter(rows.into_iter().zip(accepted))
            .map(|(row, accepted)| async move { self.mark(row, accepted, margin).await })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let mut tally = Tally::default();
        results.into_iter().for_each(|one| tally.add(one));
        Ok(tally)
    }

    /// Records what the queue said of one row. A mark that loses against deliver is fine: deliver has the message.
    async fn mark(&self, row: Delivery, accepted: Result<punctual_core::id::MessageId, PortError>, margin: Duration) -> Tally {
        let mut tally = Tally::default();
        let marked = match (stamp(self.time, &self.by), accepted) {
            (Ok(stamp), Ok(message)) => {
                tally.published = 1;
                transition::queued(&row, message, &stamp)
            }
            (Ok(stamp), Err(error)) => {
                tally.publish_failed = 1;
                tracing::warn!(delivery_id = %row.id, error = %chain(&error), "the queue did not accept a message");
                transition::returned(&row, Reason::PublishFailed, margin, &stamp)
            }
            (Err(error), _) => {
                tracing::error!(delivery_id = %row.id, error = %error, "a published row could not be marked; rescue looks at it");
                return tally;
            }
        };
        let Ok(marked) = marked else { return tally };
        match self.ledger.write(&marked).await {
            Ok(Written::Done) => fault::point(Point::Marked, &row.id),
            Ok(Written::Absent) => {}
            Ok(Written::Conflict(_)) => tally.lost_races = 1,
            Err(error) => {
                tracing::warn!(delivery_id = %row.id, error = %chain(&error), "a row could not be marked; rescue looks at it");
            }
        }
        tally
    }

    /// Claims and publishes rows that were just stored. What cannot be released now stays for dispatch.
    ///
    /// # Errors
    /// [`FlowError::Clock`] if the database's time is not known well enough: what was not claimed stays for dispatch.
    pub async fn release(&self, line: &[Admitted], mode: Mode, tick: Duration, margin: Duration) -> Result<Tally, FlowError> {
        let mut tally = Tally::default();
        for chunk in line.chunks(CHUNK) {
            let claims: Vec<Result<Acquired, FlowError>> = futures::stream::iter(chunk)
                .map(|row| self.claim(row, mode, tick, margin))
                .buffer_unordered(CONCURRENCY)
                .collect()
                .await;
            let mut rows = Vec::new();
            for claim in claims {
                match claim {
                    Ok(Acquired::Won(row)) => rows.push(*row),
                    Ok(Acquired::Refused(_) | Acquired::Absent) => tally.lost_races += 1,
                    Err(error @ FlowError::Clock(_)) => return Err(error),
                    Err(error) => tracing::warn!(error = %chain(&error), "a claim failed; dispatch tries it again"),
                }
            }
            tally.claimed += rows.len();
            tally.add(self.publish(rows, chunk, margin).await?);
        }
        Ok(tally)
    }
}

fn outgoing(row: &Delivery, line: &[Admitted], now: Now) -> Outgoing {
    let slot = line.iter().find(|admitted| admitted.id == row.id).map(|admitted| admitted.slot);
    let visible_at = slot.map_or(row.next_attempt_at, |slot| slot.max(row.next_attempt_at));
    let seconds = invisible_seconds(visible_at, now).min(QUEUE_REACH.as_secs());
    Outgoing { message: Message::of(row), delay_seconds: u16::try_from(seconds).unwrap_or(900) }
}
