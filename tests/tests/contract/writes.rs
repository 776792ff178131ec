//! Guarded writes: what they change, what they leave alone, what refuses them.

use punctual_core::attempt::Answer;
use punctual_core::delivery::Delivery;
use punctual_core::destination::Mode;
use punctual_core::id::{MessageId, RunId};
use punctual_core::outcome::Class;
use punctual_core::ports::{Created, Ledger, Written};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::transition::{self, Grant, Transition};

use crate::rows::{MARGIN, at, attempt, called, cancel, claimer, full, hold, line, payload, retry, row, stamp, terms};
use crate::worlds::World;

async fn seed(ledger: &impl Ledger, row: &Delivery) {
    assert_eq!(ledger.create(row, &payload(0, "{}")).await.unwrap(), Created::New);
}

async fn stored(ledger: &impl Ledger, row: &Delivery) -> Delivery {
    ledger.read(std::slice::from_ref(&row.id)).await.unwrap().remove(0)
}

/// Writes, and gives the row as it then is.
async fn apply(ledger: &impl Ledger, transition: &Transition) -> Delivery {
    assert_eq!(ledger.write(transition).await.unwrap(), Written::Done);
    stored(ledger, &transition.before).await
}

/// A row under the lease of its first attempt.
fn delivering(n: u32) -> Delivery {
    let queued = transition::queued(&dispatching(n), message(), &stamp(2, "dispatch")).expect("queued").after;
    transition::deliver_claimed(&queued, claimer("deliver", 60), &stamp(3, "deliver")).expect("claimed").after
}

fn dispatching(n: u32) -> Delivery {
    transition::dispatch_claimed(&row(n), claimer("dispatch", 60), Mode::Live, &stamp(1, "dispatch")).expect("claimed").after
}

fn run(name: &str) -> RunId {
    RunId::new(name).expect("a run id")
}

fn grant(slot: i64) -> Grant {
    Grant { owner: "ann".into(), attempts: 3, slot: at(slot), deliver_by: Some(at(9_000)) }
}

fn message() -> MessageId {
    MessageId::new("message-1").expect("a message id")
}

/// Every kind of transition, one after the other: what is stored is what the core says.
pub(crate) async fn a_life_reads_as_written(world: &impl World) {
    type Step = fn(&Delivery) -> Transition;
    let steps: [(&str, Step); 23] = [
        ("asleep", |row| transition::asleep(row, MARGIN)),
        ("released", |row| transition::unheld(row, MARGIN, &stamp(0, "op")).unwrap()),
        ("claimed", |row| transition::dispatch_claimed(row, claimer("d1", 60), Mode::Live, &stamp(1, "d1")).unwrap()),
        ("queued", |row| transition::queued(row, message(), &stamp(2, "d1")).unwrap()),
        ("rescued", |row| transition::dispatch_claimed(row, claimer("d2", 90), Mode::Live, &stamp(3, "d2")).unwrap()),
        ("returned", |row| transition::returned(row, Reason::PublishFailed, MARGIN, &stamp(4, "d2")).unwrap()),
        ("claimed again", |row| transition::dispatch_claimed(row, claimer("d3", 90), Mode::Live, &stamp(5, "d3")).unwrap()),
        ("delivering", |row| transition::deliver_claimed(row, claimer("c1", 60), &stamp(6, "c1")).unwrap()),
        ("deferred", |row| transition::finished(row, &called(6, 503), retry(), &terms(), 0.5, &stamp(7, "c1")).unwrap()),
        ("delivering again", |row| transition::deliver_claimed(row, claimer("c2", 60), &stamp(40, "c2")).unwrap()),
        ("outcome unknown", |row| transition::closed_as_unknown(row, &terms(), &stamp(70, "c3")).unwrap()),
        ("late evidence", |row| transition::late(row, &attempt(2), false, &stamp(71, "c2")).unwrap()),
        ("delivering a third time", |row| transition::deliver_claimed(row, claimer("c4", 100), &stamp(72, "c4")).unwrap()),
        ("dead", |row| {
            let class = Class::Dead { reason: Reason::Rejected, pause: false };
            transition::finished(row, &called(73, 400), class, &terms(), 0.5, &stamp(74, "c4")).unwrap()
        }),
        ("letter sent", |row| transition::dead_letter_sent(row, &stamp(75, "c4")).unwrap()),
        ("held", |row| transition::held(row, hold(), MARGIN, &stamp(76, "op")).unwrap()),
        ("unheld", |row| transition::unheld(row, MARGIN, &stamp(77, "op")).unwrap()),
        ("redriven", |row| transition::redriven(row, &run("run_a"), grant(80), MARGIN, &stamp(78, "redrive")).unwrap()),
        ("dead again", |row| transition::dead_without_attempt(row, Reason::PayloadMissing, &stamp(79, "d5")).unwrap()),
        ("requeued", |row| transition::requeued(row, grant(80), MARGIN, &stamp(79, "operator")).unwrap()),
        ("claimed a last time", |row| {
            transition::dispatch_claimed(row, claimer("d4", 200), Mode::Live, &stamp(80, "d4")).unwrap()
        }),
        ("delivering a last time", |row| transition::deliver_claimed(row, claimer("c5", 200), &stamp(81, "c5")).unwrap()),
        ("delivered", |row| {
            transition::finished(row, &called(81, 204), Class::Delivered, &terms(), 0.5, &stamp(82, "c5")).unwrap()
        }),
    ];
    let ledger = world.ledger();
    let mut current = Delivery { hold: Some(hold()), ..row(1) };
    seed(ledger, &current).await;
    for (name, step) in steps {
        let transition = step(&current);
        assert!(transition.before != transition.after, "{name} changes something");
        assert_eq!(apply(ledger, &transition).await, transition.after, "{name}");
        // The answer may have been lost: once more is no second time.
        assert_eq!(apply(ledger, &transition).await, transition.after, "{name}, repeated");
        current = transition.after;
    }
    assert_eq!((current.state, current.attempts.len(), current.wake_at), (State::Delivered, 4, None));
}

/// Of two runs that move one row at the same time one has it, also if both say the same of themselves.
pub(crate) async fn one_of_two_runs_moves_a_row(world: &impl World) {
    let ledger = world.ledger();
    let before = Delivery { hold: None, cancel: None, ..full(1) };
    seed(ledger, &before).await;
    let moved = |name| transition::redriven(&before, &run(name), grant(90), MARGIN, &stamp(78, "redrive")).expect("moved");
    let (winner, loser) = (moved("run_a"), moved("run_b"));
    let now = apply(ledger, &winner).await;
    assert_eq!(now, winner.after);
    assert_eq!(ledger.write(&loser).await.unwrap(), Written::Conflict(Box::new(now.clone())));
    assert_eq!(apply(ledger, &winner).await, now, "the winner's answer may have been lost");
    assert_eq!((now.granted, now.redrives.len(), now.run()), (before.granted + 3, 3, Some(&run("run_a"))));
}

pub(crate) async fn a_lost_guard_changes_nothing(world: &impl World) {
    let ledger = world.ledger();
    let before = delivering(1);
    seed(ledger, &before).await;
    // Another invocation closed the attempt in between.
    let winner = transition::closed_as_unknown(&before, &terms(), &stamp(61, "winner")).expect("closed");
    let now = apply(ledger, &winner).await;
    let loser = transition::finished(&before, &called(3, 200), Class::Delivered, &terms(), 0.5, &stamp(62, "loser"));
    assert_eq!(ledger.write(&loser.expect("finished")).await.unwrap(), Written::Conflict(Box::new(now.clone())));
    assert_eq!(stored(ledger, &before).await, now);
}

pub(crate) async fn an_absent_row_stays_absent(world: &impl World) {
    let ledger = world.ledger();
    let write = transition::expired(&row(1), &stamp(1, "me")).expect("a transition");
    assert_eq!(ledger.write(&write).await.unwrap(), Written::Absent);
    let unversioned = transition::held(&row(1), hold(), MARGIN, &stamp(1, "me")).expect("a transition");
    assert_eq!(ledger.write(&unversioned).await.unwrap(), Written::Absent);
    assert_eq!(ledger.read(&[row(1).id]).await.unwrap(), []);
}

pub(crate) async fn a_hold_survives_an_outcome_that_did_not_see_it(world: &impl World) {
    let ledger = world.ledger();
    let before = delivering(1);
    seed(ledger, &before).await;
    let held = transition::held(&before, hold(), MARGIN, &stamp(4, "operator")).expect("held");
    apply(ledger, &held).await;
    let outcome = transition::finished(&before, &called(3, 503), retry(), &terms(), 0.5, &stamp(5, "deliver")).expect("finished");
    let now = apply(ledger, &outcome).await;
    assert_eq!(now.hold, Some(hold()));
    assert_eq!((now.state, now.version, &now.attempts), (State::Deferred, before.version + 1, &outcome.after.attempts));
    let mut history = held.after.history.clone();
    history.extend(outcome.after.history.last().cloned());
    assert_eq!(now.history, history, "the history of both, in the order in which they were written");
}

pub(crate) async fn an_outcome_survives_a_hold_that_did_not_see_it(world: &impl World) {
    let ledger = world.ledger();
    let before = full(1);
    seed(ledger, &before).await;
    // Two writes without a version, both computed from the same row.
    let evidence = transition::late(&before, &attempt(2), false, &stamp(8, "late")).expect("evidence");
    let unheld = transition::unheld(&before, MARGIN, &stamp(9, "operator")).expect("unheld");
    apply(ledger, &evidence).await;
    let now = apply(ledger, &unheld).await;
    assert_eq!((now.hold, &now.attempts), (None, &evidence.after.attempts));
    assert_eq!(now.history, unheld.after.history);
}

pub(crate) async fn an_outdated_hold_is_refused(world: &impl World) {
    let ledger = world.ledger();
    let before = delivering(1);
    seed(ledger, &before).await;
    let outcome = transition::finished(&before, &called(3, 200), Class::Delivered, &terms(), 0.5, &stamp(5, "deliver"));
    let now = apply(ledger, &outcome.expect("finished")).await;
    let held = transition::held(&before, hold(), MARGIN, &stamp(6, "operator")).expect("held");
    assert_eq!(ledger.write(&held).await.unwrap(), Written::Conflict(Box::new(now.clone())));
    assert_eq!(stored(ledger, &before).await, now);
}

pub(crate) async fn a_repeated_write_is_done_once(world: &impl World) {
    let ledger = world.ledger();
    let before = delivering(1);
    seed(ledger, &before).await;
    let outcome = transition::finished(&before, &called(3, 503), retry(), &terms(), 0.5, &stamp(5, "deliver")).expect("finished");
    apply(ledger, &outcome).await;
    assert_eq!(ledger.write(&outcome).await.unwrap(), Written::Done);
    assert_eq!(stored(ledger, &before).await, outcome.after);
    // With another line of history it is another's write of the same version.
    let rival = transition::finished(&before, &called(3, 503), retry(), &terms(), 0.5, &stamp(5, "rival")).expect("finished");
    assert_eq!(ledger.write(&rival).await.unwrap(), Written::Conflict(Box::new(outcome.after)));
}

pub(crate) async fn a_repeated_hold_is_written_once(world: &impl World) {
    let ledger = world.ledger();
    let before = row(1);
    seed(ledger, &before).await;
    let held = transition::held(&before, hold(), MARGIN, &stamp(4, "operator")).expect("held");
    apply(ledger, &held).await;
    assert_eq!(apply(ledger, &held).await, held.after, "no second line of history");
    // Not even after it was released: the repeat is an old one.
    let unheld = transition::unheld(&held.after, MARGIN, &stamp(5, "operator")).expect("unheld");
    apply(ledger, &unheld).await;
    assert_eq!(apply(ledger, &held).await, unheld.after);
}

pub(crate) async fn a_released_row_is_not_put_to_sleep(world: &impl World) {
    let ledger = world.ledger();
    let free = row(1);
    seed(ledger, &free).await;
    let held = transition::held(&free, hold(), MARGIN, &stamp(1, "operator")).expect("held").after;
    apply(ledger, &Transition { before: free.clone(), after: held.clone() }).await;
    // A dispatch run has met the held row; before it writes, the operator releases it.
    let mut met = held.clone();
    met.wake_at = Some(at(0));
    let asleep = transition::asleep(&met, MARGIN);
    let released = apply(ledger, &transition::unheld(&held, MARGIN, &stamp(2, "operator")).expect("unheld")).await;
    assert_eq!(ledger.write(&asleep).await.unwrap(), Written::Conflict(Box::new(released.clone())));
    assert_eq!(stored(ledger, &free).await, released, "it wakes when it is due");
}

pub(crate) async fn a_return_that_saw_a_hold_is_decided_again_once_it_is_released(world: &impl World) {
    let ledger = world.ledger();
    let mut queued = row(1);
    queued.state = State::Queued;
    queued.hold = Some(hold());
    seed(ledger, &queued).await;
    // Deliver has met the held row; before it writes, the operator releases it.
    let returned = transition::returned(&queued, Reason::Held, MARGIN, &stamp(1, "deliver")).expect("returned");
    let released = apply(ledger, &transition::unheld(&queued, MARGIN, &stamp(2, "operator")).expect("unheld")).await;
    assert_eq!(ledger.write(&returned).await.unwrap(), Written::Conflict(Box::new(released.clone())));
    assert_eq!(stored(ledger, &queued).await, released, "it must not sleep until its last safe start");
}

pub(crate) async fn a_cancel_says_who_and_why_and_fences_the_claim_that_did_not_see_it(world: &impl World) {
    let ledger = world.ledger();
    let mut queued = row(1);
    queued.state = State::Queued;
    seed(ledger, &queued).await;
    let claim = transition::deliver_claimed(&queued, claimer("late", 40), &stamp(1, "deliver")).expect("claimed");
    let cancelled = transition::cancelled(&queued, cancel(), &stamp(1, "operator")).expect("cancelled");
    let after = apply(ledger, &cancelled).await;
    assert_eq!((after.state, &after.cancel, after.wake_at), (State::Cancelled, &Some(cancel()), None));
    assert_eq!(ledger.write(&claim).await.unwrap(), Written::Conflict(Box::new(after.clone())));
    assert_eq!(stored(ledger, &queued).await, after, "nothing is claimed after a cancel");
}

pub(crate) async fn twin_claims_of_one_invocation_in_one_millisecond_have_one_winner(world: &impl World) {
    let ledger = world.ledger();
    let mut queued = row(1);
    queued.state = State::Queued;
    seed(ledger, &queued).await;
    let first = transition::deliver_claimed(&queued, claimer("first", 40), &stamp(1, "deliver")).expect("claimed");
    let twin = transition::deliver_claimed(&queued, claimer("twin", 40), &stamp(1, "deliver")).expect("claimed");
    assert_eq!(ledger.write(&first).await.unwrap(), Written::Done);
    assert_eq!(ledger.write(&first).await.unwrap(), Written::Done, "an answer that was lost is asked for again");
    assert_eq!(ledger.write(&twin).await.unwrap(), Written::Conflict(Box::new(first.after)));
}

pub(crate) async fn a_late_success_fences_the_outcome(world: &impl World) {
    let ledger = world.ledger();
    let mut before = delivering(1);
    before.attempts.push(attempt(1));
    before.attempts[0].answer = Answer::Unknown;
    seed(ledger, &before).await;
    // The first attempt's 2xx becomes known while the second is under way.
    let evidence = punctual_core::attempt::Attempt { answer: Answer::Status(200), reason: Reason::Accepted, ..attempt(1) };
    let late = transition::late(&before, &evidence, true, &stamp(8, "late")).expect("a late success");
    let noted = apply(ledger, &late).await;
    assert_eq!((noted.late_success, noted.version, noted.state), (Some(1), before.version, State::Delivering));
    let blind = transition::finished(&before, &called(3, 503), retry(), &terms(), 0.5, &stamp(9, "deliver")).expect("finished");
    assert_eq!(ledger.write(&blind).await.unwrap(), Written::Conflict(Box::new(noted.clone())));
    let seeing = transition::finished(&noted, &called(3, 503), retry(), &terms(), 0.5, &stamp(9, "deliver")).expect("finished");
    let now = apply(ledger, &seeing).await;
    assert_eq!((now.state, now.reason), (State::Delivered, Some(Reason::LateEvidence)));
    assert_eq!(now, seeing.after);
}

pub(crate) async fn late_evidence_fills_one_attempt_and_the_next_is_appended(world: &impl World) {
    let ledger = world.ledger();
    let mut before = delivering(1);
    before.attempts = vec![attempt(1), attempt(2)];
    before.attempts[1].answer = Answer::Unknown;
    seed(ledger, &before).await;
    let evidence = transition::late(&before, &attempt(2), false, &stamp(8, "late")).expect("evidence");
    let outcome = transition::finished(&before, &called(3, 503), retry(), &terms(), 0.5, &stamp(9, "deliver")).expect("finished");
    apply(ledger, &evidence).await;
    let now = apply(ledger, &outcome).await;
    let answers: Vec<Answer> = now.attempts.iter().map(|attempt| attempt.answer).collect();
    assert_eq!(answers, [Answer::Status(503); 3], "filled, and not overwritten by who did not see it");
    assert_eq!(now.attempts[1], attempt(2));
    assert_eq!(now.attempts[2].number, 3);
}

pub(crate) async fn a_row_with_every_field_round_trips(world: &impl World) {
    let ledger = world.ledger();
    let (all, none) = (full(1), row(2));
    seed(ledger, &all).await;
    seed(ledger, &none).await;
    assert_eq!(stored(ledger, &all).await, all);
    // Every field goes, every field comes.
    let fields_of = |from: &Delivery, like: &Delivery| {
        let mut after = Delivery { id: from.id.clone(), idempotency_key: from.idempotency_key.clone(), ..like.clone() };
        after.attempts = if from.attempts.is_empty() { like.attempts.clone() } else { from.attempts.clone() };
        after.history = from.history.clone();
        after.history.push(line(9, like.state, "swap"));
        after
    };
    for (from, like) in [(&all, &none), (&none, &all)] {
        let transition = Transition { before: from.clone(), after: fields_of(from, like) };
        assert_eq!(apply(ledger, &transition).await, transition.after);
    }
}
