//! I judge a story by its plan: identity, budget, instants, and the end.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use punctual_core::attempt::Attempt;
use punctual_core::delivery::Delivery;
use punctual_core::outcome::{CallResult, Failure, StatusClass};
use punctual_core::reason::Reason;
use punctual_core::retry::RetryPolicy;
use punctual_core::state::State;
use punctual_tests::world::script::{Met, Plan, Story};

/// So long before its last safe start a delivery is tried, whatever the clocks' width.
const ENOUGH_MS: i64 = 5_000;

/// What the contract says of a result.
fn class(result: &CallResult, plan: &Plan) -> StatusClass {
    match result {
        CallResult::Answered { status, .. } => plan.classes.get(status).copied().unwrap_or(match status {
            200..=299 => StatusClass::Delivered,
            408 | 409 | 425 | 429 | 500..=599 => StatusClass::Retry,
            _ => StatusClass::Dead,
        }),
        CallResult::Failed(_) | CallResult::NotCalled(_) => StatusClass::Retry,
        CallResult::Shadowed => panic!("a live delivery"),
    }
}

fn is_lost(result: &CallResult) -> bool {
    matches!(result, CallResult::Failed(Failure::Timeout | Failure::Cut))
}

fn ms(n: u128) -> i64 {
    i64::try_from(n).unwrap()
}

/// What the policy asks for after attempt `n`, before jitter, in milliseconds.
fn delay(policy: &RetryPolicy, n: usize, left_ms: i64) -> i64 {
    let grown = (1..n).fold(policy.base_ms, |delay, _| delay.saturating_mul(2).min(policy.cap_ms));
    i64::try_from(grown.min(policy.cap_ms)).unwrap().min(left_ms.max(0) / 4)
}

/// Everything that must hold; `count` takes note of what was reached.
pub(crate) fn judge(plan: &Plan, story: &Story, count: &dyn Fn(&str)) -> Result<(), TestCaseError> {
    prop_assert_eq!(&story.violation, &None);
    let row = story.row.as_ref().expect("it was stored");
    identity(row, story)?;
    let budget = usize::try_from(plan.policy.attempts + plan.granted).unwrap();
    prop_assert!(row.attempts.len() <= budget, "{} attempts, budget {budget}", row.attempts.len());
    let met = with_numbers(row, story)?;
    instants(plan, row, story, &met, count)?;
    end(plan, row, story, &met, budget)?;
    cover(plan, row, &met, count);
    Ok(())
}

/// One id, one key; the attempts are counted 1, 2, 3.
fn identity(row: &Delivery, story: &Story) -> Result<(), TestCaseError> {
    let numbers: Vec<u32> = row.attempts.iter().map(|attempt| attempt.number).collect();
    prop_assert_eq!(&numbers, &(1..=u32::try_from(numbers.len()).unwrap()).collect::<Vec<_>>());
    // An attempt without its secrets has a number, and no request.
    let asked = |attempt: &&Attempt| attempt.reason != Reason::SecretUnavailable;
    let asked: Vec<String> = row.attempts.iter().filter(asked).map(|attempt| attempt.number.to_string()).collect();
    let sent: Vec<String> = story.sent.iter().map(|sent| sent.attempt.clone()).collect();
    prop_assert_eq!(sent, asked);
    for sent in &story.sent {
        prop_assert_eq!(sent.key.as_str(), row.idempotency_key.as_str());
        prop_assert_eq!(sent.webhook_id.as_str(), row.id.as_str());
    }
    Ok(())
}

/// What each attempt met, by its number; one that was stopped right before its first byte met nothing.
fn with_numbers<'a>(row: &Delivery, story: &'a Story) -> Result<Vec<(usize, &'a Met)>, TestCaseError> {
    let numbers = row.attempts.iter().filter(|attempt| attempt.reason != Reason::NotCalled).map(|attempt| attempt.number);
    let numbers: Vec<usize> = numbers.map(|number| usize::try_from(number).unwrap()).collect();
    prop_assert_eq!(numbers.len(), story.met.len());
    Ok(numbers.into_iter().zip(&story.met).collect())
}

/// No call before it is due, before the receiver's floor, before the policy's delay, or after the last safe start.
fn instants(
    plan: &Plan,
    row: &Delivery,
    story: &Story,
    met: &[(usize, &Met)],
    count: &dyn Fn(&str),
) -> Result<(), TestCaseError> {
    let last_safe_start = row.deliver_by.as_millis() - ms(story.margin.as_millis());
    for sent in &story.sent {
        let Some(started) = sent.first_byte_ms else { continue };
        let number: usize = sent.attempt.parse().unwrap();
        prop_assert!(started >= row.deliver_after.as_millis(), "call {number} before it is due");
        prop_assert!(started <= last_safe_start, "call {number} after the last safe start");
        for (earlier, met) in met.iter().filter(|(earlier, _)| *earlier < number) {
            let floor = met.floor_ms.unwrap_or(i64::MIN);
            prop_assert!(
                started >= floor,
                "call {number} at {started}, before {floor}, the floor of {earlier}: {:?}",
                met.result
            );
            // The time that is left is measured from a clock that is known within its width.
            let left = row.deliver_by.as_millis() - met.at_ms - i64::from(plan.width_ms);
            let policy = met.at_ms + delay(&plan.policy, *earlier, left);
            prop_assert!(started >= policy, "call {number} at {started}, before {policy}, the policy's delay after {earlier}");
            if *earlier + 1 == number && floor > policy + policy / 5 - met.at_ms / 5 {
                let dated = matches!(&met.result, CallResult::Answered { retry_after: Some(text), .. } if text.contains(':'));
                count(if dated { "a first call after a floor: a date" } else { "a first call after a floor: seconds" });
            }
        }
    }
    Ok(())
}

/// The end has a reason, which is what happened; one dead letter for a death.
fn end(plan: &Plan, row: &Delivery, story: &Story, met: &[(usize, &Met)], budget: usize) -> Result<(), TestCaseError> {
    let letters = |what: &str| story.coverage.get(what).copied().unwrap_or(0);
    let deaths = u64::from(matches!(row.state, State::Dead | State::Expired));
    prop_assert_eq!((letters("dead letter"), letters("dead letter again")), (deaths, 0));
    prop_assert_eq!((u64::from(row.death), u64::from(row.dlq_sent), row.wake_at), (deaths, deaths, None));
    let made = row.attempts.len();
    let last = met.last().filter(|(number, _)| *number == made).map(|(_, met)| *met);
    for (number, met) in met.iter().filter(|(number, _)| *number < made) {
        prop_assert_eq!(class(&met.result, plan), StatusClass::Retry, "attempt {} was followed by another", number);
        prop_assert!(!(plan.review && is_lost(&met.result)), "attempt {} was followed by another without a review", number);
        prop_assert!(!plan.kill_switch, "attempt {} was followed by another in spite of the switch", number);
    }
    let gone = matches!(last, Some(Met { result: CallResult::Answered { status: 410, .. }, .. }));
    prop_assert_eq!(story.paused, gone && !plan.classes.contains_key(&410));

    let last_class = last.map(|met| class(&met.result, plan));
    let last_safe_start = row.deliver_by.as_millis() - ms(story.margin.as_millis());
    let width = i64::from(plan.width_ms) + 1;
    let reason = row.reason.ok_or_else(|| TestCaseError::fail("no reason"))?;
    let entry = row.history.iter().rev().find(|entry| entry.state == row.state && entry.reason == row.reason);
    let ended = entry.map_or(0, |entry| entry.at.as_millis());
    match (row.state, reason) {
        (State::Delivered, reason) => {
            prop_assert_eq!((last_class, reason), (Some(StatusClass::Delivered), Reason::Accepted));
        }
        (State::Expired, reason) => {
            prop_assert_eq!(reason, Reason::DeadlinePassed);
            prop_assert!(ended + width >= last_safe_start, "expired with time left");
            // What expires while it waits was waiting for a safe start.
            let waited = entry.is_some_and(|entry| entry.attempt.is_none());
            prop_assert!(!waited || row.next_attempt_at.as_millis() <= last_safe_start, "it waited for an unsafe start");
            prop_assert!(made > 0 || plan.window_ms - ms(story.margin.as_millis()) < ENOUGH_MS, "expired untried");
            prop_assert!(last_class.is_none_or(|class| class == StatusClass::Retry));
            let in_spite = (plan.kill_switch && made > 0) || (plan.review && last.is_some_and(|met| is_lost(&met.result)));
            prop_assert!(!in_spite, "expired in spite of a switch or a review");
        }
        (State::Dead, reason) if last_class == Some(StatusClass::Dead) => {
            prop_assert_eq!(Some(reason), row.attempts.last().map(|attempt| attempt.reason));
            let status = last.map(|met| &met.result);
            match status {
                Some(CallResult::Answered { status, .. }) if plan.classes.contains_key(status) => {
                    prop_assert_eq!(reason, Reason::Rejected);
                }
                Some(CallResult::Answered { status: 410, .. }) => prop_assert_eq!(reason, Reason::Gone),
                Some(CallResult::Answered { status: 422, .. }) => prop_assert_eq!(reason, Reason::KeyConflict),
                _ => prop_assert!(!matches!(reason, Reason::Gone | Reason::KeyConflict)),
            }
        }
        (State::Dead, reason) => {
            prop_assert!(last_class.is_none_or(|class| class == StatusClass::Retry), "a success is dead");
            let expected = if plan.review && last.is_some_and(|met| is_lost(&met.result)) {
                Reason::OutcomeUnknown
            } else if plan.kill_switch {
                Reason::RetryDisabled
            } else if made == budget {
                Reason::AttemptsExhausted
            } else {
                Reason::NoSafeRetryWindow
            };
            prop_assert_eq!(reason, expected);
            if reason == Reason::NoSafeRetryWindow {
                let at = last.map_or(ended, |met| met.at_ms) + width;
                let policy = delay(&plan.policy, made, row.deliver_by.as_millis() - at + width);
                let latest =
                    (at + policy + policy / 5 + 1).max(last.and_then(|met| met.floor_ms).map_or(i64::MIN, |floor| floor + width));
                prop_assert!(latest > last_safe_start, "the next attempt would have been in time: {latest}, {last_safe_start}");
            }
        }
        (state, _) => prop_assert!(false, "it ended as {}", state),
    }
    Ok(())
}

fn cover(plan: &Plan, row: &Delivery, met: &[(usize, &Met)], count: &dyn Fn(&str)) {
    let policys = usize::try_from(plan.policy.attempts).unwrap();
    let made = row.attempts.len();
    for (what, seen) in [
        ("an attempt beyond the policy's number", made > policys),
        ("the whole budget with its grant", plan.granted > 0 && made == policys + usize::try_from(plan.granted).unwrap()),
        ("five attempts and more", made >= 5),
    ] {
        if seen {
            count(what);
        }
    }
    for (_, met) in met {
        match (&met.result, met.floor_ms) {
            (CallResult::Answered { retry_after: Some(_), .. }, None) => count("a wish that is none"),
            (CallResult::Answered { status, .. }, _) if plan.classes.get(status) == Some(&StatusClass::Delivered) => {
                count("delivered at an overridden status");
            }
            (_, Some(floor)) if floor > row.deliver_by.as_millis() => count("a wish beyond any deadline"),
            (CallResult::Failed(Failure::Timeout), _) => count("an answer after the total timeout"),
            _ => {}
        }
    }
}
