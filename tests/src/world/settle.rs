//! I let the world come to rest, and check what must hold then: nothing lost, nothing stuck, nothing twice.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use punctual_core::attempt::Answer as Evidence;
use punctual_core::delivery::Delivery;
use punctual_core::outcome::CallResult;
use punctual_core::ports::Control as _;
use punctual_core::redrive::Run;
use punctual_core::state::State;

use super::checks::shown;
use super::effect::short;
use super::inner::Inner;
use super::op::{Behaviour, Op};
use super::rng::{Rng, mix};
use super::setup::{DESTINATIONS, REMINDERS};
use super::step::World;

/// Actors that I start have numbers from here on.
pub(super) const FIRST: u32 = 1_000_000;
/// The schedule ticks this often.
const TICK_MS: i64 = 60_000;
/// A world that is not quiet after so many rounds never is.
const MOST_ROUNDS: u32 = 20_000;
/// With so much time left and everything healthy a delivery must be made: half of it for the last rescue's patience, and
/// the rest for leases, visibility and the receiver's own wishes.
const ENOUGH_MS: i64 = 1_500_000;

impl World {
    /// Ends all faults and lets time run until nothing can change any more; then the world is judged.
    pub fn settle(&mut self) {
        if self.violation().is_some() {
            return;
        }
        let mut rng = Rng::new(mix(&[self.seed, 20]));
        let (heals, thaws) = (!rng.chance(200), !rng.chance(300));
        {
            let mut inner = self.inner();
            inner.say(|| {
                format!(
                    "-- rest: receivers {}, freezes {}",
                    if heals { "heal" } else { "stay" },
                    if thaws { "end" } else { "stay" }
                )
            });
            inner.skew = 0;
            inner.width = inner.width.min(300);
            inner.catch_up();
            while !inner.network.is_empty() {
                if rng.chance(500) {
                    inner.arrive_late(0);
                } else {
                    inner.network.remove(0);
                }
            }
            if heals {
                inner.receivers.iter_mut().for_each(|receiver| receiver.behaviour = Behaviour::Healthy);
            }
        }
        self.apply(&Op::KillSwitch { on: false });
        let mut next = FIRST;
        let mut number = || {
            next += 1;
            next
        };
        let running: Vec<u32> = self.actors.keys().copied().collect();
        running.into_iter().for_each(|actor| self.run_on(actor));
        let _ = self.inner().control.put_freeze(None).now_or_never();
        if thaws {
            for destination in 0..DESTINATIONS {
                self.start_and_run(&Op::Resume { actor: number(), destination });
            }
            let held: Vec<u8> = {
                let inner = self.inner();
                (0..REMINDERS).filter(|n| inner.row(&Self::id_of(*n)).is_some_and(|row| row.hold.is_some())).collect()
            };
            for reminder in held {
                self.start_and_run(&Op::Release { actor: number(), reminder });
            }
        }
        let from = self.inner().now;
        let open: Vec<Delivery> = self.inner().ledger.rows();
        if self.come_to_rest(&mut next) && heals && thaws {
            self.inner().judge_promises(&open, from);
        }
    }

    /// Lets time run until nothing can change any more, and judges the world then. False if it breaks a rule first.
    pub(super) fn come_to_rest(&mut self, next: &mut u32) -> bool {
        let mut number = || {
            *next += 1;
            *next
        };
        let mut ticked = i64::MIN;
        for _ in 0..MOST_ROUNDS {
            if self.violation().is_some() {
                return false;
            }
            if self.is_quiet() {
                self.inner().judge();
                return true;
            }
            let running: Vec<u32> = self.actors.keys().copied().collect();
            running.into_iter().for_each(|actor| self.run_on(actor));
            let now = self.inner().now;
            if self.inner().queue.visible(now) > 0 {
                self.start_and_run(&Op::Poll { actor: number(), most: 10, skip: 0 });
                continue;
            }
            if self.inner().starts.is_due(now) {
                self.start_and_run(&Op::Slice { actor: number(), which: 0, again: false });
                continue;
            }
            if self.mend_chain(number()) {
                continue;
            }
            if now >= ticked.saturating_add(TICK_MS) {
                ticked = now;
                self.start_and_run(&Op::Tick { actor: number() });
                continue;
            }
            let to = self.next_instant(ticked + TICK_MS);
            self.apply(&Op::Advance { ms: u32::try_from(to - now).unwrap_or(1).max(1) });
        }
        let mut inner = self.inner();
        let rows: Vec<String> = inner.ledger.rows().iter().map(shown).collect();
        inner.violate("never_quiet", rows.join(" | "));
        false
    }

    /// Starts an actor and lets it go on until it must wait.
    pub(super) fn start_and_run(&mut self, op: &Op) {
        self.apply(op);
        let newest = self.actors.keys().next_back().copied();
        if let Some(actor) = newest.filter(|actor| *actor >= FIRST) {
            self.run_on(actor);
        }
    }

    fn is_quiet(&self) -> bool {
        let inner = self.inner();
        self.actors.is_empty()
            && inner.queue.left() == 0
            && !inner.runs().iter().any(Run::needs_slice)
            && inner
                .ledger
                .rows()
                .iter()
                .all(|row| row.state.is_terminal() || (row.state.needs_operator() && !row.owes_dead_letter()))
    }

    /// When something can happen next: a tick only if a row is near.
    fn next_instant(&self, tick: i64) -> i64 {
        let inner = self.inner();
        let timers = inner.pending.values().map(|p| inner.ready_at(p));
        let visible = inner.queue.next_visible();
        let horizon = i64::try_from(self.stage.rules.horizon.as_millis()).unwrap_or(0);
        let rows = inner.ledger.rows();
        let wakes = rows.iter().filter_map(|row| row.wake_at).map(|at| (at.as_millis() - horizon).max(tick));
        let slices: Vec<i64> = inner.starts.instants().collect();
        timers.chain(visible).chain(slices).chain(wakes).filter(|at| *at > inner.now).min().unwrap_or(tick.max(inner.now + 1))
    }
}

impl Inner {
    /// What must hold of a quiet world.
    fn judge(&mut self) {
        for row in self.ledger.rows() {
            let name = short(&row.id);
            let effects: BTreeSet<&String> = self.receivers.iter().filter_map(|r| r.effects.get(&row.id)).flatten().collect();
            let (keys, calls) = (effects.len(), self.checks.calls.iter().filter(|c| c.id == row.id).count());
            if !(0..REMINDERS).any(|reminder| World::id_of(reminder) == row.id) {
                self.violate("another_id", format!("{name} is no reminder's id"));
            }
            if keys > 1 {
                self.violate("two_effects", format!("{name} was processed under {keys} keys"));
            }
            if calls > row.attempts.len() {
                self.violate("call_without_evidence", format!("{name}: {calls} calls; {}", shown(&row)));
            }
            if !row.redrives.is_empty() {
                let what = format!("end of a redriven row: {}", row.state);
                self.count(&what);
            }
            if row.death > 0 && row.state.needs_operator() && !self.checks.letters.contains(&(row.id.to_string(), row.death)) {
                self.violate("no_dead_letter", format!("{name}: {}", shown(&row)));
            }
        }
        self.judge_runs();
    }

    /// Whoever had time enough in a healthy world is delivered, or has a reason other than lateness.
    fn judge_promises(&mut self, open: &[Delivery], from: i64) {
        for before in open {
            let waiting = !before.state.is_terminal() && !before.state.needs_operator();
            let start = before.next_attempt_at.as_millis().max(from);
            let enough = before.deliver_by.as_millis() - start > ENOUGH_MS;
            let Some(row) = self.row(&before.id) else { continue };
            // One attempt may have been under way, and one left open by the dead: every other one succeeds.
            let in_vain = row.state.needs_operator() && row.attempts.len() > before.attempts.len() + 2;
            if waiting && enough && (row.state == State::Expired || in_vain) {
                self.violate("lost", format!("{}: {} ended as {}", short(&row.id), shown(before), shown(&row)));
            }
        }
    }

    /// An actor that was refused nothing has recorded what it learned.
    pub(super) fn check_recorded(&mut self, actor: u32) {
        let calls: Vec<_> = self.checks.calls.iter().filter(|c| c.actor == actor).cloned().collect();
        for call in calls {
            let Some((_, answer)) = &call.answer else { continue };
            let Some(row) = self.row(&call.id) else { continue };
            let entry = usize::try_from(call.attempt).ok().and_then(|n| row.attempts.get(n.checked_sub(1)?));
            let recorded = match (answer, entry.map(|e| e.answer)) {
                (CallResult::Answered { status, .. }, Some(Evidence::Status(code))) => *status == code,
                (CallResult::Answered { .. }, Some(Evidence::Unknown) | None) => false,
                (_, other) => other.is_some(),
            };
            let accepted = matches!(answer, CallResult::Answered { status: 200..=299, .. });
            let open = row.state == State::Delivering && row.late_success.is_some();
            let noted = open && accepted;
            if !recorded && !noted {
                self.violate("evidence_dropped", format!("{}#{}: {answer:?}; {}", short(&call.id), call.attempt, shown(&row)));
            }
            if accepted && !(row.state.is_terminal() || open) {
                self.violate("success_dropped", format!("{}#{}: {}", short(&call.id), call.attempt, shown(&row)));
            }
        }
    }
}
