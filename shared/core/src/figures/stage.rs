//! I put a stage's figures together: sums and maxima over its destinations, and which destinations stand out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use crate::breaker::Reach;
use crate::destination::Destination;
use crate::figures::backlog::Backlog;
use crate::figures::ended::Ended;
use crate::figures::load::{Pace, Projection};
use crate::figures::looked_at::{Level, LookedAt};
use crate::id::DestinationId;
use crate::limiter::{Micros, REDRIVE_PERCENT};
use crate::reason::Reason;
use crate::state::State;
use crate::time::Timestamp;

/// What falls due this soon is felt now; what falls due later is foreseen.
pub const SOON: Duration = Duration::from_secs(3_600);
/// How far is looked ahead.
pub const AHEAD: Duration = Duration::from_secs(86_400);
/// The windows that can be overbooked.
pub const WINDOW: Duration = Duration::from_secs(900);
/// So many destinations are named at most.
pub const MOST_OFFENDERS: usize = 5;
/// Work that has been due for longer than this stands out.
const NOTABLE: Duration = Duration::from_secs(60);
/// How a pause that deliver has made is signed begins like this.
const BY_ITSELF: &str = "deliver ";

/// What a queue says of itself; approximate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Depth {
    /// Messages that can be received.
    pub visible: u64,
    /// Received, and not yet deleted or seen again.
    pub in_flight: u64,
    /// Not to be seen yet.
    pub delayed: u64,
}

/// What a function leaves behind that came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// When.
    pub at: Timestamp,
    /// What it said last, for a person; at most 1,000 characters.
    pub line: String,
}

/// A destination, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// It.
    pub destination: &'a Destination,
    /// How it has been reached lately, where anything is stored.
    pub reach: Option<&'a Reach>,
    /// Its part of the wake index.
    pub backlog: &'a Backlog,
    /// Up to here all of it was read; none: all that was asked for.
    pub read_until: Option<Timestamp>,
    /// How many calls a hundred deliveries take.
    pub calls_percent: u32,
    /// Whether a redrive run is under way, which may take its share of the rate.
    pub redriving: bool,
    /// Since when it may be called, as far as is known: what fell due before waits since then only.
    pub callable_since: Option<Timestamp>,
}

/// A destination that stands out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Offender {
    /// Which one.
    pub destination_id: DestinationId,
    /// Of what is due or falls due soon, so many cannot start in time.
    pub late: u64,
    /// The first last safe start that cannot be met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breach: Option<Timestamp>,
    /// Windows of the next day in which more falls due than can start in time.
    pub overbooked: u64,
    /// When the first of them begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overbooked_from: Option<Timestamp>,
    /// Due, and nobody holds them.
    pub due: u64,
    /// For how long the oldest of these has been due, in seconds.
    pub oldest_due_seconds: u64,
    /// Held back by a pause or a hold, and near their last safe start.
    pub held_back_near: u64,
    /// Out, and late for their call.
    pub suspects: u64,
    /// How many calls a hundred deliveries take.
    pub calls_percent: u32,
    /// Since when it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_since: Option<Timestamp>,
    /// Since when its breaker is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_since: Option<Timestamp>,
    /// It was read up to here only: its numbers are the least that it can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_until: Option<Timestamp>,
}

/// A stage's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// When.
    pub at: Timestamp,
    /// Destinations looked at.
    pub destinations: u64,
    /// Seconds since dispatch came to its end last.
    pub dispatch_age_seconds: u64,
    /// Due, and nobody holds them.
    pub due: u64,
    /// The same, with an estimate of what was not read.
    pub due_estimated: u64,
    /// Claimed, published, in a call, or waiting in the queue for a retry.
    pub out: u64,
    /// Frozen by an operator.
    pub asleep: u64,
    /// Held back by a pause, whoever has made it, or by a hold, and [near](crate::figures::backlog::NEAR) their last safe start.
    pub held_back_near: u64,
    /// Past their last safe start: they expire.
    pub hopeless: u64,
    /// For how long the oldest due row has been due.
    pub oldest_due_seconds: u64,
    /// The same among destinations that may be called (neither paused nor with an open breaker), and since they may.
    pub oldest_overdue_seconds: u64,
    /// How much of its time the due row has used that has the least of it left, in percent.
    pub used_percent: u32,
    /// Until the next last safe start of what is due; [`AHEAD`] if nothing is.
    pub next_last_start_seconds: u64,
    /// For how long the oldest row that is out should have been called.
    pub oldest_out_seconds: u64,
    /// Rows that are out and late for their call.
    pub suspects: u64,
    /// What those are that were read.
    pub looked_at: BTreeMap<State, Level>,
    /// Of these, held by leases that have ended.
    pub ended_leases: Level,
    /// Of these, published and not taken.
    pub queued: Level,
    /// Of what is due or falls due soon, so many cannot start in time.
    pub late: u64,
    /// Until the first last safe start that cannot be met; [`AHEAD`] if all can.
    pub breach_in_seconds: u64,
    /// Windows of the next day in which more falls due than can start in time, over all destinations.
    pub overbooked: u64,
    /// How many these are.
    pub late_later: u64,
    /// Until everything that is due has been called, at the destination where that takes longest.
    pub drain_seconds: u64,
    /// Dead rows by reason, whose deadlines are not long past.
    pub dead: BTreeMap<Reason, u64>,
    /// Expired rows by reason, whose deadlines are not long past.
    pub expired: BTreeMap<Reason, u64>,
    /// Dead rows whose deadline has not passed.
    pub dead_reachable: u64,
    /// Rows that still owe the dead letters their message, but for those of paused destinations, which owe it until resumed.
    pub letters_owed: u64,
    /// Destinations whose breaker is open and that something is due for, now or within [`SOON`], or out.
    pub open_breakers: u64,
    /// Paused destinations.
    pub paused: u64,
    /// Of these, paused by deliver.
    pub paused_by_itself: u64,
    /// For how long the first of them has been paused.
    pub longest_pause_seconds: u64,
    /// Destinations whose receivers rejected any of their last calls.
    pub rejecting: u64,
    /// Redrive runs under way.
    pub redrives: u64,
    /// Lanes that dispatch did not read to their end.
    pub cursors: u64,
    /// Whether retryable failures go to the dead letters at once.
    pub retries_disabled: bool,
    /// The queue of deliveries.
    pub queue: Depth,
    /// Messages that could be received at this look or the one before, whichever were more.
    pub visible_lately: u64,
    /// The dead-letter queue.
    pub dead_letters: Depth,
    /// Destinations that were not read to the end: the figures are the least that they can be.
    pub truncated: u64,
    /// Destinations that could not be read.
    pub unread: u64,
    /// Entries of the wake index that were read.
    pub entries_read: u64,
    /// What reading the wake index cost, in read units.
    pub read_units: f64,
    /// The destinations that stand out most, the worst first; at most [`MOST_OFFENDERS`].
    pub offenders: Vec<Offender>,
}

/// How long one delivery keeps a destination busy: by its rate, or by the `room` for what may be out from one tick to the next.
#[must_use]
pub fn work(destination: &Destination, room: u32, tick: Duration, calls_percent: u32, redriving: bool) -> Micros {
    let percent = Micros::from(calls_percent.max(100));
    let share = Micros::from(100 - if redriving { REDRIVE_PERCENT } else { 0 });
    let rate = Micros::from(destination.spec.rate_per_second.max(1));
    let by_rate = div_up(percent.saturating_mul(1_000_000), rate.saturating_mul(share));
    let room = Micros::from(room.max(1));
    let between = Micros::try_from(tick.as_micros()).unwrap_or(Micros::MAX);
    let by_room = div_up(between.saturating_mul(percent), room.saturating_mul(100));
    by_rate.max(by_room)
}

fn div_up(a: Micros, b: Micros) -> Micros {
    a.saturating_add(b.max(1) - 1) / b.max(1)
}

impl Figures {
    /// Nothing yet.
    #[must_use]
    pub fn begin(at: Timestamp) -> Self {
        Self {
            at,
            destinations: 0,
            dispatch_age_seconds: 0,
            due: 0,
            due_estimated: 0,
            out: 0,
            asleep: 0,
            held_back_near: 0,
            hopeless: 0,
            oldest_due_seconds: 0,
            oldest_overdue_seconds: 0,
            used_percent: 0,
            next_last_start_seconds: AHEAD.as_secs(),
            oldest_out_seconds: 0,
            suspects: 0,
            looked_at: BTreeMap::new(),
            ended_leases: Level::default(),
            queued: Level::default(),
            late: 0,
            breach_in_seconds: AHEAD.as_secs(),
            overbooked: 0,
            late_later: 0,
            drain_seconds: 0,
            dead: BTreeMap::new(),
            expired: BTreeMap::new(),
            dead_reachable: 0,
            letters_owed: 0,
            open_breakers: 0,
            paused: 0,
            paused_by_itself: 0,
            longest_pause_seconds: 0,
            rejecting: 0,
            redrives: 0,
            cursors: 0,
            retries_disabled: false,
            queue: Depth::default(),
            visible_lately: 0,
            dead_letters: Depth::default(),
            truncated: 0,
            unread: 0,
            entries_read: 0,
            read_units: 0.0,
            offenders: Vec::new(),
        }
    }

    /// Adds a destination. `tick` is from one run of dispatch to the next. Of one that may not be called at present, what
    /// would be if it might is told. What is due now or soon is judged by the room that dispatch admits by, which a destination
    /// gains with its answers; what falls due later by all that it may ever have.
    pub fn destination(&mut self, known: Known<'_>, tick: Duration) {
        let Known { destination, reach, backlog, read_until, calls_percent, callable_since, .. } = known;
        let now = self.at;
        let projection = projection(known, tick, now);
        let open_since = reach.and_then(|reach| reach.open.as_ref()).map(|open| open.since);
        let paused = destination.paused.as_ref();
        let age = |since: Option<Timestamp>| since.map_or(0, |since| now.since(since).as_secs());
        let oldest_due_seconds = age(backlog.due_since);

        self.destinations += 1;
        self.due += backlog.due;
        self.due_estimated += estimated(backlog, read_until, now);
        self.out += backlog.out;
        self.asleep += backlog.load.asleep;
        self.hopeless += backlog.load.hopeless;
        self.oldest_due_seconds = self.oldest_due_seconds.max(oldest_due_seconds);
        if paused.is_none() && open_since.is_none() {
            let since = backlog.due_since.map(|since| callable_since.map_or(since, |callable| callable.max(since)));
            self.oldest_overdue_seconds = self.oldest_overdue_seconds.max(age(since));
        }
        self.used_percent = self.used_percent.max(backlog.used_percent);
        let until = |at: Option<Timestamp>| at.map_or(AHEAD.as_secs(), |at| at.since(now).as_secs());
        self.next_last_start_seconds = self.next_last_start_seconds.min(until(backlog.next_last_start));
        self.oldest_out_seconds = self.oldest_out_seconds.max(age(backlog.out_since));
        self.suspects += backlog.suspects;
        self.late += projection.late;
        self.breach_in_seconds = self.breach_in_seconds.min(until(projection.breach));
        self.overbooked += projection.overbooked;
        self.late_later += projection.late_later;
        self.drain_seconds = self.drain_seconds.max(projection.drained_at.since(now).as_secs());
        self.open_breakers += u64::from(open_since.is_some() && (backlog.wanted > 0 || backlog.out > 0));
        let held_back_near = if paused.is_some() { backlog.near } else { backlog.held_near };
        self.held_back_near += held_back_near;
        self.paused += u64::from(paused.is_some());
        self.paused_by_itself += u64::from(paused.is_some_and(|pause| pause.by.starts_with(BY_ITSELF)));
        self.longest_pause_seconds = self.longest_pause_seconds.max(age(paused.map(|pause| pause.since)));
        self.truncated += u64::from(read_until.is_some());
        self.entries_read += backlog.entries;

        let Projection { late, breach, overbooked, overbooked_from, .. } = projection;
        let offender = Offender {
            destination_id: destination.spec.id.clone(),
            late,
            breach,
            overbooked,
            overbooked_from,
            due: backlog.due,
            oldest_due_seconds,
            held_back_near,
            suspects: backlog.suspects,
            calls_percent,
            paused_since: paused.map(|pause| pause.since),
            open_since,
            read_until,
        };
        if offender.stands_out() {
            self.offenders.push(offender);
            self.offenders.sort_by(|a, b| b.weight().cmp(&a.weight()).then_with(|| a.destination_id.cmp(&b.destination_id)));
            self.offenders.truncate(MOST_OFFENDERS);
        }
    }

    /// Adds the dead and expired rows.
    pub fn ended(&mut self, ended: &Ended) {
        self.dead.clone_from(&ended.dead);
        self.expired.clone_from(&ended.expired);
        self.dead_reachable = ended.reachable;
    }

    /// Adds the letters that are owed: of each destination that is not paused, what the index of dead and expired rows shows of
    /// the last days, or what the wake index shows whatever its age, whichever is more.
    pub fn letters(&mut self, ended: &Ended, looked_at: &LookedAt, paused: &BTreeSet<DestinationId>) {
        let of = |counts: &BTreeMap<DestinationId, u64>, id: &DestinationId| counts.get(id).copied().unwrap_or_default();
        let owing: BTreeSet<&DestinationId> = ended.letters_owed.keys().chain(looked_at.letters_owed.keys()).collect();
        self.letters_owed = owing
            .into_iter()
            .filter(|id| !paused.contains(*id))
            .map(|id| of(&ended.letters_owed, id).max(of(&looked_at.letters_owed, id)))
            .sum();
    }

    /// Adds the rows that were read.
    pub fn looked_at(&mut self, looked_at: &LookedAt) {
        self.looked_at.clone_from(&looked_at.states);
        self.ended_leases = looked_at.ended_leases;
        self.queued = looked_at.queued;
    }
}

impl Offender {
    fn stands_out(&self) -> bool {
        let held_back = self.paused_since.is_some() || self.open_since.is_some() || self.read_until.is_some();
        let at_risk = self.late > 0 || self.held_back_near > 0;
        at_risk || self.overbooked > 0 || self.suspects > 0 || held_back || self.oldest_due_seconds > NOTABLE.as_secs()
    }

    /// The heavier, the worse.
    fn weight(&self) -> (u64, u64, u64, u64, u64, bool) {
        let held_back = self.paused_since.is_some() || self.open_since.is_some();
        (self.late, self.held_back_near, self.overbooked, self.oldest_due_seconds, self.suspects, held_back)
    }
}

/// What becomes of a destination's load.
fn projection(known: Known<'_>, tick: Duration, now: Timestamp) -> Projection {
    let Known { destination, reach, backlog, calls_percent, redriving, .. } = known;
    let most = destination.spec.max_in_flight;
    // Behind an open breaker one probe may be out: what would be if it closed is told.
    let is_open = reach.is_some_and(|reach| reach.open.is_some());
    let room = if is_open { most } else { destination.capacity(reach).max_in_flight };
    let by = |room| {
        let work = work(destination, room, tick, calls_percent, redriving);
        (work, Pace { work, soon: now.plus(SOON), window: WINDOW })
    };
    let ((present, pace), (later, pace_later)) = (by(room), by(most));
    let projection = backlog.load.project(pace);
    if present == later {
        return projection;
    }
    let Projection { late_later, overbooked, overbooked_from, .. } = backlog.load.project(pace_later);
    Projection { late_later, overbooked, overbooked_from, ..projection }
}

/// What is due, and as much again for the time that was not read: as dense as what was read.
fn estimated(backlog: &Backlog, read_until: Option<Timestamp>, now: Timestamp) -> u64 {
    let (Some(until), Some(first)) = (read_until.filter(|until| *until < now), backlog.due_since) else { return backlog.due };
    let (read, all) = (until.since(first).as_millis().max(1), now.since(first).as_millis());
    let estimate = u128::from(backlog.due).saturating_mul(all) / read;
    u64::try_from(estimate).unwrap_or(u64::MAX).max(backlog.due)
}

#[cfg(test)]
#[path = "stage_tests.rs"]
mod tests;
