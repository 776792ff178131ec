//! I bring a dead or expired row back to the ledger, with further attempts: a redrive run's row, or one that an operator
//! returns alone. Identity, attempts, history and deaths stay; the ordinary path takes it from there.

use std::time::Duration;

use super::{Stamp, Transition, done, moved, unleased, wake_of_scheduled};
use crate::delivery::Delivery;
use crate::id::RunId;
use crate::reason::Reason;
use crate::redrive::Redrive;
use crate::state::{Event, Refusal};
use crate::time::Timestamp;

/// What a row gets along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Who answers for it; at most 64 characters.
    pub owner: String,
    /// How many attempts it may make beyond what it was allowed.
    pub attempts: u32,
    /// Its next attempt starts no earlier; the row's own wait is not undercut.
    pub slot: Timestamp,
    /// A new deadline, later than `slot`; none keeps its own.
    pub deliver_by: Option<Timestamp>,
}

/// A run moves the row back to the ledger. `margin` is the destination's.
///
/// # Errors
/// [`Refusal::AlreadyMoved`] if the run moved it before; otherwise by the state table.
pub fn redriven(row: &Delivery, run: &RunId, grant: Grant, margin: Duration, stamp: &Stamp) -> Result<Transition, Refusal> {
    if row.redrives.iter().any(|redrive| redrive.run.as_ref() == Some(run)) {
        return Err(Refusal::AlreadyMoved);
    }
    returned(row, Event::Redrive, Some(run.clone()), grant, margin, stamp)
}

/// An operator returns the row alone. `margin` is the destination's.
///
/// # Errors
/// By the state table.
pub fn requeued(row: &Delivery, grant: Grant, margin: Duration, stamp: &Stamp) -> Result<Transition, Refusal> {
    returned(row, Event::Requeue, None, grant, margin, stamp)
}

/// Added to the rule of a row that was given another deadline.
const BY_REDRIVE: &str = "; deadline by redrive";

fn returned(
    row: &Delivery,
    event: Event,
    run: Option<RunId>,
    grant: Grant,
    margin: Duration,
    stamp: &Stamp,
) -> Result<Transition, Refusal> {
    let Grant { owner, attempts, slot, deliver_by } = grant;
    let mut after = moved(row, event, None, Some(Reason::Redriven), stamp)?;
    unleased(&mut after);
    after.held_until = None;
    after.message = None;
    after.rescues = 0;
    after.granted = row.granted.saturating_add(attempts);
    after.next_attempt_at = row.next_attempt_at.max(row.deliver_after).max(slot);
    after.deliver_by = deliver_by.unwrap_or(row.deliver_by);
    let deadline_was = (after.deliver_by != row.deliver_by).then_some(row.deliver_by);
    if deadline_was.is_some() {
        // The rule has chosen the due time only; `redrives` tells who has chosen the deadline.
        after.rule = after.rule.map(|rule| if rule.ends_with(BY_REDRIVE) { rule } else { rule + BY_REDRIVE });
    }
    after.redrives.push(Redrive { run, death: row.death, granted: attempts, deadline_was, owner });
    after.wake_at = Some(wake_of_scheduled(&after, margin));
    Ok(done(row, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Terms, dead_letter_sent, dead_without_attempt, deliver_claimed, dispatch_claimed, finished};
    use super::*;
    use crate::acquire::Claimer;
    use crate::clock::Now;
    use crate::delivery::{Hold, NewDelivery};
    use crate::destination::Mode;
    use crate::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, MessageId, Owner, Reference};
    use crate::outcome::{CallResult, Called, Class};
    use crate::retry::RetryPolicy;
    use crate::settings::RetryMode;
    use crate::state::State;

    const MARGIN: Duration = Duration::from_secs(60);

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + minute * 60_000)
    }

    fn stamp(minute: i64) -> Stamp {
        Stamp { now: Now::exactly(at(minute)), by: Correlation::new("op").expect("a token") }
    }

    fn run(name: &str) -> RunId {
        RunId::new(name).expect("a run id")
    }

    fn grant(slot: i64) -> Grant {
        Grant { owner: "ann".into(), attempts: 3, slot: at(slot), deliver_by: None }
    }

    fn fresh() -> Delivery {
        let id = DeliveryId::new("dlv_x").expect("an id");
        let new = NewDelivery {
            idempotency_key: IdempotencyKey::from(&id),
            reference: Reference::new("c-1").expect("a reference"),
            destination: DestinationId::new("crm").expect("a destination"),
            shard: 0,
            content: Content::new("abc").expect("a hash"),
            deliver_after: at(0),
            deliver_by: at(60),
            id,
        };
        Delivery::new(new, at(-5), stamp(0).by)
    }

    fn row(state: State) -> Delivery {
        Delivery {
            state,
            version: 7,
            rescues: 2,
            death: 2,
            dlq_sent: 2,
            wake_at: None,
            held_until: Some(at(4)),
            message: MessageId::new("m").ok(),
            ..fresh()
        }
    }

    fn claimer() -> Claimer {
        Claimer { owner: Owner::new("o1").expect("an owner"), by: stamp(0).by, until: at(50) }
    }

    /// One attempt that ends like this, from wherever the row waits.
    fn tried(row: &Delivery, minute: i64, class: Class) -> Delivery {
        let policy = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
        let terms = Terms {
            policy: &policy,
            destination_version: 1,
            review_unknown: false,
            margin: MARGIN,
            measured: Duration::ZERO,
            retry_mode: RetryMode::Retry,
            queue_reach: Duration::from_secs(900),
        };
        let called = Called {
            result: CallResult::Answered { status: 503, retry_after: None },
            started_at: at(minute),
            took: Duration::ZERO,
            key_ids: "k".into(),
        };
        let held = match row.state {
            State::Deferred => row.clone(),
            _ => dispatch_claimed(row, claimer(), Mode::Live, &stamp(minute)).expect("claimed").after,
        };
        let claimed = deliver_claimed(&held, claimer(), &stamp(minute)).expect("claimed").after;
        finished(&claimed, &called, class, &terms, 0.0, &stamp(minute)).expect("finished").after
    }

    #[test]
    fn only_dead_and_expired_rows_come_back() {
        for state in State::ALL {
            let row = row(state);
            for (event, back) in [
                ("redrive", redriven(&row, &run("run_a"), grant(10), MARGIN, &stamp(9))),
                ("requeue", requeued(&row, grant(10), MARGIN, &stamp(9))),
            ] {
                match back {
                    Ok(Transition { before, after }) => {
                        assert!(state.needs_operator() && before == row, "{event} {state}");
                        assert_eq!((after.state, after.version, after.reason), (State::Scheduled, 8, Some(Reason::Redriven)));
                        assert_eq!((after.next_attempt_at, after.wake_at), (at(10), Some(at(10))));
                        assert_eq!((after.rescues, after.granted, after.held_until, &after.message), (0, 3, None, &None));
                        assert_eq!((after.death, after.dlq_sent), (2, 2), "the death stays");
                        assert_eq!((&after.id, &after.idempotency_key), (&row.id, &row.idempotency_key));
                    }
                    Err(refusal) => {
                        let expected = if state.is_terminal() { Refusal::Terminal } else { Refusal::NotDead };
                        assert!(!state.needs_operator() && refusal == expected, "{event} {state}: {refusal}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_run_moves_a_row_once_and_a_later_one_moves_its_later_death() {
        let first = redriven(&row(State::Dead), &run("run_a"), grant(10), MARGIN, &stamp(9)).expect("moved").after;
        assert_eq!(first.run(), Some(&run("run_a")));
        let again = dead_without_attempt(&first, Reason::PayloadMissing, &stamp(11)).expect("dead").after;
        assert_eq!(again.died_at(), Some(at(11)));
        assert!(again.owes_dead_letter(), "its later death has a letter of its own");
        let sent = dead_letter_sent(&again, &stamp(12)).expect("sent").after;
        assert_eq!((sent.died_at(), sent.owes_dead_letter()), (Some(at(11)), false));
        assert_eq!(redriven(&sent, &run("run_a"), grant(13), MARGIN, &stamp(13)).err(), Some(Refusal::AlreadyMoved));
        let alone = requeued(&sent, grant(13), MARGIN, &stamp(13)).expect("returned").after;
        assert_eq!(alone.run(), Some(&run("run_a")), "it stays in the run's totals");
        let second = redriven(&sent, &run("run_b"), grant(13), MARGIN, &stamp(13)).expect("moved").after;
        let told: Vec<String> = second.redrives.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["run_a death#2 +3 by ann", "run_b death#3 +3 by ann"]);
        assert_eq!((second.granted, second.run()), (6, Some(&run("run_b"))));
        assert_eq!(redriven(&alone, &run("run_b"), grant(14), MARGIN, &stamp(14)).err(), Some(Refusal::NotDead));
    }

    #[test]
    fn attempts_go_on_and_the_grant_is_spent_one_by_one() {
        let retry = Class::Retry { reason: Reason::ServerError, floor: None, unknown: false };
        let dead = tried(&fresh(), 1, retry);
        assert_eq!((dead.state, dead.reason), (State::Dead, Some(Reason::AttemptsExhausted)));
        let mut row = redriven(&dead, &run("run_a"), grant(2), MARGIN, &stamp(2)).expect("moved").after;
        for attempt in 2..=4 {
            assert_eq!(row.next_attempt(), attempt);
            assert!(!row.state.needs_operator(), "attempt {attempt} is granted");
            row = tried(&row, 2 + i64::from(attempt), retry);
        }
        assert_eq!((row.state, row.attempts.len(), row.death), (State::Dead, 4, 2));
        let numbers: Vec<u32> = row.attempts.iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        let back = redriven(&row, &run("run_b"), grant(30), MARGIN, &stamp(30)).expect("moved").after;
        let done = tried(&back, 31, Class::Delivered);
        assert_eq!((done.state, done.attempts.len(), done.redrives.len()), (State::Delivered, 5, 2));
    }

    #[test]
    fn a_new_deadline_is_told_with_the_old_one() {
        let with = |deliver_by| Grant { deliver_by, ..grant(70) };
        let moved = redriven(&row(State::Expired), &run("run_a"), with(Some(at(120))), MARGIN, &stamp(69)).expect("moved").after;
        assert_eq!((moved.deliver_by, moved.wake_at), (at(120), Some(at(70))));
        assert_eq!(moved.redrives[0].deadline_was, Some(at(60)));
        let by_rule = Delivery { rule: Some("uk@3 …".into()), ..row(State::Dead) };
        let redriven = |row: &Delivery, deliver_by, name| {
            let back = redriven(row, &run(name), with(deliver_by), MARGIN, &stamp(9)).expect("moved").after;
            Delivery { state: State::Dead, ..back }
        };
        let kept = redriven(&by_rule, None, "run_a");
        assert_eq!(kept.rule, by_rule.rule);
        let once = redriven(&kept, Some(at(90)), "run_b");
        let twice = redriven(&once, Some(at(120)), "run_c");
        assert_eq!((once.rule.as_deref(), &twice.rule), (Some("uk@3 …; deadline by redrive"), &once.rule));
        let same = redriven(&row(State::Dead), Some(at(60)), "run_a");
        assert_eq!(same.redrives[0].deadline_was, None);
    }

    #[test]
    fn a_shadowed_row_is_stamped_anew_and_a_held_one_sleeps() {
        let dead = Delivery { shadow: true, ..row(State::Dead) };
        assert!(!redriven(&dead, &run("run_a"), grant(10), MARGIN, &stamp(9)).expect("moved").after.shadow);
        let hold = Some(Hold { since: at(1), by: "ann".into(), why: "asked".into() });
        let held = Delivery { hold, ..row(State::Dead) };
        assert_eq!(requeued(&held, grant(10), MARGIN, &stamp(9)).expect("returned").after.wake_at, Some(at(59)));
    }

    proptest! {
        #[test]
        fn no_slot_undercuts_the_rows_own_wait(own in -30_i64..90, slot in -30_i64..90, due in -30_i64..30) {
            let dead = Delivery { next_attempt_at: at(own), deliver_after: at(due), ..row(State::Dead) };
            let after = redriven(&dead, &run("run_a"), grant(slot), MARGIN, &stamp(9)).expect("moved").after;
            prop_assert_eq!(after.next_attempt_at, at(own.max(slot).max(due)));
            prop_assert_eq!(after.wake_at, Some(after.next_attempt_at.min(at(59))));
            prop_assert_eq!(after.history.len(), dead.history.len() + 1);
        }
    }
}
