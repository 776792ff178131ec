//! Drills: something breaks, and the alarms of `infra/observability.yaml` say so within two runs; the right ones, and no others.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test reports by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_core::state::State;
use punctual_tests::alarms::stage::{FINE, Fault, HOLE, Stage};
use serde_json::{Value, json};

/// So long a stage is watched before anything breaks.
const CALM: usize = 3;
/// What goes on all the time: one delivery for each destination every four seconds, for a quarter of an hour.
const STEADY: (u32, Duration) = (225, Duration::from_secs(4));

/// A stage at work, with no alarm so far.
async fn at_work() -> Stage {
    let mut stage = Stage::start().await.unwrap();
    for destination in [FINE, HOLE] {
        stage.store(destination, STEADY.0, STEADY.1).await.unwrap();
    }
    assert_eq!(stage.minutes(CALM).await.unwrap(), vec![BTreeSet::new(); CALM], "a healthy stage pages nobody");
    stage
}

fn names(alarms: &[&str]) -> BTreeSet<String> {
    alarms.iter().map(|alarm| format!("{alarm}Alarm")).collect()
}

/// Which alarms are in alarm at the end of each minute, one line a minute.
fn lines(told: &[BTreeSet<String>]) -> String {
    told.iter().enumerate().map(|(n, alarms)| format!("    minute {}: {alarms:?}\n", n + 1)).collect()
}

/// Those that stay for as long as what they tell lasts: an event turns green by itself.
fn levels(alarms: &BTreeSet<String>) -> BTreeSet<String> {
    alarms.iter().filter(|name| !name.starts_with("New")).cloned().collect()
}

/// What breaks, which alarms say so, and so many minutes later they have; and how long they are watched for others.
async fn drill(name: &str, faults: &[Fault], expected: &[&str], within: usize, watched: usize) {
    let mut stage = at_work().await;
    faults.iter().for_each(|fault| stage.fail(*fault));
    let told = stage.minutes(watched).await.unwrap();
    println!("{name}:\n{}", lines(&told));
    let expected = names(expected);
    let so_far: BTreeSet<String> = told[..within].iter().flatten().cloned().collect();
    assert_eq!(so_far, expected, "{name}: within {within} minutes\n{}", lines(&told));
    for (n, alarms) in told.iter().enumerate() {
        let lasts = n + 1 < within || levels(alarms) == levels(&expected);
        let wanted = lasts && alarms.is_subset(&expected);
        assert!(wanted, "{name}: minute {}\n{}", n + 1, lines(&told));
    }
}

#[tokio::test]
async fn a_healthy_stage_pages_nobody() {
    drill("healthy", &[], &[], 1, 6).await;
}

#[tokio::test]
async fn dispatch_stops() {
    drill("dispatch stopped", &[Fault::DispatchStopped], &["DispatchHeartbeat"], 2, 5).await;
}

#[tokio::test]
async fn deliver_stops() {
    drill("deliver stopped", &[Fault::DeliverStopped], &["DeliverStopped"], 2, 5).await;
}

#[tokio::test]
async fn monitor_stops() {
    drill("monitor stopped", &[Fault::MonitorStopped], &["MonitorHeartbeat"], 2, 5).await;
}

#[tokio::test]
async fn a_receiver_does_not_answer() {
    drill("black hole", &[Fault::BlackHole], &["BreakerOpen", "NewBreaker"], 1, 6).await;
}

#[tokio::test]
async fn a_receiver_is_gone() {
    let expected = ["DestinationPaused", "DeadLetters", "DeadReachable", "NewPause", "NewDeath"];
    drill("gone", &[Fault::Gone], &expected, 1, 4).await;
}

#[tokio::test]
async fn no_secret_can_be_read() {
    drill("no secrets", &[Fault::NoSecrets], &["SecretUnavailable"], 1, 3).await;
}

/// Less than the safety margin is left: there is no call, and the promise is broken.
#[tokio::test]
async fn a_delivery_expires() {
    let mut stage = at_work().await;
    let ids = stage.store_within(FINE, 1, Duration::ZERO, Duration::from_secs(5)).await.unwrap();
    let told = stage.minutes(2).await.unwrap();
    assert!(told.iter().all(|alarms| *alarms == names(&["Expired", "DeadLetters"])), "{}", lines(&told));
    assert_eq!(stage.rows(&ids).await.unwrap()[0].state, State::Expired);
    // Its letter is still in the queue; nobody is waited for.
    stage.cancel(&ids).await.unwrap();
    let told = stage.minutes(6).await.unwrap();
    assert!(told[1..].iter().all(|alarms| alarms.is_subset(&names(&["Expired"]))), "{}", lines(&told));
    assert!(told.last().unwrap().is_empty(), "it was dealt with: {}", lines(&told));
}

/// The first one's level is red: only an event tells of another.
#[tokio::test]
async fn a_second_destination_fails_while_the_first_is_down() {
    let mut stage = at_work().await;
    stage.fail(Fault::BlackHole);
    let told = stage.minutes(4).await.unwrap();
    assert!(told[0].contains("NewBreakerAlarm"), "{}", lines(&told));
    assert_eq!(told[3], names(&["BreakerOpen"]), "the event is over: {}", lines(&told));
    stage.fail(Fault::FineIsSilent);
    let told = stage.minutes(3).await.unwrap();
    assert!(told[..2].iter().any(|alarms| alarms.contains("NewBreakerAlarm")), "{}", lines(&told));
    assert_eq!(told[2], names(&["BreakerOpen"]), "{}", lines(&told));
}

/// Work that nobody resumes or releases: that is told while there is time, and told who.
async fn forgotten(stage: &mut Stage) {
    let told = stage.minutes(7).await.unwrap();
    let first = told.iter().position(|alarms| !alarms.is_empty()).unwrap();
    // Half an hour is left after three minutes, and it is said twice before it pages.
    assert!((3..=5).contains(&first), "{}", lines(&told));
    assert!(told[first..].iter().all(|alarms| *alarms == names(&["HeldBackNearDeadline"])), "{}", lines(&told));
}

#[tokio::test]
async fn an_operator_pauses_and_forgets() {
    let mut stage = at_work().await;
    stage.pause(HOLE).await.unwrap();
    let ids = stage.store_within(HOLE, 5, Duration::ZERO, Duration::from_secs(33 * 60)).await.unwrap();
    forgotten(&mut stage).await;
    stage.resume(HOLE, 10_000).await.unwrap();
    let told = stage.minutes(3).await.unwrap();
    assert!(told[1..].iter().all(BTreeSet::is_empty), "{}", lines(&told));
    assert!(stage.rows(&ids).await.unwrap().iter().all(|row| row.state == State::Delivered), "in time");
}

#[tokio::test]
async fn a_row_is_held_and_forgotten() {
    let mut stage = at_work().await;
    let ids = stage.store_within(FINE, 1, Duration::ZERO, Duration::from_secs(33 * 60)).await.unwrap();
    stage.hold(&ids).await.unwrap();
    forgotten(&mut stage).await;
    assert_eq!(stage.rows(&ids).await.unwrap()[0].state, State::Scheduled, "it could still be called");
}

/// What waited for the resume is not late for it.
#[tokio::test]
async fn a_backlog_after_a_pause_pages_nobody() {
    let mut stage = at_work().await;
    stage.pause(HOLE).await.unwrap();
    let told = stage.minutes(8).await.unwrap();
    assert!(told.iter().all(BTreeSet::is_empty), "{}", lines(&told));
    // A third of what waits from one tick to the next.
    stage.resume(HOLE, 40).await.unwrap();
    let told = stage.minutes(6).await.unwrap();
    assert!(told.iter().all(BTreeSet::is_empty), "{}", lines(&told));
}

#[tokio::test]
async fn a_missed_tick_pages_nobody_and_neither_does_a_late_long_run() {
    let mut stage = at_work().await;
    let monitor = Duration::from_secs(30);
    stage.fail(Fault::DispatchStopped);
    let mut told = stage.minutes(1).await.unwrap();
    stage.mend(Fault::DispatchStopped);
    told.extend(stage.minutes(2).await.unwrap());
    // It begins some seconds late and takes 48.
    stage.ends_at(Duration::from_secs(54), monitor);
    told.extend(stage.minutes(1).await.unwrap());
    stage.ends_at(Duration::ZERO, monitor);
    told.extend(stage.minutes(2).await.unwrap());
    assert!(told.iter().all(BTreeSet::is_empty), "{}", lines(&told));
}

/// Two ticks in a row had not ended when monitor looked: nobody can know then that the second one is only late.
#[tokio::test]
async fn a_missed_tick_before_a_late_one_pages_and_turns_green_by_itself() {
    let mut stage = at_work().await;
    let monitor = Duration::from_secs(30);
    stage.fail(Fault::DispatchStopped);
    let mut told = stage.minutes(1).await.unwrap();
    stage.mend(Fault::DispatchStopped);
    stage.ends_at(Duration::from_secs(54), monitor);
    told.extend(stage.minutes(1).await.unwrap());
    stage.ends_at(Duration::ZERO, monitor);
    told.extend(stage.minutes(2).await.unwrap());
    let page = names(&["DispatchHeartbeat"]);
    assert_eq!(told, [BTreeSet::new(), page, BTreeSet::new(), BTreeSet::new()], "{}", lines(&told));
}

#[tokio::test]
async fn one_missed_run_of_monitor_pages_nobody() {
    let mut stage = at_work().await;
    stage.delay_metrics(Duration::from_secs(20));
    stage.fail(Fault::MonitorStopped);
    let mut told = stage.minutes(1).await.unwrap();
    stage.mend(Fault::MonitorStopped);
    told.extend(stage.minutes(3).await.unwrap());
    assert!(told.iter().all(BTreeSet::is_empty), "{}", lines(&told));
}

/// The newest minute has not arrived when the alarms look: the two that have must be empty, and one that is pages for a minute.
#[tokio::test]
async fn figures_that_come_late_page_nobody_while_they_come() {
    let mut stage = at_work().await;
    stage.delay_metrics(Duration::from_secs(45));
    let told = stage.minutes(3).await.unwrap();
    assert!(told.iter().all(BTreeSet::is_empty), "{}", lines(&told));
    stage.fail(Fault::MonitorStopped);
    let told = stage.minutes(2).await.unwrap();
    assert_eq!(told[1], names(&["MonitorHeartbeat"]), "{}", lines(&told));
}

#[tokio::test]
async fn deliver_comes_back_and_no_message_was_lost() {
    let mut stage = at_work().await;
    stage.fail(Fault::DeliverStopped);
    let told = stage.minutes(5).await.unwrap();
    assert_eq!(told[4], names(&["DeliverStopped"]), "{}", lines(&told));
    stage.mend(Fault::DeliverStopped);
    let told = stage.minutes(5).await.unwrap();
    assert!(told.iter().flatten().all(|alarm| alarm == "DeliverStoppedAlarm"), "{}", lines(&told));
    assert!(told.last().unwrap().is_empty(), "{}", lines(&told));
}

/// What monitor has said stays, when it says nothing any more.
#[tokio::test]
async fn missing_figures_turn_no_alarm_green() {
    let mut stage = at_work().await;
    stage.fail(Fault::BlackHole);
    let told = stage.minutes(2).await.unwrap();
    assert_eq!(told[1], names(&["BreakerOpen"]), "{}", lines(&told));
    stage.fail(Fault::MonitorStopped);
    let told = stage.minutes(8).await.unwrap();
    assert!(told[..1].iter().all(|alarms| *alarms == names(&["BreakerOpen"])), "{}", lines(&told));
    assert!(told[1..].iter().all(|alarms| *alarms == names(&["BreakerOpen", "MonitorHeartbeat"])), "{}", lines(&told));
}

#[tokio::test]
async fn a_hundred_messages_are_lost() {
    let mut stage = at_work().await;
    let ids = stage.store(FINE, 100, Duration::ZERO).await.unwrap();
    stage.fail(Fault::DeliverStopped);
    let told = stage.minute().await.unwrap();
    assert_eq!(told, BTreeSet::new());
    let lost = stage.lose_messages();
    assert!(lost >= 100, "{lost}");
    stage.mend(Fault::DeliverStopped);
    // Their messages are missed two minutes after they were due: in the second minute from now. The next run takes them back.
    let told = stage.minutes(5).await.unwrap();
    println!("{lost} messages lost:\n{}", lines(&told));
    let first = told.iter().position(|alarms| !alarms.is_empty()).unwrap();
    assert!((1..=2).contains(&first), "{}", lines(&told));
    assert!(told[first..].iter().all(|alarms| *alarms == names(&["MessagesLost"]) || alarms.is_empty()), "{}", lines(&told));
    assert!(told.last().unwrap().is_empty(), "it ends by itself: {}", lines(&told));
    let rows = stage.rows(&ids).await.unwrap();
    assert!(rows.len() == 100 && rows.iter().all(|row| row.state == State::Delivered), "none is lost");
}

#[tokio::test]
async fn fifty_leases_expire() {
    let mut stage = at_work().await;
    let ids = stage.store(FINE, 50, Duration::ZERO).await.unwrap();
    stage.fail(Fault::DeliverStopped);
    let told = stage.minute().await.unwrap();
    assert_eq!(told, BTreeSet::new());
    let crashed = stage.crash_in_calls().await.unwrap();
    assert!(crashed >= 50, "{crashed}");
    stage.mend(Fault::DeliverStopped);
    let told = stage.minutes(5).await.unwrap();
    println!("{crashed} calls crashed:\n{}", lines(&told));
    let first = told.iter().position(|alarms| !alarms.is_empty()).unwrap();
    assert!(first <= 1, "within two runs: {}", lines(&told));
    assert!(told[first..].iter().all(|alarms| *alarms == names(&["LeasesEnded"]) || alarms.is_empty()), "{}", lines(&told));
    assert!(told.last().unwrap().is_empty(), "it ends by itself: {}", lines(&told));
    let rows = stage.rows(&ids).await.unwrap();
    assert!(rows.len() == 50 && rows.iter().all(|row| row.state == State::Delivered), "none is lost");
    assert!(rows.iter().all(|row| row.attempts.len() == 2), "the attempt that crashed counts");
}

fn signed(action: &str, more: Value) -> Value {
    let mut event = json!({"action": action, "by": "ann", "why": "its holder is gone", "evidence": "a drill"});
    event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    event
}

/// A lease that ends without its holder, while no function is there that would take it back; gives whose it is, and the alarms
/// of the last minute.
async fn left_alone(stage: &mut Stage, window: Duration, minutes: usize) -> (Value, BTreeSet<String>) {
    let ids = stage.store_within(FINE, 1, Duration::ZERO, window).await.unwrap();
    stage.fail(Fault::DeliverStopped);
    stage.minute().await.unwrap();
    assert_eq!(stage.crash_in_calls().await.unwrap(), 1);
    stage.fail(Fault::DispatchStopped);
    let told = stage.minutes(minutes).await.unwrap();
    assert_eq!(stage.rows(&ids).await.unwrap()[0].state, State::Delivering);
    (json!({"delivery_id": ids[0]}), told.last().unwrap().clone())
}

/// An operator's release ends it: it is as missed as if dispatch had found it.
#[tokio::test]
async fn a_released_lease_whose_delivery_expires_is_told() {
    let mut stage = Stage::start().await.unwrap();
    let (named, before) = left_alone(&mut stage, Duration::from_secs(90), 2).await;
    assert!(!before.contains("ExpiredAlarm"), "{before:?}");
    let answer = stage.operate(&signed("release_lease", named.clone())).await.unwrap();
    assert!(answer.ok && answer.did.ends_with("it is expired now"), "{answer:?}");
    let told = stage.minute().await.unwrap();
    assert!(told.contains("ExpiredAlarm") && !told.contains("NewDeathAlarm"), "{told:?}");
    // A second release finds no lease, and counts nothing; nor does dispatch count it once more.
    stage.mend(Fault::DispatchStopped);
    let again = stage.operate(&signed("release_lease", named)).await.unwrap();
    assert_eq!((again.ok, again.errors[0].code), (false, "no_lease"));
    let told = stage.minutes(6).await.unwrap();
    assert!(!told.last().unwrap().contains("ExpiredAlarm"), "{}", lines(&told));
}

#[tokio::test]
async fn a_released_lease_whose_delivery_dies_is_told() {
    let mut stage = Stage::start().await.unwrap();
    let (named, before) = left_alone(&mut stage, Duration::from_secs(3_600), 2).await;
    assert!(!before.contains("NewDeathAlarm"), "{before:?}");
    assert!(stage.operate(&signed("retry_mode", json!({"mode": "dead_letter"}))).await.unwrap().ok);
    let answer = stage.operate(&signed("release_lease", named)).await.unwrap();
    assert!(answer.ok && answer.did.ends_with("it is dead now"), "{answer:?}");
    let told = stage.minute().await.unwrap();
    assert!(told.contains("NewDeathAlarm") && !told.contains("ExpiredAlarm"), "{told:?}");
}

/// Ten are few, eleven are a crash: whoever takes them back.
#[tokio::test]
async fn leases_that_an_operator_takes_back_count_as_ended() {
    let mut stage = Stage::start().await.unwrap();
    let ids = stage.store(FINE, 11, Duration::ZERO).await.unwrap();
    stage.fail(Fault::DeliverStopped);
    stage.minute().await.unwrap();
    assert_eq!(stage.crash_in_calls().await.unwrap(), 11);
    stage.fail(Fault::DispatchStopped);
    let before = stage.minutes(2).await.unwrap().remove(1);
    assert!(!before.contains("LeasesEndedAlarm"), "{before:?}");
    for id in ids {
        let answer = stage.operate(&signed("release_lease", json!({"delivery_id": id}))).await.unwrap();
        assert!(answer.ok && answer.did.ends_with("it is scheduled now"), "{answer:?}");
    }
    let told = stage.minute().await.unwrap();
    assert!(told.contains("LeasesEndedAlarm") && !told.contains("ExpiredAlarm"), "{told:?}");
}
