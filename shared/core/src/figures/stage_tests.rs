#![allow(clippy::indexing_slicing, reason = "a test may fail loudly")]

use super::*;
use crate::admission::Candidate;
use crate::breaker::Open;
use crate::destination::{Change, Pause};
use crate::figures::load::Span;
use crate::id::{Correlation, DeliveryId};

const TICK: Duration = Duration::from_secs(60);

/// 09:00 and so many seconds.
fn at(s: i64) -> Timestamp {
    Timestamp::from_millis(1_796_115_600_000 + s * 1_000)
}

fn destination(id: &str, rate: u32, max_in_flight: u32) -> Destination {
    let spec = format!(
        r#"{{"id":"{id}","url":"https://hooks.example.com/","secrets":["punctual/prod/acme"],"rate_per_second":{rate},"max_in_flight":{max_in_flight}}}"#
    );
    let changed = Change { at: at(0), by: "ops".into(), why: "test".into() };
    Destination { spec: serde_json::from_str(&spec).expect("a spec"), version: 1, paused: None, changed }
}

/// So many rows, due and to be called by then.
fn backlog(rows: &[(usize, i64, i64)]) -> Backlog {
    let mut backlog = Backlog::new(Span { now: at(0), until: at(86_400), margin: Duration::from_secs(10) });
    for (count, wake, by) in rows {
        for n in 0..*count {
            let id = DeliveryId::new(format!("dlv_{n}")).expect("an id");
            backlog.note(&Candidate { id, wake_at: at(*wake), held_until: None, deliver_by: at(*by) });
        }
    }
    backlog
}

/// One that has proven itself.
fn proven() -> &'static Reach {
    let reach = Reach { in_flight: 10_000, ..Reach::unproven(Correlation::new("c1").expect("a token")) };
    Box::leak(Box::new(reach))
}

fn known<'a>(destination: &'a Destination, backlog: &'a Backlog) -> Known<'a> {
    Known {
        destination,
        reach: Some(proven()),
        backlog,
        read_until: None,
        calls_percent: 100,
        redriving: false,
        callable_since: None,
    }
}

#[test]
fn the_pace_is_the_rate_or_what_may_be_out() {
    let of = |rate, room, percent, redriving| work(&destination("acme", rate, room), room, TICK, percent, redriving);
    assert_eq!(of(100, 10_000, 100, false), 10_000);
    assert_eq!(of(100, 10_000, 125, false), 12_500);
    assert_eq!(of(100, 10_000, 100, true), 12_500, "a fifth is the redrive's");
    assert_eq!(of(50, 1_000, 100, false), 60_000, "a thousand from one tick to the next");
    assert_eq!(of(1, 1, 2_000, false), 1_200_000_000);
}

#[test]
fn sums_maxima_and_who_stands_out() {
    let (calm, full) = (destination("calm", 100, 10_000), destination("full", 10, 10_000));
    let mut figures = Figures::begin(at(0));
    figures.destination(known(&calm, &backlog(&[(10, -5, 3_600)])), TICK);
    // 10 a second until 290: 2,900 of 3,000; and from 7,200 on 900 s for 12,000.
    figures.destination(known(&full, &backlog(&[(3_000, -120, 300), (12_000, 7_200, 8_110)])), TICK);
    assert_eq!((figures.destinations, figures.due, figures.entries_read), (2, 3_010, 15_010));
    assert_eq!((figures.oldest_due_seconds, figures.oldest_overdue_seconds, figures.next_last_start_seconds), (120, 120, 290));
    assert_eq!((figures.late, figures.breach_in_seconds, figures.drain_seconds), (100, 290, 290));
    assert_eq!((figures.overbooked, figures.late_later), (1, 3_000));
    let [offender] = figures.offenders.as_slice() else { panic!("{:?}", figures.offenders) };
    assert_eq!((offender.destination_id.as_str(), offender.late, offender.breach), ("full", 100, Some(at(290))));
    let text = serde_json::to_string(&figures).expect("JSON");
    assert!(text.contains(r#""overbooked_from":"2026-12-01T11:00:00.000Z""#) && !text.contains("paused_since"), "{text}");
}

#[test]
fn who_may_not_be_called_hides_no_lag_and_shows_none() {
    let mut paused = destination("paused", 100, 10_000);
    paused.paused = Some(Pause { since: at(-300), by: "deliver c1".into(), why: "410".into() });
    let mut by_hand = destination("by-hand", 100, 10_000);
    by_hand.paused = Some(Pause { since: at(-7_200), by: "ops".into(), why: "maintenance".into() });
    let open = destination("open", 100, 10_000);
    let reach = Reach {
        open: Some(Open { since: at(-90), probe_at: at(30), probes: 1, probe: None }),
        ..Reach::unproven(Correlation::new("c1").expect("a token"))
    };
    let late = backlog(&[(5, -200, 3_600)]);
    let mut figures = Figures::begin(at(0));
    figures.destination(known(&paused, &late), TICK);
    figures.destination(known(&by_hand, &late), TICK);
    figures.destination(Known { reach: Some(&reach), ..known(&open, &late) }, TICK);
    assert_eq!((figures.paused, figures.paused_by_itself, figures.open_breakers), (2, 1, 1));
    assert_eq!(figures.longest_pause_seconds, 7_200);
    assert_eq!((figures.oldest_due_seconds, figures.oldest_overdue_seconds), (200, 0));
    let named: Vec<&str> = figures.offenders.iter().map(|offender| offender.destination_id.as_str()).collect();
    assert_eq!(named, ["by-hand", "open", "paused"]);
    assert_eq!(figures.offenders[1].open_since, Some(at(-90)));
}

#[test]
fn what_was_not_read_is_estimated_and_said() {
    let acme = destination("acme", 100, 10_000);
    // Read for 25 of 100 seconds.
    let part = backlog(&[(500, -100, 3_600), (500, -80, 3_600)]);
    let mut figures = Figures::begin(at(0));
    figures.destination(Known { read_until: Some(at(-75)), ..known(&acme, &part) }, TICK);
    assert_eq!((figures.truncated, figures.due, figures.due_estimated), (1, 1_000, 4_000));
    assert_eq!(figures.offenders[0].read_until, Some(at(-75)));
    // What is due was read, only the future was not.
    let mut figures = Figures::begin(at(0));
    figures.destination(Known { read_until: Some(at(600)), ..known(&acme, &part) }, TICK);
    assert_eq!((figures.truncated, figures.due_estimated), (1, 1_000));
}

#[test]
fn the_worst_five_are_named() {
    let destinations: Vec<Destination> = (0..9).map(|n| destination(&format!("d{n}"), 1, 10_000)).collect();
    let mut figures = Figures::begin(at(0));
    for (n, destination) in destinations.iter().enumerate() {
        figures.destination(known(destination, &backlog(&[(n * 100, -1, 100)])), TICK);
    }
    let named: Vec<&str> = figures.offenders.iter().map(|offender| offender.destination_id.as_str()).collect();
    assert_eq!(named, ["d8", "d7", "d6", "d5", "d4"]);
}

#[test]
fn what_is_due_goes_by_the_room_that_dispatch_admits_by_and_what_comes_later_does_not() {
    let acme = destination("acme", 100, 10_000);
    // 90 s are left: at 100 a second all of it is called, with room for 100 from tick to tick 150 are.
    let load = backlog(&[(1_000, -5, 100), (1_000, 7_200, 7_300)]);
    let late = |reach: Option<&Reach>| {
        let mut figures = Figures::begin(at(0));
        figures.destination(Known { reach, ..known(&acme, &load) }, TICK);
        (figures.late, figures.late_later, figures.overbooked)
    };
    assert_eq!(late(Some(proven())), (0, 0, 0));
    assert_eq!(late(None), (850, 0, 0), "a new one");
    let small = Reach { in_flight: 10, ..proven().clone() };
    assert_eq!(late(Some(&small)), (985, 0, 0), "one that has failed");
    let open = Open { since: at(-90), probe_at: at(30), probes: 1, probe: None };
    assert_eq!(late(Some(&Reach { open: Some(open), ..small })), (0, 0, 0), "what would be if it closed");
}

#[test]
fn a_backlog_is_as_old_as_its_destination_is_callable() {
    let acme = destination("acme", 100, 10_000);
    let load = backlog(&[(10, -900, 3_600)]);
    let age = |callable_since| {
        let mut figures = Figures::begin(at(0));
        figures.destination(Known { callable_since, ..known(&acme, &load) }, TICK);
        (figures.oldest_due_seconds, figures.oldest_overdue_seconds)
    };
    assert_eq!([age(None), age(Some(at(-60))), age(Some(at(-7_200)))], [(900, 900), (900, 60), (900, 900)]);
}

#[test]
fn a_breaker_that_nobody_needs_counts_for_nothing() {
    let acme = destination("acme", 100, 10_000);
    let open = Open { since: at(-90), probe_at: at(30), probes: 1, probe: None };
    let reach = Reach { open: Some(open), ..proven().clone() };
    let breakers = |rows: &[(usize, i64, i64)]| {
        let mut figures = Figures::begin(at(0));
        figures.destination(Known { reach: Some(&reach), ..known(&acme, &backlog(rows)) }, TICK);
        figures.open_breakers
    };
    assert_eq!([breakers(&[]), breakers(&[(1, 7_200, 9_000)])], [0, 0]);
    assert_eq!([breakers(&[(1, -5, 900)]), breakers(&[(1, 240, 900)])], [1, 1], "due, or back until the next probe");
}

#[test]
fn letters_of_a_paused_destination_are_owed_for_a_reason() {
    let id = |name: &str| DestinationId::new(name).expect("an id");
    let ended = Ended { letters_owed: [(id("a"), 2), (id("paused"), 3)].into(), ..Ended::default() };
    let looked_at = LookedAt { letters_owed: [(id("a"), 1), (id("old"), 4), (id("paused"), 3)].into(), ..LookedAt::default() };
    let mut figures = Figures::begin(at(0));
    figures.letters(&ended, &looked_at, &[id("paused")].into());
    assert_eq!(figures.letters_owed, 6, "the old one is seen in the wake index alone");
}

#[test]
fn what_a_pause_or_a_hold_keeps_back_near_its_last_start_is_counted_and_named() {
    let mut paused = destination("paused", 100, 10_000);
    paused.paused = Some(Pause { since: at(-7_200), by: "ops".into(), why: "maintenance".into() });
    let calm = destination("calm", 100, 10_000);
    // Due, to come, and with time; and one that is held until its last safe start.
    let load = backlog(&[(2, -5, 900), (3, 600, 1_200), (4, -5, 3_600), (1, 1_000, 1_010)]);
    let mut figures = Figures::begin(at(0));
    figures.destination(known(&paused, &load), TICK);
    assert_eq!(figures.held_back_near, 6);
    figures.destination(known(&calm, &load), TICK);
    assert_eq!(figures.held_back_near, 7);
    let named: Vec<(&str, u64)> = figures.offenders.iter().map(|one| (one.destination_id.as_str(), one.held_back_near)).collect();
    assert_eq!(named, [("paused", 6), ("calm", 1)]);
}
