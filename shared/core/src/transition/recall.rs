//! I take a delivery back, or move it to other instants: what a producer or an operator asks for after the fact.
//!
//! Both are one write, and only that write is the acknowledgement. Both are refused while a deliver lease may be live:
//! a call that cannot be called back must not be promised away. A lease that has surely ended is no obstacle: its
//! attempt is closed as unknown in the same write.

use std::time::Duration;

use super::{Stamp, Transition, done, moved, unknown, unleased, wake_of_scheduled};
use crate::attempt::{Answer, Attempt};
use crate::delivery::{Cancel, Delivery, Instants};
use crate::history::HistoryEntry;
use crate::moved::Moved;
use crate::reason::Reason;
use crate::state::{Event, Refusal, State};

/// The row is taken back: no call starts after this write, and the row says who, when and why. A dead letter that it
/// still owes is not sent any more.
///
/// # Errors
/// [`Refusal::InFlight`] while an attempt may be in flight, or while the success of one waits to be written;
/// [`Refusal::Terminal`] if the row is at its end.
pub fn cancelled(row: &Delivery, cancel: Cancel, stamp: &Stamp) -> Result<Transition, Refusal> {
    let mut after = moved(&settled(row, stamp)?, Event::Cancel, None, Some(Reason::Cancelled), stamp)?;
    after.version = row.version.saturating_add(1);
    unleased(&mut after);
    after.held_until = None;
    after.wake_at = None;
    after.cancel = Some(cancel);
    Ok(done(row, after))
}

/// The row goes back to the ledger with other instants, under the same identity; its attempts stay and count. A wait
/// that a failed attempt has set (the policy's, or the receiver's `Retry-After`) is not undercut by an earlier instant, however
/// often the row is moved. What it left stays on it.
///
/// # Errors
/// [`Refusal::InFlight`] while an attempt may be in flight, or while the success of one waits to be written;
/// [`Refusal::Terminal`] if the row is at its end.
pub fn rescheduled(row: &Delivery, to: Instants, margin: Duration, stamp: &Stamp) -> Result<Transition, Refusal> {
    let mut after = moved(&settled(row, stamp)?, Event::Reschedule, None, Some(Reason::Rescheduled), stamp)?;
    after.version = row.version.saturating_add(1);
    unleased(&mut after);
    after.held_until = None;
    after.message = None;
    after.rescues = 0;
    // Other instants: the next claim stamps anew, whatever was shadowed before.
    after.shadow = false;
    let waits = (row.next_attempt_at > row.deliver_after).then_some(row.next_attempt_at);
    after.floor = row.floor.max(waits);
    after.next_attempt_at = after.floor.map_or(to.deliver_after, |floor| floor.max(to.deliver_after));
    let from = Instants { deliver_after: row.deliver_after, deliver_by: row.deliver_by };
    after.moves.push(Moved { at: stamp.now.lo, from });
    after.deliver_after = to.deliver_after;
    after.deliver_by = to.deliver_by;
    after.wake_at = Some(wake_of_scheduled(&after, margin));
    Ok(done(row, after))
}

/// Whether a call of this row may have had its effect without a 2xx having been recorded: the answer of one is unknown,
/// or was lost on the way.
#[must_use]
pub fn may_have_been_delivered(row: &Delivery) -> bool {
    // A gateway's 5xx and a 409 say nothing about what the receiver behind it made of the request.
    row.attempts.iter().any(|attempt| {
        let unsure = matches!(
            attempt.reason,
            Reason::Timeout | Reason::ConnectionCut | Reason::Accepted | Reason::InProgress | Reason::ServerError
        );
        attempt.answer == Answer::Unknown || (attempt.answer != Answer::Shadow && unsure)
    })
}

/// The last attempt whose answer was lost, unless the row was brought back or moved since: whoever did that was told. An attempt
/// whose lease has ended counts. None if there is none.
#[must_use]
pub fn lost_answer(row: &Delivery) -> Option<u32> {
    let line = |number: u32| row.history.iter().rposition(|entry| entry.attempt == Some(number));
    let asked = |entry: &HistoryEntry| matches!(entry.reason, Some(Reason::Redriven | Reason::Rescheduled));
    let told = row.history.iter().rposition(asked);
    let open = (row.state == State::Delivering && !row.shadow).then(|| row.next_attempt());
    let lost = |attempt: &&Attempt| {
        let cut = matches!(attempt.reason, Reason::Timeout | Reason::ConnectionCut);
        attempt.answer == Answer::Unknown || (attempt.answer != Answer::Shadow && cut)
    };
    let closed = row.attempts.iter().rev().filter(lost).map(|attempt| attempt.number);
    open.into_iter().chain(closed).find(|number| line(*number) >= told)
}

/// The row without an open attempt: one whose lease has surely ended is closed as unknown, as anybody else would do it.
fn settled(row: &Delivery, stamp: &Stamp) -> Result<Delivery, Refusal> {
    if row.state != State::Delivering {
        return Ok(row.clone());
    }
    if row.lease_may_be_live(stamp.now) || row.late_success.is_some() {
        return Err(Refusal::InFlight);
    }
    let number = row.next_attempt();
    let mut closed = row.clone();
    closed.attempts.push(unknown(row, number));
    moved(&closed, Event::ReturnToLedger, Some(number), Some(Reason::OutcomeUnknown), stamp)
}

#[cfg(test)]
mod tests {
    use super::super::{dispatch_claimed, late};
    use super::*;
    use crate::acquire::Claimer;
    use crate::clock::Now;
    use crate::delivery::{Hold, NewDelivery};
    use crate::destination::Mode;
    use crate::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, Owner, Reference};
    use crate::time::Timestamp;

    const MARGIN: Duration = Duration::from_secs(60);

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_millis(1_796_115_600_000 + minute * 60_000)
    }

    fn stamp(minute: i64) -> Stamp {
        Stamp { now: Now::exactly(at(minute)), by: Correlation::new("op").expect("a token") }
    }

    fn row(state: State) -> Delivery {
        let id = DeliveryId::new("dlv_x").expect("an id");
        Delivery {
            state,
            version: 7,
            rescues: 3,
            history: Vec::new(),
            ..Delivery::new(
                NewDelivery {
                    idempotency_key: IdempotencyKey::from(&id),
                    reference: Reference::new("c-1").expect("a reference"),
                    destination: DestinationId::new("crm").expect("a destination"),
                    shard: 0,
                    content: Content::new("abc").expect("a hash"),
                    deliver_after: at(10),
                    deliver_by: at(60),
                    id,
                },
                at(0),
                stamp(0).by,
            )
        }
    }

    fn delivering(until: i64) -> Delivery {
        let owner = Owner::new("o1").ok();
        Delivery { lease_owner: owner, lease_until: Some(at(until)), held_until: Some(at(12)), ..row(State::Delivering) }
    }

    fn wish() -> Cancel {
        Cancel { since: at(11), by: "ann".into(), why: "the contract was renewed".into() }
    }

    const TO: fn(i64, i64) -> Instants = |after, by| Instants { deliver_after: at(after), deliver_by: at(by) };

    #[test]
    fn a_cancel_is_one_write_in_every_state_but_a_live_or_terminal_one() {
        for state in State::ALL.into_iter().filter(|s| *s != State::Delivering) {
            let row = row(state);
            match cancelled(&row, wish(), &stamp(11)) {
                Err(refusal) => assert!(state.is_terminal() && refusal == Refusal::Terminal, "{state}"),
                Ok(Transition { before, after }) => {
                    assert!(!state.is_terminal() && before == row, "{state}");
                    assert_eq!((after.state, after.version, after.wake_at), (State::Cancelled, 8, None));
                    assert_eq!((after.reason, after.cancel), (Some(Reason::Cancelled), Some(wish())));
                }
            }
        }
    }

    #[test]
    fn a_reschedule_keeps_identity_and_attempts_and_wakes_at_the_new_due_time() {
        for state in State::ALL.into_iter().filter(|s| *s != State::Delivering) {
            let row = row(state);
            match rescheduled(&row, TO(5, 90), MARGIN, &stamp(3)) {
                Err(refusal) => assert!(state.is_terminal() && refusal == Refusal::Terminal, "{state}"),
                Ok(Transition { after, .. }) => {
                    assert_eq!((after.state, after.version, after.rescues), (State::Scheduled, 8, 0));
                    assert_eq!((after.next_attempt_at, after.wake_at, after.held_until), (at(5), Some(at(5)), None));
                    assert_eq!((after.deliver_after, after.deliver_by), (at(5), at(90)));
                    assert_eq!((&after.id, &after.idempotency_key), (&row.id, &row.idempotency_key));
                }
            }
        }
    }

    #[test]
    fn both_are_refused_until_the_lease_has_surely_ended() {
        let row = delivering(20);
        assert_eq!(cancelled(&row, wish(), &stamp(19)).err(), Some(Refusal::InFlight));
        assert_eq!(rescheduled(&row, TO(30, 90), MARGIN, &stamp(19)).err(), Some(Refusal::InFlight));
        // The database may be past the end already, but it is not certain.
        let unsure = Stamp { now: Now { lo: at(19), hi: at(21) }, ..stamp(0) };
        assert_eq!(cancelled(&row, wish(), &unsure).err(), Some(Refusal::InFlight));
        for changed in [cancelled(&row, wish(), &stamp(20)), rescheduled(&row, TO(30, 90), MARGIN, &stamp(20))] {
            let after = changed.expect("allowed").after;
            assert_eq!((after.version, after.lease_until, after.attempts.len()), (8, None, 1));
            assert!(may_have_been_delivered(&after));
            let lines: Vec<String> = after.history.iter().map(|e| format!("{}{:?}", e.state, e.attempt)).collect();
            assert_eq!(lines[0], "scheduledSome(1)");
        }
    }

    #[test]
    fn a_success_that_waits_for_its_write_is_not_taken_back() {
        let row = Delivery { late_success: Some(1), ..delivering(20) };
        assert_eq!(cancelled(&row, wish(), &stamp(30)).err(), Some(Refusal::InFlight));
        assert_eq!(rescheduled(&row, TO(40, 90), MARGIN, &stamp(30)).err(), Some(Refusal::InFlight));
    }

    #[test]
    fn a_receivers_wait_is_not_undercut_and_a_first_due_time_is_no_wait() {
        let waits = Delivery { next_attempt_at: at(25), ..row(State::Deferred) };
        assert_eq!(rescheduled(&waits, TO(12, 90), MARGIN, &stamp(11)).expect("allowed").after.next_attempt_at, at(25));
        assert_eq!(rescheduled(&waits, TO(40, 90), MARGIN, &stamp(11)).expect("allowed").after.next_attempt_at, at(40));
        let moved = rescheduled(&row(State::Scheduled), TO(40, 90), MARGIN, &stamp(3)).expect("allowed").after;
        assert_eq!(rescheduled(&moved, TO(5, 90), MARGIN, &stamp(4)).expect("allowed").after.next_attempt_at, at(5));
    }

    #[test]
    fn a_receivers_wait_is_not_undercut_by_moving_twice() {
        let waits = Delivery { next_attempt_at: at(25), ..row(State::Deferred) };
        let away = rescheduled(&waits, TO(40, 90), MARGIN, &stamp(11)).expect("allowed").after;
        assert_eq!((away.next_attempt_at, away.floor), (at(40), Some(at(25))));
        let back = rescheduled(&away, TO(12, 90), MARGIN, &stamp(12)).expect("allowed").after;
        assert_eq!((back.next_attempt_at, back.floor, back.wake_at), (at(25), Some(at(25)), Some(at(25))));
        let again = rescheduled(&back, TO(13, 90), MARGIN, &stamp(12)).expect("allowed").after;
        assert_eq!(again.next_attempt_at, at(25));
        // What fails later sets a wait of its own; the longer one counts.
        let failed = Delivery { next_attempt_at: at(55), ..away };
        assert_eq!(rescheduled(&failed, TO(12, 90), MARGIN, &stamp(41)).expect("allowed").after.floor, Some(at(55)));
    }

    #[test]
    fn a_reschedule_says_what_it_left() {
        let first = rescheduled(&row(State::Scheduled), TO(40, 90), MARGIN, &stamp(3)).expect("allowed").after;
        let second = rescheduled(&first, TO(5, 50), MARGIN, &stamp(4)).expect("allowed").after;
        let moves: Vec<(Timestamp, Instants)> = second.moves.iter().map(|moved| (moved.at, moved.from)).collect();
        assert_eq!(moves, [(at(3), TO(10, 60)), (at(4), TO(40, 90))]);
        let lines: Vec<Timestamp> = second.history.iter().map(|line| line.at).collect();
        assert_eq!(lines, [at(3), at(4)], "each has its line");
    }

    #[test]
    fn an_answer_is_lost_until_somebody_who_was_told_moves_the_row() {
        let closed = |reason, answer| {
            let mut row = row(State::Dead);
            row.attempts = vec![Attempt { reason, answer, ..shadowed().attempts[0].clone() }];
            row.history = vec!["2026-12-01T09:00:00.000Z dead#1 outcome_unknown op".parse().expect("a line")];
            row
        };
        for (reason, answer, lost) in [
            (Reason::Timeout, Answer::Error, Some(1)),
            (Reason::ConnectionCut, Answer::Error, Some(1)),
            (Reason::OutcomeUnknown, Answer::Unknown, Some(1)),
            (Reason::OutcomeUnknown, Answer::Shadow, None),
            (Reason::ServerError, Answer::Status(500), None),
            (Reason::ConnectFailed, Answer::Error, None),
        ] {
            assert_eq!(lost_answer(&closed(reason, answer)), lost, "{reason} {answer:?}");
        }
        let mut told = closed(Reason::Timeout, Answer::Error);
        told.history.push("2026-12-01T09:10:00.000Z scheduled redriven op".parse().expect("a line"));
        assert_eq!(lost_answer(&told), None);
        told.attempts.push(Attempt { number: 2, ..told.attempts[0].clone() });
        told.history.push("2026-12-01T09:11:00.000Z dead#2 outcome_unknown op".parse().expect("a line"));
        assert_eq!(lost_answer(&told), Some(2));
        // Nobody knows yet what becomes of the call under way.
        assert_eq!(lost_answer(&delivering(20)), Some(1));
    }

    #[test]
    fn a_held_row_stays_held_and_sleeps() {
        let hold = Some(Hold { since: at(1), by: "ann".into(), why: "asked".into() });
        let after =
            rescheduled(&Delivery { hold, ..row(State::Scheduled) }, TO(40, 90), MARGIN, &stamp(3)).expect("allowed").after;
        assert!(after.hold.is_some());
        assert_eq!(after.wake_at, Some(at(89)));
    }

    /// A stamped row that made an attempt without a call.
    fn shadowed() -> Delivery {
        let attempt = Attempt {
            number: 1,
            started_at: at(10),
            took: Duration::ZERO,
            answer: Answer::Error,
            reason: Reason::SinkUnavailable,
            destination_version: 1,
            key_ids: "k".into(),
        };
        Delivery { shadow: true, attempts: vec![attempt], ..row(State::Scheduled) }
    }

    #[test]
    fn other_instants_are_stamped_by_the_mode_of_their_own_claim() {
        let claimed = |row: &Delivery, mode| {
            let owner = Owner::new("o1").expect("an owner");
            let claimer = Claimer { owner, by: stamp(41).by, until: at(42) };
            dispatch_claimed(row, claimer, mode, &stamp(41)).expect("claimed").after.shadow
        };
        let moved = rescheduled(&shadowed(), TO(40, 90), MARGIN, &stamp(11)).expect("allowed").after;
        assert_eq!((claimed(&moved, Mode::Shadow), claimed(&moved, Mode::Live)), (true, false));
        // What fell due in the shadow run stays of it after a promotion, and what was called live is never stamped.
        assert!(claimed(&shadowed(), Mode::Live));
        let mut called = Delivery { shadow: false, ..shadowed() };
        called.attempts.iter_mut().for_each(|attempt| attempt.reason = Reason::Timeout);
        assert!(!claimed(&called, Mode::Shadow));
    }

    #[test]
    fn an_effect_after_a_cancel_is_told_and_moves_nothing() {
        let mut cancelled = Delivery { attempts: shadowed().attempts, ..row(State::Cancelled) };
        cancelled.attempts.iter_mut().for_each(|attempt| attempt.answer = Answer::Unknown);
        let evidence = Attempt { answer: Answer::Status(200), reason: Reason::Accepted, ..cancelled.attempts[0].clone() };
        let after = late(&cancelled, &evidence, true, &stamp(12)).expect("told").after;
        assert_eq!((after.state, after.version, after.reason), (State::Cancelled, 7, Some(Reason::EffectAfterCancel)));
        assert_eq!(after.attempts, [evidence]);
    }
}
