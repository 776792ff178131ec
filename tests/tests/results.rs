//! Whatever an attempt meets, the delivery comes to an end that has a reason, under one key, within its budget and its
//! window: the shipped handlers on the simulated world, over sequences of results and policies made up by chance.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

#[path = "results/plan.rs"]
mod plan;
#[path = "results/rules.rs"]
mod rules;

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use punctual_tests::world::script::play;

use crate::plan::plan;
use crate::rules::judge;

const SEQUENCES: u32 = 400;
/// What must have happened in the sequences that are the same each time, or they prove too little.
const SEEN: &[&str] = &[
    "row: deferred rate_limited",
    "row: deferred request_timeout",
    "row: deferred in_progress",
    "row: deferred too_early",
    "row: deferred server_error",
    "row: deferred retryable_status",
    "row: deferred timeout",
    "row: deferred connection_cut",
    "row: deferred connect_failed",
    "row: deferred dns_failed",
    "row: deferred tls_failed",
    "row: deferred address_refused",
    "row: deferred secret_unavailable",
    "row: scheduled server_error",
    "row: scheduled connection_cut",
    "row: delivered accepted",
    "row: dead attempts_exhausted",
    "row: dead gone",
    "row: dead key_conflict",
    "row: dead no_safe_retry_window",
    "row: dead outcome_unknown",
    "row: dead rejected",
    "row: dead retry_disabled",
    "row: expired deadline_passed",
    "destination paused",
    "a first call after a floor: seconds",
    "a first call after a floor: a date",
    "an attempt beyond the policy's number",
    "the whole budget with its grant",
    "a wish beyond any deadline",
    "a wish that is none",
    "an answer after the total timeout",
    "delivered at an overridden status",
    "five attempts and more",
];

fn run(mut runner: TestRunner) -> BTreeMap<String, u64> {
    let seen: RefCell<BTreeMap<String, u64>> = RefCell::default();
    let count = |what: &str| *seen.borrow_mut().entry(what.to_owned()).or_default() += 1;
    let outcome = runner.run(&plan(), |plan| {
        let story = play(&plan, false).expect("a destination");
        for (what, n) in &story.coverage {
            *seen.borrow_mut().entry(what.clone()).or_default() += n;
        }
        judge(&plan, &story, &count).map_err(|error| {
            let told = play(&plan, true).expect("a destination").trace.join("\n");
            TestCaseError::fail(format!("{error}\n{told}"))
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    seen.into_inner()
}

/// `PROPTEST_CASES` asks for more.
fn config() -> Config {
    let config = Config::default();
    Config { cases: config.cases.max(SEQUENCES), failure_persistence: None, ..config }
}

#[test]
fn the_same_sequences_each_time_reach_every_class_and_every_end() {
    let seen = run(TestRunner::new_with_rng(config(), TestRng::deterministic_rng(RngAlgorithm::ChaCha)));
    let missing: Vec<&&str> = SEEN.iter().filter(|what| !seen.contains_key(**what)).collect();
    assert!(missing.is_empty(), "never seen in {SEQUENCES} sequences: {missing:?}\n{seen:#?}");
}

#[test]
fn other_sequences_each_time_keep_the_rules() {
    let seen = run(TestRunner::new(config()));
    assert!(seen.get("row: delivered accepted").is_some_and(|n| *n > 0) && seen.get("dead letter").is_some_and(|n| *n > 0));
}
