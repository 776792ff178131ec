use proptest::prelude::*;

use super::*;
use crate::capacity::{Assumed, forecast};
use crate::id::DeliveryId;

const MARGIN: Duration = Duration::from_secs(10);
const DAY: i64 = 86_400;

/// 09:00 and so many seconds.
fn at(s: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + s * 1_000)
}

fn span() -> Span {
    Span { now: at(0), until: at(DAY), margin: MARGIN }
}

fn pace(per_second: i64) -> Pace {
    Pace { work: 1_000_000 / per_second, soon: at(3_600), window: Duration::from_secs(900) }
}

fn entry(n: usize, wake: i64, held: Option<i64>, by: i64) -> Candidate {
    let id = DeliveryId::new(format!("dlv_{n}")).expect("an id");
    Candidate { id, wake_at: at(wake), held_until: held.map(at), deliver_by: at(by) }
}

fn load(entries: &[(usize, i64, i64)]) -> Load {
    let mut load = Load::new(span());
    for (count, wake, by) in entries {
        (0..*count).for_each(|n| load.note(&entry(n, *wake, None, *by)));
    }
    load
}

#[test]
fn a_backlog_drains_at_its_pace_or_some_of_it_is_late() {
    let told = load(&[(12_000, -60, 190)]).project(pace(80));
    assert_eq!((told.late, told.breach, told.drained_at), (0, None, at(150)));
    // 100 a second until 90 take 9,000; the others cannot start by then.
    let told = load(&[(12_000, -60, 100)]).project(pace(100));
    assert_eq!((told.late, told.breach, told.drained_at), (3_000, Some(at(90)), at(90)));
    assert_eq!((told.late_later, told.overbooked, told.overbooked_from), (0, 0, None));
    assert_eq!(Load::new(span()).project(pace(1)), Projection::nothing(at(0)));
}

#[test]
fn a_nearer_deadline_goes_first_and_who_is_late_takes_no_time() {
    // The first 1,000 have until 20, the others until 200: both are kept only if the first go first.
    let told = load(&[(1_900, 0, 210), (1_000, 0, 30)]).project(pace(50));
    assert_eq!((told.late, told.drained_at), (0, at(58)));
    let told = load(&[(1_900, 0, 210), (2_000, 0, 30)]).project(pace(50));
    assert_eq!((told.late, told.breach, told.drained_at), (1_000, Some(at(20)), at(58)));
}

#[test]
fn what_falls_due_later_is_counted_by_the_window() {
    // From 7,200 on; 900 s at 10 a second take 9,000 of each window's 12,000, whose deadlines end with it.
    let windows = [(12_000, 7_200, 8_110), (9_000, 8_100, 9_010), (9_500, 9_000, 9_910)];
    let told = load(&windows).project(pace(10));
    assert_eq!((told.late, told.breach, told.drained_at), (0, None, at(0)));
    assert_eq!((told.late_later, told.overbooked, told.overbooked_from), (3_500, 2, Some(at(7_200))));
}

#[test]
fn frozen_hopeless_and_held_rows() {
    let mut load = Load::new(span());
    load.note(&entry(0, 90, None, 100));
    load.note(&entry(1, -50, None, 9));
    load.note(&entry(2, -50, Some(40), 100));
    load.note(&entry(3, DAY, None, DAY + 100));
    assert_eq!((load.asleep, load.hopeless, load.deliveries), (1, 1, 1));
    // It is called from the end of its hold on; what is foreseen is not what has to be drained.
    assert_eq!(load.project(pace(1)).drained_at, at(0));
    assert_eq!(load.project(Pace { work: 51_000_000, ..pace(1) }).late, 0, "whoever starts at once meets a narrow window");
}

#[test]
fn too_many_instants_are_rounded_and_hardly_anything_changes() {
    let mut load = Load::new(span());
    let count = 3 * MOST_CELLS;
    for n in 0..count {
        let ms = i64::try_from(n).expect("small") * 7;
        let (wake_at, deliver_by) =
            (Timestamp::from_millis(at(0).as_millis() - 1), at(10).plus(Duration::from_millis(ms.unsigned_abs())));
        load.note(&Candidate { wake_at, deliver_by, ..entry(n, 0, None, 0) });
    }
    assert!(load.cells.len() <= MOST_CELLS && load.step() > Duration::from_millis(7) && load.step() < Duration::from_secs(1));
    assert_eq!(load.deliveries, u64::try_from(count).expect("small"));
    // 60,000 with deadlines over 420 s: 100 a second take 42,000 of them.
    let late = load.project(pace(100)).late;
    assert!(late.abs_diff(18_000) < 100, "{late}");
}

fn entries() -> impl Strategy<Value = Vec<Candidate>> {
    let one = (-100_i64..8_000, 0_i64..4_000, prop::option::of(-50_i64..200), 0_i64..1_000);
    prop::collection::vec(one, 0..120).prop_map(|all| {
        let entry = |(n, (wake, window, held, ms)): (usize, (i64, i64, Option<i64>, i64))| {
            let mut entry = entry(n, wake, held, wake + window);
            entry.wake_at = entry.wake_at.plus(Duration::from_millis(ms.unsigned_abs()));
            entry
        };
        all.into_iter().enumerate().map(entry).collect()
    })
}

proptest! {
    /// It is the forecast, without the entries.
    #[test]
    fn it_says_what_a_forecast_of_the_entries_says(entries in entries(), rate in 1_u32..5, amplification in 100_u32..300) {
        let assumed = Assumed {
            rate_per_second: rate,
            amplification_percent: amplification,
            margin: MARGIN,
            from: at(0),
            until: at(DAY),
            window: Duration::from_secs(900),
        };
        let mut load = Load::new(span());
        entries.iter().for_each(|entry| load.note(entry));
        let (expected, told) = (forecast(&entries, &assumed), load.project(Pace { work: assumed.work(), ..pace(1) }));
        prop_assert_eq!((load.deliveries, load.asleep, load.hopeless), (expected.deliveries, expected.asleep, expected.hopeless));
        prop_assert_eq!(told.late + told.late_later, expected.late);
        prop_assert!(told.drained_at <= expected.drained_at);
        prop_assert_eq!(told.breach.is_some(), told.late > 0);
        prop_assert_eq!(told.overbooked > 0, told.late_later > 0);
    }
}
