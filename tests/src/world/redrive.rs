//! I am what redriving adds to the world: runs, the dead-letter queue as it is read, and the starter of slices.

use futures::FutureExt as _;
use punctual_core::id::RunId;
use punctual_core::ports::{Control as _, Ledger as _, Letter, Letters as _, PortError, RunPage, Stored};
use punctual_core::redrive::{Phase, Run};
use punctual_core::time::Timestamp;
use punctual_redrive::Response;

use super::actor;
use super::effect::{Answer, Effect};
use super::inner::Inner;
use super::op::{Fate, Op};
use super::setup;
use super::step::World;

/// How long the platform lets redrive run, in milliseconds.
const REDRIVE_MS: i64 = 300_000;
/// A slice that failed or died is started again after so long, so often.
const AGAIN_MS: i64 = 60_000;
const MOST_RETRIES: u32 = 2;

/// A start of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) run: RunId,
    pub(super) slice: u32,
    at: i64,
    /// How often it was started before; none for the schedule itself.
    retries: u32,
}

/// The starter of slices: at least once, never early.
#[derive(Debug, Default)]
pub(super) struct Starts {
    planned: Vec<Start>,
}

impl Starts {
    /// A plan of that name stays as it is.
    fn plan(&mut self, run: &RunId, slice: u32, at: i64) {
        let known = self.planned.iter().any(|one| one.run == *run && one.slice == slice && one.retries == 0);
        if !known {
            let at = at.saturating_add(999).div_euclid(1_000) * 1_000;
            self.planned.push(Start { run: run.clone(), slice, at, retries: 0 });
        }
    }

    /// A start that failed comes again.
    fn retry(&mut self, start: &Start, now: i64) {
        if start.retries < MOST_RETRIES {
            self.planned.push(Start { at: now + AGAIN_MS, retries: start.retries + 1, ..start.clone() });
        }
    }

    fn take(&mut self, which: u8, now: i64) -> Option<Start> {
        let due: Vec<usize> = (0..self.planned.len()).filter(|n| self.planned.get(*n).is_some_and(|one| one.at <= now)).collect();
        let n = usize::from(which).checked_rem(due.len())?;
        due.get(n).map(|n| self.planned.remove(*n))
    }

    fn lose(&mut self, which: u8) -> Option<Start> {
        let n = usize::from(which).checked_rem(self.planned.len())?;
        Some(self.planned.remove(n))
    }

    /// Whether a slice can begin now.
    pub(super) fn is_due(&self, now: i64) -> bool {
        self.planned.iter().any(|one| one.at <= now)
    }

    /// When slices begin.
    pub(super) fn instants(&self) -> impl Iterator<Item = i64> {
        self.planned.iter().map(|one| one.at)
    }

    fn has(&self, run: &RunId) -> bool {
        self.planned.iter().any(|one| one.run == *run)
    }
}

fn at_once<T>(answer: impl Future<Output = Result<T, PortError>>) -> Option<T> {
    answer.now_or_never()?.ok()
}

impl World {
    /// Asks redrive for something.
    pub(super) fn ask_redrive(&mut self, actor: u32, kind: &'static str, event: serde_json::Value) {
        let stage = self.stage;
        self.start(actor, kind, REDRIVE_MS, |port| actor::redrive(port, stage, event));
    }

    pub(super) fn begin_slice(&mut self, number: u32, which: u8, again: bool) {
        if self.actors.contains_key(&number) {
            return;
        }
        let start = {
            let mut inner = self.inner();
            let now = inner.now;
            let Some(start) = inner.starts.take(which, now) else { return };
            if again {
                inner.count("slice doubled");
                inner.starts.planned.push(Start { retries: MOST_RETRIES, ..start.clone() });
            }
            start
        };
        self.slice(number, start);
    }

    fn slice(&mut self, number: u32, start: Start) {
        let event = serde_json::json!({"action": "slice", "run_id": start.run, "slice": start.slice});
        let stage = self.stage;
        let started = start.clone();
        self.start(number, "slice", REDRIVE_MS, move |port| {
            if let Some(facts) = port.inner().facts.get_mut(&number) {
                facts.start = Some(started);
            }
            actor::redrive(port, stage, event)
        });
    }

    /// An actor goes on to its next call whose loss matters, or for so many calls.
    pub(super) fn walk(&mut self, actor: u32, calls: u8) {
        for _ in 0..calls {
            if !self.step(actor, 0, Fate::Ok) || self.inner().delicate(actor).is_some() {
                return;
            }
        }
    }

    pub(super) fn lose_slice(&mut self, which: u8) {
        let mut inner = self.inner();
        if let Some(lost) = inner.starts.lose(which) {
            inner.count("slice lost");
            inner.say(|| format!("lost: slice {} of {}", lost.slice, lost.run));
        }
    }

    /// An operator's word to one of the runs.
    pub(super) fn steer(&mut self, actor: u32, action: &'static str, run: u8) {
        let runs = self.inner().runs();
        let Some(run) = usize::from(run).checked_rem(runs.len()).and_then(|n| runs.get(n)) else { return };
        let event = serde_json::json!({"action": action, "run_id": run.id, "by": "sim", "why": "drill"});
        self.ask_redrive(actor, action, event);
    }

    pub(super) fn redrive_op(&mut self, op: &Op) {
        match *op {
            Op::Redrive { actor, variant } => {
                let event = setup::order(self.seed, variant, self.inner().now);
                self.ask_redrive(actor, "redrive", event);
            }
            Op::Slice { actor, which, again } => self.begin_slice(actor, which, again),
            Op::LoseSlice { which } => self.lose_slice(which),
            Op::Abort { actor, run } => self.steer(actor, "abort", run),
            Op::GoOn { actor, run } => self.steer(actor, "resume", run),
            Op::Freeze { actor, on } => {
                let action = if on { "freeze" } else { "unfreeze" };
                self.ask_redrive(actor, action, serde_json::json!({"action": action, "by": "sim", "why": "drill"}));
            }
            Op::Broker { reminder } => {
                let mut inner = self.inner();
                let Some(row) = inner.row(&Self::id_of(reminder)) else { return };
                inner.count("letter moved by the broker");
                let _ = inner.letters.put_bare(&setup::message_of(&row));
            }
            _ => {}
        }
    }

    /// At rest a run whose chain of slices has broken is carried on as its own answers say: by a slice from the console.
    /// False if there is none.
    pub(super) fn mend_chain(&mut self, number: u32) -> bool {
        let broken = {
            let inner = self.inner();
            inner.runs().into_iter().find(|run| run.needs_slice() && !inner.starts.has(&run.id))
        };
        let Some(run) = broken else { return false };
        self.inner().count("slice sent by hand");
        self.slice(number, Start { run: run.id, slice: run.slice, at: 0, retries: 0 });
        self.run_on(number);
        true
    }
}

impl Inner {
    /// Every run as it is now, in the order of their names.
    pub(super) fn runs(&self) -> Vec<Run> {
        at_once(self.control.runs()).unwrap_or_default()
    }

    pub(super) fn run(&self, id: &RunId) -> Option<Run> {
        at_once(self.control.run(id))?
    }

    /// A call of an actor whose loss matters to redriving, among those that can go on.
    pub(super) fn delicate(&self, actor: u32) -> Option<u8> {
        let ready = self.ready(actor);
        let at = ready.iter().position(|number| {
            let word = self.pending.get(number).and_then(|pending| pending.effect.word());
            matches!(word, Some("ledger" | "claim" | "send" | "delete" | "show"))
        })?;
        u8::try_from(at).ok()
    }

    /// A slice that died or failed comes again.
    pub(super) fn start_again(&mut self, actor: u32) {
        let now = self.now;
        if let Some(start) = self.facts.get_mut(&actor).and_then(|facts| facts.start.take()) {
            self.starts.retry(&start, now);
        }
    }

    /// One call of redrive's own happens.
    pub(super) fn happen_to_redrive(&mut self, actor: u32, effect: &Effect, partial: bool) -> Answer {
        let now = Timestamp::from_millis(self.now);
        self.letters.set_now(now);
        let each = |receipts: &[String]| -> Vec<bool> { (0..receipts.len()).map(|n| !partial || n % 2 == 1).collect() };
        let chosen = |receipts: &[String]| -> Vec<String> {
            receipts.iter().zip(each(receipts)).filter(|(_, works)| *works).map(|(receipt, _)| receipt.clone()).collect()
        };
        match effect {
            Effect::Ended(query) => at_once(self.index.ended(query)).map_or(Answer::Fault, Answer::Ended),
            Effect::OfRun(run) => {
                if !self.lagging.is_empty() {
                    self.muddle(run);
                }
                let page: Option<RunPage> = at_once(self.index.of_run(run, None));
                page.map_or(Answer::Fault, Answer::OfRun)
            }
            Effect::Run(id) => {
                let run = self.run(id);
                run.iter().for_each(|run| self.saw_run(actor, run));
                Answer::Run(run.map(Box::new))
            }
            Effect::Runs => Answer::Runs(self.runs()),
            Effect::PutRun(run, expected) => {
                let before = self.run(&run.id);
                let stored = at_once(self.control.put_run(run, *expected));
                if stored == Some(Stored::Done) {
                    self.check_run(before.as_ref(), run, actor);
                    self.saw_run(actor, run);
                } else {
                    self.count("run written by another");
                }
                stored.map_or(Answer::Fault, Answer::Stored)
            }
            Effect::Freeze => {
                let frozen = at_once(self.control.freeze()).flatten();
                if let Some(facts) = self.facts.get_mut(&actor) {
                    facts.saw_frozen = frozen.is_some();
                }
                Answer::Freeze(frozen)
            }
            Effect::PutFreeze(freeze) => {
                self.count(if freeze.is_some() { "frozen" } else { "unfrozen" });
                at_once(self.control.put_freeze(freeze.as_ref())).map_or(Answer::Fault, |()| Answer::Done)
            }
            Effect::ReceiveLetters(most, hide) => {
                // A request of the dead hides letters that nobody knows of.
                self.checks.hidden_unknown |= !self.is_alive(actor);
                at_once(self.letters.receive(*most, *hide)).map_or(Answer::Fault, Answer::Letters)
            }
            Effect::DeleteLetters(receipts) => {
                self.letters.delete(&chosen(receipts)).now_or_never();
                Answer::Each(each(receipts))
            }
            Effect::ShowLetters(receipts) => {
                self.letters.release(&chosen(receipts)).now_or_never();
                Answer::Each(each(receipts))
            }
            Effect::PlanSlice(run, slice, at) => {
                self.starts.plan(run, *slice, at.as_millis());
                Answer::Done
            }
            _ => Answer::Fault,
        }
    }

    /// What an answer of redrive's says, counted.
    pub(super) fn count_redriven(&mut self, response: &Response) {
        for error in &response.errors {
            let what = format!("redrive refused: {}", error.code);
            self.count(&what);
        }
        let Some(slice) = &response.slice else { return };
        let what = match slice {
            slice if slice.idle.is_some() => "slice idle",
            slice if slice.failed.is_some() => "slice failed",
            slice if slice.waits_for.is_some() => "sweep waits for another",
            slice if slice.waits_until.is_some() => "sweep waits for hidden letters",
            slice if slice.phase == Some(Phase::Done) => "slice ended a run",
            slice if slice.failed_writes > 0 => "slice with failed writes",
            _ => "slice done",
        };
        self.count(what);
    }
}

/// The delivery and the death that a letter tells of.
pub(super) fn told(letter: &Letter) -> Option<(String, u32)> {
    let told = punctual_core::dead_letter::told(letter)?;
    Some((told.delivery_id.to_string(), told.death?))
}
