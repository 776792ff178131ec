//! However many consumers there are, no second holds more calls than a destination's rate and burst: counted at the receiver.
#![allow(clippy::expect_used, reason = "a test reports by panicking")]

use punctual_tests::bench::PEAK_GOAL;
use punctual_tests::bench::pace::{Course, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_second_holds_more_calls_than_rate_and_burst() {
    let course = Course { reminders: 200, consumers: 4, batch: 10 };
    let pace = run(course).await.expect("all are delivered");
    assert!(pace.peak_ratio() <= PEAK_GOAL, "{} calls in the fullest second: {pace:?}", pace.fullest);
    assert_eq!((pace.tally.delivered, pace.calls), (200, 240), "every fifth failed once: {:?}", pace.tally);
    // A full batch shares its booking; one that failed books alone when it comes back.
    assert!(pace.writes < 1.0, "{:?}", pace.tally);
}
