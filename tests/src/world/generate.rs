//! I make up operations for a seed, looking at the world as it is: what I write down needs no chance to be replayed.

use futures::FutureExt as _;
use punctual_core::acquire::can_start;
use punctual_core::clock::Now;
use punctual_core::delivery::Delivery;
use punctual_core::id::DestinationId;
use punctual_core::ports::Control as _;
use punctual_core::redrive::Selection;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::effect::Effect;
use super::inner::Inner;
use super::op::{Behaviour, Fate, Op};
use super::rng::{Rng, mix};
use super::setup::{self, DESTINATIONS, REMINDERS};
use super::step::World;

/// No more actors than this at a time.
const MOST_ACTORS: usize = 5;
/// So many operations more has a seed that redrives.
const REDRIVING: u32 = 250;

/// How hard a seed is.
struct Mood {
    /// Times in a thousand that a call fails in some way.
    faults: u64,
    /// Times in a thousand that an actor crashes at a call.
    crashes: u64,
    /// Whether clocks, switches and freezes change.
    meddles: bool,
    reminders: u8,
    /// A destination that begins in shadow mode, if any.
    shadow: Option<u8>,
}

/// Applies operations to the world, and gives the list of them.
#[must_use]
pub fn generate(world: &mut World, seed: u64) -> Vec<Op> {
    let mut rng = Rng::new(mix(&[seed, 1]));
    let mood = Mood {
        faults: rng.pick(&[0, 10, 60, 200]).unwrap_or(0),
        crashes: rng.pick(&[0, 5, 30, 80, 200]).unwrap_or(0),
        meddles: rng.chance(600),
        reminders: u8::try_from(rng.between(1, u32::from(REMINDERS))).unwrap_or(1),
        shadow: rng.chance(250).then(|| small(&mut rng, DESTINATIONS)),
    };
    let length = rng.between(60, 400);
    let mut ops = Vec::new();
    let mut next_actor = 0;
    if Rng::new(mix(&[seed, 30])).chance(400) {
        let op = Op::Limits { on: true };
        world.apply(&op);
        ops.push(op);
    }
    // By its own dice, so that the other half of the seeds is as it always was.
    if Rng::new(mix(&[seed, 31])).chance(500) {
        let op = Op::Reach { on: true };
        world.apply(&op);
        ops.push(op);
    }
    if let Some(destination) = mood.shadow {
        let op = Op::Shadow { destination };
        world.apply(&op);
        ops.push(op);
    }
    // By its own dice too; first something must be dead.
    let mut dice = Rng::new(mix(&[seed, 32]));
    let redrives = dice.chance(350);
    for n in 0..length + if redrives { REDRIVING } else { 0 } {
        let op = if redrives && n > length / 2 { redrive(world, &mut dice, &mood, &mut next_actor) } else { None };
        let op = op.unwrap_or_else(|| choose(world, &mut rng, &mood, &mut next_actor));
        world.apply(&op);
        ops.push(op);
        if world.violation().is_some() {
            break;
        }
    }
    ops
}

fn choose(world: &World, rng: &mut Rng, mood: &Mood, next_actor: &mut u32) -> Op {
    let actors: Vec<u32> = world.actors.keys().copied().collect();
    let mut fresh = || {
        *next_actor += 1;
        *next_actor
    };
    let (visible, unsure, quiet) = {
        let inner = world.inner();
        (inner.queue.visible(inner.now) > 0, inner.skew != 0 || inner.width > 2_000, inner.ledger.rows().is_empty())
    };
    if !actors.is_empty() && (rng.chance(620) || actors.len() >= MOST_ACTORS) {
        // A zombie sleeps past its end, and longer than its lease, before it goes on.
        let awake: Vec<u32> = actors
            .iter()
            .copied()
            .filter(|n| {
                let eager = world.inner().eagerness(*n);
                rng.chance(eager)
            })
            .collect();
        let actor = rng.pick(&awake).or_else(|| rng.pick(&actors)).unwrap_or(0);
        let calling = world.inner().is_calling(actor);
        if calling && mood.crashes > 0 && rng.chance(150) {
            return Op::Outlive { actor };
        }
        return match rng.below(100) {
            0..=59 => Op::Step { actor, call: small(rng, 4), fate: fate(rng, mood) },
            60..=87 => Op::Run { actor },
            88..=89 if mood.crashes > 0 => Op::Outlive { actor },
            _ => Op::Advance { ms: while_they_live(world, rng) },
        };
    }
    let poll = |rng: &mut Rng, actor: u32| Op::Poll { actor, most: 1 + small(rng, 10), skip: small(rng, 3) };
    if visible && rng.chance(400) {
        return poll(rng, fresh());
    }
    if unsure && rng.chance(150) {
        return if rng.chance(500) { Op::Skew { ms: 0 } } else { Op::Width { ms: 300 } };
    }
    let (reminder, destination, which) = (small(rng, mood.reminders), small(rng, DESTINATIONS), small(rng, 255));
    let is_new = !world.reminders.contains_key(&reminder);
    match rng.below(100) {
        0..=19 if is_new || quiet => Op::Schedule { actor: fresh(), reminder, content: 0 },
        0..=2 => Op::Schedule { actor: fresh(), reminder, content: u8::from(rng.chance(300)) },
        3..=32 => Op::Tick { actor: fresh() },
        33..=44 => poll(rng, fresh()),
        45..=69 if !actors.is_empty() && rng.chance(850) => Op::Advance { ms: while_they_live(world, rng) },
        45..=69 => Op::Advance { ms: advance(world, rng) },
        70..=76 => Op::Receiver { destination, behaviour: behaviour(rng) },
        77..=79 if mood.crashes > 0 => Op::Lose { message: which },
        80..=82 => Op::Duplicate { message: which },
        83 => Op::Delay { message: which, seconds: u16::from(small(rng, 255)) * 4 },
        84..=86 => Op::Arrive { request: which },
        87 => actors.first().map_or(Op::CatchUp, |actor| Op::Crash { actor: *actor }),
        88..=89 => Op::Lag { reminder },
        90 if rng.chance(500) => Op::CatchUp,
        90 => Op::Garble { reminder, variant: small(rng, 255) },
        91 if mood.shadow.is_some() && rng.chance(800) => {
            // Only a destination that has been paused for a while is promoted.
            let destination = mood.shadow.unwrap_or(destination);
            match world.inner().paused_for(destination) {
                None => Op::Pause { actor: fresh(), destination },
                Some(ms) if ms > 62_000 => Op::Promote { actor: fresh(), destination },
                Some(_) => Op::Advance { ms: 65_000 },
            }
        }
        _ if !mood.meddles => Op::Advance { ms: advance(world, rng) },
        91 => Op::Hold { actor: fresh(), reminder },
        92..=93 => Op::Release { actor: fresh(), reminder },
        94 => Op::Pause { actor: fresh(), destination },
        95..=96 => Op::Resume { actor: fresh(), destination },
        97 => Op::Policy { actor: fresh(), destination, variant: small(rng, 4) },
        98 => match rng.below(6) {
            0 => Op::Erase { reminder },
            1..=2 => Op::Cancel { actor: fresh(), reminder },
            _ => Op::Reschedule { actor: fresh(), reminder, variant: small(rng, 3) },
        },
        _ if rng.chance(500) => match rng.below(2) {
            0 => Op::KillSwitch { on: rng.chance(300) },
            _ => Op::Skew { ms: rng.pick(&[1_500, -1_500, 2_600, -5_000, 60_000]).unwrap_or(0) },
        },
        _ => Op::Width { ms: rng.pick(&[0, 50, 300, 1_000, 1_000, 1_990, 1_990, 2_600]).unwrap_or(300) },
    }
}

/// Something about redriving, at times.
fn redrive(world: &World, rng: &mut Rng, mood: &Mood, next_actor: &mut u32) -> Option<Op> {
    if !rng.chance(450) {
        return None;
    }
    let (due, next, dead, runs, now) = {
        let inner = world.inner();
        let dead = inner.ledger.rows().iter().any(|row| row.state.needs_operator());
        (inner.starts.is_due(inner.now), inner.starts.instants().min(), dead, inner.runs().len(), inner.now)
    };
    *next_actor += 1;
    let (actor, run, destination) = (*next_actor, small(rng, 4), small(rng, DESTINATIONS));
    if due && world.actors.len() < MOST_ACTORS && rng.chance(800) {
        return Some(Op::Slice { actor, which: small(rng, 3), again: rng.chance(120) });
    }
    let slices: Vec<u32> = world.actors.keys().copied().filter(|n| world.inner().is_slice(*n)).collect();
    if let Some(slice) = rng.pick(&slices).filter(|_| rng.chance(600)) {
        let delicate = world.inner().delicate(slice).filter(|_| mood.crashes > 0 && rng.chance(350));
        if let Some(call) = delicate {
            let fates = [Fate::CrashBefore, Fate::CrashAfter, Fate::AnswerLost, Fate::Refused, Fate::Partial];
            return Some(Op::Step { actor: slice, call, fate: rng.pick(&fates).unwrap_or(Fate::CrashAfter) });
        }
        return Some(match rng.below(10) {
            0..=4 => Op::Walk { actor: slice, calls: 1 + small(rng, 40) },
            5 if mood.crashes > 0 => Op::Step { actor: slice, call: small(rng, 4), fate: Fate::CrashBefore },
            6 if mood.crashes > 0 => Op::Step { actor: slice, call: small(rng, 4), fate: Fate::CrashAfter },
            _ => Op::Run { actor: slice },
        });
    }
    let until_next = next.and_then(|at| u32::try_from(at - now).ok()).filter(|ms| *ms < 400_000);
    Some(match rng.below(100) {
        0..=29 if dead && runs < 3 => Op::Redrive { actor, variant: promising(world, rng) },
        30..=59 => Op::Advance { ms: until_next? },
        60..=74 => Op::Receiver { destination, behaviour: Behaviour::Healthy },
        75..=77 => Op::LoseSlice { which: small(rng, 4) },
        78 => Op::Abort { actor, run },
        79..=90 => Op::GoOn { actor, run },
        91..=92 => Op::Freeze { actor, on: true },
        93..=95 => Op::Freeze { actor, on: false },
        96..=98 => Op::Broker { reminder: small(rng, REMINDERS) },
        _ => return None,
    })
}

/// An order that is likely to move something.
fn promising(world: &World, rng: &mut Rng) -> u8 {
    let inner = world.inner();
    let now = Now::exactly(Timestamp::from_millis(inner.now));
    let takes = |variant: u8| {
        let order = setup::order(world.seed, variant, inner.now);
        let selection: Selection = order.get("selection").and_then(|one| Selection::deserialize(one).ok()).unwrap_or_default();
        let can = |row: &Delivery| {
            order.get("deliver_by").is_some_and(Value::is_string) || can_start(row.deliver_by, inner.margin, now)
        };
        inner.ledger.rows().iter().any(|row| selection.matches(row, now, inner.margin) && can(row))
    };
    let variants: Vec<u8> = (0..6).map(|_| small(rng, 255)).collect();
    variants.iter().copied().find(|variant| takes(*variant)).unwrap_or_default()
}

/// A number below `n`.
fn small(rng: &mut Rng, n: u8) -> u8 {
    u8::try_from(rng.below(u64::from(n))).unwrap_or(0)
}

fn fate(rng: &mut Rng, mood: &Mood) -> Fate {
    if rng.chance(mood.crashes) {
        return if rng.chance(500) { Fate::CrashBefore } else { Fate::CrashAfter };
    }
    if rng.chance(mood.faults) {
        return rng.pick(&[Fate::AnswerLost, Fate::AnswerLost, Fate::Refused, Fate::Refused, Fate::Partial]).unwrap_or(Fate::Ok);
    }
    if rng.chance(60) { Fate::Held } else { Fate::Ok }
}

fn behaviour(rng: &mut Rng) -> Behaviour {
    match rng.below(20) {
        0..=5 => Behaviour::Healthy,
        6 => Behaviour::Slow(rng.between(1, 1_900)),
        7 => Behaviour::Slow(rng.between(1_900, 11_000)),
        8..=9 => Behaviour::Status(rng.pick(&[500, 503, 503]).unwrap_or(503)),
        10 => Behaviour::Status(rng.pick(&[400, 404, 409, 410, 422]).unwrap_or(400)),
        11..=12 => Behaviour::TooMany(rng.pick(&[1, 30, 900, 2_000]).unwrap_or(30)),
        13..=14 => Behaviour::Swallow,
        15..=16 => Behaviour::Cut,
        17 => Behaviour::Silent,
        _ => Behaviour::Down,
    }
}

/// Time passes, but not so much that somebody's invocation ends.
fn while_they_live(world: &World, rng: &mut Rng) -> u32 {
    let left = {
        let inner = world.inner();
        world
            .actors
            .keys()
            .filter_map(|n| inner.facts.get(n))
            .filter(|f| !f.outlives)
            .map(|f| f.ends - inner.now)
            .min()
            .unwrap_or(1_000)
    };
    let ms = if rng.chance(300) { rng.between(1, 2_000) } else { interesting(&world.inner(), rng).unwrap_or(100) };
    if i64::from(ms) < left || rng.chance(60) { ms } else { u32::try_from(left / 2).unwrap_or(1).max(1) }
}

fn advance(world: &World, rng: &mut Rng) -> u32 {
    match rng.below(10) {
        0 => rng.between(1, 50),
        1 => rng.between(50, 2_000),
        2 => rng.between(2_000, 30_000),
        3 => rng.between(30_000, 200_000),
        4 if rng.chance(200) => rng.between(200_000, 3_000_000),
        _ => interesting(&world.inner(), rng).unwrap_or(1_000),
    }
}

/// How long until just before, at, or just after an instant at which something begins or ends.
pub(super) fn interesting(inner: &Inner, rng: &mut Rng) -> Option<u32> {
    let mut at: Vec<i64> = inner.pending.values().map(|p| inner.ready_at(p)).collect();
    at.extend(inner.queue.next_visible());
    at.extend(inner.starts.instants());
    let margin = i64::try_from(inner.margin.as_millis()).unwrap_or(0);
    for row in inner.ledger.rows().iter().filter(|row| !row.state.is_terminal()) {
        at.extend(
            [row.lease_end(), row.wake_at, row.held_until, Some(row.next_attempt_at)]
                .into_iter()
                .flatten()
                .map(|t| t.as_millis()),
        );
        at.push(row.deliver_by.as_millis() - margin);
    }
    at.retain(|at| *at > inner.now && *at < inner.now + 400_000);
    at.sort_unstable();
    at.truncate(6);
    let near = i64::from(rng.between(0, 4)) - 2;
    let at = rng.pick(&at)?;
    u32::try_from((at + near - inner.now).max(1)).ok()
}

impl Inner {
    /// How long a destination has been paused, in milliseconds.
    fn paused_for(&self, destination: u8) -> Option<i64> {
        let id = DestinationId::new(format!("r{destination}")).ok()?;
        let (found, _) = self.control.lookup(&[id]).now_or_never()?.ok()?;
        Some(self.now - found.first()?.paused.as_ref()?.since.as_millis())
    }

    /// Whether an actor has a call under way, or its outcome still to write.
    fn is_calling(&self, actor: u32) -> bool {
        let outlives = self.facts.get(&actor).is_some_and(|f| f.outlives);
        let mut calls = self.pending.values().filter(|p| p.actor == actor);
        !outlives
            && calls.any(|p| {
                matches!(p.effect, Effect::Post(..))
                    || matches!(&p.effect, Effect::Write(t) if t.before.state == State::Delivering)
            })
    }

    pub(super) fn is_slice(&self, actor: u32) -> bool {
        self.facts.get(&actor).is_some_and(|facts| facts.kind == "slice")
    }

    /// How many times in a thousand an actor is looked at.
    fn eagerness(&self, actor: u32) -> u64 {
        match self.facts.get(&actor) {
            Some(facts) if facts.outlives && self.now < facts.ends + 2_500 => 60,
            Some(facts) if facts.outlives => 300,
            _ => 1_000,
        }
    }
}
