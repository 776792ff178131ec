//! What the monitor reads: dead and expired rows by their deadlines, counts, heartbeats.

use punctual_core::delivery::Delivery;
use punctual_core::figures::{Calls, Heartbeat};
use punctual_core::id::DestinationId;
use punctual_core::limiter::{Key, Move, Moved};
use punctual_core::ports::{Control as _, EndedEntry, EndedPage, EndedQuery, Ledger as _, Overview as _, Written};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::transition;

use crate::control::rejections;
use crate::rows::{at, payload, row, stamp};
use crate::worlds::World;

fn id(name: &str) -> DestinationId {
    DestinationId::new(name).expect("a destination id")
}

/// Of these rows every third is expired, the others are dead; the letters of the first two are sent.
async fn ended(world: &impl World, count: u32) -> Vec<Delivery> {
    let mut rows = Vec::new();
    for n in 0..count {
        let mut row = row(n);
        row.deliver_by = at(1_000 - 10 * i64::from(n));
        world.ledger().create(&row, &payload(n, "{}")).await.unwrap();
        let end = match n % 3 {
            2 => transition::expired(&row, &stamp(3, "d")),
            _ => transition::dead_without_attempt(&row, Reason::PayloadMissing, &stamp(3, "d")),
        };
        let mut end = end.expect("an end");
        assert_eq!(world.ledger().write(&end).await.unwrap(), Written::Done);
        if n < 2 {
            end = transition::dead_letter_sent(&end.after, &stamp(4, "d")).expect("sent");
            assert_eq!(world.ledger().write(&end).await.unwrap(), Written::Done);
        }
        rows.push(end.after);
    }
    rows
}

fn entry(row: &Delivery) -> EndedEntry {
    EndedEntry {
        id: row.id.clone(),
        state: row.state,
        deliver_by: row.deliver_by,
        reason: row.reason,
        death: row.death,
        dlq_sent: row.dlq_sent,
        destination: row.destination.clone(),
    }
}

/// The entries of these rows as the index has them: nearest deadline first.
fn entries<'r>(rows: impl IntoIterator<Item = &'r Delivery>) -> Vec<EndedEntry> {
    let mut entries: Vec<EndedEntry> = rows.into_iter().map(entry).collect();
    entries.sort_by(|a, b| (a.deliver_by, &a.id).cmp(&(b.deliver_by, &b.id)));
    entries
}

pub(crate) async fn ended_rows_are_read_from_a_deadline_on(world: &impl World) {
    let rows = ended(world, 7).await;
    let of = |state: State| rows.iter().filter(move |row| row.state == state);
    for state in [State::Dead, State::Expired] {
        for from in [None, Some(rows[2].deliver_by)] {
            let expected = entries(of(state).filter(|row| from.is_none_or(|from| row.deliver_by >= from)));
            let mut query = EndedQuery { state, from, start: None, limit: 2 };
            let mut read = Vec::new();
            loop {
                let EndedPage { entries, next } = world.ledger().ended(&query).await.unwrap();
                read.extend(entries);
                query.start = next;
                if query.start.is_none() {
                    break;
                }
            }
            assert_eq!(read, expected, "{state} {from:?}: inclusive, and on each page");
        }
    }
    let owed: Vec<bool> = entries(of(State::Dead)).iter().map(|entry| entry.dlq_sent < entry.death).collect();
    assert_eq!(owed, [true, true, true, false, false], "the nearest deadlines are the last ones'");
}

pub(crate) async fn a_booking_takes_counts_along_if_it_is_written(world: &impl World) {
    let control = world.control();
    let (acme, beta) = (Key::of(&id("acme")), Key::of(&id("beta")));
    let begins = |to| Move::Set { to, at_least: None, at_most: 0 };
    let calls = |made, repeated| Calls { made, repeated };
    assert_eq!(control.calls().await.unwrap(), []);
    assert_eq!(control.move_limit(&acme, begins(100)).await.unwrap(), Moved::Done { now: 100 });
    assert_eq!(control.calls().await.unwrap(), [(id("acme"), calls(0, 0))], "a booking without a count");
    let refused = control.move_limit_counting(&acme, begins(200), calls(9, 9)).await.unwrap();
    assert_eq!(refused, Moved::Refused { is: Some(100) });
    for n in 1..=3 {
        let add = Move::Add { by: 10, from: 0, to: 1_000 };
        let moved = control.move_limit_counting(&acme, add, calls(10, 2)).await.unwrap();
        assert_eq!(moved, Moved::Done { now: 100 + 10 * n });
    }
    assert_eq!(control.move_limit_counting(&beta, begins(5), calls(1, 0)).await.unwrap(), Moved::Done { now: 5 });
    // The redriven part of the calls is in the whole already.
    control.move_limit_counting(&Key::of_redrive(&id("acme")), begins(5), calls(7, 7)).await.unwrap();
    let mut counted = control.calls().await.unwrap();
    counted.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(counted, [(id("acme"), calls(30, 6)), (id("beta"), calls(1, 0))]);
}

pub(crate) async fn the_last_heartbeat_of_each_function_is_kept(world: &impl World) {
    let control = world.control();
    assert_eq!(control.heartbeat("dispatch").await.unwrap(), None);
    let beat = |seconds, line: &str| Heartbeat { at: at(seconds), line: line.into() };
    for heartbeat in [beat(60, r#"{"seen":1}"#), beat(120, ""), beat(90, "late")] {
        control.note_heartbeat("dispatch", &heartbeat).await.unwrap();
        control.note_heartbeat("another", &beat(0, "another")).await.unwrap();
        assert_eq!(control.heartbeat("dispatch").await.unwrap(), Some(heartbeat));
    }
}

pub(crate) async fn all_rejections_are_seen_at_once(world: &impl World) {
    let control = world.control();
    assert_eq!(control.rejections().await.unwrap(), []);
    let noted = [(id("acme"), rejections(1, "..x", "a")), (id("beta"), rejections(1, "x", "b"))];
    for (id, rejections) in &noted {
        control.note_rejections(id, rejections).await.unwrap();
    }
    let mut all = control.rejections().await.unwrap();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(all, noted);
}
