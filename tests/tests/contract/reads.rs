//! Reads: by lane, by id, by reference, by attention.

use std::collections::BTreeSet;

use punctual_core::delivery::{Delivery, Lane};
use punctual_core::destination::Mode;
use punctual_core::id::{DeliveryId, DestinationId, MessageId, Reference, RunId};
use punctual_core::ports::{Cursor, EndedEntry, EndedPage, EndedPlace, EndedQuery, Ledger, RunRow, WakePage, WakeQuery, Written};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::transition::{self, Grant};

use crate::rows::{MARGIN, at, claimer, content, full, payload, row, stamp};
use crate::worlds::{Difference, World};

fn query(lane: Lane, until: i64, limit: u32) -> WakeQuery {
    WakeQuery { lane, until: at(until), deadline_by: None, start: None, limit }
}

/// Rows that wake ten seconds after each other, created in another order.
async fn ten(world: &impl World) -> Vec<Delivery> {
    let mut rows: Vec<Delivery> = (0..10).map(row).collect();
    for (i, row) in rows.iter_mut().enumerate() {
        let i = i64::try_from(i).expect("few rows");
        row.wake_at = Some(at(10 * i));
        row.deliver_by = at(7_200 - 600 * i);
        row.held_until = (i % 2 == 0).then(|| at(10 * i + 5));
    }
    for row in rows.iter().rev() {
        world.ledger().create(row, &payload(0, "{}")).await.unwrap();
    }
    rows
}

fn ids(page: &WakePage) -> Vec<DeliveryId> {
    page.candidates.iter().map(|candidate| candidate.id.clone()).collect()
}

fn names(rows: &[Delivery]) -> Vec<DeliveryId> {
    rows.iter().map(|row| row.id.clone()).collect()
}

pub(crate) async fn the_wake_index_is_ordered_and_bounded(world: &impl World) {
    let rows = ten(world).await;
    let page = world.ledger().wake(&query(row(0).lane(), 50, 100)).await.unwrap();
    assert_eq!(ids(&page), names(&rows[..6]), "until is inclusive");
    assert_eq!(page.next, None);
    assert_eq!(page.read_units > 0.0, !world.differs(Difference::ReadsAreFree));
    for (candidate, row) in page.candidates.iter().zip(&rows) {
        let expected = (row.wake_at, row.held_until, row.deliver_by);
        assert_eq!((Some(candidate.wake_at), candidate.held_until, candidate.deliver_by), expected);
    }
    let before = world.ledger().wake(&query(row(0).lane(), -1, 100)).await.unwrap();
    assert_eq!((before.candidates, before.next), (Vec::new(), None));
}

pub(crate) async fn a_lane_is_read_page_by_page(world: &impl World) {
    let rows = ten(world).await;
    let mut query = query(row(0).lane(), 85, 4);
    let mut pages = Vec::new();
    loop {
        let page = world.ledger().wake(&query).await.unwrap();
        assert!(page.candidates.len() <= 4);
        if let Some(next) = &page.next {
            let last = page.candidates.last().expect("a page that goes on is not empty");
            assert_eq!(*next, Cursor { wake_at: last.wake_at, id: last.id.clone() });
        }
        query.start = page.next.clone();
        pages.push(ids(&page));
        if query.start.is_none() {
            break;
        }
    }
    assert_eq!(pages.concat(), names(&rows[..9]));
    assert_eq!(pages[0].len(), 4, "the limit is used");
    // A place outlives the row that it names.
    query.start = Some(Cursor { wake_at: at(35), id: DeliveryId::new("gone").expect("an id") });
    query.limit = 100;
    assert_eq!(ids(&world.ledger().wake(&query).await.unwrap()), names(&rows[4..9]));
}

pub(crate) async fn equal_instants_are_read_once_each(world: &impl World) {
    let rows: Vec<Delivery> = (0..9).map(row).collect();
    for row in &rows {
        world.ledger().create(row, &payload(0, "{}")).await.unwrap();
    }
    let mut query = query(row(0).lane(), 0, 2);
    let mut seen = Vec::new();
    loop {
        let page = world.ledger().wake(&query).await.unwrap();
        seen.extend(ids(&page));
        query.start = page.next;
        if query.start.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 9, "each once");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), names(&rows).into_iter().collect());
}

pub(crate) async fn a_deadline_filters_what_was_read(world: &impl World) {
    let rows = ten(world).await;
    let mut query = query(row(0).lane(), 1_000, 5);
    query.deadline_by = Some(rows[7].deliver_by);
    let first = world.ledger().wake(&query).await.unwrap();
    assert_eq!(ids(&first), [], "the limit counts what was read, not what is returned");
    query.start = first.next;
    assert_eq!(query.start, Some(Cursor { wake_at: at(40), id: rows[4].id.clone() }), "a page of nothing still goes on");
    let second = world.ledger().wake(&query).await.unwrap();
    assert_eq!(ids(&second), names(&rows[7..]), "deadline_by is inclusive");
}

pub(crate) async fn a_row_moves_within_and_leaves_the_wake_index(world: &impl World) {
    let (ledger, row) = (world.ledger(), row(1));
    let lane = || row.lane();
    ledger.create(&row, &payload(1, "{}")).await.unwrap();
    let held = transition::held(&row, crate::rows::hold(), MARGIN, &stamp(1, "op")).expect("held");
    assert_eq!(ledger.write(&held).await.unwrap(), Written::Done);
    assert_eq!(ids(&ledger.wake(&query(lane(), 7_169, 9)).await.unwrap()), [], "a held row sleeps");
    let page = ledger.wake(&query(lane(), 7_170, 9)).await.unwrap();
    assert_eq!((ids(&page), page.candidates[0].wake_at), (vec![row.id.clone()], at(7_170)));
    let expired = transition::expired(&held.after, &stamp(7_171, "dispatch")).expect("expired");
    assert_eq!(ledger.write(&expired).await.unwrap(), Written::Done);
    assert_eq!(
        ids(&ledger.wake(&query(lane(), 9_000, 9)).await.unwrap()),
        names(std::slice::from_ref(&row)),
        "its letter is owed"
    );
    let sent = transition::dead_letter_sent(&expired.after, &stamp(7_172, "dispatch")).expect("sent");
    assert_eq!(ledger.write(&sent).await.unwrap(), Written::Done);
    assert_eq!(ids(&ledger.wake(&query(lane(), 9_000, 9)).await.unwrap()), []);
}

pub(crate) async fn shards_are_apart(world: &impl World) {
    let (mut near, mut far) = (row(1), row(2));
    near.shard = 1;
    far.shard = 10;
    for row in [&near, &far] {
        world.ledger().create(row, &payload(0, "{}")).await.unwrap();
    }
    for row in [&near, &far] {
        assert_eq!(ids(&world.ledger().wake(&query(row.lane(), 9_000, 9)).await.unwrap()), names(std::slice::from_ref(row)));
    }
    assert_eq!(ids(&world.ledger().wake(&query(row(3).lane(), 9_000, 9)).await.unwrap()), []);
    assert_eq!(world.ledger().read(std::slice::from_ref(&near.id)).await.unwrap(), [near]);
}

pub(crate) async fn reads_many_rows_with_gaps(world: &impl World) {
    let all: Vec<Delivery> = (0..150).map(row).collect();
    let there: Vec<&Delivery> = all.iter().step_by(3).collect();
    for row in &there {
        world.ledger().create(row, &payload(0, "{}")).await.unwrap();
    }
    let mut wanted = names(&all);
    // Some twice: the service refuses a key that is asked for twice in one call.
    wanted.extend(names(&all[..20]));
    let mut read = world.ledger().read(&wanted).await.unwrap();
    read.sort_by(|a, b| a.id.cmp(&b.id));
    let mut expected: Vec<Delivery> = there.into_iter().cloned().collect();
    expected.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(read, expected);
    assert_eq!(world.ledger().read(&[]).await.unwrap(), []);
}

pub(crate) async fn a_partition_shows_the_payload_of_its_row(world: &impl World) {
    let ledger = world.ledger();
    let (row, body) = (row(1), payload(1, "{}"));
    let mut orphan = row.clone();
    for n in 0..3 {
        orphan.content = content(&format!("orphan {n}"));
        world.orphan(&orphan, &payload(1, &format!("orphan {n}"))).await;
    }
    ledger.create(&row, &body).await.unwrap();
    let partition = ledger.partition(&row.id).await.unwrap().expect("a partition");
    assert_eq!((partition.row, partition.payload), (row, Some(body)));
    assert_eq!(ledger.partition(&crate::rows::row(2).id).await.unwrap(), None);
}

pub(crate) async fn an_erased_payload_is_none(world: &impl World) {
    let (ledger, row) = (world.ledger(), row(1));
    // Larger than one page of a query.
    let body = payload(1, &"x".repeat(256 * 1024));
    ledger.create(&row, &body).await.unwrap();
    assert_eq!(ledger.payload(&row.id, &row.content).await.unwrap(), Some(body));
    assert_eq!(ledger.payload(&row.id, &content("other")).await.unwrap(), None);
    world.erase(&row).await;
    assert_eq!(ledger.payload(&row.id, &row.content).await.unwrap(), None);
    let partition = ledger.partition(&row.id).await.unwrap().expect("the evidence stays");
    assert_eq!((partition.row, partition.payload), (row, None));
}

pub(crate) async fn finds_rows_by_reference(world: &impl World) {
    let ledger = world.ledger();
    let reference = Reference::new("contract/2027#7").expect("a reference");
    let mut rows: Vec<Delivery> = (0..5).map(row).collect();
    for row in rows.iter_mut().take(3) {
        row.reference = reference.clone();
    }
    for row in &rows {
        ledger.create(row, &payload(0, "{}")).await.unwrap();
    }
    let found: BTreeSet<DeliveryId> = ledger.by_reference(&reference).await.unwrap().into_iter().collect();
    assert_eq!(found, names(&rows[..3]).into_iter().collect());
    assert_eq!(ledger.by_reference(&Reference::new("none").expect("a reference")).await.unwrap(), []);
}

pub(crate) async fn counts_dead_rows_with_a_reachable_deadline(world: &impl World) {
    let ledger = world.ledger();
    for n in 0..6 {
        let mut row = row(n);
        row.deliver_by = at(1_000 + i64::from(n));
        ledger.create(&row, &payload(n, "{}")).await.unwrap();
        let claimed = transition::dispatch_claimed(&row, claimer("d", 60), Mode::Live, &stamp(1, "d")).expect("claimed");
        ledger.write(&claimed).await.unwrap();
        let message = MessageId::new("m").expect("a message id");
        let queued = transition::queued(&claimed.after, message, &stamp(2, "d")).expect("queued");
        ledger.write(&queued).await.unwrap();
        let end = match n {
            0..4 => transition::dead_without_attempt(&queued.after, Reason::PayloadMissing, &stamp(3, "d")),
            _ => transition::expired(&queued.after, &stamp(3, "d")),
        };
        let end = end.expect("an end");
        assert_eq!(ledger.write(&end).await.unwrap(), Written::Done);
    }
    assert_eq!(ledger.count_reachable_dead(at(0)).await.unwrap(), 4, "expired rows do not count");
    assert_eq!(ledger.count_reachable_dead(at(1_001)).await.unwrap(), 2, "after is exclusive");
    let (mine, other) = (row(0).destination, DestinationId::new("other").expect("a destination"));
    assert_eq!(ledger.count_ended(&mine, at(1_001)).await.unwrap(), 5, "dead and expired, the bound included");
    assert_eq!(ledger.count_ended(&mine, at(1_006)).await.unwrap(), 0);
    assert_eq!(ledger.count_ended(&other, at(0)).await.unwrap(), 0, "another destination's do not count");
    // A row that is taken up again counts no longer.
    let mut again = full(9);
    again.deliver_by = at(5_000);
    ledger.create(&again, &payload(9, "{}")).await.unwrap();
    assert_eq!(ledger.count_reachable_dead(at(1_001)).await.unwrap(), 3);
    let evidence = transition::late(&again, &crate::rows::attempt(2), true, &stamp(9, "late")).expect("a late success");
    assert_eq!(ledger.write(&evidence).await.unwrap(), Written::Done);
    assert_eq!(ledger.count_reachable_dead(at(1_001)).await.unwrap(), 2);
}

/// A dead or expired row, as it is after its letter was sent.
fn ended(n: u32, state: State, deliver_by: i64) -> Delivery {
    let mut row = full(n);
    (row.state, row.wake_at, row.deliver_by, row.dlq_sent) = (state, None, at(deliver_by), row.death);
    row
}

pub(crate) async fn ended_rows_are_read_page_by_page_in_the_order_of_their_deadlines(world: &impl World) {
    let ledger = world.ledger();
    // Two of them with one deadline.
    let deadlines = [50, 10, 40, 20, 20, 30, 60];
    let rows: Vec<Delivery> = (0..).zip(deadlines).map(|(n, deadline)| ended(n, State::Dead, deadline)).collect();
    let (expired, alive) = (ended(20, State::Expired, 15), row(21));
    for row in rows.iter().chain([&expired, &alive]) {
        ledger.create(row, &payload(0, "{}")).await.unwrap();
    }
    let mut query = EndedQuery { state: State::Dead, from: None, start: None, limit: 3 };
    let mut pages = Vec::new();
    loop {
        let page = ledger.ended(&query).await.unwrap();
        assert!(page.entries.len() <= 3);
        if let Some(next) = &page.next {
            let last = page.entries.last().expect("a page that goes on is not empty");
            assert_eq!(*next, EndedPlace { deliver_by: last.deliver_by, id: last.id.clone() });
        }
        query.start = page.next;
        pages.push(page.entries);
        if query.start.is_none() {
            break;
        }
    }
    let entry = |row: &Delivery| EndedEntry {
        id: row.id.clone(),
        state: row.state,
        deliver_by: row.deliver_by,
        reason: row.reason,
        death: 2,
        dlq_sent: 2,
        destination: row.destination.clone(),
    };
    let read = pages.concat();
    assert!(read.is_sorted_by_key(|entry| entry.deliver_by));
    let place = |entry: &EndedEntry| (entry.deliver_by, entry.id.clone());
    let (mut read, mut expected) = (read, rows.iter().map(entry).collect::<Vec<_>>());
    read.sort_by_key(place);
    expected.sort_by_key(place);
    assert_eq!(read, expected);
    // A place outlives the row that it names.
    query.start = Some(EndedPlace { deliver_by: at(45), id: DeliveryId::new("gone").expect("an id") });
    query.limit = 100;
    let rest: Vec<DeliveryId> = ledger.ended(&query).await.unwrap().entries.into_iter().map(|entry| entry.id).collect();
    assert_eq!(rest, [rows[0].id.clone(), rows[6].id.clone()]);
    let of = async |state| ledger.ended(&EndedQuery { state, from: None, start: None, limit: 100 }).await.unwrap();
    assert_eq!(of(State::Expired).await.entries, [entry(&expired)]);
    assert_eq!(of(State::Scheduled).await, EndedPage::default());
}

pub(crate) async fn rows_of_a_run_are_those_that_it_moved_last(world: &impl World) {
    let ledger = world.ledger();
    let (first, second) = (RunId::new("run_a").expect("a run id"), RunId::new("run_b").expect("a run id"));
    let grant = || Grant { owner: "ann".into(), attempts: 3, slot: at(90), deliver_by: None };
    let of = async |run: &RunId| {
        let page = ledger.of_run(run, None).await.unwrap();
        assert_eq!(page.next, None);
        assert!(page.rows.is_sorted_by_key(|row| &row.id), "in the order of their ids");
        page.rows
    };
    let mut moved = Vec::new();
    for n in 0..5 {
        let mut row = Delivery { redrives: Vec::new(), cancel: None, ..ended(n, State::Dead, 7_000) };
        row.hold = None;
        ledger.create(&row, &payload(0, "{}")).await.unwrap();
        let redriven = transition::redriven(&row, &first, grant(), MARGIN, &stamp(80, "redrive")).expect("moved");
        assert_eq!(ledger.write(&redriven).await.unwrap(), Written::Done);
        moved.push(redriven.after);
    }
    assert_eq!(of(&second).await, []);
    let told = |row: &Delivery| RunRow { id: row.id.clone(), state: row.state, reason: row.reason, deliver_by: row.deliver_by };
    moved.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(of(&first).await, moved.iter().map(told).collect::<Vec<_>>());
    let rest = ledger.of_run(&first, Some(&moved[2].id)).await.unwrap().rows;
    assert_eq!(rest, moved[3..].iter().map(told).collect::<Vec<_>>(), "from behind an id on");
    // It dies again, an operator returns one alone, and a later run takes another.
    let dead = |row: &Delivery| transition::dead_without_attempt(row, Reason::PayloadMissing, &stamp(91, "d")).expect("dead");
    for row in &mut moved[..2] {
        let again = dead(row);
        assert_eq!(ledger.write(&again).await.unwrap(), Written::Done);
        *row = again.after;
    }
    let alone = transition::requeued(&moved[0], grant(), MARGIN, &stamp(92, "operator")).expect("returned");
    let taken = transition::redriven(&moved[1], &second, grant(), MARGIN, &stamp(92, "redrive")).expect("moved");
    for write in [&alone, &taken] {
        assert_eq!(ledger.write(write).await.unwrap(), Written::Done);
    }
    assert_eq!(of(&second).await, [told(&taken.after)]);
    let left = [&alone.after, &moved[2], &moved[3], &moved[4]];
    assert_eq!(of(&first).await, left.map(told));
}
