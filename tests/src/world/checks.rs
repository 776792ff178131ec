//! I am what must always hold: of every change of a row, of every call, and of the world once it is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt as _;
use punctual_core::attempt::Answer as Evidence;
use punctual_core::dead_letter::DeadLetter;
use punctual_core::delivery::Delivery;
use punctual_core::destination::Mode;
use punctual_core::history::HistoryEntry;
use punctual_core::id::{DeliveryId, DestinationId, Owner, RunId};
use punctual_core::limiter::Limit;
use punctual_core::outcome::CallResult;
use punctual_core::ports::Control as _;
use punctual_core::reason::Reason;
use punctual_core::state::{Event, State, Verdict, verdict};
use punctual_core::time::Timestamp;

use super::effect::short;
use super::inner::Inner;
use super::runs;
use super::step::DELIVER_MS;

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: &'static str,
    /// How.
    pub detail: String,
}

/// One call whose first byte left.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: DeliveryId,
    /// Which destination.
    pub(super) to: usize,
    pub(super) attempt: u32,
    pub(super) actor: u32,
    pub(super) started: i64,
    pub(super) timeout: Duration,
    /// What its maker learned, and when.
    pub(super) answer: Option<(i64, CallResult)>,
}

/// When, by which actor, of which row.
type Claim = (i64, u32, DeliveryId);

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) calls: Vec<Call>,
    /// Dead letters by delivery and death.
    pub(super) letters: BTreeSet<(String, u32)>,
    /// Destinations that want no second call after a lost answer.
    pub(super) review: BTreeSet<String>,
    /// Who has said that a call may be repeated after a lost answer.
    pub(super) may_repeat: BTreeSet<u32>,
    /// Deliveries that the shadow sink has.
    pub(super) shadowed: BTreeSet<DeliveryId>,
    /// The longest total timeout and the largest attempt budget that a destination ever had.
    /// Last the smallest budget.
    pub(super) most: BTreeMap<String, (Duration, u32, u32)>,
    /// The limits that a destination ever had.
    pub(super) limits: BTreeMap<DestinationId, BTreeSet<Limit>>,
    /// When deliver went on to claim a row of a destination; those that a redrive had moved once more.
    pub(super) paced: BTreeMap<(DestinationId, bool), Vec<Claim>>,
    /// Whether the machines' clock was ever off: what it says then is no measure for a second.
    pub(super) skewed: bool,
    /// What redrive runs have done.
    pub(super) runs: BTreeMap<RunId, runs::Facts>,
    /// A request of the dead has hidden dead letters.
    pub(super) hidden_unknown: bool,
}

/// The actor in a lease owner's name.
pub(super) fn actor_of(owner: Option<&Owner>) -> Option<u32> {
    owner?.as_str().strip_prefix('a')?.split('x').next()?.parse().ok()
}

fn live(end: Option<Timestamp>, now: i64) -> bool {
    end.is_some_and(|end| end.as_millis() > now)
}

fn ms(how_long: Duration) -> i64 {
    i64::try_from(how_long.as_millis()).unwrap_or(i64::MAX)
}

impl Inner {
    pub(super) fn letter(&mut self, letter: &DeadLetter) {
        let attribute = |name: &str| letter.attributes.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
        match (attribute("delivery_id"), attribute("death").and_then(|d| d.parse().ok())) {
            (Some(id), Some(death)) => {
                let row = DeliveryId::new(id.clone()).ok().and_then(|id| self.row(&id));
                if row.is_none_or(|row| row.death < death) {
                    self.violate("dead_letter_before_death", format!("{id} {death}"));
                }
                let first = self.checks.letters.insert((id, death));
                self.count(if first { "dead letter" } else { "dead letter again" });
            }
            _ if self.coverage.contains_key("message garbled") => self.count("dead letter of a garbled message"),
            _ => self.violate("dead_letter_without_death", format!("{letter:?}")),
        }
    }

    /// One change of a row.
    pub(super) fn check_row(&mut self, before: Option<&Delivery>, after: &Delivery, actor: u32, age: i64) {
        let name = short(&after.id);
        self.say(|| format!("   row {name} {}", shown(after)));
        for entry in after.history.iter().skip(before.map_or(0, |b| b.history.len())) {
            let what = format!("row: {} {}", entry.state, entry.reason.map_or("-", Reason::code));
            self.count(&what);
            if entry.reason == Some(Reason::NoSafeRetryWindow) && self.window_is_wide(after) {
                self.count("no retry for what was measured");
            }
        }
        if let Some(problem) = self.shape(after) {
            self.violate("row_shape", format!("{name}: {problem}; {}", shown(after)));
        }
        let Some(before) = before else { return };
        let mut broken = self.change(before, after, actor, age);
        broken.extend(self.check_redrives(before, after, actor));
        for (rule, problem) in broken {
            self.violate(rule, format!("{name}: {problem}; {} -> {}", shown(before), shown(after)));
        }
    }

    /// What must hold of any row at any time.
    fn shape(&self, row: &Delivery) -> Option<String> {
        let numbers = row.attempts.iter().map(|a| a.number);
        if !numbers.eq(1..=u32::try_from(row.attempts.len()).unwrap_or(0)) {
            return Some("attempts are not numbered from 1 without gaps".into());
        }
        if row.history.last().is_some_and(|entry| entry.state != row.state) {
            return Some("the history ends in another state".into());
        }
        let (owned, leased) = (row.lease_owner.is_some(), row.lease_until.is_some());
        let lease_fits = match row.state {
            State::Dispatching => owned && row.held_until.is_some(),
            State::Delivering => owned && leased,
            _ => !owned && !leased,
        };
        if !lease_fits {
            return Some("lease and state do not fit".into());
        }
        let waiting = !row.state.is_terminal() && (!row.state.needs_operator() || row.owes_dead_letter());
        match row.wake_at {
            None if waiting => return Some("nobody will look at it".into()),
            Some(_) if !waiting => return Some("it is over, and still in the wake index".into()),
            Some(at) if at > row.deliver_by => return Some("nobody looks at it before its deadline".into()),
            _ => {}
        }
        if row.dlq_sent > row.death {
            return Some("more dead letters than deaths".into());
        }
        if row.dlq_sent > 0 && !self.checks.letters.contains(&(row.id.to_string(), row.dlq_sent)) {
            return Some("its dead letter is marked as sent and was not".into());
        }
        let effects = self.receivers.iter().filter_map(|r| r.effects.get(&row.id)).map(BTreeSet::len).sum::<usize>();
        if row.state == State::Shadowed && !(row.shadow && self.checks.shadowed.contains(&row.id)) {
            return Some("shadowed, and the sink has nothing of it".into());
        }
        if row.state == State::Shadowed && effects > 0 {
            return Some("shadowed, and a receiver processed it".into());
        }
        if row.state == State::Delivered && effects == 0 {
            return Some("delivered, and no receiver processed it".into());
        }
        let most = self.checks.most.get(row.destination.as_str()).map_or(u32::MAX, |m| m.1);
        if row.attempts.len() > usize::try_from(most.saturating_add(row.granted)).unwrap_or(usize::MAX) {
            return Some("more attempts than its budget".into());
        }
        None
    }

    /// What must hold between a row and the next one.
    fn change(&self, before: &Delivery, after: &Delivery, actor: u32, age: i64) -> Vec<(&'static str, String)> {
        let now = self.now;
        let mut wrong = Vec::new();
        let mut claim = |holds: bool, rule: &'static str, problem: &str| {
            if !holds {
                wrong.push((rule, problem.to_owned()));
            }
        };
        let moves = before.state != after.state;
        // One write may take two steps: a recall closes an ended attempt first. The history has a line for each.
        let lines = after.history.iter().skip(before.history.len()).map(|entry| entry.state);
        let steps: Vec<State> = std::iter::once(before.state).chain(lines).collect();
        let allowed = steps.windows(2).all(|step| match step {
            [from, to] => from == to || Event::ALL.into_iter().any(|event| verdict(*from, event) == Verdict::Move(*to)),
            _ => true,
        });
        claim(allowed && (!moves || steps.len() > 1), "not_in_the_table", "no event does this");
        claim(!before.state.is_terminal() || !moves, "terminal_moved", "a terminal row moved");
        claim(after.version >= before.version, "version_went_back", "the version went back");
        claim(!moves || after.version > before.version, "unversioned_move", "the state changed under the same version");
        claim(after.history.starts_with(&before.history), "history_rewritten", "the history was rewritten");
        let fixed = |row: &Delivery| {
            (
                row.idempotency_key.clone(),
                row.reference.clone(),
                row.destination.clone(),
                row.content.clone(),
                row.deliver_after,
                row.deliver_by,
            )
        };
        let asked =
            after.history.get(before.history.len()..).unwrap_or_default().iter().any(|e| e.reason == Some(Reason::Rescheduled));
        let review = self.checks.review.contains(before.destination.as_str()) && !self.checks.may_repeat.contains(&actor);
        // With what the same write has closed, and without the line that moves it.
        let mut told = after.clone();
        told.history.truncate(after.history.len().saturating_sub(1));
        claim(
            !(asked && review && lost_since_asked(&told)),
            "moved_unreviewed",
            "it moved after a lost answer, and nobody was asked",
        );
        // A redrive may bring another deadline, and nothing else.
        let redriven = after.redrives.len() > before.redrives.len();
        let as_before = Delivery { deliver_by: before.deliver_by, ..after.clone() };
        let kept = fixed(before) == fixed(if redriven { &as_before } else { after });
        claim(asked || kept, "identity_changed", "what never changes changed");
        claim(before.idempotency_key == after.idempotency_key, "identity_changed", "the key changed");
        let kept = before.attempts.iter().zip(&after.attempts).all(|(b, a)| b == a || b.is_unknown());
        claim(kept && after.attempts.len() >= before.attempts.len(), "evidence_lost", "an attempt's evidence changed or went");
        if let (Some(previous), Some(entry)) = (before.history.last(), after.history.get(before.history.len())) {
            let at = entry.at.as_millis();
            let in_order = at <= now && at + age + 2_700 >= previous.at.as_millis();
            claim(in_order, "history_out_of_order", "its history is not in the order of time");
        }
        let fresh = || after.history.iter().skip(before.history.len());
        let barred = fresh().any(|entry| entry.reason == Some(Reason::BreakerOpen));
        claim(
            !barred || (after.state == State::Scheduled && before.attempts == after.attempts),
            "attempt_spent",
            "an open breaker cost an attempt",
        );
        let taken = after.lease_owner.is_some() && after.lease_owner != before.lease_owner;
        if taken {
            claim(before.hold.is_none(), "claimed_while_held", "a held row was claimed");
            let paused = self.facts.get(&actor).is_some_and(|f| f.saw_paused.contains(&after.destination));
            let stamp = before.shadow
                || (after.state == State::Dispatching && self.in_shadow(&after.destination) && !before.was_called());
            // Nobody but the platform keeps a zombie from claiming by what it saw long ago, nor a request of the dead.
            let zombie = !self.is_alive(actor) || self.facts.get(&actor).is_some_and(|f| f.outlives);
            claim(zombie || after.shadow == stamp, "stamped_wrong", "its stamp is not that of its destination's mode");
            claim(!paused, "claimed_while_paused", "a row of a destination that its claimer saw paused was claimed");
            let dispatch_twice = after.state == State::Dispatching && before.state == State::Dispatching;
            claim(!dispatch_twice || !live(before.held_until, now), "live_lease_taken", "a live dispatch lease was taken");
        }
        if before.state == State::Delivering && live(before.lease_until, now) && (moves || taken) {
            let holder = actor_of(before.lease_owner.as_ref()) == Some(actor);
            claim(holder, "live_lease_taken", "a live deliver lease was taken");
        }
        if moves && after.state == State::Dead {
            claim(self.caused(after), "dead_without_cause", "nothing that happened explains its reason");
        }
        if moves && after.state == State::Expired {
            let margin = self.checks.most.get(after.destination.as_str()).map_or(self.margin, |m| self.margin.max(m.0));
            claim(now + 2_700 >= after.deliver_by.as_millis() - ms(margin), "expired_early", "it could still be delivered");
        }
        wrong
    }

    /// Whether the policy's own delay, which is at most 0.3 of what is left, would have ended before the hard margin: only
    /// what was measured, or a receiver's wish, stands against a retry then.
    fn window_is_wide(&self, row: &Delivery) -> bool {
        let left = row.deliver_by.as_millis() - self.now;
        let margin = self.checks.most.get(row.destination.as_str()).map_or(self.margin, |m| self.margin.max(m.0));
        let wished = row.attempts.last().is_some_and(|a| a.reason == Reason::RateLimited);
        !wished && left * 7 / 10 > ms(margin) + 2_700
    }

    /// Whether what happened to a dead row explains its reason.
    fn caused(&self, row: &Delivery) -> bool {
        let last = row.attempts.last();
        let least = self.checks.most.get(row.destination.as_str()).map_or(0, |m| m.2);
        match row.reason {
            Some(
                reason @ (Reason::Gone
                | Reason::KeyConflict
                | Reason::Rejected
                | Reason::RedirectRefused
                | Reason::PayloadMissing),
            ) => last.is_some_and(|a| a.reason == reason),
            Some(Reason::AttemptsExhausted) => row.attempts.len() >= usize::try_from(least).unwrap_or(0),
            Some(Reason::CrashLoop) => {
                row.attempts.len() >= 3 && row.attempts.iter().rev().take(3).all(punctual_core::attempt::Attempt::is_unknown)
            }
            Some(Reason::OutcomeUnknown) => last.is_some_and(|a| a.answer != Evidence::Status(200)),
            Some(Reason::NoSafeRetryWindow | Reason::RetryDisabled) => last.is_some(),
            _ => false,
        }
    }

    /// Deliver goes on to claim a row. Its call follows; the pace is kept here, because the world can stretch what is between.
    /// A claim that was lost may be made again by the same record, in the slot that it has: one call at most comes of both.
    pub(super) fn check_pace(&mut self, actor: u32, id: &DeliveryId) {
        let Some(row) = self.row(id).filter(|_| self.limits) else { return };
        let now = self.now;
        // Whoever has read the destination before a change books by its old limit.
        let most = |of: fn(Limit) -> Limit| {
            let limits = self.checks.limits.get(&row.destination).into_iter().flatten();
            limits.map(|limit| of(*limit)).map(|limit| limit.per_second + limit.burst).sum::<u32>()
        };
        // No second holds more redriven calls than twice their share, and one where their burst is rounded up.
        let twice = |limit: Limit| Limit { burst: limit.of_redrive().per_second + 1, ..limit.of_redrive() };
        let lines = [Some((false, most(|limit| limit))), row.is_redriven().then(|| (true, most(twice)))];
        let grace = ms(punctual_core::limiter::GRACE);
        for (redriven, most) in lines.into_iter().flatten() {
            let paced = self.checks.paced.entry((row.destination.clone(), redriven)).or_default();
            paced.retain(|(at, who, what)| !(*who == actor && what == id && now - at <= grace));
            paced.push((now, actor, id.clone()));
            let in_second = paced.iter().rev().take_while(|(at, ..)| *at > now - 1_000).count();
            if in_second > usize::try_from(most).unwrap_or(usize::MAX) && !self.checks.skewed {
                let rule = if redriven { "redriven_too_fast" } else { "too_fast" };
                self.violate(rule, format!("{in_second} claims for {} within a second", row.destination));
            }
        }
    }

    /// A call's first byte leaves.
    pub(super) fn check_call(&mut self, call: &Call, to: usize, key: &str, body: &[u8]) {
        let Some(row) = self.row(&call.id) else {
            return self.violate("call_without_row", format!("{call:?}"));
        };
        let (now, actor) = (self.now, call.actor);
        let margin = self.margin.max(call.timeout);
        let number = usize::try_from(call.attempt).unwrap_or(0);
        let held = row.state == State::Delivering && actor_of(row.lease_owner.as_ref()) == Some(actor);
        let covered = row.lease_until.is_some_and(|end| end.as_millis() >= now + ms(call.timeout));
        let ends = self.facts.get(&actor).map_or(0, |f| f.ends);
        let running = self.checks.calls.iter().any(|other| {
            let alive = self.facts.get(&other.actor).is_some_and(|f| f.ends > now);
            other.id == call.id && other.answer.is_none() && alive && other.started + ms(other.timeout) > now
        });
        let repeated = self.checks.calls.iter().any(|other| other.id == call.id && other.attempt >= call.attempt);
        // Who moves it or brings it back after that has been told: that call is no automatic one.
        let unsure = lost_since_asked(&row);
        let review = self.checks.review.contains(row.destination.as_str());
        let floor = self.floor(&row);
        let seen = self.facts.get(&actor).and_then(|f| f.saw_budget.get(&row.destination));
        let budget = seen.copied().unwrap_or(u32::MAX).saturating_add(row.granted);
        // Whoever calls has read the destination in this invocation, before or after.
        let unaware = self.paused_since.get(&row.destination).is_none_or(|since| now <= since + DELIVER_MS);
        let closed = self.may_be_called(call, &row);
        for (holds, rule, problem) in [
            (closed, "called_while_open", "though its destination's breaker is open, and not as its one probe"),
            (now >= row.deliver_after.as_millis(), "called_early", "before it was due"),
            (now >= row.next_attempt_at.as_millis(), "called_early", "before its next attempt was due"),
            (now >= floor, "called_early", "before the receiver's Retry-After had passed"),
            (now <= row.deliver_by.as_millis() - ms(margin), "called_late", "after the last safe start"),
            (key == row.idempotency_key.as_str(), "another_key", "with another key"),
            (number == row.attempts.len() + 1, "attempt_number", "with a number that is not the next"),
            (row.destination.as_str() == format!("r{to}"), "another_receiver", "at another receiver than its own"),
            (
                !row.shadow && !self.in_shadow(&row.destination),
                "called_in_shadow",
                "though it, or its destination, is in shadow mode",
            ),
            (held, "called_without_lease", "without holding the row"),
            (covered, "called_without_lease", "and could outlast its lease"),
            (now + ms(call.timeout) <= ends, "called_too_long", "and could outlast its invocation"),
            (!running, "two_calls_at_once", "while another call is under way"),
            (!repeated, "attempt_repeated", "under a number that was used before"),
            (!(review && unsure), "called_after_unknown", "after a lost answer, though a person should look"),
            (call.attempt <= budget, "over_budget", "though the budget that its caller saw is spent"),
            (!row.state.is_terminal(), "called_after_the_end", "after its end"),
            (unaware, "called_while_paused", "for longer than an invocation after its destination was paused"),
        ] {
            if !holds {
                self.violate(rule, format!("{}#{} was called {problem}; {}", short(&call.id), call.attempt, shown(&row)));
            }
        }
        let payload = self.body(&row);
        // It may have been erased since it was read.
        if payload.is_some_and(|payload| payload != body) {
            self.violate("another_body", format!("{}#{} was sent with another body", short(&call.id), call.attempt));
        }
    }

    /// Whether a destination is in shadow mode now.
    fn in_shadow(&self, id: &DestinationId) -> bool {
        let found = self.control.lookup(std::slice::from_ref(id)).now_or_never().and_then(Result::ok);
        found.is_some_and(|(found, _)| found.iter().any(|d| d.spec.mode == Mode::Shadow))
    }

    /// Whether the breaker lets a caller through: it is closed; or it has been opened so lately that the caller need not know;
    /// or the caller holds the lease of the probe, for this one call, until it has heard an answer.
    fn may_be_called(&self, call: &Call, row: &Delivery) -> bool {
        let Some(open) = self.reach(&row.destination).filter(|_| self.reach_on).and_then(|reach| reach.open) else { return true };
        let of_caller = || self.checks.calls.iter().filter(|other| other.actor == call.actor && other.to == call.to);
        if of_caller().any(|other| matches!(other.answer, Some((_, CallResult::Answered { .. })))) {
            return true;
        }
        let saw = self.facts.get(&call.actor).is_some_and(|facts| facts.saw_open.contains(&row.destination));
        if saw {
            let probes = actor_of(open.probe.as_ref().map(|probe| &probe.owner)) == Some(call.actor);
            return probes && of_caller().next().is_none();
        }
        self.open_since.get(&row.destination).is_none_or(|since| self.now <= since + DELIVER_MS)
    }

    /// When the receiver lets itself be called again, as far as its wish was recorded by who heard it.
    fn floor(&self, row: &Delivery) -> i64 {
        let wish = |call: &Call| match &call.answer {
            Some((at, CallResult::Answered { retry_after: Some(seconds), .. })) => {
                Some(i64::from(seconds.parse::<u32>().ok().filter(|_| !seconds.starts_with('+'))?) * 1_000 + at)
            }
            _ => None,
        };
        let recorded = |call: &&Call| {
            let entry = usize::try_from(call.attempt).ok().and_then(|n| row.attempts.get(n.checked_sub(1)?));
            let late = row.history.iter().any(|h| h.attempt == Some(call.attempt) && h.reason == Some(Reason::OutcomeUnknown));
            call.id == row.id && !late && entry.is_some_and(|e| matches!(e.answer, Evidence::Status(_)))
        };
        self.checks.calls.iter().filter(recorded).filter_map(wish).max().unwrap_or(0)
    }
}

/// Whether an answer was lost after the row was last moved or brought back.
fn lost_since_asked(row: &Delivery) -> bool {
    let asked = |entry: &HistoryEntry| matches!(entry.reason, Some(Reason::Rescheduled | Reason::Redriven));
    let lost = |number: u32| {
        row.attempts.iter().any(|attempt| {
            let reason = matches!(attempt.reason, Reason::Timeout | Reason::ConnectionCut | Reason::OutcomeUnknown);
            attempt.number == number && reason && attempt.answer != Evidence::Shadow
        })
    };
    row.history.iter().rev().take_while(|entry| !asked(entry)).filter_map(|entry| entry.attempt).any(lost)
}

/// A row in one line.
pub(super) fn shown(row: &Delivery) -> String {
    let at = |t: Option<Timestamp>| t.map_or("-".to_owned(), |t| t.to_string().get(11..23).unwrap_or_default().to_owned());
    format!(
        "v{} {} next {} wake {} held {} lease {} {} by {} attempts {}{} death {}/{}",
        row.version,
        row.state,
        at(Some(row.next_attempt_at)),
        at(row.wake_at),
        at(row.held_until),
        row.lease_owner.as_ref().map_or("-", |o| o.as_str()),
        at(row.lease_until),
        at(Some(row.deliver_by)),
        row.attempts.iter().map(|a| a.reason.code()).collect::<Vec<_>>().join(","),
        if row.hold.is_some() { " HELD" } else { "" },
        row.dlq_sent,
        row.death,
    )
}
