//! The receiver misbehaves as it says, and its logs tell the truth.

use std::time::Duration;

use punctual_adapters::webhook::HttpWebhook;
use punctual_core::outcome::{CallResult, Failure};
use punctual_core::signature::Secret;
use punctual_tests::receiver::{Receiver, ReceiverOptions, Step, Verdict};

use super::headers::signed;
use super::{answered, bounded, local};

const A: &str = "whsec_ijkalhPdPaFJX77OsDrQJa/bZd4UvPuT";
const B: &str = "whsec_S9kZJw0qtA/Idyki4xkXP0xoJjMbvPSD";

fn secrets(texts: &[&str]) -> Vec<Secret> {
    texts.iter().map(|text| Secret::parse("k", text).expect("a secret")).collect()
}

async fn post(webhook: &HttpWebhook, receiver: &Receiver, path: &str) -> CallResult {
    bounded(webhook, &signed(receiver.url(path), &secrets(&[A]), b"{}"), &|| true).await
}

fn with_header(status: u16, text: &str) -> CallResult {
    CallResult::Answered { status, retry_after: Some(text.into()) }
}

#[tokio::test]
async fn each_path_behaves_as_it_is_named() {
    let webhook = local();
    for (path, expected, effects) in [
        ("healthy", vec![answered(200), answered(200)], 1),
        ("slow", vec![answered(200)], 1),
        ("flaky/acme", vec![answered(503), answered(503), answered(200), answered(200)], 1),
        ("limited", vec![with_header(429, "2"), answered(200)], 1),
        ("rejecting", vec![answered(400), answered(400)], 0),
        ("gone", vec![answered(410)], 0),
        ("conflict", vec![answered(422)], 0),
        ("busy", vec![answered(409), answered(200)], 1),
        ("down", vec![answered(503), answered(503)], 0),
        ("forgetful", vec![answered(200), answered(200)], 2),
        ("nowhere", vec![answered(404)], 0),
    ] {
        let receiver = Receiver::start(&[A]).await.expect("a receiver");
        let mut results = Vec::new();
        for _ in &expected {
            results.push(post(&webhook, &receiver, path).await);
        }
        assert_eq!(results, expected, "{path}");
        assert_eq!(receiver.effects().len(), effects, "{path}");
        assert_eq!(receiver.duplicate_effects(), effects.saturating_sub(1), "{path}");
        assert_eq!(receiver.call_count(), u64::try_from(expected.len()).expect("small"), "{path}");
        receiver.stop().await.expect("stopped");
    }
}

#[tokio::test]
async fn a_late_answer_has_one_effect() {
    let options = ReceiverOptions { answer_after: Duration::from_secs(60), ..ReceiverOptions::default() };
    let receiver = Receiver::start_with(&[A], options).await.expect("a receiver");
    let mut request = signed(receiver.url("late"), &secrets(&[A]), b"{}");
    request.total_timeout = Duration::from_millis(400);
    assert_eq!(bounded(&local(), &request, &|| true).await, Failure::Timeout.into());
    assert_eq!(receiver.effects().len(), 1, "it was processed although nobody heard of it");
    assert_eq!(bounded(&local(), &request, &|| true).await, answered(200));
    assert_eq!((receiver.effects().len(), receiver.duplicate_effects()), (1, 0));
}

#[tokio::test]
async fn rejecting_and_recovering_can_be_healed() {
    for (path, status) in [("rejecting", 400), ("recovering", 503)] {
        let receiver = Receiver::start(&[A]).await.expect("a receiver");
        assert_eq!(post(&local(), &receiver, path).await, answered(status));
        receiver.heal(true);
        assert_eq!(post(&local(), &receiver, path).await, answered(200));
    }
}

#[tokio::test]
async fn an_answer_can_be_cut_after_the_effect() {
    let receiver = Receiver::start(&[A]).await.expect("a receiver");
    receiver.program("dlv_j7m64rugcqtpndphfuqwp5tjax", [Step::cut().effect(true)]).expect("programmed");
    assert_eq!(post(&local(), &receiver, "healthy").await, Failure::Cut.into());
    assert_eq!((receiver.call_count(), receiver.effects().len()), (1, 1), "nobody called again by itself");
    assert_eq!(post(&local(), &receiver, "healthy").await, answered(200));
    assert_eq!((receiver.effects().len(), receiver.duplicate_effects()), (1, 0));
}

#[tokio::test]
async fn accepted_secrets_can_be_changed() {
    let receiver = Receiver::start(&[A]).await.expect("a receiver");
    let mut results = Vec::new();
    for (accepted, active) in [(&[A][..], &[A][..]), (&[A, B], &[B, A]), (&[B], &[B, A]), (&[B], &[A])] {
        receiver.accept(accepted).expect("secrets");
        let request = signed(receiver.url("healthy"), &secrets(active), b"{}");
        results.push(bounded(&local(), &request, &|| true).await);
    }
    assert_eq!(results, [answered(200), answered(200), answered(200), answered(401)]);
    let counts: Vec<(usize, usize)> = receiver.calls().iter().map(|call| (call.signatures, call.good_signatures)).collect();
    assert_eq!(counts, [(1, 1), (2, 2), (2, 1), (1, 0)]);
}

#[tokio::test]
async fn a_key_can_be_programmed() {
    let receiver = Receiver::start(&[A]).await.expect("a receiver");
    let key = "dlv_j7m64rugcqtpndphfuqwp5tjax";
    let steps = [Step::status(503).retry_after("900"), Step::status(502).effect(true)];
    receiver.program(key, steps).expect("programmed");
    let mut results = Vec::new();
    for _ in 0..3 {
        results.push(post(&local(), &receiver, "healthy").await);
    }
    assert_eq!(results, [with_header(503, "900"), answered(502), answered(200)]);
    assert_eq!(receiver.effects().len(), 1);
}

#[tokio::test]
async fn signatures_are_verified_by_the_reference_implementation() {
    let receiver = Receiver::start(&[A]).await.expect("a receiver");
    let webhook = local();
    let body = "{\"name\":\"Zoë\",\"due\":\"2026-01-01T00:00:00Z\"}".as_bytes();
    for (active, status) in [(&[A][..], 200), (&[A, B], 200), (&[B], 401), (&[], 401)] {
        let request = signed(receiver.url("healthy"), &secrets(active), body);
        assert_eq!(bounded(&webhook, &request, &|| true).await, answered(status), "{} secrets", active.len());
    }
    let mut changed = signed(receiver.url("healthy"), &secrets(&[A]), body);
    changed.body.push(b' ');
    assert_eq!(bounded(&webhook, &changed, &|| true).await, answered(401));
    let verdicts: Vec<Verdict> = receiver.calls().iter().map(|call| call.signature).collect();
    assert_eq!(verdicts, [Verdict::Verified, Verdict::Verified, Verdict::Wrong, Verdict::Wrong, Verdict::Wrong]);
    assert_eq!(receiver.badly_signed().len(), 3);
    assert_eq!(receiver.effects().len(), 1);
}

#[tokio::test]
async fn a_call_is_recorded_as_it_arrived() {
    let receiver = Receiver::start(&[A]).await.expect("a receiver");
    for body in ["{\"due\":\"2026-01-01T00:00:00Z\"}", "{\"due\":\"2999-01-01T00:00:00Z\"}", "{\"due\":7}", "no JSON"] {
        let request = signed(receiver.url("healthy"), &secrets(&[A]), body.as_bytes());
        assert_eq!(bounded(&local(), &request, &|| true).await, answered(200));
    }
    let calls = receiver.calls();
    let dues: Vec<Option<i64>> = calls.iter().map(|call| call.due_ms).collect();
    assert_eq!(dues, [Some(1_767_225_600_000), Some(32_472_144_000_000), Some(7), None]);
    assert_eq!(receiver.calls_before_due(), [calls[1].clone()]);
    let first = &calls[0];
    assert_eq!((first.path.as_str(), first.attempt, first.body_bytes), ("/healthy", Some(3), 30));
    assert_eq!(first.webhook_id, first.idempotency_key);
    assert_eq!(first.key(), "dlv_j7m64rugcqtpndphfuqwp5tjax");
    assert_eq!(receiver.calls_for(first.key()).len(), 4);
    assert_eq!(receiver.calls_forgotten(), 0);
}

#[tokio::test]
async fn a_stop_answers_what_hangs() {
    let receiver = Receiver::start(&[A]).await.expect("a receiver");
    let request = signed(receiver.url("hang"), &secrets(&[A]), b"{}");
    let call = tokio::spawn(async move { bounded(&local(), &request, &|| true).await });
    assert!(receiver.wait_for_calls(1, Duration::from_secs(20)).await);
    receiver.stop().await.expect("stopped");
    assert_eq!(call.await.expect("a result"), answered(503));
}
