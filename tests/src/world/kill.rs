//! I am one redrive run whose slices are killed at chosen calls, and what it came to in the end.
//!
//! Eight rejected deliveries, six of them selected, a healed receiver: two go as the canary, then the others, then the dead
//! letters are swept. Nothing else goes wrong, so that every kill must come to the same.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::destination::{Change, Destination};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use serde_json::{Value, json};

use super::checks::Violation;
use super::op::{Behaviour, Fate, Op};
use super::ports::url_of;
use super::redrive::told;
use super::settle::FIRST;
use super::setup::{DESTINATIONS, Instants, REMINDERS, START};
use super::step::World;

/// The first so many reminders are selected.
const SELECTED: u8 = 6;
/// No deadline is ever near.
const DAY_MS: i64 = 86_400_000;

/// Where slices are killed: the number of a call, counted through all slices from 1, and how.
#[derive(Debug, Clone, Default)]
pub struct Kills {
    /// At these calls.
    pub at: BTreeMap<u64, Fate>,
    /// What the dead had under way arrives after all, while later slices work.
    pub late: bool,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The run's last phase, and how many rows it says it has moved.
    pub run: (String, u32),
    /// Of each reminder: its state, its attempts, how often it was moved, called, and processed.
    pub rows: Vec<(State, usize, usize, usize, usize)>,
    /// The dead letters that are left: delivery and death.
    pub letters: BTreeSet<(String, u32)>,
}

/// A run and what is known of it besides its outcome.
#[derive(Debug, Clone)]
pub struct Killed {
    /// What it came to; none if there is no run.
    pub outcome: Option<Outcome>,
    /// The calls of its slices.
    pub calls: u64,
    /// What happened how often.
    pub coverage: BTreeMap<String, u64>,
    /// The rule that was broken, if any.
    pub violation: Option<Violation>,
}

/// What a world that kills slices remembers.
#[derive(Debug, Default)]
pub(super) struct Killer {
    kills: Kills,
    calls: u64,
}

impl World {
    /// What becomes of the next call of an actor that goes on undisturbed.
    pub(super) fn undisturbed(&mut self, actor: u32) -> Fate {
        let (slice, ready) = {
            let inner = self.inner();
            (inner.is_slice(actor), !inner.ready(actor).is_empty())
        };
        let Some(killer) = self.killer.as_mut().filter(|_| slice && ready) else { return Fate::Ok };
        killer.calls += 1;
        let (fate, late) = (killer.kills.at.get(&killer.calls).copied().unwrap_or(Fate::Ok), killer.kills.late);
        if late && !self.inner().network.is_empty() {
            self.inner().arrive_late(0);
        }
        fate
    }

    fn outcome(&self) -> Option<Outcome> {
        let inner = self.inner();
        let run = inner.runs().into_iter().next()?;
        let row = |reminder| {
            let row = inner.row(&Self::id_of(reminder))?;
            let calls = inner.checks.calls.iter().filter(|call| call.id == row.id).count();
            let effects = inner.receivers.iter().filter_map(|r| r.effects.get(&row.id)).map(BTreeSet::len).sum();
            Some((row.state, row.attempts.len(), row.redrives.len(), calls, effects))
        };
        Some(Outcome {
            run: (run.phase.to_string(), run.counters.moved),
            rows: (0..REMINDERS).filter_map(row).collect(),
            letters: inner.letters.there().iter().filter_map(told).collect(),
        })
    }
}

/// Plays the run with these kills.
#[must_use]
pub fn killed(seed: u64, kills: Kills) -> Killed {
    let mut world = World::with(seed, false, (0..DESTINATIONS).map(destination).collect());
    let mut next = FIRST;
    let (after, by) = (Timestamp::from_millis(START), Timestamp::from_millis(START + DAY_MS));
    for destination in 0..DESTINATIONS {
        world.apply(&Op::Receiver { destination, behaviour: Behaviour::Status(400) });
    }
    for reminder in 0..REMINDERS {
        world.reminders.insert(reminder, Instants { deliver_after: after, deliver_by: by });
        next += 1;
        world.start_and_run(&Op::Schedule { actor: next, reminder, content: 0 });
    }
    world.come_to_rest(&mut next);
    for destination in 0..DESTINATIONS {
        world.apply(&Op::Receiver { destination, behaviour: Behaviour::Healthy });
    }
    next += 1;
    world.ask_redrive(next, "redrive", order());
    world.run_on(next);
    world.killer = Some(Killer { kills, calls: 0 });
    world.come_to_rest(&mut next);
    let coverage = world.inner().coverage.clone();
    Killed {
        outcome: world.outcome(),
        calls: world.killer.as_ref().map_or(0, |killer| killer.calls),
        coverage,
        violation: world.violation(),
    }
}

fn destination(number: u8) -> Option<Destination> {
    let spec = json!({
        "id": format!("r{number}"),
        "url": url_of(usize::from(number)),
        "secrets": [format!("punctual/sim/r{number}")],
        "rate_per_second": 50,
        "burst": 10_000,
        "pause_after": {"rejected": 64, "of_last": 64},
    });
    let changed = Change { at: Timestamp::from_millis(START), by: "sim".into(), why: "the start".into() };
    Some(Destination { spec: serde_json::from_value(spec).ok()?, version: 1, paused: None, changed })
}

fn order() -> Value {
    let ids: Vec<String> = (0..SELECTED).map(|reminder| World::id_of(reminder).to_string()).collect();
    json!({
        "action": "start",
        "owner": "sim",
        "why": "drill",
        "evidence": "the receiver is healed",
        "selection": {"delivery_ids": ids, "reasons": ["rejected"]},
        "max_count": 100,
        "rate_per_second": 2,
        "canary_size": 2,
        "abort_threshold_percent": 50,
    })
}
