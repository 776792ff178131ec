//! Stored deliveries are moved, taken back, and asked for, in every state.

use std::time::Duration;

use proptest::prelude::*;
use punctual_core::attempt::{Answer as Evidence, Attempt};
use punctual_core::delivery::{Cancel, Delivery, Hold};
use punctual_core::destination::OnUnknown;
use punctual_core::id::{DestinationId, Owner};
use punctual_core::ports::Control as _;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_schedule::result::{Answer, Response};
use serde_json::{Value, json};

use crate::{World, answers, reminder};

const NOW: &str = "2026-12-01T12:10:00.000Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A world with one reminder, due from 12:00 to 13:00, in this state.
async fn with(state: State, change: impl FnOnce(&mut Delivery)) -> World {
    let world = World::new().await;
    world.at("2026-12-01T09:00:00.000Z", &[reminder("a", &json!({}))]).await;
    let mut row = world.ledger.rows().remove(0);
    row.state = state;
    if state == State::Delivering {
        row.lease_owner = Owner::new("o1").ok();
        row.lease_until = Some(at("2026-12-01T12:11:00.000Z"));
    }
    if state == State::Cancelled {
        row.cancel = Some(Cancel { since: at(NOW), by: "ann".into(), why: "first".into() });
    }
    change(&mut row);
    world.ledger.put_row(row);
    world
}

fn row(world: &World) -> Delivery {
    world.ledger.rows().remove(0)
}

async fn moved(world: &World, after: &str, by: &str) -> Response {
    let one = json!({"delivery_id": row(world).id, "deliver_after": after, "deliver_by": by});
    world.send(NOW, &json!({"action": "reschedule", "deliveries": [one]})).await
}

async fn cancelled(world: &World, now: &str) -> Response {
    let one = json!({"delivery_id": row(world).id});
    world.send(now, &json!({"action": "cancel", "by": "crm", "why": "renewed", "deliveries": [one]})).await
}

fn failed(number: u32, reason: Reason) -> Attempt {
    Attempt {
        number,
        started_at: at("2026-12-01T12:01:00.000Z"),
        took: Duration::from_millis(5),
        answer: if reason == Reason::OutcomeUnknown { Evidence::Unknown } else { Evidence::Error },
        reason,
        destination_version: 1,
        key_ids: "k".into(),
    }
}

/// What a cancel and a reschedule say in each state.
fn refusal(state: State) -> Option<Answer> {
    match state {
        State::Delivering => Some(Answer::InFlight),
        State::Delivered => Some(Answer::AlreadyDelivered),
        State::Shadowed => Some(Answer::AlreadyShadowed),
        State::Cancelled => Some(Answer::AlreadyCancelled),
        _ => None,
    }
}

#[tokio::test]
async fn a_date_moves_backwards_and_forwards_in_every_state() {
    for state in State::ALL {
        for (after, by) in
            [("2026-12-01T12:05:00.000Z", "2026-12-01T12:40:00.000Z"), ("2026-12-09T12:00:00.000Z", "2026-12-09T13:00:00.000Z")]
        {
            let world = with(state, |_| {}).await;
            let before = row(&world);
            let response = moved(&world, after, by).await;
            let after_row = row(&world);
            let Some(refusal) = refusal(state) else {
                assert_eq!(answers(&response), [Answer::Rescheduled], "{state}");
                assert_eq!((after_row.deliver_after, after_row.deliver_by), (at(after), at(by)), "{state}");
                assert_eq!((&after_row.id, &after_row.idempotency_key), (&before.id, &before.idempotency_key));
                assert!(after_row.next_attempt_at >= after_row.deliver_after, "{state}");
                assert!(after_row.history.starts_with(&before.history));
                assert_eq!(after_row.history[before.history.len()].reason, Some(Reason::Rescheduled));
                // What is due is released at once, through the same code; what is not waits in the ledger.
                let due = at(after) <= at(NOW);
                assert_eq!((response.released.published, after_row.state == State::Queued), (usize::from(due), due), "{state}");
                // Whoever still has the message has lost: the row is another version.
                assert!(after_row.version > before.version);
                assert_eq!(answers(&moved(&world, after, by).await), [Answer::Unchanged], "{state}: the same again");
                assert_eq!(row(&world), after_row);
                let file = world.at(NOW, &[reminder("a", &json!({}))]).await;
                assert_eq!(answers(&file), [Answer::Unchanged], "{state}: the producer's file again");
                assert_eq!(file.results[0].comes_to.map(|window| window.deliver_after), Some(before.deliver_after));
                assert_eq!(row(&world), after_row);
                continue;
            };
            assert_eq!((answers(&response), response.ok), (vec![refusal], false), "{state}");
            assert_eq!(after_row, before, "{state}");
        }
    }
}

#[tokio::test]
async fn a_call_under_way_is_named_and_a_lost_answer_is_told() {
    let world = with(State::Delivering, |_| {}).await;
    for response in [cancelled(&world, NOW).await, moved(&world, "2026-12-09T12:00:00Z", "2026-12-09T13:00:00Z").await] {
        let in_flight = response.results[0].in_flight.unwrap();
        assert_eq!((in_flight.attempt, in_flight.lease_until), (1, Some(at("2026-12-01T12:11:00.000Z"))));
        assert_eq!(response.results[0].errors[0].code, "in_flight");
        assert_eq!(response.summary.in_flight, 1);
    }
    let ended = cancelled(&world, "2026-12-01T12:12:00.000Z").await;
    assert_eq!((answers(&ended), ended.results[0].may_have_been_delivered), (vec![Answer::Cancelled], true));
    let cancel = row(&world).cancel.unwrap();
    assert_eq!((cancel.by.as_str(), cancel.why.as_str()), ("crm", "renewed"));
    let again = cancelled(&world, "2026-12-01T12:13:00.000Z").await;
    assert_eq!((answers(&again), again.results[0].may_have_been_delivered), (vec![Answer::Unchanged], true));
}

#[tokio::test]
async fn a_cancel_says_what_it_found_in_every_state() {
    for state in State::ALL {
        let world = with(state, |_| {}).await;
        let before = row(&world);
        let response = cancelled(&world, NOW).await;
        match refusal(state) {
            Some(Answer::AlreadyCancelled) => assert_eq!(answers(&response), [Answer::Unchanged]),
            Some(refusal) => assert_eq!((answers(&response), &row(&world)), (vec![refusal], &before), "{state}"),
            None => {
                assert_eq!(answers(&response), [Answer::Cancelled], "{state}");
                assert_eq!((row(&world).state, row(&world).wake_at), (State::Cancelled, None));
                let file = world.at(NOW, &[reminder("a", &json!({}))]).await;
                assert_eq!((answers(&file), file.results[0].state), (vec![Answer::Unchanged], Some(State::Cancelled)));
            }
        }
    }
}

#[tokio::test]
async fn other_instants_grant_no_attempts() {
    let spent = |row: &mut Delivery| row.attempts = (1..=10).map(|n| failed(n, Reason::ConnectFailed)).collect();
    let (after, by) = ("2026-12-09T12:00:00.000Z", "2026-12-09T13:00:00.000Z");
    let world = with(State::Dead, spent).await;
    let before = row(&world);
    let response = moved(&world, after, by).await;
    assert_eq!((answers(&response), response.results[0].errors[0].code), (vec![Answer::AttemptsExhausted], "attempts_exhausted"));
    assert!(response.results[0].errors[0].message.contains("10 of 10"), "{response:?}");
    assert_eq!(row(&world), before);
    // What an operator granted counts; what failed stays on the row.
    let granted = |row: &mut Delivery| {
        spent(row);
        row.granted = 1;
    };
    let world = with(State::Dead, granted).await;
    assert_eq!(answers(&moved(&world, after, by).await), [Answer::Rescheduled]);
    assert_eq!((row(&world).attempts.len(), row(&world).state), (10, State::Scheduled));
}

/// The destination wants a person to look after a lost answer.
async fn review(world: &World) {
    let destination = &world.control.lookup(&[DestinationId::new("acme").unwrap()]).await.unwrap().0[0];
    let mut changed = destination.clone();
    (changed.spec.on_unknown, changed.version) = (OnUnknown::Review, destination.version + 1);
    world.control.put_destination(&changed, destination.version).await.unwrap();
}

async fn moved_knowingly(world: &World, may_repeat: bool) -> Response {
    let (after, by) = ("2026-12-09T12:00:00Z", "2026-12-09T13:00:00Z");
    let one = json!({"delivery_id": row(world).id, "deliver_after": after, "deliver_by": by, "may_repeat": may_repeat});
    world.send(NOW, &json!({"action": "reschedule", "deliveries": [one]})).await
}

#[tokio::test]
async fn after_a_lost_answer_a_receiver_that_wants_review_is_called_again_only_if_asked_for() {
    let dead = |row: &mut Delivery| row.attempts = vec![failed(1, Reason::Timeout)];
    let ended = |row: &mut Delivery| row.lease_until = Some(at("2026-12-01T12:01:00.000Z"));
    for world in [with(State::Dead, dead).await, with(State::Expired, dead).await, with(State::Delivering, ended).await] {
        review(&world).await;
        let before = row(&world);
        let response = moved_knowingly(&world, false).await;
        let error = &response.results[0].errors[0];
        assert_eq!((answers(&response), error.code, row(&world)), (vec![Answer::NeedsReview], "needs_review", before));
        assert!(error.message.contains("attempt 1") && error.message.contains("may_repeat: true"), "{error:?}");
        assert_eq!((response.summary.needs_review, response.ok), (1, false));
        let response = moved_knowingly(&world, true).await;
        assert_eq!((answers(&response), response.results[0].may_have_been_delivered), (vec![Answer::Rescheduled], true));
        // Whoever moved it knew; moving it once more asks nothing new.
        let again = moved(&world, "2026-12-10T12:00:00Z", "2026-12-10T13:00:00Z").await;
        assert_eq!(answers(&again), [Answer::Rescheduled]);
    }
    // A receiver with an idempotency contract is called again without a word.
    let world = with(State::Dead, dead).await;
    assert_eq!(answers(&moved_knowingly(&world, false).await), [Answer::Rescheduled]);
    // And what failed for certain needs no review.
    let world = with(State::Dead, |row| row.attempts = vec![failed(1, Reason::ConnectFailed)]).await;
    review(&world).await;
    assert_eq!(answers(&moved_knowingly(&world, false).await), [Answer::Rescheduled]);
}

#[tokio::test]
async fn a_wait_is_told_and_a_deadline_before_its_end_is_refused() {
    let waits = |row: &mut Delivery| {
        row.attempts = vec![failed(1, Reason::RateLimited)];
        row.next_attempt_at = at("2026-12-01T12:50:00.000Z");
    };
    let world = with(State::Scheduled, waits).await;
    let before = row(&world);
    let response = moved(&world, "2026-12-01T12:11:00Z", "2026-12-01T12:50:05Z").await;
    let error = &response.results[0].errors[0];
    assert_eq!(
        (answers(&response), error.code, error.field.as_str()),
        (vec![Answer::Invalid], "waits", "deliveries[0].deliver_by")
    );
    assert!(error.message.contains("12:50:10.000Z") && error.message.contains("12:50:00.000Z"), "{error:?}");
    assert_eq!(row(&world), before);
    let response = moved(&world, "2026-12-01T12:11:00Z", "2026-12-01T12:50:10Z").await;
    assert_eq!(answers(&response), [Answer::Rescheduled]);
    assert_eq!(response.results[0].next_attempt_at, Some(at("2026-12-01T12:50:00.000Z")), "it says when it is called");
    // Away and back: the receiver's wish still stands.
    let away = moved(&world, "2026-12-01T13:00:00Z", "2026-12-01T14:00:00Z").await;
    assert_eq!(away.results[0].next_attempt_at, None);
    let back = moved(&world, "2026-12-01T12:12:00Z", "2026-12-01T13:00:00Z").await;
    assert_eq!(back.results[0].next_attempt_at, Some(at("2026-12-01T12:50:00.000Z")));
    let lines: Vec<String> = row(&world).moves.iter().map(|moved| moved.from.deliver_by.to_string()).collect();
    assert_eq!(lines, ["2026-12-01T13:00:00.000Z", "2026-12-01T12:50:10.000Z", "2026-12-01T14:00:00.000Z"], "a readable history");
}

#[tokio::test]
async fn what_has_nothing_to_send_is_not_moved_and_what_is_held_says_so() {
    let (after, by) = ("2026-12-09T12:00:00.000Z", "2026-12-09T13:00:00.000Z");
    let world = with(State::Dead, |_| {}).await;
    let before = row(&world);
    world.ledger.erase_payloads(&before.id);
    let response = moved(&world, after, by).await;
    assert_eq!((answers(&response), response.results[0].errors[0].code), (vec![Answer::Invalid], "no_payload"));
    assert_eq!(row(&world), before);
    let hold = Some(Hold { since: at(NOW), by: "ann".into(), why: "asked".into() });
    let world = with(State::Scheduled, |row| row.hold = hold).await;
    let response = moved(&world, after, by).await;
    assert_eq!((answers(&response), response.results[0].held), (vec![Answer::Rescheduled], true));
}

#[tokio::test]
async fn new_instants_are_checked_as_those_of_a_new_reminder() {
    let world = with(State::Scheduled, |_| {}).await;
    let before = row(&world);
    for (after, by, code, field) in [
        ("2026-12-01T11:00:00Z", "2026-12-01T12:00:00Z", "in_the_past", "deliveries[0].deliver_by"),
        ("2026-12-09T12:00:00Z", "2026-12-09T12:00:00Z", "not_after", "deliveries[0].deliver_by"),
        ("2026-12-09T12:00:00Z", "2026-12-09T12:00:05Z", "too_narrow", "deliveries[0].deliver_by"),
    ] {
        let response = moved(&world, after, by).await;
        let error = &response.results[0].errors[0];
        assert_eq!((error.code, error.field.as_str()), (code, field));
    }
    assert_eq!(row(&world), before);
}

fn identity(subscriber: &str) -> Value {
    json!({"identity": {"tenant": "acme", "subscriber": subscriber, "renewal_period": "2027", "reminder_kind": "first"}})
}

#[tokio::test]
async fn deliveries_are_named_once_by_id_or_by_what_they_are() {
    let world = World::new().await;
    let migrated = reminder("b", &json!({"migrated": {"delivery_id": "old-1"}}));
    world.at("2026-12-01T09:00:00.000Z", &[reminder("a", &json!({})), migrated]).await;
    let id = |subscriber: &str| {
        let rows = world.ledger.rows();
        rows.iter().find(|row| row.id.is_derived() == (subscriber == "a")).unwrap().id.clone()
    };
    let wanted = json!([identity("a"), identity("b"), identity("c"), {"delivery_id": id("a")}, {}, {"delivery_id": "x y"}]);
    let response = world.send(NOW, &json!({"action": "get", "deliveries": wanted})).await;
    let invalid = Answer::Invalid;
    assert_eq!(answers(&response), [Answer::Found, Answer::Found, Answer::NotFound, invalid, invalid, invalid]);
    assert_eq!(response.results[1].delivery_id, Some(id("b")), "a migrated one is found by what it is");
    let codes: Vec<_> = response.results.iter().flat_map(|one| one.errors.iter().map(|e| (e.code, e.field.as_str()))).collect();
    let expected = [
        ("not_found", "deliveries[2].identity"),
        ("duplicate", "deliveries[3]"),
        ("one_of", "deliveries[4].delivery_id"),
        ("invalid_field", "deliveries[5].delivery_id"),
    ];
    assert_eq!(codes, expected);
    let standing = response.results[0].standing.clone().unwrap();
    assert_eq!((standing.attempts, standing.held, standing.reference.as_str()), (0, false, "C-1"));
    let nobody = world.send(NOW, &json!({"action": "cancel", "by": " ", "why": "x", "deliveries": [identity("a")]})).await;
    assert_eq!((nobody.errors[0].code, nobody.errors[0].field.as_str()), ("out_of_bounds", "by"));
}

#[tokio::test]
async fn a_migrated_delivery_that_is_named_by_both_its_names_is_refused_the_second_time() {
    let instants = json!({"deliver_after": "2026-12-09T12:00:00.000Z", "deliver_by": "2026-12-09T13:00:00.000Z"});
    for action in ["get", "cancel", "reschedule"] {
        for names in [[json!({"delivery_id": "old-1"}), identity("b")], [identity("b"), json!({"delivery_id": "old-1"})]] {
            let world = World::new().await;
            let migrated = reminder("b", &json!({"migrated": {"delivery_id": "old-1"}}));
            world.at("2026-12-01T09:00:00.000Z", &[migrated]).await;
            let version = row(&world).version;
            let mut event = json!({"action": action, "deliveries": names});
            match action {
                "cancel" => event.as_object_mut().unwrap().extend([("by".into(), "crm".into()), ("why".into(), "x".into())]),
                "reschedule" => event["deliveries"].as_array_mut().unwrap().iter_mut().for_each(|one| {
                    one.as_object_mut().unwrap().extend(instants.as_object().unwrap().clone());
                }),
                _ => {}
            }
            let response = world.send("2026-12-01T09:01:00.000Z", &event).await;
            let first = match action {
                "get" => Answer::Found,
                "cancel" => Answer::Cancelled,
                _ => Answer::Rescheduled,
            };
            assert_eq!(answers(&response), [first, Answer::Invalid], "{action} {names:?}");
            let error = &response.results[1].errors[0];
            assert_eq!((error.code, error.field.as_str()), ("duplicate", "deliveries[1]"));
            assert_eq!(error.message, "each delivery once; deliveries[0] is it already");
            assert_eq!(row(&world).version - version, u64::from(action != "get"), "{action}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However often and wherever to a date moves: one row, one identity, never next before its new due time, a history that
    /// only grows, and the producer's file changes nothing.
    #[test]
    fn any_number_of_moves_leaves_one_row(moves in proptest::collection::vec((-600_i64..6_000, 60_i64..6_000), 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = with(State::Scheduled, |_| {}).await;
            let first = row(&world);
            for (minutes, window) in moves {
                let after = Timestamp::from_millis(at(NOW).as_millis() + minutes * 60_000);
                let by = Timestamp::from_millis(at(NOW).as_millis().max(after.as_millis()) + window * 60_000);
                let before = row(&world);
                let response = moved(&world, &after.to_string(), &by.to_string()).await;
                let now = row(&world);
                let so_already = (before.deliver_after, before.deliver_by) == (after, by);
                let expected = if so_already { Answer::Unchanged } else { Answer::Rescheduled };
                assert_eq!(answers(&response), [expected]);
                assert_eq!((now.deliver_after, now.deliver_by), (after, by));
                assert!(now.next_attempt_at >= after);
                assert!(now.history.starts_with(&before.history));
                assert_eq!((&now.id, &now.idempotency_key, &now.content), (&first.id, &first.idempotency_key, &first.content));
                assert_eq!(world.ledger.rows().len(), 1);
                assert_eq!(answers(&world.at(NOW, &[reminder("a", &json!({}))]).await), [Answer::Unchanged]);
                assert_eq!(row(&world), now);
            }
        });
    }
}
