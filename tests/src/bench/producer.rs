//! I measure what a producer's file costs: sent to the local stack as `make schedule` does, and once more, and its write units by
//! the shipped handler in this process.

use anyhow::{Context as _, Result, ensure};
use punctual_adapters::clock::{machine_time, monotonic_since_now};
use punctual_core::calendar::StoredCalendar;
use punctual_core::destination::Change;
use punctual_core::id::CalendarId;
use punctual_core::ports::{Control as _, Stored};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::longest;
use super::world::World;
use crate::console::Console;
use crate::producer::read::{Entry, Item};
use crate::producer::report::per_second;
use crate::producer::send;
use crate::stack::{Stack, StackOptions, root};

/// How many reminders the file has.
pub const REMINDERS: usize = 10_000;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Produced {
    /// Reminders that the local stack stores per second, from the first call's begin to the last one's end.
    pub per_second: f64,
    /// The same when all are stored already.
    pub again_per_second: f64,
    /// Reminders that the second run stored.
    pub again_created: f64,
    /// Write units of the ledger per reminder, indexes included.
    pub write_units: f64,
}

/// Sends a file of so many reminders by rule, with fields as long as they may be and a body of 512 bytes. None falls due.
///
/// # Errors
/// If the local stack does not start, or not all reminders are stored.
pub async fn measure(reminders: usize) -> Result<Produced> {
    let file: Vec<Entry> = (0..reminders).map(item).collect();
    let stack = Stack::start(StackOptions::default()).await?;
    let measured = on_stack(&stack, &file).await;
    stack.stop().await?;
    let (per_second, again_per_second, again_created) = measured?;
    let write_units = write_units(reminders).await?;
    Ok(Produced { per_second, again_per_second, again_created, write_units })
}

async fn on_stack(stack: &Stack, file: &[Entry]) -> Result<(f64, f64, f64)> {
    let console = Console::new(stack);
    let mut destination = serde_json::to_value(longest::destination(1, false)?.spec)?;
    if let Some(secrets) = destination.get_mut("secrets") {
        *secrets = json!(["punctual/local/bench"]);
    }
    console.put_destination(destination).await?;
    console.do_it("operate", &calendar_event()?).await?;
    let post = async |event: String| stack.invoke_text("schedule", event).await?.ok();
    let mut rates = Vec::new();
    let mut created = Vec::new();
    for _ in 0..2 {
        let clock = monotonic_since_now();
        let summary = send(file.to_vec(), post, |summary| println!("  {}", summary.progress())).await?;
        let took = clock();
        summary.lines(took).iter().for_each(|line| println!("    {line}"));
        ensure!(summary.is_good(), "not all were stored: {}", summary.counts());
        rates.push(per_second(file.len(), took));
        created.push(f64::from(u32::try_from(summary.answered("created"))?));
    }
    let ([first, again], [all, none]) = (rates[..].try_into()?, created[..].try_into()?);
    ensure!(all > 0.0, "nothing was created");
    Ok((first, again, none))
}

/// Write units of the ledger per reminder of such a file, indexes included, by the shipped handler and adapter in this process.
///
/// # Errors
/// If not all reminders are stored.
pub async fn write_units(reminders: usize) -> Result<f64> {
    let world = World::start().await?;
    world.put_destination(&longest::destination(1, false)?).await?;
    let spec = calendar_event()?.get("calendar").cloned().context("a calendar")?;
    let changed = Change { at: machine_time(), by: "bench".into(), why: "a measurement".into() };
    let calendar = StoredCalendar { id: CalendarId::new("uk")?, spec: serde_json::from_value(spec)?, version: 1, changed };
    ensure!(world.control().put_calendar(&calendar, 0).await? == Stored::Done, "the calendar is there already");
    world.forget();
    let post = async |event: String| {
        let event = RawValue::from_string(event)?;
        Ok(serde_json::to_value(world.schedule(&event).await?)?)
    };
    let summary = send((0..reminders).map(item).collect(), post, |_| {}).await?;
    ensure!(summary.answered("created") == summary.reminders, "not all were created: {}", summary.counts());
    Ok(world.ledger_meter.write_units() / f64::from(u32::try_from(summary.reminders)?))
}

/// The test event that registers the calendar `uk`.
fn calendar_event() -> Result<Value> {
    let path = root().join("events/operate.put-calendar.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn item(n: usize) -> Entry {
    let deliver_by = json!({"notice": "5BD", "local_time": "17:00"});
    let rule = json!({
        "calendar": "uk", "renewal_date": "2040-02-01", "notice": "P1M", "local_time": "09:00", "deliver_by": deliver_by,
    });
    let line = u64::try_from(n).map_or(u64::MAX, |n| n + 1);
    Ok(Item { line, text: longest::reminder(n, json!({"rule": rule})).to_string() })
}
