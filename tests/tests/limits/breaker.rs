//! I am deliver batches and a dispatch run that share one reach row, a receiver that comes and goes, and time without end.
//!
//! A batch is one message: it reads the row, calls, probes or gives the message back, and notes what it heard. Its writes
//! are conditional on the version that it read; they arrive at any later time, also after its death.

use punctual_core::breaker::{Gate, Heard, LEAST_IN_FLIGHT};
use stateright::{Model, Property};

use crate::bounds::{BATCHES, PROBES};
use crate::row::{Row, rules};

/// A probe's lease from its decision on, in ticks: the invocation's end and the clock bound.
const LEASE: i8 = 2;
/// What may be released at a time, whatever the room is: one for each batch.
const MOST_OUT: u8 = 2;

/// A row that was read, and whether it is still the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seen {
    row: Row,
    current: bool,
}

/// A write on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Write {
    from: Seen,
    to: Row,
}

/// A probe under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Probing {
    /// In so many ticks its invocation is over.
    left: i8,
    /// The breaker was closed meanwhile, by a call that had begun before it opened: it is a call like any other now.
    outlived: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Batch {
    Idle,
    /// It has a message, and has read the row.
    Read(Seen),
    /// Its claim of a probe is on its way.
    Asking(Write, i8),
    /// Its call is under way; a probe ends before its lease does.
    Calling {
        probe: Option<Probing>,
    },
    /// It has heard something, and has not read the row since.
    Heard(Heard, bool),
    /// Its note is on its way.
    Noting(Heard, bool, Write),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct World {
    row: Row,
    up: bool,
    /// Messages in the queue.
    queued: u8,
    batches: [Batch; BATCHES],
    /// A write whose sender is dead, and what it notes.
    orphan: Option<(Write, Heard)>,
    /// Calls without an answer since the last answer that was noted, as far as they were noted; at most the limit.
    silent: u8,
    /// Calls begun without a lease since the breaker opened.
    strays: u8,
    /// A note was written twice, as its first answer was lost.
    doubled: bool,
    faults: u8,
}

/// Two probes live at once.
const TWO_PROBES: u8 = 1;
/// Somebody without a lease calls, and has read the row after it opened.
const UNLEASED: u8 = 2;
/// Dispatch released more than the room that it saw.
const OVER_ROOM: u8 = 4;
/// A message vanished.
const ANSWER_LOST: u8 = 8;
/// A write was applied over another.
const OVERWRITTEN: u8 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Tick,
    /// The receiver comes or goes.
    Turn,
    /// Dispatch reads the row and releases one.
    Release,
    /// A batch takes a message and reads the row.
    Take(usize),
    /// A batch goes on by itself.
    GoOn(usize),
    /// A batch makes no call after all.
    Skip(usize),
    /// A batch's write arrives, and it hears of it.
    Arrive(usize),
    /// A batch's write arrives, its answer is lost, and it sends the same again.
    ArriveUnheard(usize),
    /// A batch is killed.
    Crash(usize),
    OrphanArrives,
}

pub struct Breaker;

impl World {
    fn fault(&mut self, fault: u8, happened: bool) {
        self.faults |= if happened { fault } else { 0 };
    }

    fn read(&self) -> Seen {
        Seen { row: self.row, current: true }
    }

    /// Applies a write if nobody wrote since its row was read.
    fn apply(&mut self, write: Write) -> bool {
        if !write.from.current {
            return false;
        }
        let before = self.row;
        self.fault(OVERWRITTEN, write.from.row != before);
        self.row = write.to;
        if before.open.is_none() && self.row.open.is_some() || self.row.open.is_none() {
            self.strays = 0;
        }
        self.outdate();
        if self.row.open.is_none() {
            for batch in &mut self.batches {
                if let Batch::Calling { probe: Some(probe) } = batch {
                    probe.outlived = true;
                }
            }
        }
        true
    }

    /// What was read is no longer what is stored. Of a row that was read all that counts is then its gate and its room, and of
    /// a write that it is refused; the rest is forgotten, so that there are fewer states.
    fn outdate(&mut self) {
        let forget = |seen: &mut Seen| {
            seen.current = false;
            if seen.row.open.is_none() {
                seen.row = Row::unproven();
            }
        };
        let refused = Write { from: Seen { row: Row::unproven(), current: false }, to: Row::unproven() };
        for batch in &mut self.batches {
            match batch {
                Batch::Read(seen) => forget(seen),
                Batch::Asking(write, _) | Batch::Noting(_, _, write) => *write = refused,
                _ => {}
            }
        }
        // Whether it arrives any more makes no difference.
        self.orphan = None;
    }

    fn age_seen(&mut self, change: impl Fn(&mut Seen)) {
        for batch in &mut self.batches {
            match batch {
                Batch::Read(seen) => change(seen),
                Batch::Asking(write, _) | Batch::Noting(_, _, write) => change(&mut write.from),
                _ => {}
            }
        }
        self.orphan.iter_mut().for_each(|(write, _)| change(&mut write.from));
    }

    fn tick(&mut self) {
        self.row.age();
        self.age_seen(|seen| seen.row.age());
        self.orphan.iter_mut().for_each(|(write, _)| write.to.age());
        for batch in &mut self.batches {
            match batch {
                Batch::Asking(write, left) => {
                    write.to.age();
                    *left -= 1;
                }
                Batch::Noting(_, _, write) => write.to.age(),
                Batch::Calling { probe: Some(probe) } => probe.left -= 1,
                _ => {}
            }
        }
    }

    /// Time stands while an invocation is at its end: it ends first.
    fn may_tick(&self) -> bool {
        self.batches
            .iter()
            .all(|batch| !matches!(batch, Batch::Calling { probe: Some(Probing { left: 1, .. }) } | Batch::Asking(_, 1)))
    }

    /// Messages in the queue, and those that batches have.
    fn out(&self) -> u8 {
        let taken = self.batches.iter().filter(|batch| !matches!(batch, Batch::Idle)).count();
        self.queued + u8::try_from(taken).expect("few")
    }

    fn probes(&self) -> usize {
        self.batches.iter().filter(|batch| is_probe(batch)).count()
    }
}

fn is_probe(batch: &Batch) -> bool {
    matches!(batch, Batch::Calling { probe: Some(Probing { outlived: false, .. }) })
}

/// The second batch knows the time less well.
fn wide(who: usize) -> bool {
    who == 1
}

fn name(who: usize) -> u8 {
    u8::try_from(who).expect("few")
}

fn go_on(world: &mut World, who: usize) -> Option<()> {
    world.batches[who] = match world.batches[who] {
        Batch::Read(seen) => match seen.row.gate(wide(who)) {
            Gate::Closed => {
                // It read before the breaker opened, or while it was closed: it may call once. A later reader may not.
                world.strays += u8::from(world.row.open.is_some());
                world.fault(UNLEASED, seen.row.open.is_some() || (seen.current && world.row.open.is_some()));
                Batch::Calling { probe: None }
            }
            // The row goes back to the ledger.
            Gate::OpenUntil(_) => Batch::Idle,
            Gate::MayProbe => {
                let to = seen.row.probing(name(who), LEASE, wide(who))?;
                Batch::Asking(Write { from: seen, to }, LEASE)
            }
        },
        Batch::Calling { probe } => {
            // Further probes in vain are like these, but later.
            if !world.up && probe.is_some() && world.row.open.is_some_and(|open| open.probes >= PROBES) {
                return None;
            }
            let heard = if world.up { Heard::Answer } else { Heard::Silence };
            Batch::Heard(heard, probe.is_some())
        }
        Batch::Heard(heard, probe) => {
            let from = world.read();
            match from.row.heard(heard, probe.then(|| name(who)), wide(who)) {
                Some(to) => Batch::Noting(heard, probe, Write { from, to }),
                // Nothing to write: it is noted already.
                None => Batch::Idle,
            }
        }
        _ => return None,
    };
    Some(())
}

/// A note is in the row.
fn noted(world: &mut World, heard: Heard) {
    match heard {
        Heard::Answer => world.silent = 0,
        Heard::Silence => world.silent = (world.silent + 1).min(u8::try_from(rules().breaker.opens_after).expect("few")),
        Heard::Nothing => {}
    }
}

fn arrive(world: &mut World, who: usize, heard_of: bool) -> Option<()> {
    match world.batches[who] {
        Batch::Asking(write, left) => {
            if !heard_of {
                return None;
            }
            world.batches[who] =
                if world.apply(write) { Batch::Calling { probe: Some(Probing { left, outlived: false }) } } else { Batch::Idle };
            let two = world.probes() > 1;
            world.fault(TWO_PROBES, two);
        }
        Batch::Noting(heard, probe, write) => {
            if !heard_of && (world.doubled || !write.from.current) {
                return None;
            }
            if !world.apply(write) {
                // It lost its race: it reads again, and adds to what it finds.
                world.batches[who] = Batch::Heard(heard, probe);
            } else if heard_of {
                noted(world, heard);
                world.batches[who] = Batch::Idle;
            } else {
                // The same write again is answered as done while it is the last one; else it is a lost race.
                noted(world, heard);
                world.doubled = true;
            }
        }
        _ => return None,
    }
    Some(())
}

fn crash(world: &mut World, who: usize) -> Option<()> {
    match world.batches[who] {
        Batch::Idle => return None,
        Batch::Asking(..) | Batch::Noting(..) => {
            // One dead sender's write at a time.
            if world.orphan.is_some() {
                return None;
            }
            world.orphan = match world.batches[who] {
                Batch::Asking(write, _) => Some((write, Heard::Nothing)),
                Batch::Noting(heard, _, write) => Some((write, heard)),
                _ => None,
            };
        }
        _ => {}
    }
    // Its message comes back.
    world.batches[who] = Batch::Idle;
    world.queued += 1;
    Some(())
}

fn release(world: &mut World) -> Option<()> {
    let seen = world.read();
    let room = u8::try_from(seen.row.room().min(u32::from(MOST_OUT))).expect("few");
    let before = world.out();
    if before >= room {
        return None;
    }
    // An open destination gets a probe only when it is time for one.
    if matches!(seen.row.gate(false), Gate::OpenUntil(_)) {
        return None;
    }
    world.queued += 1;
    let over = world.out() > room || (seen.row.open.is_some() && world.out() > 1);
    world.fault(OVER_ROOM, over || (seen.row.open.is_none() && seen.row.room() < LEAST_IN_FLIGHT));
    Some(())
}

impl Model for Breaker {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let world = |up| World {
            row: Row::unproven(),
            up,
            queued: 0,
            batches: [Batch::Idle; BATCHES],
            orphan: None,
            silent: 0,
            strays: 0,
            doubled: false,
            faults: 0,
        };
        vec![world(true), world(false)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        steps.extend([Step::Turn, Step::Release, Step::OrphanArrives]);
        if world.may_tick() {
            steps.push(Step::Tick);
        }
        for who in 0..BATCHES {
            let each = [Step::Take, Step::GoOn, Step::Skip, Step::Arrive, Step::ArriveUnheard, Step::Crash];
            steps.extend(each.map(|step| step(who)));
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = *world;
        let out = world.out();
        match step {
            Step::Tick => next.tick(),
            Step::Turn => next.up = !world.up,
            Step::Release => release(&mut next)?,
            Step::Take(who) => {
                if world.queued == 0 || world.batches[who] != Batch::Idle {
                    return None;
                }
                next.queued -= 1;
                next.batches[who] = Batch::Read(world.read());
            }
            Step::GoOn(who) => go_on(&mut next, who)?,
            Step::Skip(who) => {
                let Batch::Calling { probe } = world.batches[who] else { return None };
                next.batches[who] = Batch::Heard(Heard::Nothing, probe.is_some());
            }
            Step::Arrive(who) => arrive(&mut next, who, true)?,
            Step::ArriveUnheard(who) => arrive(&mut next, who, false)?,
            Step::Crash(who) => {
                crash(&mut next, who)?;
                next.fault(ANSWER_LOST, next.out() != out);
            }
            Step::OrphanArrives => {
                let (write, heard) = next.orphan.take()?;
                if next.apply(write) {
                    noted(&mut next, heard);
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one probe of an opening is live", |_: &Self, w: &World| {
                w.probes() <= 1 && w.faults & TWO_PROBES == 0
            }),
            Property::always("a live probe holds the row's lease", |_: &Self, w: &World| {
                let lease = w.row.open.and_then(|open| open.probe);
                let holds = |(who, batch): (usize, &Batch)| {
                    !is_probe(batch) || lease.is_some_and(|(holder, until)| holder == name(who) && until > 0)
                };
                w.batches.iter().enumerate().all(holds)
            }),
            Property::always("nobody calls without a lease who read that it is open", |_: &Self, w: &World| {
                w.faults & UNLEASED == 0
            }),
            Property::always(
                "after it opened, each batch calls at most once more by what it read before",
                |_: &Self, w: &World| usize::from(w.strays) <= BATCHES,
            ),
            Property::always(
                "it is open iff so many calls in a row were silent, a note that is written twice aside",
                |_: &Self, w: &World| w.row.silent <= w.silent + u8::from(w.doubled),
            ),
            Property::always("no write goes over another", |_: &Self, w: &World| w.faults & OVERWRITTEN == 0),
            Property::always("dispatch releases what the room takes, and one probe while it is open", |_: &Self, w: &World| {
                w.faults & OVER_ROOM == 0
            }),
            Property::always("no message vanishes with a crash", |_: &Self, w: &World| w.faults & ANSWER_LOST == 0),
            Property::always("no lease outlives its time", |_: &Self, w: &World| {
                w.row.open.and_then(|open| open.probe).is_none_or(|(_, until)| until <= LEASE + 1)
            }),
            Property::always(
                "once the receiver answers and nothing fails, it closes, and nothing blocks",
                |_: &Self, w: &World| recovers(*w),
            ),
            Property::sometimes("open", |_: &Self, w: &World| w.row.open.is_some()),
            Property::sometimes("probed in vain, as often as it counts", |_: &Self, w: &World| {
                w.row.open.is_some_and(|open| open.probes == PROBES)
            }),
            Property::sometimes("closed again", |_: &Self, w: &World| w.row.open.is_none() && w.row.in_flight == 20),
            Property::sometimes("a dead holder's lease", |_: &Self, w: &World| {
                w.probes() == 0 && w.row.open.is_some_and(|open| open.probe.is_some_and(|(_, until)| until > 0))
            }),
            Property::sometimes("a batch calls by what it read before it opened", |_: &Self, w: &World| w.strays > 0),
            Property::sometimes("a lost race", |_: &Self, w: &World| {
                w.batches.iter().any(|batch| matches!(batch, Batch::Noting(_, _, write) if !write.from.current))
            }),
            Property::sometimes("a note that is written twice", |_: &Self, w: &World| w.doubled),
        ]
    }
}

/// The receiver answers, nobody crashes, and every actor goes on in turn: the breaker closes, and every batch comes to its
/// end.
fn recovers(mut world: World) -> bool {
    const ROUNDS: usize = 40;
    world.up = true;
    let mut ended = [false; BATCHES];
    for _ in 0..ROUNDS {
        let mut step = |world: &mut World, step| {
            *world = Breaker.next_state(world, step).unwrap_or(*world);
            (0..BATCHES).for_each(|who| ended[who] |= world.batches[who] == Batch::Idle);
        };
        for one in [Step::OrphanArrives, Step::Release, Step::Release] {
            step(&mut world, one);
        }
        for who in 0..BATCHES {
            for one in [Step::Arrive(who), Step::GoOn(who), Step::Arrive(who), Step::Take(who), Step::GoOn(who)] {
                step(&mut world, one);
            }
        }
        if world.row.open.is_none() && world.orphan.is_none() && ended == [true; BATCHES] {
            return true;
        }
        if world.may_tick() {
            world.tick();
        }
    }
    false
}
