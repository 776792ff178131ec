//! I am how a destination's receiver has been reached lately: the breaker that keeps calls from one that does not answer,
//! and the bulkhead that bounds how much may be out for it.
//!
//! So many calls in a row without an answer ([`BreakerPolicy`]; three unless said otherwise) open the breaker: nothing is released and nothing is called, so no attempt is
//! spent, and rows wait in the ledger. When it is time, one record probes: it holds a lease on my row that ends with its
//! outcome or by its time. Any answer, good or bad, closes the breaker: a receiver that answers is there.
//!
//! A destination that is reached and proven has nothing to write: only failures, recovery and growth cost a write.

use std::time::Duration;

use crate::clock::Now;
use crate::id::{Correlation, Owner};
use crate::outcome::{CallResult, Failure};
use crate::time::Timestamp;

/// The longest wait between two probes.
pub const LONGEST_PROBE: Duration = Duration::from_secs(240);
/// What may be out for a destination that has not proven itself.
pub const FIRST_IN_FLIGHT: u32 = 100;
/// What may be out for one that does not answer.
pub const LEAST_IN_FLIGHT: u32 = 10;

/// When a destination's breaker opens, and how soon it is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakerPolicy {
    /// So many calls in a row without an answer open it; 1 to 20. Default 3.
    #[serde(default = "opens_after")]
    pub opens_after: u32,
    /// The first probe comes so long after the opening, in milliseconds, and each that fails doubles the wait, up to
    /// [`LONGEST_PROBE`]; 100 to 240,000. Default 15,000.
    #[serde(default = "probe_after_ms")]
    pub probe_after_ms: u64,
}

fn opens_after() -> u32 {
    3
}

fn probe_after_ms() -> u64 {
    15_000
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { opens_after: opens_after(), probe_after_ms: probe_after_ms() }
    }
}

/// What a destination's specification says about breaker and bulkhead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// When the breaker opens, and how soon it is probed.
    pub breaker: BreakerPolicy,
    /// The most that may be out at a time, however well it is reached.
    pub max_in_flight: u32,
}

impl Rules {
    /// How long after the opening, or after the n-th failed probe, the next probe comes.
    #[must_use]
    pub fn patience(self, probes: u32) -> Duration {
        Duration::from_millis(self.breaker.probe_after_ms).saturating_mul(1_u32 << probes.min(16)).min(LONGEST_PROBE)
    }
}

/// The breaker is open.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Open {
    /// Since when.
    pub since: Timestamp,
    /// The next probe starts no earlier.
    pub probe_at: Timestamp,
    /// How many probes failed.
    pub probes: u32,
    /// The probe that is under way, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
}

/// The lease of a probe.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Probe {
    /// Who makes it.
    pub owner: Owner,
    /// When it ends by itself.
    pub until: Timestamp,
}

/// How a destination has been reached lately, as stored. A destination without a row is [`Reach::unproven`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Counts the writes, from 1.
    pub version: u64,
    /// Calls in a row without an answer.
    pub silent: u32,
    /// How much may be out at a time; at most the destination's own `max_in_flight`.
    pub in_flight: u32,
    /// The open breaker, if it is open.
    pub open: Option<Open>,
    /// Who wrote it: tells two writes of one version apart, and finds the log lines.
    pub by: Correlation,
}

/// What one call says about whether its receiver can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heard {
    /// It answered, whatever it said.
    Answer,
    /// No answer: no connection, no session, no address, a timeout, a cut.
    Silence,
    /// No call was made.
    Nothing,
}

impl Heard {
    /// What a result says.
    #[must_use]
    pub fn of(result: &CallResult) -> Self {
        match result {
            CallResult::Answered { .. } => Self::Answer,
            // Refused by a rule of ours: whether anybody is there was not asked.
            CallResult::Failed(Failure::Refused(_)) | CallResult::NotCalled(_) | CallResult::Shadowed => Self::Nothing,
            CallResult::Failed(_) => Self::Silence,
        }
    }
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Nothing stands in the way.
    Closed,
    /// One record may probe now, if it gets the lease.
    MayProbe,
    /// Not before this instant: the next probe's, or the end of the lease of the one that is under way.
    OpenUntil(Timestamp),
}

impl Reach {
    /// What is taken for true of a destination of which nothing is stored.
    #[must_use]
    pub fn unproven(by: Correlation) -> Self {
        Self { version: 0, silent: 0, in_flight: FIRST_IN_FLIGHT, open: None, by }
    }

    /// Whether a call may be made now.
    #[must_use]
    pub fn gate(&self, now: Now) -> Gate {
        match &self.open {
            None => Gate::Closed,
            Some(Open { probe: Some(probe), .. }) if !now.reached(probe.until) => Gate::OpenUntil(probe.until),
            Some(open) if !now.reached(open.probe_at) => Gate::OpenUntil(open.probe_at),
            Some(_) => Gate::MayProbe,
        }
    }

    /// What may be out for a destination whose own cap is `max_in_flight`: one, for a probe, while the breaker is open.
    #[must_use]
    pub fn room(&self, max_in_flight: u32) -> u32 {
        if self.open.is_some() { 1 } else { self.in_flight.min(max_in_flight) }
    }

    /// With the lease of a probe; none if it is not the time for one.
    #[must_use]
    pub fn probing(&self, owner: Owner, until: Timestamp, now: Now, by: &Correlation) -> Option<Self> {
        let open = self.open.as_ref().filter(|_| self.gate(now) == Gate::MayProbe)?;
        let open = Open { probe: Some(Probe { owner, until }), ..open.clone() };
        Some(Self { version: self.version.saturating_add(1), open: Some(open), by: by.clone(), ..self.clone() })
    }

    /// With the next probe due at once, because somebody changed what is reached; none if it is closed, due or under way.
    #[must_use]
    pub fn hurried(&self, now: Now, by: &Correlation) -> Option<Self> {
        let open = self.open.as_ref().filter(|open| open.probe_at > now.lo && matches!(self.gate(now), Gate::OpenUntil(_)))?;
        let open = Open { probe_at: now.lo, probes: 0, ..open.clone() };
        Some(Self { version: self.version.saturating_add(1), open: Some(open), by: by.clone(), ..self.clone() })
    }

    /// With what calls heard, in the order in which they ended; `probe` is the lease that one of them held. None if there
    /// is nothing to write.
    #[must_use]
    pub fn heard(&self, calls: &[Heard], probe: Option<&Owner>, rules: Rules, now: Now, by: &Correlation) -> Option<Self> {
        let max_in_flight = rules.max_in_flight;
        let mut next = self.clone();
        let answers = calls.contains(&Heard::Answer);
        let silences = calls.contains(&Heard::Silence);
        for call in calls {
            match call {
                Heard::Answer => (next.silent, next.open) = (0, None),
                Heard::Silence => next.silent = next.silent.saturating_add(1),
                Heard::Nothing => {}
            }
        }
        if silences {
            next.in_flight = (next.in_flight.min(max_in_flight) / 2).max(LEAST_IN_FLIGHT);
        } else if answers && next.in_flight < max_in_flight {
            next.in_flight = next.in_flight.saturating_mul(2).min(max_in_flight);
        }
        let mine = |open: &Open| open.probe.as_ref().is_some_and(|held| Some(&held.owner) == probe);
        next.open = match next.open {
            // The probe has ended: failed, or without a call, and then the next one may come at once.
            Some(open) if mine(&open) && silences => {
                let probes = open.probes.saturating_add(1);
                Some(Open { probe_at: now.hi.plus(rules.patience(probes)), probes, probe: None, ..open })
            }
            Some(open) if mine(&open) => Some(Open { probe: None, ..open }),
            None if next.silent >= rules.breaker.opens_after => {
                Some(Open { since: now.lo, probe_at: now.hi.plus(rules.patience(0)), probes: 0, probe: None })
            }
            open => open,
        };
        // Counting on while it is open says nothing more.
        next.silent = next.silent.min(rules.breaker.opens_after);
        let changed = (next.silent, next.in_flight, &next.open) != (self.silent, self.in_flight, &self.open);
        changed.then(|| Self { version: self.version.saturating_add(1), by: by.clone(), ..next })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + s * 1_000)
    }

    fn now(s: i64) -> Now {
        Now::exactly(at(s))
    }

    fn by() -> Correlation {
        Correlation::new("d1").expect("a token")
    }

    fn owner(name: &str) -> Owner {
        Owner::new(name).expect("an owner")
    }

    fn rules(max_in_flight: u32) -> Rules {
        Rules { breaker: BreakerPolicy::default(), max_in_flight }
    }

    fn open() -> Reach {
        Reach::unproven(by()).heard(&[Heard::Silence; 3], None, rules(1_000), now(0), &by()).expect("it opens")
    }

    #[test]
    fn a_probe_can_be_hurried_once_and_not_while_one_is_under_way() {
        let opened = open();
        let soon = opened.hurried(now(1), &by()).expect("it is open");
        assert_eq!((soon.gate(now(1)), soon.version), (Gate::MayProbe, opened.version + 1));
        assert_eq!(soon.hurried(now(1), &by()), None, "it is due already");
        let probing = soon.probing(owner("p"), at(20), now(1), &by()).expect("the lease");
        assert_eq!(probing.hurried(now(2), &by()), None);
        assert_eq!(Reach::unproven(by()).hurried(now(1), &by()), None);
    }

    #[test]
    fn three_in_a_row_open_it_and_an_answer_between_does_not() {
        let fresh = Reach::unproven(by());
        let two = fresh.heard(&[Heard::Silence; 2], None, rules(1_000), now(0), &by()).expect("counted");
        assert_eq!((two.silent, two.gate(now(0)), two.version), (2, Gate::Closed, 1));
        let calls = [Heard::Answer, Heard::Silence, Heard::Silence];
        assert_eq!(two.heard(&calls, None, rules(1_000), now(1), &by()).expect("counted").open, None);
        let third = two.heard(&[Heard::Silence], None, rules(1_000), now(1), &by()).expect("opens");
        assert_eq!(third.gate(now(15)), Gate::OpenUntil(at(16)));
        assert_eq!(third.gate(now(16)), Gate::MayProbe);
        assert_eq!(third.room(1_000), 1);
        // What was under way when it opened and is silent too says nothing more.
        assert_eq!(
            third.heard(&[Heard::Silence; 5], None, rules(10), now(2), &by()).map(|next| next.open == third.open),
            Some(true)
        );
    }

    #[test]
    fn one_probes_at_a_time_and_its_end_decides() {
        let open = open();
        assert_eq!(open.probing(owner("a"), at(60), now(14), &by()), None, "too early");
        let probing = open.probing(owner("a"), at(60), now(15), &by()).expect("a lease");
        assert_eq!(probing.gate(now(20)), Gate::OpenUntil(at(60)));
        assert_eq!(probing.probing(owner("b"), at(70), now(20), &by()), None, "one at a time");
        assert_eq!(probing.gate(now(60)), Gate::MayProbe, "a lost probe ends by its time");

        let failed = probing.heard(&[Heard::Silence], Some(&owner("a")), rules(1_000), now(21), &by()).expect("noted");
        assert_eq!(failed.gate(now(22)), Gate::OpenUntil(at(51)), "twice as long");
        let back = probing.heard(&[Heard::Nothing], Some(&owner("a")), rules(1_000), now(21), &by()).expect("given back");
        assert_eq!(back.gate(now(22)), Gate::MayProbe);
        let answered = probing.heard(&[Heard::Answer], Some(&owner("a")), rules(1_000), now(21), &by()).expect("closes");
        assert_eq!((answered.gate(now(22)), answered.silent, answered.room(1_000)), (Gate::Closed, 0, 100));
        assert_eq!(
            probing.heard(&[Heard::Nothing], Some(&owner("b")), rules(1_000), now(21), &by()),
            None,
            "another's lease stands"
        );
        assert_eq!([0, 1, 4, 30].map(|probes| rules(1).patience(probes).as_secs()), [15, 30, 240, 240]);
    }

    #[test]
    fn the_bulkhead_grows_with_answers_and_shrinks_with_silence() {
        let mut reach = Reach::unproven(by());
        assert_eq!((reach.room(1_000), reach.room(7)), (100, 7));
        for expected in [200, 400, 800, 1_000] {
            reach = reach.heard(&[Heard::Answer], None, rules(1_000), now(0), &by()).expect("grows");
            assert_eq!(reach.in_flight, expected);
        }
        assert_eq!(reach.heard(&[Heard::Answer; 10], None, rules(1_000), now(0), &by()), None, "proven: nothing to write");
        let hurt = reach.heard(&[Heard::Answer, Heard::Silence], None, rules(1_000), now(0), &by()).expect("shrinks");
        assert_eq!((hurt.in_flight, hurt.silent), (500, 1));
        assert_eq!(hurt.heard(&[Heard::Nothing], None, rules(1_000), now(0), &by()), None);
    }

    #[test]
    fn any_answer_is_one() {
        let answered = |status| Heard::of(&CallResult::Answered { status, retry_after: None });
        assert_eq!([200, 400, 410, 429, 503].map(answered), [Heard::Answer; 5]);
        for failure in [Failure::Timeout, Failure::Cut, Failure::Connect, Failure::Dns, Failure::Tls] {
            assert_eq!(Heard::of(&CallResult::Failed(failure)), Heard::Silence);
        }
        assert_eq!(Heard::of(&CallResult::not_called()), Heard::Nothing);
    }

    proptest! {
        #[test]
        fn it_is_open_iff_the_last_three_calls_were_silent(calls in prop::collection::vec(any::<bool>(), 1..30), parts in 1_usize..6) {
            let mut reach = Reach::unproven(by());
            for batch in calls.chunks(parts) {
                let heard: Vec<Heard> = batch.iter().map(|answer| if *answer { Heard::Answer } else { Heard::Silence }).collect();
                reach = reach.heard(&heard, None, rules(1_000), now(0), &by()).unwrap_or(reach);
                prop_assert!((LEAST_IN_FLIGHT..=1_000).contains(&reach.in_flight));
            }
            let silent = calls.iter().rev().take_while(|answer| !**answer).count();
            prop_assert_eq!(reach.open.is_some(), silent >= 3);
        }
    }
}
