//! The demo: the main job end to end on a local stack, told as a story, with every claim checked.

mod input;
mod redrive;
mod report;
mod scenario;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use punctual_adapters::aws::Aws;
use punctual_adapters::clock::machine_time;
use punctual_adapters::dynamodb::DynamoLedger;
use punctual_core::delivery::Delivery;
use punctual_core::id::DeliveryId;
use punctual_core::ports::Ledger as _;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use serde_json::Value;

use crate::console::Console;
use crate::receiver::{Receiver, ReceiverOptions};
use crate::stack::{Stack, StackOptions, sdk_config};

pub use report::Failure;

/// The longest that the whole story may take.
const BOUND: Duration = Duration::from_secs(240);
/// How often progress is shown.
const PROGRESS: Duration = Duration::from_secs(3);
/// How many reminders go into one call of schedule.
const BATCH: usize = 50;

/// The demo's reminders as schedule takes them, in the order of the input, for a demo that starts at `start`.
///
/// # Errors
/// If the input cannot be read.
pub fn reminders(start: Timestamp) -> Result<Vec<Value>> {
    Ok(input::read()?.iter().map(|reminder| reminder.event(start)).collect())
}

/// The destinations that the demo registers.
pub fn destinations() -> impl Iterator<Item = &'static str> {
    scenario::ALL.into_iter().map(|scenario| scenario.id)
}

/// With the tick, and with slices of a redrive run as often as may be.
fn options() -> StackOptions {
    StackOptions::default().parameter("TickState", "ENABLED").parameter("RedriveSliceSeconds", 10)
}

/// Plays the demo; gives the expectations that failed.
///
/// # Errors
/// If a part of the stack does not work at all.
pub async fn play() -> Result<Vec<Failure>> {
    let began = machine_time();
    let reminders = input::read()?;
    println!(
        "Punctual demo: {} reminders to {} destinations, through the compiled functions and the real template.\n",
        reminders.len(),
        scenario::ALL.len()
    );
    println!("[1/6] starting the emulator and deploying infra/template.yaml");
    let stack = Stack::start(options()).await?;
    let told = story(&stack, reminders).await;
    let log = stack.log().display().to_string();
    stack.stop().await?;
    let failures = told.with_context(|| format!("the emulator's log is {log}"))?;
    println!("\nIt took {} s in all. The local stack is stopped.", machine_time().since(began).as_secs());
    Ok(failures)
}

async fn story(stack: &Stack, reminders: Vec<input::Reminder>) -> Result<Vec<Failure>> {
    let console = Console::new(stack);
    let options = ReceiverOptions { answer_after: Duration::from_secs(3), ..ReceiverOptions::default() };
    let receiver = Receiver::start_with(&[scenario::SECRET], options).await?;

    println!("[2/6] registering {} destinations at the receiver {}", scenario::ALL.len(), receiver.base_url());
    console.create_secret(scenario::SECRET_NAME, scenario::SECRET).await?;
    for destination in scenario::ALL {
        console.put_destination(destination.spec(&receiver)).await?;
    }
    // Only a dispatch run can release these: schedule leaves a paused destination's reminders in the ledger.
    console.on_destination("pause", scenario::TICKED).await?;

    println!("[3/6] scheduling {} reminders from events/demo.reminders.jsonl", reminders.len());
    let start = machine_time();
    let ids = schedule(&console, &reminders, start, "created").await?;
    let again: Vec<input::Reminder> = reminders.iter().take(BATCH).cloned().collect();
    schedule(&console, &again, start, "unchanged").await?;
    println!("      all created; the first {BATCH} sent once more: all unchanged");
    console.on_destination("resume", scenario::TICKED).await?;

    println!("[4/6] waiting: schedule has released what is due soon; the rest waits for one EventBridge tick (60 to 75 s)");
    let ledger = Aws::with(sdk_config(stack.dynamodb_endpoint()).await).ledger(&stack.ledger_table()?);
    let rows = settle(&ledger, &receiver, &ids).await?;

    println!("\n[5/6] the story\n");
    let mut failures = report::tell(&rows, &receiver, stack).await?;
    for (title, destination) in [("503 twice, then 200", "flaky"), ("400 for ever", "rejecting")] {
        if let Some(row) = rows.iter().find(|row| row.destination.as_str() == destination) {
            println!("\nexplain, a delivery that got {title}:\n");
            tell_lines(&console.explain(row.id.as_str()).await?);
        }
    }

    println!("\n[6/6] the receiver that answered 400 for ever is mended, and its dead are redriven (40 to 60 s)\n");
    failures.extend(redrive::play(stack, &receiver, &ledger, &rows).await?);
    Ok(failures)
}

/// Prints what an answer says to people.
fn tell_lines(answer: &Value) {
    for line in answer.get("text").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        println!("    {line}");
    }
}

/// Schedules everything; every reminder must be answered with `expected`. Gives the ids in the order of the input.
async fn schedule(
    console: &Console<'_>,
    reminders: &[input::Reminder],
    start: Timestamp,
    expected: &str,
) -> Result<Vec<DeliveryId>> {
    let mut ids = Vec::new();
    for batch in reminders.chunks(BATCH) {
        let events: Vec<Value> = batch.iter().map(|r| r.event(start)).collect();
        let answer = console.schedule(&events).await?;
        for result in answer.get("results").and_then(Value::as_array).into_iter().flatten() {
            if result.get("answer").and_then(Value::as_str) != Some(expected) {
                bail!("a reminder was not {expected}: {result}");
            }
            let id = result.get("delivery_id").and_then(Value::as_str).context("a result without an id")?;
            ids.push(DeliveryId::new(id).context("an id")?);
        }
    }
    Ok(ids)
}

/// Watches until every delivery has come to its end, showing progress.
async fn settle(ledger: &DynamoLedger, receiver: &Receiver, ids: &[DeliveryId]) -> Result<Vec<Delivery>> {
    let began = machine_time();
    let mut ticks = tokio::time::interval(PROGRESS);
    loop {
        ticks.tick().await;
        let rows = ledger.read(ids).await.context("read the ledger")?;
        let waited = machine_time().since(began);
        let counts: Vec<String> = State::ALL
            .into_iter()
            .map(|state| (state, rows.iter().filter(|row| row.state == state).count()))
            .filter(|(_, count)| *count > 0)
            .map(|(state, count)| format!("{state} {count}"))
            .collect();
        println!("      {:>3} s  {:>4} calls   {}", waited.as_secs(), receiver.call_count(), counts.join(", "));
        let done = |row: &Delivery| row.state.is_terminal() || (row.state.needs_operator() && !row.owes_dead_letter());
        if rows.len() == ids.len() && rows.iter().all(done) {
            return Ok(rows);
        }
        if waited > BOUND {
            let open: Vec<String> =
                rows.iter().filter(|row| !done(row)).take(5).map(|row| format!("{} {}", row.id, row.state)).collect();
            bail!("not settled after {} s; for example {}", BOUND.as_secs(), open.join(", "));
        }
    }
}
