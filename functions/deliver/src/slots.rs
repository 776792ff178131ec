//! I book slots of a destination's rate for the records of a batch, and let a record wait for its own.
//!
//! A record that will be due says so at the batch's beginning, and asks for its slot when it is about to claim. Whoever asks
//! first books for all who are due by then, in one write; nearest deadlines first. What a booking was told is remembered by
//! the environment, so that the next batch's first write is usually right. A slot that nobody calls in is spent.
//!
//! A redriven record books of what redriven calls may take before it books of the whole rate. It does not wait for that: a
//! consumer is there for others too, and what is beyond it is hidden until later.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use punctual_core::acquire::can_start;
use punctual_core::clock::Now;
use punctual_core::destination::Destination;
use punctual_core::figures::Calls;
use punctual_core::limiter::{AHEAD, BESIDE, GRACE, Key, Limit, Micros, Move, Moved, Plan, RESERVE_PERCENT};
use punctual_core::ports::{Control, DeadLetters, Ledger, Queue, Secrets, Time, Webhook};
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;

use crate::batch::{Known, Record, TRY_AGAIN};
use crate::tally::Tally;
use crate::{Deliver, Disposition};

/// A booking writes at most so often: each refusal tells the number, and somebody else's write succeeded.
const MOST_WRITES: usize = 4;
/// A record whose last safe start is nearer than this may book what is reserved.
const NEAR: Duration = Duration::from_secs(60);
/// Records that were denied a slot come back spread over so much more than their wait.
const SPREAD: Duration = Duration::from_secs(2);
/// Messages that wait longer than this for a consumer are too many for those there are.
const CROWDED: Duration = Duration::from_secs(1);
/// A record that would wait longer goes back to the ledger.
const LONGEST_DENIAL: Duration = Duration::from_secs(60);

/// What a record got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// It may call at this instant, and for [`GRACE`] after it.
    At(Timestamp),
    /// Nothing is booked for it; it may ask again after so long.
    Denied(Duration),
}

/// Whether a record may claim its row.
#[derive(Debug)]
pub(crate) enum Ready {
    /// It may, at this time.
    Claim(Now),
    /// Not here: its message is seen again.
    Later(Disposition),
    /// The wait is too long for the queue: the row goes back, if it is as the message says.
    Return,
}

/// A record that wants a slot.
#[derive(Debug, Clone, Copy)]
struct Wish {
    record: usize,
    not_before: Timestamp,
    deliver_by: Timestamp,
}

/// Of which number a record books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Of the destination's whole rate.
    All,
    /// Of what redriven calls may take of it.
    Redriven,
}

impl Line {
    fn key(self, destination: &Destination) -> Key {
        match self {
            Self::All => Key::of(&destination.spec.id),
            Self::Redriven => Key::of_redriven_calls(&destination.spec.id),
        }
    }

    fn limit(self, destination: &Destination) -> Limit {
        match self {
            Self::All => destination.limit(),
            Self::Redriven => destination.limit().of_redriven_calls(),
        }
    }

    /// How far ahead a record books: as a rule, and at most, if its deadline is near.
    fn reach(self) -> (Duration, Duration) {
        match self {
            Self::All => (AHEAD * (100 - RESERVE_PERCENT) / 100, AHEAD),
            Self::Redriven => (Duration::ZERO, Duration::ZERO),
        }
    }
}

/// Where the records of one destination book.
#[derive(Debug, Default)]
pub struct Office {
    all: Desk,
    redriven: Desk,
}

impl Office {
    fn desk(&self, line: Line) -> &Desk {
        match line {
            Line::All => &self.all,
            Line::Redriven => &self.redriven,
        }
    }
}

/// Where records book of one number.
#[derive(Debug, Default)]
struct Desk {
    /// Who wants a slot; never locked over a wait.
    wishes: Mutex<Vec<Wish>>,
    /// Who got what; locked while a booking is under way, so that nobody else makes one.
    given: futures::lock::Mutex<BTreeMap<usize, Slot>>,
}

impl Desk {
    fn wish(&self, wish: Wish) {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner).push(wish);
    }

    /// Everybody who is due and has got nothing yet, nearest deadline first; each record once.
    fn due(&self, now: Now, given: &BTreeMap<usize, Slot>) -> Vec<Wish> {
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        wishes.retain(|wish| !given.contains_key(&wish.record));
        let (mut due, later): (Vec<Wish>, Vec<Wish>) = wishes.iter().partition(|wish| now.reached(wish.not_before));
        *wishes = later;
        due.sort_by_key(|wish| (wish.record, wish.not_before));
        due.dedup_by_key(|wish| wish.record);
        due.sort_by_key(|wish| wish.deliver_by);
        due
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: DeadLetters, S: Secrets, W: Webhook, T: Time> Deliver<'_, L, C, Q, D, S, W, T> {
    /// Opens the offices. A message that was received for the first time is a good hint; of another the row must tell
    /// first when it is due.
    pub(crate) fn open(&self, records: &[Record<'_>], known: &mut Known) {
        known.offices = known.destinations.keys().map(|id| (id.clone(), Office::default())).collect();
        let Ok(now) = self.time.now() else { return };
        for record in records.iter().filter(|record| record.receive_count <= 1) {
            let Ok(message) = &record.message else { continue };
            let Some(destination) = known.destinations.get(&message.destination_id) else { continue };
            if destination.paused.is_some() || !can_start(message.deliver_by, destination.margin(self.margin), now) {
                continue;
            }
            if let Some(office) = known.offices.get(&message.destination_id) {
                let (not_before, deliver_by) = (message.not_before, message.deliver_by);
                let line = if message.redriven { Line::Redriven } else { Line::All };
                office.desk(line).wish(Wish { record: record.number, not_before, deliver_by });
            }
        }
    }

    /// Waits for the record's slot. To be asked right before a claim, of a row that is due.
    pub(crate) async fn ready(
        &self,
        destination: &Destination,
        record: &Record<'_>,
        (deliver_by, redriven): (Timestamp, bool),
        known: &Known,
        tally: &mut Tally,
    ) -> Result<Ready, FlowError> {
        if !self.fits(destination) {
            tally.waiting += 1;
            return Ok(Ready::Later(Disposition::HideFor(Duration::ZERO)));
        }
        let share = match redriven {
            true => Some(self.slot(Line::Redriven, destination, record, deliver_by, known, tally).await?),
            false => None,
        };
        let latest = if let Some(Slot::At(at)) = share { Some(at.plus(BESIDE)) } else { None };
        let slot = match share {
            Some(Slot::Denied(wait)) => Slot::Denied(wait),
            _ => self.slot(Line::All, destination, record, deliver_by, known, tally).await?,
        };
        let at = match slot {
            Slot::At(at) if latest.is_some_and(|latest| at > latest) => {
                // Others wait for the whole rate: the share that was booked is spent, and so is the slot.
                tally.slots_denied += 1;
                return Ok(Ready::Later(self.denied(Duration::ZERO)));
            }
            Slot::At(at) => at,
            Slot::Denied(wait) => {
                if wait > LONGEST_DENIAL {
                    return Ok(Ready::Return);
                }
                tally.slots_denied += 1;
                return Ok(Ready::Later(self.denied(wait)));
            }
        };
        let wait = at.since(self.time.best_guess()?);
        if !wait.is_zero() {
            self.time.pause(wait).await;
        }
        let end = at.plus(GRACE);
        if self.time.best_guess()? > latest.map_or(end, |latest| latest.min(end)) {
            tally.slots_denied += 1;
            return Ok(Ready::Later(self.denied(Duration::ZERO)));
        }
        if !self.fits(destination) {
            tally.waiting += 1;
            return Ok(Ready::Later(Disposition::HideFor(Duration::ZERO)));
        }
        Ok(Ready::Claim(self.time.now()?))
    }

    /// Whether messages of this destination wait for a consumer, and its rate is in use.
    pub(crate) fn is_crowded(&self, destination: &Destination, now: Timestamp) -> bool {
        let id = &destination.spec.id;
        let lately = now.minus(AHEAD).as_millis().saturating_mul(1_000);
        let first = self.measure.booked(&Key::of(id)).map(|booked| booked.saturating_sub(destination.limit().tolerance()));
        first.is_some_and(|first| first > lately) && self.measure.waited(id, now) > CROWDED
    }

    /// Whole seconds, so that no record comes back before there can be room.
    fn denied(&self, wait: Duration) -> Disposition {
        let wait = wait + SPREAD.mul_f64(self.time.random());
        Disposition::HideFor(Duration::from_secs(wait.as_secs().saturating_add(1)))
    }

    async fn slot(
        &self,
        line: Line,
        destination: &Destination,
        record: &Record<'_>,
        deliver_by: Timestamp,
        known: &Known,
        tally: &mut Tally,
    ) -> Result<Slot, FlowError> {
        let Some(office) = known.offices.get(&destination.spec.id) else { return Ok(Slot::Denied(TRY_AGAIN)) };
        let office = office.desk(line);
        let number = record.number;
        let mine = Wish { record: number, not_before: self.time.now()?.lo, deliver_by };
        office.wish(mine);
        let mut given = office.given.lock().await;
        if let Some(slot) = given.get(&number) {
            return Ok(*slot);
        }
        let mut wishes = office.due(self.time.now()?, &given);
        if !wishes.iter().any(|wish| wish.record == number) {
            wishes.push(mine);
        }
        match self.book(line, destination, &wishes, tally).await {
            Ok(slots) => given.extend(wishes.iter().map(|wish| wish.record).zip(slots)),
            Err(error) => {
                // The others need not find out one by one.
                let others = wishes.iter().filter(|wish| wish.record != number);
                given.extend(others.map(|wish| (wish.record, Slot::Denied(TRY_AGAIN))));
                return Err(error);
            }
        }
        Ok(given.get(&number).copied().unwrap_or(Slot::Denied(TRY_AGAIN)))
    }

    /// Books for these records; one result each, in order.
    async fn book(
        &self,
        line: Line,
        destination: &Destination,
        wishes: &[Wish],
        tally: &mut Tally,
    ) -> Result<Vec<Slot>, FlowError> {
        let (id, key, limit, reach) = (&destination.spec.id, line.key(destination), line.limit(destination), line.reach());
        let near = destination.margin(self.margin) + NEAR;
        let mut believed = self.measure.booked(&key);
        let mut slots = Vec::new();
        let mut now = self.time.best_guess()?;
        for _ in 0..MOST_WRITES {
            now = self.time.best_guess()?;
            let urgent = wishes.iter().take_while(|wish| wish.deliver_by.since(now) < near).count();
            let calls = vec![now; wishes.len()];
            let Plan { calls: booked, write: Some(write) } = plan(limit, believed, &calls, now, reach, urgent) else { break };
            tally.limiter_writes += 1;
            // What calls came to rides along: the monitor wants to know, and a write of its own would cost one.
            let ended = if line == Line::All { self.measure.uncounted(id) } else { Calls::default() };
            match self.control.move_limit_counting(&key, write, ended).await? {
                Moved::Refused { is } => {
                    believed = is;
                    self.measure.told(&key, is);
                }
                Moved::Done { now: after } => {
                    self.measure.counted(id, ended);
                    let before = if let Move::Add { by, .. } = write { Some(after.saturating_sub(by)) } else { believed };
                    believed = Some(after);
                    self.measure.told(&key, believed);
                    tally.slots_booked += if line == Line::All { booked } else { 0 };
                    slots = limit.slots(before, calls.get(..booked).unwrap_or_default(), now).into_iter().map(Slot::At).collect();
                    break;
                }
            }
        }
        let wait = limit.wait(believed, now, reach.0);
        let interval = Duration::from_micros(u64::try_from(limit.interval()).unwrap_or(0));
        let denied = wishes.len().saturating_sub(slots.len());
        slots.extend((0..denied).map(|n| Slot::Denied(wait + interval.saturating_mul(u32::try_from(n).unwrap_or(u32::MAX)))));
        Ok(slots)
    }
}

/// The first `urgent` calls may book what is reserved.
fn plan(
    limit: Limit,
    believed: Option<Micros>,
    calls: &[Timestamp],
    now: Timestamp,
    (common, most): (Duration, Duration),
    urgent: usize,
) -> Plan {
    let all = limit.plan(believed, calls, now, common);
    if all.calls >= urgent { all } else { limit.plan(believed, calls.get(..urgent).unwrap_or_default(), now, most) }
}
