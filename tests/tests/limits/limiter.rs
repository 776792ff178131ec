//! I am consumers who book slots of one rate: by what they believe, by what a refusal tells, through writes that may arrive
//! late, twice, or when nobody waits for them any more.

use std::time::Duration;

use punctual_core::limiter::{GRACE, Limit, Micros, Move};
use punctual_core::time::Timestamp;
use stateright::{Model, Property};

use crate::bounds::{BOOKINGS, CONSUMERS};

/// Two calls a second and one beyond: half a second from call to call, and 400 ms (less a microsecond) of tolerance.
const LIMIT: Limit = Limit { per_second: 2, burst: 1 };
/// The window in which calls are counted, in milliseconds.
const WINDOW_MS: i64 = 1_000;
/// A tick, in milliseconds; time stands after the last one.
const TICK_MS: i64 = 500;
const TICKS: u8 = 2;
/// How far ahead a call may be booked.
const AHEAD: Duration = Duration::from_millis(1_000);
/// How far clocks are off, either way, where they are.
pub const SKEW_MS: i64 = 50;
/// Calls of one booking.
const CALLS: usize = 2;
/// Writes of one booking until it is given up, as a refusal tells another number each time.
const WRITES: u8 = 3;
/// Where the database's time begins.
const ORIGIN_MS: i64 = 1_796_115_600_000;

fn ms(from_origin: i64) -> Timestamp {
    Timestamp::from_millis(ORIGIN_MS + from_origin)
}

/// A booking under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Booking {
    /// What it believes of the number.
    known: Option<Micros>,
    /// What time it says it is, in milliseconds.
    guess: i64,
    /// The earliest start of its calls.
    due: i64,
    /// Writes so far.
    writes: u8,
    /// Calls that the write books.
    calls: usize,
    write: Move,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Consumer {
    /// With what it believes.
    Idle(Option<Micros>),
    /// Its write is on its way.
    Waiting(Booking),
    /// Its write was answered.
    Told(Booking, Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    Done(Micros),
    Refused(Option<Micros>),
}

/// A write that may arrive, and who waits for its answer, if anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sent {
    who: Option<usize>,
    what: (u8, Micros, Option<Micros>, Micros),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    tick: u8,
    stored: Option<Micros>,
    consumers: [Consumer; CONSUMERS],
    /// Writes on their way, sorted.
    wire: Vec<Sent>,
    begun: u8,
    /// Writes that were sent again, and consumers that crashed; at most one of either.
    mishaps: [bool; 2],
    /// Theoretical arrival times of calls that were booked and told, sorted.
    arrivals: Vec<Micros>,
    /// When calls start, in true milliseconds, sorted.
    starts: Vec<i64>,
    /// Applied bookings that nobody uses.
    wasted: bool,
    denied: bool,
    lost_slot: bool,
    faults: u8,
}

/// A denial moved the number.
const DENIAL_MOVED: u8 = 1;
/// A call starts before it is due, or before its slot.
const EARLY: u8 = 2;
/// The wait that a denial tells does not bring a call within reach.
const WRONG_WAIT: u8 = 4;
/// The number went back.
const WENT_BACK: u8 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Tick,
    /// A consumer begins a booking for calls that are due now, or half a second from now.
    Begin(usize, bool),
    /// A write arrives.
    Arrive(usize),
    /// A write that was not answered is sent again.
    Repeat(usize),
    /// A consumer goes on with its answer; its calls start late by the most that is allowed, or at their slots.
    GoOn(usize, bool),
    /// A consumer crashes; another begins in its place, with nothing known.
    Crash(usize),
}

pub struct Limiter {
    pub skew_ms: i64,
}

impl World {
    fn now(&self) -> i64 {
        i64::from(self.tick) * TICK_MS
    }

    fn fault(&mut self, fault: u8, happened: bool) {
        self.faults |= if happened { fault } else { 0 };
    }

    fn send(&mut self, who: usize, write: Move) {
        let what = match write {
            Move::Add { by, from, to } => (0, by, Some(from), to),
            Move::Set { to, at_least, at_most } => (1, to, at_least, at_most),
        };
        self.wire.push(Sent { who: Some(who), what });
        self.wire.sort();
    }
}

impl Sent {
    fn write(&self) -> Move {
        match self.what {
            (0, by, from, to) => Move::Add { by, from: from.expect("an add has both ends"), to },
            (_, to, at_least, at_most) => Move::Set { to, at_least, at_most },
        }
    }
}

impl Limiter {
    /// What a consumer's machine says: the first one's is ahead, the second one's behind.
    fn off(&self, who: usize) -> i64 {
        [self.skew_ms, -self.skew_ms][who % 2]
    }

    /// Plans by what is known, and sends the write; or it is denied.
    fn plan(world: &mut World, who: usize, known: Option<Micros>, (guess, due): (i64, i64), writes: u8) {
        let calls = [ms(due); CALLS];
        let before = (world.stored, world.wire.len());
        let plan = LIMIT.plan(known, &calls, ms(guess), AHEAD);
        let Some(write) = plan.write.filter(|_| writes < WRITES) else {
            world.denied |= plan.write.is_none();
            if plan.write.is_none() && due <= guess {
                // Whoever comes back after the wait, with nobody booked in between, is within reach; and no sooner.
                let wait = LIMIT.wait(known, ms(guess), AHEAD);
                let after = ms(guess).plus(wait + Duration::from_millis(1));
                world.fault(WRONG_WAIT, wait.is_zero() || LIMIT.plan(known, &calls, after, AHEAD).calls == 0);
            }
            world.consumers[who] = Consumer::Idle(known);
            world.fault(DENIAL_MOVED, before != (world.stored, world.wire.len()));
            return;
        };
        world.consumers[who] = Consumer::Waiting(Booking { known, guess, due, writes: writes + 1, calls: plan.calls, write });
        world.send(who, write);
    }

    /// Uses the slots of a booking.
    fn start(&self, world: &mut World, who: usize, booking: Booking, after: Micros, late: bool) {
        let before = if let Move::Add { by, .. } = booking.write { Some(after - by) } else { booking.known };
        let calls = vec![ms(booking.due); booking.calls];
        let slots = LIMIT.slots(before, &calls, ms(booking.guess));
        // The same arithmetic without tolerance tells the theoretical arrival times.
        let exact = Limit { burst: 0, ..LIMIT }.slots(before, &calls, ms(booking.guess));
        world.arrivals.extend(exact.into_iter().map(Timestamp::as_millis));
        world.arrivals.sort_unstable();
        let grace = i64::try_from(GRACE.as_millis()).expect("short");
        for slot in slots {
            let slot = slot.as_millis() - ORIGIN_MS;
            let clock = world.now() + self.off(who);
            if clock > slot + grace {
                world.lost_slot = true;
                continue;
            }
            let by_clock = if late { slot + grace } else { clock.max(slot) };
            world.fault(EARLY, by_clock < slot || by_clock < booking.due);
            world.starts.push(by_clock - self.off(who));
        }
        world.starts.sort_unstable();
    }

    fn arrive(world: &mut World, i: usize) {
        let copy = world.wire.remove(i);
        let applied = copy.write().apply(world.stored);
        let answer = applied.map_or(Answer::Refused(world.stored), Answer::Done);
        world.fault(WENT_BACK, applied.is_some_and(|after| world.stored.is_some_and(|before| after <= before)));
        world.stored = applied.or(world.stored);
        match copy.who.map(|who| (who, world.consumers[who])) {
            Some((who, Consumer::Waiting(booking))) => world.consumers[who] = Consumer::Told(booking, answer),
            _ => world.wasted |= applied.is_some(),
        }
    }

    /// Whoever has sent these hears no answer to them.
    fn forget(world: &mut World, who: usize) {
        world.wire.iter_mut().filter(|copy| copy.who == Some(who)).for_each(|copy| copy.who = None);
        world.wire.sort();
    }
}

impl Model for Limiter {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let micros = |from_origin: i64| (ORIGIN_MS + from_origin) * 1_000;
        // Nothing stored; a number of long ago; one that just leaves room; one beyond everybody's reach for now.
        [None, Some(micros(-60_000)), Some(micros(700)), Some(micros(1_900))]
            .map(|stored| World {
                tick: 0,
                stored,
                consumers: [Consumer::Idle(None); CONSUMERS],
                wire: Vec::new(),
                begun: 0,
                mishaps: [false; 2],
                arrivals: Vec::new(),
                starts: Vec::new(),
                wasted: false,
                denied: false,
                lost_slot: false,
                faults: 0,
            })
            .to_vec()
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.tick < TICKS {
            steps.push(Step::Tick);
        }
        for who in 0..CONSUMERS {
            match world.consumers[who] {
                Consumer::Idle(_) if world.begun < BOOKINGS => {
                    steps.extend([false, true].map(|later| Step::Begin(who, later)));
                }
                Consumer::Idle(_) => {}
                Consumer::Waiting(_) => steps.extend([Step::Repeat(who), Step::Crash(who)]),
                Consumer::Told(_, Answer::Refused(_)) => steps.push(Step::GoOn(who, false)),
                Consumer::Told(_, Answer::Done(_)) => {
                    steps.extend([Step::GoOn(who, false), Step::GoOn(who, true), Step::Repeat(who), Step::Crash(who)]);
                }
            }
        }
        // One that never arrives is one that has not arrived yet.
        steps.extend((0..world.wire.len()).map(Step::Arrive));
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Tick => next.tick += 1,
            Step::Begin(who, later) => {
                let Consumer::Idle(known) = world.consumers[who] else { return None };
                next.begun += 1;
                let guess = world.now() + self.off(who);
                Self::plan(&mut next, who, known, (guess, guess + if later { TICK_MS } else { 0 }), 0);
            }
            Step::Arrive(i) => Self::arrive(&mut next, i),
            Step::Repeat(who) => {
                let (Consumer::Waiting(booking) | Consumer::Told(booking, _)) = world.consumers[who] else { return None };
                if world.mishaps[0] {
                    return None;
                }
                next.mishaps[0] = true;
                next.wasted |= matches!(world.consumers[who], Consumer::Told(_, Answer::Done(_)));
                Self::forget(&mut next, who);
                next.consumers[who] = Consumer::Waiting(booking);
                next.send(who, booking.write);
            }
            Step::GoOn(who, late) => match world.consumers[who] {
                Consumer::Told(booking, Answer::Done(after)) => {
                    self.start(&mut next, who, booking, after, late);
                    next.consumers[who] = Consumer::Idle(Some(after));
                }
                Consumer::Told(booking, Answer::Refused(is)) => {
                    Self::plan(&mut next, who, is, (booking.guess, booking.due), booking.writes);
                }
                _ => return None,
            },
            Step::Crash(who) => {
                if world.mishaps[1] {
                    return None;
                }
                next.mishaps[1] = true;
                next.wasted |= matches!(world.consumers[who], Consumer::Told(..));
                Self::forget(&mut next, who);
                next.consumers[who] = Consumer::Idle(None);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no two bookings share a slot", |_: &Self, w: &World| {
                let interval = LIMIT.interval() / 1_000;
                w.arrivals.windows(2).all(|pair| pair[1] - pair[0] >= interval)
            }),
            Property::always(
                "no window holds more calls than rate and burst, and what clocks are off",
                |model: &Self, w: &World| w.fullest() <= model.most(),
            ),
            Property::always("a denial changes nothing", |_: &Self, w: &World| w.faults & DENIAL_MOVED == 0),
            Property::always("no call starts before its slot or its due time", |_: &Self, w: &World| w.faults & EARLY == 0),
            Property::always("who comes back after the told wait is within reach, and no sooner", |_: &Self, w: &World| {
                w.faults & WRONG_WAIT == 0
            }),
            Property::always("the number never goes back", |_: &Self, w: &World| w.faults & WENT_BACK == 0),
            Property::sometimes("a window holds all of rate and burst", |_: &Self, w: &World| {
                w.fullest() >= usize::try_from(LIMIT.per_second + LIMIT.burst).expect("few")
            }),
            Property::sometimes("a refusal tells the number", |_: &Self, w: &World| {
                w.consumers.iter().any(|c| matches!(c, Consumer::Told(_, Answer::Refused(Some(_)))))
            }),
            Property::sometimes("a token is wasted", |_: &Self, w: &World| w.wasted),
            Property::sometimes("a booking is denied", |_: &Self, w: &World| w.denied),
            Property::sometimes("a slot is lost by a late answer", |_: &Self, w: &World| w.lost_slot),
        ]
    }
}

impl World {
    /// The calls in the fullest window.
    fn fullest(&self) -> usize {
        let within = |from: &i64| self.starts.iter().filter(|start| (*from..from + WINDOW_MS).contains(start)).count();
        self.starts.iter().map(within).max().unwrap_or(0)
    }
}

impl Limiter {
    /// Rate and burst; where clocks are off, one call more for each interval that two of them differ by, or a part of it.
    fn most(&self) -> usize {
        let apart = 2 * self.skew_ms * 1_000;
        let more = (apart + LIMIT.interval() - 1) / LIMIT.interval();
        usize::try_from(i64::from(LIMIT.per_second + LIMIT.burst) + more).expect("few")
    }
}
