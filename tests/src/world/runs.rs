//! I am what must always hold of redrive runs: of every move of a row, of every write of a run, and once the world is quiet.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use punctual_core::clock::Now;
use punctual_core::delivery::Delivery;
use punctual_core::id::{DeliveryId, RunId};
use punctual_core::ports::Control as _;
use punctual_core::reason::Reason;
use punctual_core::redrive::{ForRow, Phase, Redrive, Run, Selection, for_row};
use punctual_core::state::State;
use punctual_core::time::Timestamp;

use super::checks::{actor_of, shown};
use super::effect::short;
use super::inner::Inner;
use super::redrive::told;

/// A row whose deadline leaves so much time could be moved at ease, in milliseconds.
const AT_EASE_MS: i64 = 400_000;

/// What is remembered of a run.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// What it has moved, and how many attempts each had made by then.
    moved: BTreeMap<DeliveryId, usize>,
    /// Something came late, or the index lagged, or two slices were alive at once: it cannot know what it has moved.
    muddled: bool,
    /// When it had moved all that it moves.
    sweeps_from: Option<i64>,
}

/// What an actor knows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    phase: Phase,
    holder: Option<u32>,
}

fn rank(phase: Phase) -> u8 {
    match phase {
        Phase::Canary => 0,
        Phase::Moving => 1,
        Phase::Sweeping => 2,
        Phase::Stopped => 3,
        Phase::Aborted | Phase::Done => 4,
    }
}

fn holder(run: &Run) -> Option<u32> {
    actor_of(run.lease.as_ref().map(|lease| &lease.owner))
}

type Broken = (&'static str, String);

impl Inner {
    pub(super) fn saw_run(&mut self, actor: u32, run: &Run) {
        let seen = Seen { phase: run.phase, holder: holder(run) };
        if let Some(facts) = self.facts.get_mut(&actor) {
            facts.saw_runs.insert(run.id.clone(), seen);
        }
    }

    pub(super) fn muddle(&mut self, run: &RunId) {
        self.checks.runs.entry(run.clone()).or_default().muddled = true;
    }

    /// Whether an actor is not done, not dead, and would be ended by the platform.
    pub(super) fn is_alive(&self, actor: u32) -> bool {
        self.facts.get(&actor).is_some_and(|facts| !facts.over && facts.ends > self.now)
    }

    fn is_zombie(&self, actor: u32) -> bool {
        self.facts.get(&actor).is_some_and(|facts| facts.outlives)
    }

    /// A row's returns from the dead.
    pub(super) fn check_redrives(&mut self, before: &Delivery, after: &Delivery, actor: u32) -> Vec<Broken> {
        let mut broken: Vec<Broken> = Vec::new();
        let lines = after.history.iter().skip(before.history.len()).filter(|line| line.reason == Some(Reason::Redriven));
        let new: Vec<&Redrive> = after.redrives.iter().skip(before.redrives.len()).collect();
        if !after.redrives.starts_with(&before.redrives) || new.len() != lines.count() {
            broken.push(("redrive_forgotten", "what returned it is not told".into()));
        }
        let granted: u32 = new.iter().map(|one| one.granted).sum();
        if after.granted != before.granted.saturating_add(granted) {
            let were = format!("{} attempts were granted, then {granted}, and {} are", before.granted, after.granted);
            broken.push(("granted", were));
        }
        for one in new {
            broken.extend(self.moved(before, after, one, actor));
        }
        broken
    }

    fn moved(&mut self, before: &Delivery, after: &Delivery, one: &Redrive, actor: u32) -> Vec<Broken> {
        let mut broken: Vec<Broken> = Vec::new();
        let mut claim = |holds: bool, rule: &'static str, problem: String| {
            if !holds {
                broken.push((rule, problem));
            }
        };
        let Some(id) = &one.run else { return vec![("moved_by_nobody", "no run of this world is without a name".into())] };
        let Some(run) = self.run(id) else { return vec![("moved_by_nobody", format!("there is no {id}"))] };
        claim(before.state.needs_operator(), "moved_alive", "it was not dead".into());
        claim(one.death == before.death, "moved_alive", "of another death".into());
        let again = before.redrives.iter().any(|other| other.run == one.run);
        claim(!again, "moved_twice", format!("{id} moved it before"));
        claim(one.granted >= run.order.attempts, "granted", "fewer attempts than the run grants".into());
        let selection = Selection { deadline_reachable: None, ..run.order.selection.clone() };
        let any = Now::exactly(before.deliver_by);
        claim(selection.matches(before, any, std::time::Duration::ZERO), "moved_unselected", format!("{id} does not select it"));
        let deadline = after.deliver_by == before.deliver_by || run.order.deliver_by == Some(after.deliver_by);
        claim(deadline, "deadline_made_up", "its deadline is nobody's".into());
        let told = one.deadline_was.unwrap_or(after.deliver_by) == before.deliver_by;
        claim(told, "deadline_made_up", "its old deadline is not told".into());

        let (zombie, late) = (self.is_zombie(actor), !self.is_alive(actor));
        let known = self.facts.get(&actor).map(|facts| (facts.saw_frozen, facts.saw_runs.get(id).copied()));
        if let (false, false, Some((frozen, seen))) = (zombie, late, known) {
            claim(!frozen, "moved_while_frozen", "by one that saw the freeze".into());
            let mine = seen.is_some_and(|seen| matches!(seen.phase, Phase::Canary | Phase::Moving) && seen.holder == Some(actor));
            claim(mine, "moved_unasked", format!("by one that saw {seen:?}"));
        }
        let facts = self.checks.runs.entry(id.clone()).or_default();
        facts.moved.insert(before.id.clone(), before.attempts.len());
        facts.muddled |= zombie || late;
        if !facts.muddled {
            let moved = u32::try_from(facts.moved.len()).unwrap_or(u32::MAX);
            claim(moved <= run.order.max_count, "moved_too_many", format!("{moved} of {}", run.order.max_count));
            let canary = moved.saturating_sub(run.base.moved);
            let room = run.phase != Phase::Canary || canary <= run.order.canary_size;
            claim(room, "canary_too_large", format!("{canary} of {}", run.order.canary_size));
        }
        self.count("row moved");
        self.count(if before.owes_dead_letter() { "row moved before its letter" } else { "row moved, its letter sent" });
        broken
    }

    /// A run is written.
    pub(super) fn check_run(&mut self, before: Option<&Run>, after: &Run, actor: u32) {
        let Some(before) = before else {
            self.count("run started");
            self.checks.runs.entry(after.id.clone()).or_default();
            return;
        };
        let mut broken: Vec<(&'static str, &str)> = Vec::new();
        let mut claim = |holds: bool, rule: &'static str, problem: &'static str| {
            if !holds {
                broken.push((rule, problem));
            }
        };
        claim(after.version == before.version + 1, "run_went_back", "its version");
        let same = (&before.order, before.created_at) == (&after.order, after.created_at);
        claim(same, "run_went_back", "its order");
        let (old, new) = (&before.counters, &after.counters);
        claim(new.moved >= old.moved && new.scan_receives >= old.scan_receives, "run_went_back", "its counters");
        let deleted = old.deleted.iter().all(|(why, n)| new.deleted.get(why).is_some_and(|m| m >= n));
        claim(deleted, "run_went_back", "its deleted letters");
        claim(after.slice >= before.slice, "run_went_back", "its slice");
        let resumed = before.phase == Phase::Stopped && after.phase == Phase::Canary && after.resumed != before.resumed;
        // A resume that met another run's start is put back.
        let put_back = before.phase == Phase::Canary && after.phase == Phase::Stopped;
        claim(rank(after.phase) >= rank(before.phase) || resumed, "run_went_back", "its phase");
        claim(rank(before.phase) < 4 || after.phase == before.phase, "run_went_back", "its end");
        claim(!before.swept || after.swept || resumed || put_back, "run_went_back", "its sweep");
        let live = before.lease.as_ref().filter(|lease| lease.until.as_millis() > self.now);
        let stolen = live.is_some() && holder(after).is_some() && holder(after) != holder(before);
        claim(!stolen, "live_run_taken", "another slice works on it");
        let name = after.id.clone();
        let overtaken = holder(before).filter(|old| holder(after) != Some(*old) && *old != actor && self.is_alive(*old));
        if overtaken.is_some() || !self.is_alive(actor) || self.is_zombie(actor) {
            self.muddle(&name);
        }
        if before.phase == Phase::Canary && after.phase == Phase::Moving {
            let facts = self.checks.runs.get(&name);
            let untried = facts.into_iter().filter(|facts| !facts.muddled).flat_map(|facts| &facts.moved).any(|(id, made)| {
                let row = self.row(id);
                row.is_some_and(|row| row.run() == Some(&name) && row.attempts.len() <= *made && is_waiting(row.state))
            });
            claim(!untried, "canary_ignored", "rows of its canary were not tried");
        }
        for (rule, problem) in broken {
            self.violate(rule, format!("{name}: {problem}: {before:?} -> {after:?}"));
        }
        if before.phase == Phase::Moving && after.phase == Phase::Sweeping {
            self.check_left_behind(after);
        }
        if before.phase != after.phase {
            let why = after.stopped.as_ref().filter(|_| after.phase == Phase::Stopped).map(|stopped| stopped.code.code());
            let what = format!("run: {}{}{}", after.phase, if why.is_some() { " " } else { "" }, why.unwrap_or_default());
            self.count(&what);
        }
        let count_more = |old: u32, new: u32| new.saturating_sub(old);
        for (why, n) in &new.deleted {
            let what = format!("letter deleted: {}", why.code());
            (0..count_more(old.deleted.get(why).copied().unwrap_or(0), *n)).for_each(|_| self.count(&what));
        }
        for (why, n) in &new.left {
            let what = format!("letter left: {}", why.code());
            (0..count_more(old.left.get(why).copied().unwrap_or(0), *n)).for_each(|_| self.count(&what));
        }
    }

    /// A run has moved all that it moves: what it could have moved at ease is not left.
    fn check_left_behind(&mut self, run: &Run) {
        let now = self.now;
        let facts = self.checks.runs.entry(run.id.clone()).or_default();
        facts.sweeps_from = Some(now);
        let enough = u32::try_from(facts.moved.len()).unwrap_or(u32::MAX) >= run.order.max_count;
        if facts.muddled || enough || !self.lagging.is_empty() {
            return;
        }
        let at_ease = Now::exactly(Timestamp::from_millis(now + AT_EASE_MS));
        let destinations = self.control.destinations().now_or_never().and_then(Result::ok).unwrap_or_default();
        for row in self.ledger.rows() {
            let destination = destinations.iter().find(|one| one.spec.id == row.destination);
            let margin = destination.map_or(self.margin, |one| one.margin(self.margin));
            let as_before = row.history.last().is_some_and(|line| line.at < run.created_at)
                && destination.is_some_and(|one| one.changed.at < run.created_at);
            let payload = self.body(&row).is_some();
            let moves = matches!(for_row(&row, run, destination, payload, at_ease, margin), ForRow::Move(_));
            if as_before && moves && run.order.selection.matches(&row, Now::exactly(Timestamp::from_millis(now)), margin) {
                self.violate("left_behind", format!("{}: {} {}", run.id, short(&row.id), shown(&row)));
            }
        }
    }

    /// What must hold of runs and letters in a quiet world.
    pub(super) fn judge_runs(&mut self) {
        let there: BTreeSet<(String, u32)> = self.letters.there().iter().filter_map(told).collect();
        for row in self.ledger.rows() {
            if row.state.needs_operator() && !there.contains(&(row.id.to_string(), row.death)) {
                self.violate("letter_lost", format!("{}: its dead letter is gone", short(&row.id)));
            }
        }
        self.judge_sweep();
        for run in self.runs() {
            let facts = self.checks.runs.remove(&run.id).unwrap_or_default();
            let moved = u32::try_from(facts.moved.len()).unwrap_or(u32::MAX);
            let counted = run.counters.moved;
            if counted > moved {
                self.violate("counted_too_many", format!("{}: {counted} of {moved}", run.id));
            }
            if run.phase != Phase::Done || facts.muddled {
                continue;
            }
            self.count("run done, undisturbed");
            if counted != moved {
                self.violate("counted_too_few", format!("{}: {counted} of {moved}", run.id));
            }
        }
    }
}

impl Inner {
    /// The letters of what the only run has moved are gone, if it could see them.
    fn judge_sweep(&mut self) {
        let mut movers = self.checks.runs.iter().filter(|(_, facts)| !facts.moved.is_empty());
        let (Some((id, facts)), None) = (movers.next(), movers.next()) else { return };
        let done = self.run(id).is_some_and(|run| run.phase == Phase::Done);
        let Some(from) = facts.sweeps_from.filter(|_| done && !facts.muddled && !self.checks.hidden_unknown) else { return };
        let moved: BTreeSet<&str> = facts.moved.keys().map(DeliveryId::as_str).collect();
        let old = self.letters.there().into_iter().filter(|letter| letter.sent_at.as_millis() < from);
        let left: Vec<(String, u32)> = old.filter_map(|letter| told(&letter)).collect();
        for (name, death) in left.into_iter().filter(|(name, _)| moved.contains(name.as_str())) {
            let row = DeliveryId::new(name.clone()).ok().and_then(|id| self.row(&id));
            // A later death that an operator ended is not the run's business.
            let of_run = row.and_then(|row| row.redrives.iter().find(|one| one.run.as_ref() == Some(id)).map(|one| one.death));
            if of_run.is_some_and(|moved| death <= moved) {
                let why = format!("of {name}, death {death}, though {id} is done");
                return self.violate("letter_left", why);
            }
        }
        self.count("the only run has left no letter");
    }
}

fn is_waiting(state: State) -> bool {
    !state.is_terminal() && !state.needs_operator()
}
