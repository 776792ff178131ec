//! A cancel, or a renewal date that moves, beside deliver: the shipped handlers, one step at a time.
#![allow(clippy::panic, reason = "a test reports by panicking")]

use std::collections::BTreeMap;

use punctual_tests::world::race::{Wanted, race};

/// So many interleavings, a part for each thread.
const SEEDS: u64 = 1_000;
const THREADS: u64 = 2;

fn races(wanted: Wanted) -> BTreeMap<String, u64> {
    let part = move |thread: u64| {
        let mut coverage: BTreeMap<String, u64> = BTreeMap::new();
        for seed in (0..SEEDS).filter(|seed| seed % THREADS == thread) {
            let report = race(seed, wanted, false);
            if let Some(violation) = report.violation {
                let story = race(seed, wanted, true).trace.join("\n");
                panic!("seed {seed} breaks {}: {}\n{story}", violation.rule, violation.detail);
            }
            report.coverage.into_iter().for_each(|(what, n)| *coverage.entry(what).or_default() += n);
        }
        coverage
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || part(thread))).collect();
        let mut whole: BTreeMap<String, u64> = BTreeMap::new();
        for worker in workers {
            let Ok(part) = worker.join() else { panic!("a part failed") };
            part.into_iter().for_each(|(what, n)| *whole.entry(what).or_default() += n);
        }
        whole
    })
}

fn seen(coverage: &BTreeMap<String, u64>, all: &[&str]) {
    let missing: Vec<&&str> = all.iter().filter(|what| !coverage.contains_key(**what)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?} in {coverage:?}");
}

#[test]
fn no_call_follows_a_cancel_and_one_that_comes_too_late_says_so() {
    let coverage = races(Wanted::Cancel);
    let ends = ["end: cancelled", "end: delivered", "call"];
    seen(&coverage, &ends);
    seen(&coverage, &["scheduled: Cancelled", "scheduled: Unchanged", "scheduled: InFlight", "scheduled: AlreadyDelivered"]);
    seen(&coverage, &["operated", "operate refused", "fence lost"]);
}

#[test]
fn a_date_that_moves_makes_one_effect_and_none_before_the_new_due_time() {
    let coverage = races(Wanted::Reschedule);
    seen(&coverage, &["end: delivered", "row: scheduled rescheduled", "call", "fence lost"]);
    let answers = ["Rescheduled", "Unchanged", "InFlight", "AlreadyDelivered", "AttemptsExhausted", "NeedsReview"];
    seen(&coverage, &answers.map(|answer| format!("scheduled: {answer}")).each_ref().map(String::as_str));
}
