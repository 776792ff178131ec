#![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]

use proptest::prelude::*;

use super::*;

const MARGIN: Duration = Duration::from_secs(10);

/// 09:00 and so many seconds.
fn at(s: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + s * 1_000)
}

fn assumed(rate_per_second: u32) -> Assumed {
    let (window, until) = (Duration::from_secs(900), at(86_400));
    Assumed { rate_per_second, amplification_percent: 100, margin: MARGIN, from: at(0), until, window }
}

fn row(n: usize, wake: i64, by: i64) -> Candidate {
    let id = DeliveryId::new(format!("dlv_{n}")).expect("an id");
    Candidate { id, wake_at: at(wake), held_until: None, deliver_by: at(by) }
}

fn rows(count: usize, wake: i64, by: i64) -> Vec<Candidate> {
    (0..count).map(|n| row(n, wake, by)).collect()
}

#[test]
fn twelve_thousand_at_once() {
    let all = rows(12_000, 900, 2_700);
    let told = forecast(&all, &assumed(100));
    assert_eq!((told.deliveries, told.late, &told.breach, told.drained_at), (12_000, 0, &None, at(1_050)));
    let [window] = told.windows.as_slice() else { panic!("{:?}", told.windows) };
    assert_eq!((window.from, window.until, window.due, window.carried, window.carried_on), (at(900), at(1_800), 12_000, 0, 0));
    assert_eq!((window.calls, window.drain_seconds, window.nearest_deadline), (12_000, 150, Some(at(2_700))));

    // A fifth of one call a second is not to be had as whole calls: 48 a minute are left.
    let slow = forecast(&rows(96, 0, 86_000), &assumed(1));
    assert_eq!((slow.windows[0].drain_seconds, slow.drained_at), (120, at(120)));
}

#[test]
fn what_is_left_is_carried_and_a_near_deadline_goes_first() {
    // 80 calls a second for 900 s are 72,000: 100,000 take two windows.
    let mut all = rows(100_000, 0, 7_200);
    all.push(row(100_000, 100, 111));
    let told = forecast(&all, &assumed(100));
    let carried: Vec<(u64, u64, u64)> = told.windows.iter().map(|w| (w.due, w.carried, w.carried_on)).collect();
    assert_eq!(carried, [(100_001, 0, 28_001), (0, 28_001, 0)]);
    assert_eq!((told.late, told.windows[0].nearest_deadline), (0, Some(at(111))), "it goes before what waits longer");
    // What waited before the present is carried into the first window.
    let mut later = assumed(100);
    later.from = at(450);
    assert_eq!(forecast(&all, &later).windows[0].carried, 100_000);
    assert_eq!((forecast(&all, &later).hopeless, forecast(&all, &later).windows[0].from), (1, at(450)));
}

#[test]
fn the_first_breach_can_be_checked_by_hand() {
    // 80 a second from 900 to 990 (the deadline less the margin): 7,200 of 12,000 can start.
    let told = forecast(&rows(12_000, 900, 1_000), &assumed(100));
    assert_eq!((told.late, told.windows[0].late), (4_800, 4_800));
    let breach = told.breach.expect("a breach");
    assert_eq!((breach.from, breach.until, breach.last_start), (at(900), at(1_800), at(990)));
    assert_eq!((breach.since, breach.possible), (at(900), 7_200));
    assert!((7_201..=12_000).contains(&breach.deliveries), "{breach:?}");
}

#[test]
fn retries_take_their_share() {
    let more = Assumed { amplification_percent: 150, ..assumed(100) };
    let told = forecast(&rows(800, 0, 3_600), &more);
    assert_eq!((told.windows[0].calls, told.windows[0].drain_seconds, told.drained_at), (1_200, 15, at(15)));
    assert_eq!((more.calls(3), more.drain_seconds(1)), (5, 1));
}

#[test]
fn who_is_counted_and_who_is_not() {
    let held = Candidate { held_until: Some(at(60)), ..row(1, 0, 3_600) };
    let frozen = row(2, 3_590, 3_600);
    let hopeless = row(3, 0, 5);
    let told = forecast(&[row(0, 0, 3_600), held, frozen, hopeless, row(4, 86_400, 90_000)], &assumed(1));
    assert_eq!((told.deliveries, told.held, told.asleep, told.hopeless), (2, 1, 1, 1));
    assert_eq!((told.windows[0].due, told.windows[0].held), (2, 1));
    assert_eq!(told.drained_at, Timestamp::from_millis(at(61).as_millis() + 250), "a held one counts from its hold's end");
    let none = forecast(&[], &assumed(1));
    assert_eq!((none.windows.len(), none.drained_at), (0, at(0)));
}

/// Whether more must be called within some span of time than the rate takes in it: the criterion for any order of calls.
fn overloaded(all: &[Candidate], assumed: &Assumed) -> bool {
    let span = |c: &Candidate| {
        let due = micros(c.wake_at.max(assumed.from));
        (due, micros(last_safe_start(c.deliver_by, MARGIN)).max(due + assumed.work()))
    };
    let spans: Vec<(Micros, Micros)> = all.iter().map(span).collect();
    let within = |from: Micros, to: Micros| spans.iter().filter(|(due, last)| *due >= from && *last <= to).count();
    spans.iter().any(|(from, _)| {
        spans.iter().any(|(_, to)| Micros::try_from(within(*from, *to)).expect("few") * assumed.work() > (to - from).max(0))
    })
}

proptest! {
    #[test]
    fn a_breach_is_told_iff_some_span_is_overloaded(
        all in prop::collection::vec((-60_i64..3_000, 11_i64..400), 0..60), rate in 1_u32..4, percent in 100_u32..400,
    ) {
        let all: Vec<Candidate> = all.into_iter().enumerate().map(|(n, (wake, room))| row(n, wake, wake + room)).collect();
        let all: Vec<Candidate> = all.into_iter().filter(|c| c.deliver_by >= at(10) && c.wake_at < c.deliver_by.minus(MARGIN)).collect();
        let assumed = Assumed { amplification_percent: percent, ..assumed(rate) };
        let told = forecast(&all, &assumed);
        prop_assert_eq!(told.breach.is_some(), overloaded(&all, &assumed));
        prop_assert_eq!(told.breach.is_some(), told.late > 0);
        if let Some(breach) = &told.breach {
            prop_assert!(breach.deliveries > breach.possible, "{breach:?}");
            let counted = all.iter().filter(|c| c.wake_at.max(at(0)) >= breach.since && c.deliver_by.minus(MARGIN) <= breach.last_start);
            prop_assert!(count(counted.count()) >= breach.deliveries || breach.last_start <= breach.since, "{breach:?}");
        }

        // What is carried on is carried into the next window with anything, nothing is lost, and the rate is kept.
        let mut carried = None;
        for window in &told.windows {
            prop_assert!(carried.is_none_or(|carried| carried == window.carried), "{:?}", told.windows);
            prop_assert!(window.carried_on <= window.carried + window.due);
            let length = micros(window.until) - micros(window.from);
            let left = window.carried + window.due - window.carried_on;
            prop_assert!(left <= u64::try_from(length / assumed.work()).expect("positive") + 1 + told.late);
            carried = Some(window.carried_on);
        }
        let overdue = told.windows.first().map_or(0, |window| window.carried);
        prop_assert_eq!(told.windows.iter().map(|window| window.due).sum::<u64>() + overdue, told.deliveries);
        prop_assert_eq!(told.windows.iter().map(|window| window.late).sum::<u64>(), told.late);

        // A higher rate takes no longer, and breaks no deadline that a lower one keeps.
        let faster = forecast(&all, &Assumed { rate_per_second: rate + 1, ..assumed });
        prop_assert!(faster.breach.is_none() || told.breach.is_some());
        if told.breach.is_none() {
            prop_assert!(faster.drained_at <= told.drained_at);
            let waiting = |f: &Forecast| -> Vec<(Timestamp, u64)> { f.windows.iter().map(|w| (w.from, w.carried_on)).collect() };
            for (from, carried_on) in waiting(&faster) {
                prop_assert!(waiting(&told).iter().any(|(at, more)| *at == from && *more >= carried_on));
            }
        }
    }
}
