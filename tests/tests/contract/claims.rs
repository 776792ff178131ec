//! Claims: every adapter takes exactly what the core's guard admits.

use punctual_core::acquire::{Acquire, Guard};
use punctual_core::clock::Now;
use punctual_core::delivery::Delivery;
use punctual_core::destination::Mode;
use punctual_core::ports::{Acquired, Ledger as _};
use punctual_core::state::State;
use punctual_core::time::Timestamp;

use crate::rows::{MARGIN, at, attempt, by, claimer, hold, line, payload, row};
use crate::worlds::World;

/// The claims are made at this time: not known better than to half a second.
fn now() -> Now {
    Now { lo: at(100), hi: Timestamp::from_millis(at(100).as_millis() + 500) }
}

pub(crate) fn for_dispatch(row: &Delivery, owner: &str) -> Acquire {
    Acquire::for_dispatch(row.id.clone(), claimer(owner, 200), Mode::Live, at(250), now(), MARGIN)
}

fn for_shadow(row: &Delivery) -> Acquire {
    Acquire::for_dispatch(row.id.clone(), claimer("new-owner", 200), Mode::Shadow, at(250), now(), MARGIN)
}

pub(crate) fn for_deliver(row: &Delivery, attempt: u32, owner: &str) -> Acquire {
    Acquire::for_deliver(row.id.clone(), attempt, claimer(owner, 200), now(), MARGIN)
}

fn ms(instant: Timestamp, by: i64) -> Timestamp {
    Timestamp::from_millis(instant.as_millis() + by)
}

/// All states, held or not, around every bound that a claim knows.
fn rows() -> Vec<Delivery> {
    let last_deadline = now().hi.plus(MARGIN);
    let mut rows = Vec::new();
    for state in State::ALL {
        for held in [false, true] {
            for next_attempt_at in [at(99), now().lo, ms(now().lo, 1), at(250), ms(at(250), 1)] {
                for deliver_by in [last_deadline, ms(last_deadline, -1), at(7_200)] {
                    for held_until in [None, Some(now().lo), Some(ms(now().lo, 1))] {
                        for closed in 0..3 {
                            let mut row = row(u32::try_from(rows.len()).expect("few rows"));
                            row.state = state;
                            row.hold = held.then(hold);
                            row.next_attempt_at = next_attempt_at;
                            row.deliver_by = deliver_by;
                            row.held_until = held_until;
                            row.attempts = (1..=closed).map(attempt).collect();
                            row.history.push(line(0, state, "generator"));
                            rows.push(row);
                        }
                    }
                }
            }
        }
    }
    rows
}

pub(crate) async fn every_guard_decides_as_the_core_does(world: &impl World) {
    let claims: [fn(&Delivery) -> Acquire; 4] = [
        |row| for_dispatch(row, "new-owner"),
        for_shadow,
        |row| for_deliver(row, 1, "new-owner"),
        |row| for_deliver(row, 2, "new-owner"),
    ];
    let tries = rows().into_iter().flat_map(|row| claims.map(|claim| (row.clone(), claim)));
    let (mut won, mut refused) = (0, 0);
    for (row, claim) in tries.step_by(world.stride()) {
        let acquire = claim(&row);
        world.ledger().create(&row, &payload(0, "{}")).await.expect("a row");
        // In memory, where all claims are tried, the row may be what the claim before made of it.
        let before = world.ledger().read(std::slice::from_ref(&row.id)).await.unwrap().remove(0);
        let expected = if acquire.guard.admits(&before) {
            won += 1;
            Acquired::Won(Box::new(acquire.claim.apply(&before)))
        } else if acquire.is_mine(&before) {
            Acquired::Won(Box::new(before.clone()))
        } else {
            refused += 1;
            Acquired::Refused(Box::new(before.clone()))
        };
        assert_eq!(world.ledger().acquire(&acquire).await.unwrap(), expected, "{acquire:?}");
        let stored = world.ledger().read(std::slice::from_ref(&row.id)).await.unwrap().remove(0);
        let (Acquired::Won(shown) | Acquired::Refused(shown)) = expected else { panic!("the row is there") };
        assert_eq!(stored, *shown, "what is shown is what is stored");
    }
    assert!(won > 5 && refused > 100, "the generator must meet both: {won} won, {refused} refused");
}

pub(crate) async fn one_of_two_concurrent_claims_wins(world: &impl World) {
    for n in 0..10 {
        let row = row(n);
        world.ledger().create(&row, &payload(n, "{}")).await.unwrap();
        let (a, b) = (for_dispatch(&row, "owner-a"), for_dispatch(&row, "owner-b"));
        let (a, b) = futures::future::join(world.ledger().acquire(&a), world.ledger().acquire(&b)).await;
        match (a.unwrap(), b.unwrap()) {
            (Acquired::Won(won), Acquired::Refused(seen)) | (Acquired::Refused(seen), Acquired::Won(won)) => {
                assert_eq!(won, seen);
                assert_eq!(won.version, 2);
            }
            other => panic!("one wins: {other:?}"),
        }
    }
}

pub(crate) async fn a_lost_answer_is_recognised(world: &impl World) {
    let row = row(1);
    world.ledger().create(&row, &payload(1, "{}")).await.unwrap();
    let dispatch = for_dispatch(&row, "owner-a");
    let first = world.ledger().acquire(&dispatch).await.unwrap();
    assert_eq!(first, Acquired::Won(Box::new(dispatch.claim.apply(&row))));
    assert_eq!(world.ledger().acquire(&dispatch).await.unwrap(), first);
    let Acquired::Won(held) = first else { panic!("won") };
    let deliver = for_deliver(&row, 1, "owner-b");
    let second = world.ledger().acquire(&deliver).await.unwrap();
    assert_eq!(second, Acquired::Won(Box::new(deliver.claim.apply(&held))));
    assert_eq!(world.ledger().acquire(&deliver).await.unwrap(), second);
    // Another's is not mine, whatever it looks like.
    let Acquired::Won(held) = second else { panic!("won") };
    let other = for_deliver(&row, 1, "owner-c");
    assert_eq!(world.ledger().acquire(&other).await.unwrap(), Acquired::Refused(held));
}

pub(crate) async fn nothing_to_claim_is_absent(world: &impl World) {
    assert_eq!(world.ledger().acquire(&for_dispatch(&row(1), "owner")).await.unwrap(), Acquired::Absent);
    assert_eq!(world.ledger().acquire(&for_deliver(&row(1), 1, "owner")).await.unwrap(), Acquired::Absent);
}

pub(crate) async fn a_claim_never_creates_a_row(world: &impl World) {
    world.orphan(&row(1), &payload(1, "{}")).await;
    assert_eq!(world.ledger().acquire(&for_dispatch(&row(1), "owner")).await.unwrap(), Acquired::Absent);
    assert_eq!(world.ledger().read(&[row(1).id]).await.unwrap(), []);
}

pub(crate) async fn a_guard_without_states_takes_nothing(world: &impl World) {
    let row = row(1);
    world.ledger().create(&row, &payload(1, "{}")).await.unwrap();
    let mut acquire = for_dispatch(&row, "owner");
    acquire.guard = Guard { any_of: Vec::new(), deliver_by_from: at(0), closed_attempts: None };
    acquire.claim.entry.by = by("nobody");
    assert_eq!(world.ledger().acquire(&acquire).await.unwrap(), Acquired::Refused(Box::new(row)));
}
