//! I run the simulated world: a bounded number of seeds, which must be hard enough, and every list that once broke a rule.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::collections::BTreeMap;

use punctual_core::state::State;
use punctual_tests::stack::root;
use punctual_tests::world::{self, Fate, Kills, killed, op};

/// So many seeds, a part for each thread.
const SEEDS: u64 = 400;
const THREADS: u64 = 2;

/// What must have happened, or the world has become too tame to prove anything.
const HARD: &[&str] = &[
    "booking refused",
    "breaker closed",
    "breaker opened",
    "call",
    "claim refused",
    "clock: machine off",
    "clock: too wide",
    "closed by deliver",
    "closed by dispatch",
    "crash",
    "crash after a call",
    "crash before a call",
    "dead letter",
    "dead letter again",
    "destination paused",
    "destination paused after rejections",
    "end: dead",
    "end: delivered",
    "end: expired",
    "fault: answer lost",
    "fault: refused",
    "fence lost",
    "killed at its end",
    "cursor kept",
    "dead letter of a garbled message",
    "late arrival",
    "late evidence",
    "row: cancelled cancelled",
    "row: dead payload_missing",
    "row: delivered late_evidence",
    "row: scheduled rescheduled",
    "zombie",
    "left",
    "lost race",
    "message delayed",
    "message duplicated",
    "message lost",
    "destination promoted",
    "posted to the shadow sink",
    "row: shadowed shadowed",
    "probe begun",
    "probe failed",
    "rejections noted",
    "rescued",
    "returned",
    "row: dead attempts_exhausted",
    "row: dead crash_loop",
    "row: dead gone",
    "row: dead no_safe_retry_window",
    "row: dead outcome_unknown",
    "row: dead rejected",
    "row: dead retry_disabled",
    "row: deferred outcome_unknown",
    "row: deferred rate_limited",
    "row: deferred timeout",
    "row: dispatching lease_ended",
    "row: dispatching message_overdue",
    "row: expired deadline_passed",
    "row: scheduled breaker_open",
    "row: scheduled destination_paused",
    "row: scheduled held",
    "row: scheduled publish_failed",
    "slot denied",
    "slot wasted",
    "scheduled: Conflict",
    "scheduled: Unchanged",
    "stale message",
    "suppressed",
    "frozen",
    "letter deleted: moved",
    "letter deleted: older",
    "letter deleted: suppressed",
    "letter left: broker_moved",
    "letter left: malformed",
    "letter left: unselected",
    "row moved",
    "run done, undisturbed",
    "run written by another",
    "run: aborted",
    "run: done",
    "run: stopped abort_threshold",
    "run: stopped canary_timeout",
    "run: stopped destination_paused",
    "slice crash after ledger",
    "slice crash after plan",
    "slice crash before ledger",
    "slice doubled",
    "slice failed",
    "slice lost",
    "sweep waits for hidden letters",
    "the only run has left no letter",
];

#[test]
fn no_seed_breaks_a_rule_and_the_world_is_hard() {
    let parts: Vec<BTreeMap<String, u64>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || part(thread))).collect();
        workers.into_iter().map(|worker| worker.join().expect("a part")).collect()
    });
    let count = |what: &str| parts.iter().filter_map(|part| part.get(what)).sum::<u64>();
    let missing: Vec<&&str> = HARD.iter().filter(|what| count(what) == 0).collect();
    assert!(missing.is_empty(), "never seen in {SEEDS} seeds: {missing:?}");
}

fn part(thread: u64) -> BTreeMap<String, u64> {
    let mut coverage = BTreeMap::new();
    for seed in (0..SEEDS).filter(|seed| seed % THREADS == thread) {
        let report = world::run(seed);
        if let Some(violation) = report.violation {
            panic!("seed {seed} breaks {}: {}\nmake sim SEED={seed} tells the story", violation.rule, violation.detail);
        }
        for (what, n) in report.coverage {
            *coverage.entry(what).or_default() += n;
        }
    }
    coverage
}

/// Two hundred kills, spread over all calls of a redrive run's slices: before the call, or after it happened.
#[test]
fn wherever_a_slice_is_killed_a_run_comes_to_the_same() {
    const POINTS: u64 = 200;
    let calm = killed(7, Kills::default());
    let expected = calm.outcome.clone().expect("a run");
    assert_eq!((calm.violation, expected.run.clone()), (None, ("done".into(), 6)));
    // Delivered at the second attempt; those that are not selected are as they were.
    let (moved, left) = ((State::Delivered, 2, 1, 2, 1), (State::Dead, 1, 0, 1, 0));
    assert_eq!(expected.rows, [moved, moved, moved, moved, moved, moved, left, left]);
    assert_eq!(expected.letters.len(), 2);
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for point in 0..POINTS {
        let at = 1 + point * calm.calls / POINTS;
        let fate = if point % 2 == 0 { Fate::CrashBefore } else { Fate::CrashAfter };
        // A third of them are killed once more, in a later slice.
        let second = (point % 3 == 0).then_some((at + 20 + point % 40, Fate::CrashAfter));
        let kills = Kills { at: [(at, fate)].into_iter().chain(second).collect(), late: point % 4 < 2 };
        let killed = killed(7, kills.clone());
        assert_eq!((killed.violation, killed.outcome.as_ref()), (None, Some(&expected)), "{kills:?}");
        killed.coverage.into_iter().for_each(|(what, n)| *seen.entry(what).or_default() += n);
    }
    println!("{} calls of slices; {seen:?}", calm.calls);
    for what in ["plan", "run", "ledger", "claim", "send", "receive", "delete", "show"] {
        for when in ["before", "after"] {
            let point = format!("slice crash {when} {what}");
            assert!(seen.contains_key(&point), "no kill was a {point}");
        }
    }
}

/// Every list begins with what went wrong, its seed, and what must happen in it, or it no longer shows anything.
#[test]
fn lists_that_once_broke_a_rule_break_none() {
    let folder = root().join("tests/tests/bugs");
    let mut lists: Vec<_> = std::fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("a file").path()).collect();
    lists.sort();
    assert!(!lists.is_empty());
    for path in lists {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a text");
        let said = |what: &str| text.lines().find_map(|line| line.strip_prefix("# ")?.strip_prefix(what)).map(str::trim);
        let seed = said("seed").and_then(|seed| seed.parse().ok()).unwrap_or_else(|| panic!("{name} names no seed"));
        let ops = op::from_text(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let report = world::replay(seed, &ops, false);
        assert_eq!(report.violation, None, "{name}");
        if let Some(what) = said("shows:") {
            assert!(report.coverage.contains_key(what), "{name} no longer shows: {what}");
        }
    }
}

#[test]
fn a_seed_and_its_list_give_the_same_run() {
    for seed in 0..20 {
        let first = world::run(seed);
        let again = world::replay(seed, &op::from_text(&op::to_text(&first.ops).expect("a text")).expect("a list"), false);
        assert_eq!(first.coverage, again.coverage, "{seed}");
    }
}
