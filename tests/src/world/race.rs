//! I let a cancel or a reschedule race with the delivery of one reminder: every call of every actor is a step of its own, and
//! a seed decides who is next. All rules of the world hold all the way.

use punctual_core::state::State;

use super::generate::interesting;
use super::op::{Behaviour, Fate, Op};
use super::rng::{Rng, mix};
use super::step::World;
use super::{Report, checks::Violation};

/// What races with the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// It is taken back.
    Cancel,
    /// It is moved, backwards and forwards.
    Reschedule,
}

/// No more rounds than this before the world comes to rest.
const ROUNDS: u32 = 150;

/// Runs one interleaving.
#[must_use]
pub fn race(seed: u64, wanted: Wanted, traced: bool) -> Report {
    let mut rng = Rng::new(mix(&[seed, 40]));
    let mut race = Race { world: World::new(seed, traced), ops: Vec::new(), next: 0, cancelled: None };
    for destination in 0..super::setup::DESTINATIONS {
        let behaviours = [Behaviour::Healthy, Behaviour::Slow(1_500), Behaviour::Swallow, Behaviour::Cut, Behaviour::Status(503)];
        let behaviour = rng.pick(&behaviours).unwrap_or(Behaviour::Healthy);
        race.apply(Op::Receiver { destination, behaviour });
    }
    let actor = race.fresh();
    race.apply(Op::Schedule { actor, reminder: 0, content: 0 });
    race.apply(Op::Run { actor });
    for _ in 0..ROUNDS {
        let op = race.choose(&mut rng, wanted);
        race.apply(op);
    }
    let Race { mut world, ops, cancelled, .. } = race;
    world.settle();
    if let Some(calls) = cancelled {
        let mut inner = world.inner();
        let late = inner.checks.calls.len().saturating_sub(calls);
        if late > 0 && inner.violation.is_none() {
            let detail = format!("{late} calls started after the cancel");
            inner.violation = Some(Violation { rule: "called_after_cancel", detail });
        }
    }
    world.report(ops)
}

struct Race {
    world: World,
    ops: Vec<Op>,
    next: u32,
    /// How many calls had begun when the row was first seen cancelled: no later than anybody heard of it.
    cancelled: Option<usize>,
}

impl Race {
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn apply(&mut self, op: Op) {
        if self.world.violation().is_some() {
            return;
        }
        self.world.apply(&op);
        self.ops.push(op);
        let (row, calls) = {
            let inner = self.world.inner();
            (inner.row(&World::id_of(0)), inner.checks.calls.len())
        };
        if row.is_some_and(|row| row.state == State::Cancelled) {
            self.cancelled.get_or_insert(calls);
        }
    }

    fn choose(&mut self, rng: &mut Rng, wanted: Wanted) -> Op {
        let actors: Vec<u32> = self.world.actors.keys().copied().collect();
        let visible = {
            let inner = self.world.inner();
            inner.queue.visible(inner.now) > 0
        };
        match rng.below(100) {
            0..=54 if !actors.is_empty() => {
                let fate = match rng.below(40) {
                    0 => Fate::AnswerLost,
                    1 => Fate::Refused,
                    2 => Fate::CrashAfter,
                    3..=4 => Fate::Held,
                    _ => Fate::Ok,
                };
                Op::Step { actor: rng.pick(&actors).unwrap_or(0), call: 0, fate }
            }
            55..=64 if visible => Op::Poll { actor: self.fresh(), most: 1, skip: 0 },
            65..=72 if actors.len() < 4 => Op::Tick { actor: self.fresh() },
            73..=76 if actors.len() < 6 => {
                let actor = self.fresh();
                match wanted {
                    Wanted::Cancel => Op::Cancel { actor, reminder: 0 },
                    Wanted::Reschedule => {
                        let variant = u8::try_from(rng.below(6)).unwrap_or(0);
                        Op::Reschedule { actor, reminder: 0, variant }
                    }
                }
            }
            77..=80 if !actors.is_empty() => Op::Advance { ms: rng.between(1, 40_000) },
            _ => {
                let inner = self.world.inner();
                let ms = interesting(&inner, rng).unwrap_or(500);
                Op::Advance { ms: if actors.is_empty() { ms } else { ms.min(3_000) } }
            }
        }
    }
}
