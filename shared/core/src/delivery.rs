//! I am the hot row: one delivery as the ledger holds it.
//!
//! I do not know attribute names or how a row is stored. The body bytes and the identity parts are apart, in
//! [`Payload`], so that they can be erased without touching the evidence.

use std::fmt;
use std::str::FromStr;

use crate::attempt::Attempt;
use crate::clock::Now;
use crate::history::HistoryEntry;
use crate::id::{
    Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, MessageId, Owner, Reference, RunId,
};
use crate::moved::Moved;
use crate::reason::Reason;
use crate::redrive::Redrive;
use crate::state::State;
use crate::time::Timestamp;

/// The longest body, in bytes: 256 KiB.
pub const MAX_BODY_BYTES: usize = 256 * 1024;

/// A partition of the wake index: a destination's shard, written `destination#shard`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// Whose rows.
    pub destination: DestinationId,
    /// Which shard, from 0.
    pub shard: u16,
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.destination, self.shard)
    }
}

/// The text is no lane.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a lane (destination#shard): {0:?}")]
pub struct LaneError(String);

impl FromStr for Lane {
    type Err = LaneError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || LaneError(text.to_owned());
        let (destination, shard) = text.split_once('#').ok_or_else(bad)?;
        Ok(Self { destination: DestinationId::new(destination).map_err(|_| bad())?, shard: shard.parse().map_err(|_| bad())? })
    }
}

/// An operator's freeze: no claim and no call until it is released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Since when.
    pub since: Timestamp,
    /// Who says to have done it; at most 64 characters.
    pub by: String,
    /// Why; at most 256 characters.
    pub why: String,
}

/// Who took a delivery back, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// When.
    pub since: Timestamp,
    /// Who says to have done it; at most 64 characters.
    pub by: String,
    /// Why; at most 256 characters.
    pub why: String,
}

/// Between which two instants a delivery is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instants {
    /// Not called before this instant.
    pub deliver_after: Timestamp,
    /// The business deadline: a call ends by this instant.
    pub deliver_by: Timestamp,
}

/// One delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its identity.
    pub id: DeliveryId,
    /// The key that its receiver sees; constant for ever.
    pub idempotency_key: IdempotencyKey,
    /// What the auditor asks by.
    pub reference: Reference,
    /// Whom it goes to.
    pub destination: DestinationId,
    /// Its shard among the destination's lanes; fixed at creation.
    pub shard: u16,
    /// The hash of what was asked for; also names the payload.
    pub content: Content,
    /// Where it stands.
    pub state: State,
    /// Counts the transitions; fences every write under a lease.
    pub version: u64,
    /// Not called before this instant.
    pub deliver_after: Timestamp,
    /// The business deadline: a call ends by this instant.
    pub deliver_by: Timestamp,
    /// The rule, calendar version and zone data that chose the instants it was scheduled or last moved with; none if they were
    /// given.
    pub rule: Option<String>,
    /// The next attempt starts no earlier than this.
    pub next_attempt_at: Timestamp,
    /// What attempts before the last reschedule made it wait for: no other instants undercut it. None where nothing did.
    pub floor: Option<Timestamp>,
    /// When dispatch must next look; none once the row has left the wake index.
    pub wake_at: Option<Timestamp>,
    /// The end of the last dispatch lease, or the instant of a deferred attempt: until then dispatch need not look at
    /// the row itself, and then it reads the row before it decides. It is projected into the wake index.
    pub held_until: Option<Timestamp>,
    /// Who holds the lease of a `dispatching` or `delivering` row.
    pub lease_owner: Option<Owner>,
    /// The end of the deliver lease of a `delivering` row.
    pub lease_until: Option<Timestamp>,
    /// The queue's name for the last accepted message.
    pub message: Option<MessageId>,
    /// The last reason code.
    pub reason: Option<Reason>,
    /// Stamped by the dispatch claim of a destination in shadow mode: its attempts go to the shadow sink, never to the
    /// receiver.
    pub shadow: bool,
    /// Closed attempts, in order. A `delivering` row has one more, still open.
    pub attempts: Vec<Attempt>,
    /// Attempts that recorded redrives granted beyond the policy's number.
    pub granted: u32,
    /// How often its message was rescued since its last attempt.
    pub rescues: u32,
    /// The attempt of which a 2xx became known while another lease was live.
    pub late_success: Option<u32>,
    /// The freeze, if any.
    pub hold: Option<Hold>,
    /// The cancel, once it is `cancelled`.
    pub cancel: Option<Cancel>,
    /// How often it died or expired.
    pub death: u32,
    /// The last death whose dead-letter message was sent.
    pub dlq_sent: u32,
    /// Every return from the dead that granted attempts, oldest first.
    pub redrives: Vec<Redrive>,
    /// Its moves to other instants, in order.
    pub moves: Vec<Moved>,
    /// Every transition, oldest first.
    pub history: Vec<HistoryEntry>,
}

/// What a delivery sends, and what it was derived from. Never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    /// The exact bytes of the request body.
    pub body: Vec<u8>,
    /// What the reminder is.
    pub parts: IdentityParts,
    /// The instants as first asked for.
    pub deliver_after: Timestamp,
    /// The deadline as first asked for.
    pub deliver_by: Timestamp,
}

impl fmt::Debug for Payload {
    /// Shows the size only: neither body nor subscriber may reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload").field("body_bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// What a delivery is from its creation on.
#[derive(Debug, Clone)]
pub struct NewDelivery {
    /// Its identity.
    pub id: DeliveryId,
    /// The key that its receiver sees.
    pub idempotency_key: IdempotencyKey,
    /// What the auditor asks by.
    pub reference: Reference,
    /// Whom it goes to.
    pub destination: DestinationId,
    /// Its shard among the destination's lanes.
    pub shard: u16,
    /// The hash of what is asked for.
    pub content: Content,
    /// Not called before this instant.
    pub deliver_after: Timestamp,
    /// The business deadline.
    pub deliver_by: Timestamp,
}

impl Delivery {
    /// A row that nobody holds, due at its `deliver_after`, created at `at` by `by`.
    #[must_use]
    pub fn new(new: NewDelivery, at: Timestamp, by: Correlation) -> Self {
        let NewDelivery { id, idempotency_key, reference, destination, shard, content, deliver_after, deliver_by } = new;
        Self {
            id,
            idempotency_key,
            reference,
            destination,
            shard,
            content,
            state: State::Scheduled,
            version: 1,
            deliver_after,
            deliver_by,
            next_attempt_at: deliver_after,
            floor: None,
            rule: None,
            wake_at: Some(deliver_after),
            held_until: None,
            lease_owner: None,
            lease_until: None,
            message: None,
            reason: None,
            shadow: false,
            attempts: Vec::new(),
            granted: 0,
            rescues: 0,
            late_success: None,
            hold: None,
            cancel: None,
            death: 0,
            dlq_sent: 0,
            redrives: Vec::new(),
            moves: Vec::new(),
            history: vec![HistoryEntry { at, state: State::Scheduled, attempt: None, reason: None, by }],
        }
    }

    /// Its lane.
    #[must_use]
    pub fn lane(&self) -> Lane {
        Lane { destination: self.destination.clone(), shard: self.shard }
    }

    /// The number of the attempt that is open or would come next.
    #[must_use]
    pub fn next_attempt(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Whether its receiver may have been called.
    #[must_use]
    pub fn was_called(&self) -> bool {
        self.attempts.iter().any(Attempt::was_called)
    }

    /// The end of the lease that holds the row in its present state, if its state is a held one.
    #[must_use]
    pub fn lease_end(&self) -> Option<Timestamp> {
        match self.state {
            State::Dispatching => self.held_until,
            State::Delivering => self.lease_until,
            _ => None,
        }
    }

    /// Whether a lease may still be live: it has not surely ended.
    #[must_use]
    pub fn lease_may_be_live(&self, now: Now) -> bool {
        matches!(self.state, State::Dispatching | State::Delivering) && self.lease_end().is_some_and(|end| !now.reached(end))
    }

    /// The redrive run that moved it last, if one did.
    #[must_use]
    pub fn run(&self) -> Option<&RunId> {
        self.redrives.iter().rev().find_map(|redrive| redrive.run.as_ref())
    }

    /// Whether a redrive has ever moved it: its calls take of the destination's redrive cap too.
    #[must_use]
    pub fn is_redriven(&self) -> bool {
        !self.redrives.is_empty()
    }

    /// When a dead or expired row died or expired; none of a row that is neither.
    #[must_use]
    pub fn died_at(&self) -> Option<Timestamp> {
        // Lines in which a dead row only stays dead.
        let stays = |reason| matches!(reason, Some(Reason::DeadLetterSent | Reason::Held | Reason::Unheld));
        let ended = self.history.iter().rev().find(|line| line.state.needs_operator() && !stays(line.reason));
        ended.filter(|_| self.state.needs_operator()).map(|line| line.at)
    }

    /// Whether a dead or expired row still owes its dead-letter message.
    #[must_use]
    pub fn owes_dead_letter(&self) -> bool {
        self.state.needs_operator() && self.dlq_sent < self.death
    }
}
