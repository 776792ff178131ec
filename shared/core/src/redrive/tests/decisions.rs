//! What a run does with a row and with a letter.

use proptest::prelude::*;

use super::*;
use crate::attempt::{Answer, Attempt};
use crate::delivery::Hold;
use crate::destination::Pause;
use crate::transition::{Grant, redriven};

fn decided(row: &Delivery, minute: i64) -> ForRow {
    for_row(row, &run(), Some(&destination()), true, now(minute), MARGIN)
}

#[test]
fn a_selected_row_is_moved_unless_something_stands_in_its_way() {
    let moving = Move { grant: 3, deliver_by: None, not_before: at(0), start_by: at(59) };
    assert_eq!(decided(&dead(1), 30), ForRow::Move(moving));
    assert_eq!(decided(&dead(1), 59), ForRow::Move(moving));
    let skips = |row: &Delivery, minute, reason| assert_eq!(decided(row, minute), ForRow::Skip(reason));
    skips(&dead(1), 60, SkipReason::DeadlineUnreachable);
    let waits = Delivery { next_attempt_at: at(60), ..dead(1) };
    skips(&waits, 30, SkipReason::DeadlineUnreachable);
    skips(&Delivery { state: State::Delivered, ..dead(1) }, 30, SkipReason::Changed);
    let hold = Some(Hold { since: at(1), by: "ann".into(), why: "asked".into() });
    skips(&Delivery { hold, ..dead(1) }, 30, SkipReason::Held);
    let mine = "run_a death#1 +3 by ann".parse().expect("a redrive");
    skips(&Delivery { redrives: vec![mine], ..dead(1) }, 30, SkipReason::AlreadyMoved);
    let other = "run_b death#1 +3 by ann".parse().expect("a redrive");
    assert_eq!(decided(&Delivery { redrives: vec![other], ..dead(1) }, 30), ForRow::Move(moving));
    let skip = |destination: Option<&Destination>, payload| for_row(&dead(1), &run(), destination, payload, now(30), MARGIN);
    assert_eq!(skip(None, true), ForRow::Skip(SkipReason::UnknownDestination));
    assert_eq!(skip(Some(&destination()), false), ForRow::Skip(SkipReason::NoPayload));
    let pause = Some(Pause { since: at(1), by: "ann".into(), why: "review".into() });
    let paused = Destination { paused: pause, ..destination() };
    assert_eq!(skip(Some(&paused), true), ForRow::Skip(SkipReason::DestinationPaused));
}

#[test]
fn a_new_deadline_is_for_those_whose_own_cannot_be_kept() {
    let with = |minute, deliver_by| {
        let run = Run { order: Order { deliver_by: Some(deliver_by), ..order() }, ..run() };
        for_row(&dead(1), &run, Some(&destination()), true, now(minute), MARGIN)
    };
    let moving = Move { grant: 3, deliver_by: None, not_before: at(0), start_by: at(59) };
    assert_eq!(with(30, at(120)), ForRow::Move(moving), "its own can be kept");
    assert_eq!(with(70, at(120)), ForRow::Move(Move { deliver_by: Some(at(120)), start_by: at(119), ..moving }));
    assert_eq!(with(70, at(70)), ForRow::Skip(SkipReason::DeadlineUnreachable));
}

#[test]
fn a_grant_reaches_past_attempts_that_the_budget_does_not_cover() {
    let attempt = Attempt {
        number: 1,
        started_at: at(0),
        took: Duration::ZERO,
        answer: Answer::Error,
        reason: Reason::Timeout,
        destination_version: 1,
        key_ids: "k".into(),
    };
    // The policy allows ten.
    for (made, granted, grant) in [(0, 0, 3), (10, 0, 3), (12, 0, 5), (12, 2, 3), (12, 1, 4)] {
        let row = Delivery { attempts: vec![attempt.clone(); made], granted, ..dead(1) };
        let ForRow::Move(moving) = decided(&row, 30) else { panic!("moved") };
        assert_eq!(moving.grant, grant, "{made} made, {granted} granted");
    }
}

#[test]
fn a_letter_is_deleted_once_its_death_is_over() {
    use ForLetter::{Delete, Leave};
    let row = |state| Delivery { state, ..dead(1) };
    for state in State::ALL {
        let over = if state.is_terminal() { DeleteWhy::Suppressed } else { DeleteWhy::Moved };
        let present = if state.needs_operator() { Leave(LeaveWhy::Unselected) } else { Delete(over) };
        assert_eq!(for_letter(Some(2), Some(&row(state))), present, "{state}");
        assert_eq!(for_letter(Some(1), Some(&row(state))), Delete(DeleteWhy::Older), "{state}");
        let later = if state.is_terminal() { Delete(DeleteWhy::Suppressed) } else { Leave(LeaveWhy::Unknown) };
        assert_eq!(for_letter(Some(3), Some(&row(state))), later, "{state}");
        let bare = if state.is_terminal() { Delete(DeleteWhy::Suppressed) } else { Leave(LeaveWhy::BrokerMoved) };
        assert_eq!(for_letter(None, Some(&row(state))), bare, "{state}");
    }
    for death in [None, Some(1), Some(2)] {
        assert_eq!(for_letter(death, None), Leave(LeaveWhy::Unknown));
    }
}

#[test]
fn a_letter_of_a_row_that_came_back_and_is_delivered_was_moved() {
    let back = redriven(
        &dead(2),
        &run().id,
        Grant { owner: "ann".into(), attempts: 1, slot: at(1), deliver_by: None },
        MARGIN,
        &crate::transition::Stamp { now: now(1), by: by() },
    )
    .expect("moved")
    .after;
    let delivered = Delivery { state: State::Delivered, ..back };
    let fates = [Some(1), Some(2), None].map(|death| for_letter(death, Some(&delivered)));
    assert_eq!(fates, [DeleteWhy::Older, DeleteWhy::Moved, DeleteWhy::Suppressed].map(ForLetter::Delete));
    let again = Delivery { state: State::Dead, ..delivered };
    assert_eq!(for_letter(Some(2), Some(&again)), ForLetter::Leave(LeaveWhy::Unselected), "an entry alone ends no death");
}

proptest! {
    /// Whatever a run decides, it moves a row once, and never past what the row may still do.
    #[test]
    fn what_is_moved_can_start_and_is_moved_once(
        state in proptest::sample::select(State::ALL.to_vec()), deadline in 0_i64..120, own in -30_i64..120,
        new in proptest::option::of(0_i64..200), minute in 0_i64..120,
    ) {
        let row = Delivery { state, deliver_by: at(deadline), next_attempt_at: at(own), ..dead(1) };
        let run = Run { order: Order { deliver_by: new.map(at), ..order() }, ..run() };
        let decision = for_row(&row, &run, Some(&destination()), true, now(minute), MARGIN);
        if let ForRow::Move(moving) = decision {
            prop_assert!(state.needs_operator());
            prop_assert!(moving.not_before <= moving.start_by && at(minute) <= moving.start_by);
            prop_assert!(moving.deliver_by.is_none() || at(deadline - 1) < at(minute).max(at(own)));
            let grant = Grant { owner: "ann".into(), attempts: moving.grant, slot: at(minute), deliver_by: moving.deliver_by };
            let stamp = crate::transition::Stamp { now: now(minute), by: by() };
            let moved = redriven(&row, &run.id, grant, MARGIN, &stamp).expect("moved").after;
            prop_assert!(moved.next_attempt_at <= moving.start_by, "it can be called");
            let dead_again = Delivery { state: State::Dead, ..moved };
            let again = for_row(&dead_again, &run, Some(&destination()), true, now(minute), MARGIN);
            prop_assert_eq!(again, ForRow::Skip(SkipReason::AlreadyMoved));
        } else if state.needs_operator() {
            prop_assert_eq!(decision, ForRow::Skip(SkipReason::DeadlineUnreachable));
        }
    }
}
