//! The demo's second half: the receiver that answered 400 for ever is mended, and its dead come back by a redrive run, whose
//! slices the scheduler starts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use punctual_adapters::clock::machine_time;
use punctual_adapters::dynamodb::DynamoLedger;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::ports::Ledger as _;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use serde_json::{Value, json};

use super::report::Failure;
use super::{PROGRESS, tell_lines};
use crate::console::Console;
use crate::drill::letters;
use crate::receiver::{Call, Receiver};
use crate::stack::Stack;

/// The destination that answers 400 until it is mended.
const MENDED: &str = "rejecting";
/// Rows of the canary.
const CANARY: usize = 5;
/// From the start of the run to its end at most: three or four slices, each ten to twenty seconds after the last one.
const BOUND: Duration = Duration::from_secs(180);

/// What the receiver and the ledger held before the run.
struct Before<'a> {
    rows: Vec<&'a Delivery>,
    calls: usize,
}

/// Mends the receiver, plans, starts, watches, and checks what became of its dead; gives what failed.
pub(super) async fn play(stack: &Stack, receiver: &Receiver, ledger: &DynamoLedger, rows: &[Delivery]) -> Result<Vec<Failure>> {
    let console = Console::new(stack);
    let dead = rows.iter().filter(|row| row.destination.as_str() == MENDED && row.state == State::Dead);
    let before = Before { rows: dead.collect(), calls: receiver.calls().len() };
    receiver.heal(true);

    let selection = json!({"reasons": [Reason::Rejected.code()], "destination_ids": [MENDED]});
    let plan = console.do_it("redrive", &json!({"action": "plan", "selection": selection})).await?;
    println!("    plan, by reason and destination:\n");
    tell_lines(&plan);
    let start = console.do_it("redrive", &order(&selection, before.rows.len())).await?;
    let run_id = start.pointer("/run/run/id").and_then(Value::as_str).context("a run without an id")?;
    println!("\n    start, with a canary of {CANARY}:\n");
    tell_lines(&start);
    println!();
    let ids: Vec<DeliveryId> = before.rows.iter().map(|row| row.id.clone()).collect();
    let (status, after) = watch(&console, ledger, run_id, &ids).await?;
    println!("\n    status, at its end:\n");
    tell_lines(&status);
    let letters = letters::read(stack).await?;
    Ok(check(&before, &after, &receiver.calls(), receiver, &letters, [&plan, &status]))
}

fn order(selection: &Value, most: usize) -> Value {
    json!({
        "action": "start",
        "owner": "ops",
        "why": "the receiver answered 400 to everything",
        "evidence": "its operator says that it is mended",
        "selection": selection,
        "max_count": most,
        "rate_per_second": 10,
        "canary_size": CANARY,
        "abort_threshold_percent": 20,
    })
}

/// Watches until the run has swept its letters and its rows are at their end, showing progress.
async fn watch(console: &Console<'_>, ledger: &DynamoLedger, run_id: &str, ids: &[DeliveryId]) -> Result<(Value, Vec<Delivery>)> {
    let began = machine_time();
    let mut ticks = tokio::time::interval(PROGRESS);
    loop {
        ticks.tick().await;
        let status = console.do_it("redrive", &json!({"action": "status", "run_id": run_id})).await?;
        let rows = ledger.read(ids).await.context("read the ledger")?;
        let waited = machine_time().since(began);
        let at = |path: &str| status.pointer(path).unwrap_or(&Value::Null);
        let phase = at("/run/run/phase").as_str().unwrap_or_default();
        let delivered = rows.iter().filter(|row| row.state == State::Delivered).count();
        println!("      {:>3} s  {phase:<9} moved {}, delivered {delivered}", waited.as_secs(), at("/run/run/counters/moved"));
        let swept = *at("/run/run/swept") == Value::Bool(true);
        if swept && rows.iter().all(|row| row.state.is_terminal() || row.state.needs_operator()) {
            return Ok((status, rows));
        }
        if waited > BOUND {
            bail!("run {run_id} is not over after {} s: {}", BOUND.as_secs(), at("/text"));
        }
    }
}

/// Checks every claim, and tells the result in one line.
fn check(
    before: &Before<'_>,
    after: &[Delivery],
    calls: &[Call],
    receiver: &Receiver,
    letters: &BTreeMap<String, letters::Letters>,
    [plan, status]: [&Value; 2],
) -> Vec<Failure> {
    let mut failures = Vec::new();
    let mut expect = |met: bool, what: String| {
        if !met {
            failures.push(Failure(format!("redrive: {what}")));
        }
    };
    let all = before.rows.len();
    let number = |answer: &Value, path: &str| answer.pointer(path).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    expect(all > CANARY, format!("{all} rows were dead, too few for a canary of {CANARY}"));
    for path in ["/plan/matched", "/plan/would_move"] {
        let planned = number(plan, path);
        expect(planned == Some(all), format!("{path} says {planned:?}, not the {all} that are dead"));
    }
    let phase = status.pointer("/run/run/phase").and_then(Value::as_str).unwrap_or_default();
    expect(phase == "done", format!("the run is {phase}, not done"));
    for path in ["/run/run/counters/moved", "/run/totals/delivered", "/run/run/counters/deleted/moved"] {
        let counted = number(status, path);
        expect(counted == Some(all), format!("{path} is {counted:?}, not {all}"));
    }
    let slices = number(status, "/run/run/slice").unwrap_or_default();
    expect(slices > 2, format!("the run took {} slices: its canary was not waited for", slices.saturating_sub(1)));

    for old in &before.rows {
        let Some(row) = after.iter().find(|row| row.id == old.id) else {
            expect(false, format!("{} is not in the ledger any more", old.id));
            continue;
        };
        let numbers: Vec<u32> = row.attempts.iter().map(|attempt| attempt.number).collect();
        expect(row.state == State::Delivered, format!("{} ends {}, not delivered", row.id, row.state));
        expect(row.idempotency_key == old.idempotency_key, format!("{} has another key", row.id));
        expect(numbers == [1, 2], format!("{} has attempts {numbers:?}, not 1 and 2", row.id));
        expect(row.attempts.starts_with(&old.attempts), format!("{} lost its first attempt", row.id));
        expect(row.history.starts_with(&old.history), format!("{} lost its history", row.id));
    }
    let new: Vec<&Call> = calls.iter().skip(before.calls).collect();
    let called: BTreeSet<(&str, &str, Option<u32>)> =
        new.iter().map(|call| (call.webhook_id.as_str(), call.key(), call.attempt)).collect();
    let expected: BTreeSet<(&str, &str, Option<u32>)> =
        before.rows.iter().map(|row| (row.id.as_str(), row.idempotency_key.as_str(), Some(2))).collect();
    expect(
        new.len() == all && called == expected,
        format!("{} calls came in, not one for each of the {all} rows under its old id and key, as attempt 2", new.len()),
    );
    expect(new.iter().all(|call| !call.is_badly_signed()), "a call was badly signed".to_owned());
    let effects = receiver.effects();
    let mine = effects.iter().filter(|effect| before.rows.iter().any(|row| row.idempotency_key.as_str() == effect.key)).count();
    expect(mine == all, format!("{mine} effects, not {all}"));
    expect(receiver.duplicate_effects() == 0, "the receiver saw duplicate effects".to_owned());
    let left = before.rows.iter().filter(|row| letters.contains_key(row.id.as_str())).count();
    expect(left == 0, format!("{left} dead letters of redriven rows are left"));
    println!(
        "\n    {all} redriven under their old ids and keys, each called once as attempt 2; {mine} effects, {} duplicates;\n\
         \x20   {left} of their {all} dead letters left",
        receiver.duplicate_effects()
    );
    for Failure(what) in &failures {
        println!("    FAILED: {what}");
    }
    failures
}
