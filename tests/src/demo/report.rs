//! The demo's story: a table of what happened, from the ledger and from the receiver's own log, and what failed.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use aws_sdk_sqs::types::QueueAttributeName;
use punctual_core::delivery::Delivery;
use punctual_core::state::State;

use super::scenario::{self, Scenario};
use crate::receiver::{Call, Receiver};
use crate::stack::Stack;

/// An expectation that was not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

/// Prints the story and checks it.
pub(super) async fn tell(rows: &[Delivery], receiver: &Receiver, stack: &Stack) -> Result<Vec<Failure>> {
    let mut failures = Vec::new();
    let mut expect = |met: bool, what: String| {
        if !met {
            failures.push(Failure(what));
        }
    };
    let calls = receiver.calls();
    let effects = receiver.effects();
    println!(
        "    {:<10} {:>9}  {:<14} {:>8} {:>6} {:>8} {:>10} {:>6} {:>15}",
        "receiver", "reminders", "state", "attempts", "calls", "effects", "duplicates", "early", "first call p50/p99"
    );
    for scenario in scenario::ALL {
        let mine: Vec<&Delivery> = rows.iter().filter(|row| row.destination.as_str() == scenario.id).collect();
        let my_calls: Vec<&Call> =
            calls.iter().filter(|call| mine.iter().any(|row| row.id.as_str() == call.webhook_id)).collect();
        let mut per_key: BTreeMap<&str, usize> = BTreeMap::new();
        for effect in effects.iter().filter(|effect| mine.iter().any(|row| row.idempotency_key.as_str() == effect.key)) {
            *per_key.entry(effect.key.as_str()).or_default() += 1;
        }
        let duplicates: usize = per_key.values().map(|n| n.saturating_sub(1)).sum();
        let early = my_calls.iter().filter(|call| call.is_early()).count();
        let attempts: usize = mine.iter().map(|row| row.attempts.len()).sum();
        let (p50, p99) = first_call(&mine, &my_calls);
        let states = states(&mine);
        println!(
            "    {:<10} {:>9}  {states:<14} {attempts:>8} {:>6} {:>8} {duplicates:>10} {early:>6} {:>18}",
            scenario.id,
            mine.len(),
            my_calls.len(),
            per_key.len(),
            format!("{p50}/{p99} ms"),
        );
        expect(!mine.is_empty(), format!("{}: there are reminders", scenario.id));
        for row in &mine {
            for problem in problems(row, &scenario) {
                expect(false, format!("{} {}: {problem}", scenario.id, row.id));
            }
        }
        expect(
            attempts == my_calls.len(),
            format!("{}: {attempts} attempts are recorded, {} calls came in", scenario.id, my_calls.len()),
        );
        expect(
            per_key.len() == mine.len() * scenario.effects,
            format!("{}: {} of {} took effect", scenario.id, per_key.len(), mine.len()),
        );
        expect(duplicates == 0, format!("{}: {duplicates} duplicate effects", scenario.id));
        expect(early == 0, format!("{}: {early} calls before due", scenario.id));
    }
    println!();
    for scenario in scenario::ALL {
        println!("    {:<10} {}", scenario.id, scenario.does);
    }
    expect(receiver.duplicate_effects() == 0, "the receiver saw duplicate effects".into());
    expect(calls.iter().all(|call| !call.is_badly_signed()), "a call was badly signed".into());
    let dead = rows.iter().filter(|row| row.state == State::Dead).count();
    let letters = dead_letters(stack).await?;
    println!("\n    {} calls, all signed in both schemes; {dead} dead deliveries, {letters} dead letters", calls.len());
    expect(letters == dead, format!("{dead} deliveries are dead, {letters} dead letters"));
    for Failure(what) in &failures {
        println!("    FAILED: {what}");
    }
    Ok(failures)
}

fn problems(row: &Delivery, scenario: &Scenario) -> Vec<String> {
    let mut problems = Vec::new();
    if row.state != scenario.ends {
        problems.push(format!("ends {}, not {}", row.state, scenario.ends));
    }
    if row.reason != Some(scenario.reason) {
        problems.push(format!("reason {:?}, not {}", row.reason.map(|r| r.code()), scenario.reason));
    }
    if row.attempts.len() != scenario.attempts {
        problems.push(format!("{} attempts, not {}", row.attempts.len(), scenario.attempts));
    }
    problems
}

fn states(rows: &[&Delivery]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.state.as_str()).or_default() += 1;
    }
    counts.iter().map(|(state, n)| format!("{state} {n}")).collect::<Vec<_>>().join(" ")
}

/// Milliseconds from due to the first call, by the receiver's clock: median and 99th percentile.
fn first_call(rows: &[&Delivery], calls: &[&Call]) -> (i64, i64) {
    let mut waits: Vec<i64> = rows
        .iter()
        .filter_map(|row| {
            let first = calls.iter().filter(|call| call.webhook_id == row.id.as_str()).map(|call| call.received_at_ms).min()?;
            Some(first - row.deliver_after.as_millis())
        })
        .collect();
    waits.sort_unstable();
    let at = |percent: usize| waits.get((waits.len() * percent / 100).min(waits.len().saturating_sub(1))).copied().unwrap_or(0);
    (at(50), at(99))
}

async fn dead_letters(stack: &Stack) -> Result<usize> {
    let name = QueueAttributeName::ApproximateNumberOfMessages;
    let sqs = stack.sqs().await;
    let answer =
        sqs.get_queue_attributes().queue_url(stack.dead_letter_queue_url()?).attribute_names(name.clone()).send().await?;
    let text = answer.attributes().and_then(|a| a.get(&name)).context("the dead-letter queue's size")?;
    Ok(text.parse()?)
}
