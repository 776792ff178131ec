#![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::attempt::{Answer, Attempt};
use crate::delivery::{Delivery, NewDelivery};
use crate::history::HistoryEntry;
use crate::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, Reference};
use crate::reason::Reason;
use crate::state::State;
use crate::time::Timestamp;

const TOLERANCE: i64 = 10;
const UNTIL: i64 = 1_000;

fn at(s: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + s * 1_000)
}

fn period() -> Period {
    Period { from: at(0), until: at(UNTIL), tolerance: Duration::from_secs(10) }
}

fn destination() -> DestinationId {
    DestinationId::new("crm").expect("an id")
}

fn id(n: usize) -> DeliveryId {
    DeliveryId::new(format!("dlv_{n}")).expect("an id")
}

fn by() -> Correlation {
    Correlation::new("c").expect("a token")
}

fn row(n: usize) -> Delivery {
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&id(n)),
        reference: Reference::new("c-1").expect("a reference"),
        destination: destination(),
        shard: 0,
        content: Content::new("abc").expect("a hash"),
        deliver_after: at(-5_000),
        deliver_by: at(5_000),
        id: id(n),
    };
    Delivery::new(new, at(-6_000), by())
}

/// An attempt of two seconds.
fn attempt(number: u32, start: i64, reason: Reason) -> Attempt {
    let answer = match reason {
        Reason::Accepted => Answer::Status(200),
        Reason::ServerError => Answer::Status(503),
        Reason::OutcomeUnknown => Answer::Unknown,
        _ => Answer::Error,
    };
    let took = Duration::from_secs(2);
    Attempt { number, started_at: at(start), took, answer, reason, destination_version: 1, key_ids: "k".into() }
}

fn with(n: usize, attempts: &[(i64, Reason)]) -> Delivery {
    let number = |i: usize| u32::try_from(i + 1).expect("few");
    let attempts: Vec<Attempt> = attempts.iter().enumerate().map(|(i, (s, reason))| attempt(number(i), *s, *reason)).collect();
    let accepted = attempts.iter().any(|attempt| attempt.reason == Reason::Accepted);
    let state = if accepted { State::Delivered } else { State::Dead };
    Delivery { state, attempts, ..row(n) }
}

fn line(n: usize, number: u64, s: i64) -> Line {
    Line { id: id(n), place: Place { file: 0, line: number }, at: at(s) }
}

/// Joins both sides as a reader of sorted files does, and reckons.
fn reckon(rows: &[Delivery], lines: &[Line], most: usize) -> Reckoning {
    let mut standings: BTreeMap<DeliveryId, Standing> = BTreeMap::new();
    for row in rows {
        standings.insert(row.id.clone(), Standing::of(row, &destination(), &period()));
    }
    let mut seen: BTreeMap<DeliveryId, Seen> = BTreeMap::new();
    let mut lines = lines.to_vec();
    lines.sort();
    for line in lines {
        match seen.get_mut(&line.id) {
            Some(seen) => seen.add(line.place, line.at, &period()),
            None => {
                seen.insert(line.id.clone(), Seen::first(line, &period()));
            }
        }
    }
    let ids: BTreeSet<DeliveryId> = standings.keys().chain(seen.keys()).cloned().collect();
    let mut reckoning = Reckoning::new(period(), most);
    ids.iter().for_each(|id| reckoning.add(standings.get(id), seen.get(id)));
    reckoning
}

fn found(row: Option<&Delivery>, times: &[i64]) -> Finding {
    let standing = row.map(|row| Standing::of(row, &destination(), &period()));
    let mut seen: Option<Seen> = None;
    for (n, s) in times.iter().enumerate() {
        let line = line(1, u64::try_from(n).expect("few") + 2, *s);
        match &mut seen {
            Some(seen) => seen.add(line.place, line.at, &period()),
            None => seen = Some(Seen::first(line, &period())),
        }
    }
    find(&period(), standing.as_ref(), seen.as_ref())
}

#[test]
fn one_of_each() {
    use Reason::{Accepted, ConnectFailed, OutcomeUnknown, ServerError};
    let fine = Finding::Matched(Marks::default());
    let unexpected = Finding::Unexpected;
    let elsewhere = Delivery { destination: DestinationId::new("erp").expect("an id"), ..with(1, &[(500, Accepted)]) };
    let cases: [(&str, Option<Delivery>, &[i64], Finding); 17] = [
        ("once on both sides", Some(with(1, &[(500, Accepted)])), &[501], fine),
        ("after a failure", Some(with(1, &[(100, ServerError), (500, Accepted)])), &[501], fine),
        ("not in the export", Some(with(1, &[(500, Accepted)])), &[], Finding::Missing),
        ("twice in the export", Some(with(1, &[(500, Accepted)])), &[501, 502], Finding::Duplicate),
        ("once in the period, once after it", Some(with(1, &[(500, Accepted)])), &[501, 5_000], Finding::Duplicate),
        ("unknown", None, &[500], unexpected(Why::Unknown)),
        ("unknown, twice", None, &[500, 500], unexpected(Why::Unknown)),
        ("unknown, at another time", None, &[5_000], Finding::Outside),
        ("another destination's", Some(elsewhere.clone()), &[501], unexpected(Why::OtherDestination)),
        ("another destination's, not in the export", Some(elsewhere), &[], Finding::Agreed),
        ("never called", Some(with(1, &[])), &[500], unexpected(Why::NeverCalled)),
        ("no call was made", Some(with(1, &[(500, Reason::SecretUnavailable)])), &[500], unexpected(Why::NeverCalled)),
        ("its answer was lost", Some(with(1, &[(500, OutcomeUnknown)])), &[500], unexpected(Why::NotAccepted)),
        ("no connection, and yet", Some(with(1, &[(500, ConnectFailed)])), &[500], unexpected(Why::NotAccepted)),
        ("failed, not in the export", Some(with(1, &[(500, ServerError)])), &[], Finding::Agreed),
        ("delivered earlier", Some(with(1, &[(-500, Accepted)])), &[500], unexpected(Why::AcceptedOutside)),
        ("delivered earlier, not in the export", Some(with(1, &[(-500, Accepted)])), &[], Finding::Agreed),
    ];
    for (what, row, times, expected) in cases {
        assert_eq!(found(row.as_ref(), times), expected, "{what}");
    }
}

#[test]
fn at_a_bound_nothing_is_invented() {
    // An attempt takes two seconds; clocks may be off by ten.
    for (start, absent) in [
        (-13, Finding::Agreed),
        (-12, Finding::AtBound),
        (9, Finding::AtBound),
        (10, Finding::Missing),
        (987, Finding::Missing),
        (988, Finding::AtBound),
        (1_009, Finding::AtBound),
        (1_010, Finding::Agreed),
    ] {
        let row = with(1, &[(start, Reason::Accepted)]);
        assert_eq!(found(Some(&row), &[]), absent, "{start}");
        let matches = matches!(found(Some(&row), &[start]), Finding::Matched(_));
        assert_eq!(matches, absent != Finding::Agreed, "{start}");
    }
    // `until` is exclusive for the receiver's own times.
    assert_eq!(found(None, &[UNTIL]), Finding::Outside);
    assert_eq!(found(None, &[UNTIL - 1]), Finding::Unexpected(Why::Unknown));
    assert_eq!(found(None, &[0]), Finding::Unexpected(Why::Unknown));
}

#[test]
fn a_success_that_the_history_alone_tells_counts() {
    let mut late = with(1, &[(500, Reason::Timeout)]);
    late.state = State::Delivered;
    let by = by();
    late.history.push(HistoryEntry {
        at: at(520),
        state: State::Delivered,
        attempt: Some(1),
        reason: Some(Reason::LateEvidence),
        by,
    });
    assert_eq!(found(Some(&late), &[]), Finding::Missing);
    assert_eq!(found(Some(&late), &[500]), Finding::Matched(Marks::default()));
    // One that took effect after it was taken back counts as well.
    let cancelled = Delivery { state: State::Cancelled, ..with(1, &[(500, Reason::Accepted)]) };
    assert_eq!(found(Some(&cancelled), &[]), Finding::Missing);
}

#[test]
fn of_two_successes_the_one_within_the_period_counts() {
    let twice = with(1, &[(-500, Reason::Accepted), (500, Reason::Accepted)]);
    assert_eq!(found(Some(&twice), &[]), Finding::Missing);
    assert_eq!(found(Some(&twice), &[501]), Finding::Matched(Marks::default()));
}

#[test]
fn marks_go_by_the_receivers_clock_and_forgive_the_tolerance() {
    let row = Delivery { deliver_after: at(400), deliver_by: at(600), ..with(1, &[(500, Reason::Accepted)]) };
    for (s, early, late, apart) in [
        (389, true, false, true),
        (390, false, false, true),
        (490, false, false, false),
        (512, false, false, false),
        (513, false, false, true),
        (610, false, false, true),
        (611, false, true, true),
    ] {
        assert_eq!(found(Some(&row), &[s]), Finding::Matched(Marks { early, late, apart }), "{s}");
    }
}

#[test]
fn an_unknown_outcome_may_have_been_there_until_it_was_closed() {
    let mut row = with(1, &[(500, Reason::OutcomeUnknown), (700, Reason::Accepted)]);
    row.history.push(HistoryEntry { at: at(500), state: State::Delivering, attempt: Some(1), reason: None, by: by() });
    row.history.push(HistoryEntry {
        at: at(650),
        state: State::Deferred,
        attempt: Some(1),
        reason: Some(Reason::OutcomeUnknown),
        by: by(),
    });
    let standing = Standing::of(&row, &destination(), &period());
    assert_eq!((standing.calls, standing.called), (2, Some(Span { from: at(500), until: at(702) })));
    row.attempts.pop();
    let standing = Standing::of(&row, &destination(), &period());
    assert_eq!(standing.called, Some(Span { from: at(500), until: at(650) }));
}

#[test]
fn deviations_are_listed_up_to_a_bound_and_the_rest_is_counted() {
    let rows: Vec<Delivery> = (0..5).map(|n| with(n, &[(500, Reason::Accepted)])).collect();
    let lines: Vec<Line> = (5..8).map(|n| line(n, u64::try_from(n).expect("few"), 500)).collect();
    let reckoning = reckon(&rows, &lines, 2);
    assert_eq!((reckoning.counts().missing, reckoning.counts().unexpected), (5, 3));
    let listed: Vec<(Kind, &str)> = reckoning.deviations().map(|d| (d.kind, d.delivery_id.as_str())).collect();
    assert_eq!(
        listed,
        [(Kind::Missing, "dlv_0"), (Kind::Missing, "dlv_1"), (Kind::Unexpected, "dlv_5"), (Kind::Unexpected, "dlv_6")]
    );
    assert_eq!((reckoning.not_listed(), reckoning.is_clean()), (4, false));
}

fn attempts() -> impl Strategy<Value = Attempts> {
    let reason = prop::sample::select(vec![
        Reason::Accepted,
        Reason::Accepted,
        Reason::ServerError,
        Reason::Timeout,
        Reason::SecretUnavailable,
    ]);
    prop::collection::vec((-60..1_060_i64, reason), 0..4)
}

/// When attempts start, and what came of them.
type Attempts = Vec<(i64, Reason)>;

/// Eight deliveries, some of which the ledger has, and lines: of which of ten deliveries, and when.
fn worlds() -> impl Strategy<Value = (Vec<Option<Attempts>>, Vec<(usize, i64)>)> {
    let rows = prop::collection::vec(prop::option::of(attempts()), 8);
    let lines = prop::collection::vec((0..10_usize, -60..1_060_i64), 0..24);
    (rows, lines)
}

proptest! {
    /// Sets of ids, made from the raw events alone, tell the same as the comparison of one delivery after the other.
    #[test]
    fn as_a_naive_comparison_of_sets((rows, lines) in worlds()) {
        let rows: Vec<Delivery> =
            rows.iter().enumerate().filter_map(|(n, attempts)| Some(with(n, attempts.as_ref()?))).collect();
        let lines: Vec<Line> = lines.iter().enumerate().map(|(i, (n, s))| line(*n, u64::try_from(i).expect("few"), *s)).collect();

        let seconds = |t: Timestamp| (t.as_millis() - at(0).as_millis()) / 1_000;
        let successes: Vec<(&DeliveryId, i64)> = rows
            .iter()
            .flat_map(|row| row.attempts.iter().map(move |a| (&row.id, a)))
            .filter(|(_, a)| a.reason == Reason::Accepted)
            .map(|(id, a)| (id, seconds(a.started_at)))
            .collect();
        // The end of an attempt, two seconds later, must come after the period's begin as well.
        let perhaps: BTreeSet<&DeliveryId> = successes
            .iter()
            .filter(|(_, s)| s + 2 + TOLERANCE >= 0 && s - TOLERANCE < UNTIL)
            .map(|(id, _)| *id)
            .collect();
        // The first success that may lie within decides whether it surely does.
        let surely: BTreeSet<&DeliveryId> = perhaps
            .iter()
            .filter(|id| {
                let first = successes.iter().find(|(of, s)| of == *id && s + 2 + TOLERANCE >= 0 && s - TOLERANCE < UNTIL);
                first.is_some_and(|(_, s)| s - TOLERANCE >= 0 && s + 2 + TOLERANCE < UNTIL)
            })
            .copied()
            .collect();
        let in_export: BTreeSet<&DeliveryId> = lines.iter().map(|line| &line.id).collect();
        let inside: BTreeSet<&DeliveryId> =
            lines.iter().filter(|line| (0..UNTIL).contains(&seconds(line.at))).map(|line| &line.id).collect();
        let twice: BTreeSet<&DeliveryId> =
            in_export.iter().filter(|id| lines.iter().filter(|line| &line.id == **id).count() > 1).copied().collect();

        let reckoning = reckon(&rows, &lines, 1_000);
        let of = |kind| -> BTreeSet<String> {
            reckoning.deviations().filter(|d| d.kind == kind).map(|d| d.delivery_id.clone()).collect()
        };
        let named = |ids: Vec<&DeliveryId>| -> BTreeSet<String> { ids.into_iter().map(ToString::to_string).collect() };
        prop_assert_eq!(of(Kind::Missing), named(surely.difference(&in_export).copied().collect()));
        prop_assert_eq!(of(Kind::Duplicate), named(perhaps.intersection(&twice).copied().collect()));
        prop_assert_eq!(of(Kind::Unexpected), named(inside.difference(&perhaps).copied().collect()));

        // Every delivery of either side is counted once.
        let counts = reckoning.counts();
        let matched = perhaps.intersection(&in_export).count() - perhaps.intersection(&twice).count();
        prop_assert_eq!(counts.matched, u64::try_from(matched).expect("few"));
        let all: BTreeSet<&DeliveryId> = rows.iter().map(|row| &row.id).chain(in_export.iter().copied()).collect();
        let counted = counts.matched + counts.missing + counts.duplicate + counts.unexpected
            + counts.at_bound + counts.outside + counts.agreed;
        prop_assert_eq!(counted, u64::try_from(all.len()).expect("few"));
        prop_assert_eq!(counts.unexpected_by.values().sum::<u64>(), counts.unexpected);
        prop_assert_eq!(reckoning.not_listed(), 0);
    }
}
