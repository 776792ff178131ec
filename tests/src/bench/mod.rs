//! The bench: what a delivery costs, measured on the shipped handlers and adapters.
//!
//! Units are the consumed capacity that dynoxide reports, with the tables and indexes of `infra/template.yaml`. Requests
//! are counted where the SDK sends them, retries included: to DynamoDB those of schedule, dispatch (one whole run) and
//! deliver; to SQS those of the adapter, and one `ReceiveMessage` and one `DeleteMessageBatch` per batch, which Lambda's
//! poller makes. Its empty receives, the tick and the invocations themselves are not in these figures. The heap that ten
//! hostile receivers cost at the same time is counted by this binary's allocator. How fast a producer's file is stored is measured
//! on the local stack, with the emulator's tables; its write units, by the same code in this process. The pace at which a receiver is called is
//! counted at the receiver.

pub mod admission;
pub mod bytes;
pub mod calls;
pub mod cost;
mod longest;
pub mod look;
pub mod pace;
pub mod producer;
mod queue;
pub mod reconcile;
pub mod redrive;
pub mod report;
pub mod speed;
pub(crate) mod world;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use bytes::delivered_at;
use cost::{Bill, Path, first_try};
use pace::{Course, Pace};
use report::Figure;
pub(crate) use world::create_tables;

use crate::hostile::{self, Hostile};

/// The most write units of the ledger that a first-try delivery may cost.
pub const WRITE_UNITS_GOAL: f64 = 10.0;
/// The most write units of the ledger that storing a reminder may cost.
pub const SCHEDULE_WRITE_UNITS_GOAL: f64 = 4.0;
/// The most bytes of the row of a first-try delivery.
pub const ROW_BYTES_GOAL: f64 = 1_024.0;
/// The most seconds that 12,000 deliveries may take that are due at once at 100 calls a second: 5 % more than it takes at best.
pub const ADMISSION_SECONDS_GOAL: f64 = 126.0;
/// The most heap that ten hostile calls may hold at the same time, in bytes: ten times the bound of one.
pub const HOSTILE_PEAK_GOAL: f64 = 10_485_760.0;
/// The most calls of a second, over rate and burst.
pub const PEAK_GOAL: f64 = 1.0;
/// The least calls of a second while there is a backlog, over the rate.
pub const UTILISATION_GOAL: f64 = 0.95;
/// The most read units of one run of monitor for a thousand entries that are due or fall due within a day. At a million rows of
/// which 100,000 fall due within a day that is a hundred times as much; the other 900,000 cost nothing.
pub const LOOK_UNITS_GOAL: f64 = 40.0;
/// So many rows are looked at, and as many fall due in a month.
const LOOKED_AT: usize = 20_000;
/// The most seconds by which fresh deliveries may be called later beside a redrive, at the 99th percentile.
pub const FRESH_RISE_GOAL: f64 = 2.0;
/// The most receives for each letter of a dead-letter queue that is swept.
pub const SCAN_GOAL: f64 = 1.05;
/// A full batch.
const FULL: u32 = 10;
/// The most heap that a comparison of a million lines may hold at a time, in bytes.
pub const RECONCILE_PEAK_GOAL: f64 = 33_554_432.0;
/// The total timeout of a hostile call.
const HOSTILE_TOTAL: Duration = Duration::from_millis(600);

/// Measures everything, prints it, and writes `target/bench.jsonl`; gives the figures that miss their goal.
///
/// # Errors
/// If something cannot be measured, or the file cannot be written.
pub async fn run() -> Result<Vec<Figure>> {
    let single = [first_try(Path::Schedule, 1).await?, first_try(Path::Dispatch, 1).await?];
    let full = [first_try(Path::Schedule, FULL).await?, first_try(Path::Dispatch, FULL).await?];
    let migrated = first_try(Path::Migrated, 1).await?;
    let speed = speed::measure().await?;
    for bill in single.iter().chain([&migrated]) {
        report::print_bill(bill);
    }
    for bill in single.iter().chain(&full) {
        report::print_calls(bill);
    }

    let mut figures = cost_figures(&single, &full);
    figures.push(Figure::new("ledger_write_units_per_migrated_delivery", migrated.ledger_write_units(), "write units", None));
    for attempt in [1, 3, 10] {
        let bytes = delivered_at(attempt, false)?;
        let goal = (attempt == 1).then_some(ROW_BYTES_GOAL);
        for (name, bytes) in [("row_bytes", bytes.at_its_end), ("row_bytes_at_most", bytes.at_most)] {
            figures.push(Figure::new(format!("{name}_attempt_{attempt}"), f64::from(u32::try_from(bytes)?), "bytes", goal));
        }
    }
    let bytes = f64::from(u32::try_from(delivered_at(1, true)?.at_most)?);
    figures.push(Figure::new("row_bytes_at_most_attempt_1_migrated", bytes, "bytes", Some(ROW_BYTES_GOAL)));
    figures.push(Figure::new("schedule_per_second_in_process", speed.schedule_per_second, "reminders/s", None));
    figures.push(Figure::new("dispatch_claims_per_second", speed.claims_per_second, "rows/s", None));

    let look = look::measure(LOOKED_AT, LOOKED_AT).await?;
    figures.extend(look_figures(&look)?);
    println!("\n10,000 reminders by rule, sent to the local stack as make schedule does:\n");
    let produced = producer::measure(producer::REMINDERS).await?;
    figures.extend(producer_figures(&produced));

    figures.push(Figure::new("hostile_peak_bytes", hostile_peak().await?, "bytes", Some(HOSTILE_PEAK_GOAL)));

    println!("\nreconciling {} deliveries with a receiver's export", reconcile::DELIVERIES);
    let compared = reconcile::measure().await?;
    let peak = f64::from(u32::try_from(compared.peak)?);
    figures.push(Figure::new("reconcile_lines", f64::from(u32::try_from(compared.lines)?), "lines", None));
    figures.push(Figure::new("reconcile_seconds", compared.took.as_secs_f64(), "s", None));
    figures.push(Figure::new("reconcile_peak_bytes", peak, "bytes", Some(RECONCILE_PEAK_GOAL)));
    let units = reconcile::read_units_per_thousand().await?;
    figures.push(Figure::new("reconcile_read_units_per_1000_rows", units, "read units", None));

    for batch in [10, 1] {
        let course = Course { reminders: 2_000, consumers: 4, batch };
        let pace = pace::run(course).await?;
        report::print_pace(course, &pace);
        figures.extend(pace_figures(&pace, if batch == 1 { "_batch_1" } else { "" }));
    }
    figures.extend(admission_figures().await?);
    figures.extend(redrive_figures().await?);

    report::print_figures(&figures);
    let path = crate::stack::root().join("target/bench.jsonl");
    std::fs::write(&path, report::json_lines(&figures)?).with_context(|| format!("write {}", path.display()))?;
    Ok(figures.into_iter().filter(|figure| !figure.is_met()).collect())
}

/// What a run of monitor cost, and what that makes of 100,000 entries.
fn look_figures(look: &look::Look) -> Result<[Figure; 4]> {
    let entries = f64::from(u32::try_from(look.figures.entries_read)?);
    let seconds = look.took.as_secs_f64();
    Ok([
        Figure::new("monitor_entries_read", entries, "entries", None),
        Figure::new(
            "monitor_read_units_per_1000_entries",
            look.read_units * 1_000.0 / entries,
            "read units",
            Some(LOOK_UNITS_GOAL),
        ),
        Figure::new("monitor_read_units_100000_due", look.read_units * 100_000.0 / entries, "read units", None),
        Figure::new("monitor_seconds_100000_due", seconds * 100_000.0 / entries, "s", None),
    ])
}

/// What lets 12,000 drain costs, and how long it takes.
async fn admission_figures() -> Result<[Figure; 5]> {
    println!("\n12,000 deliveries due at once at 100 calls a second, in real time: about two and a half minutes");
    let admission = admission::measure().await?;
    Ok([
        Figure::new("admission_12000_seconds", admission.seconds, "s", Some(ADMISSION_SECONDS_GOAL)),
        Figure::new("admission_12000_write_units_per_delivery", admission.write_units, "write units", None),
        Figure::new("admission_12000_receives_per_delivery", admission.receives, "messages", None),
        Figure::new("admission_12000_fullest_second", admission.fullest_second, "calls", None),
        Figure::new("admission_12000_missed_deadlines", admission.missed, "deliveries", Some(0.0)),
    ])
}

/// Measures what drains at once alone, and prints it; gives the figures that miss their goal.
///
/// # Errors
/// If it cannot be measured.
pub async fn run_admission() -> Result<Vec<Figure>> {
    let figures = admission_figures().await?;
    report::print_figures(&figures);
    Ok(figures.into_iter().filter(|figure| !figure.is_met()).collect())
}

/// Measures a redrive alone, and prints it; gives the figures that miss their goal.
///
/// # Errors
/// If it cannot be measured.
pub async fn run_redrive() -> Result<Vec<Figure>> {
    let figures = redrive_figures().await?;
    report::print_figures(&figures);
    Ok(figures.into_iter().filter(|figure| !figure.is_met()).collect())
}

async fn redrive_figures() -> Result<Vec<Figure>> {
    println!(
        "\nA redrive of {} beside fresh deliveries, and a sweep of {}: about ten minutes",
        redrive::REDRIVEN,
        redrive::LETTERS
    );
    let seen = redrive::measure().await?;
    report::print_redrive(&seen);
    let mib = |bytes: u64| u32::try_from(bytes / 1_024).map(|kib| f64::from(kib) / 1_024.0);
    Ok(vec![
        Figure::new("redrive_peak_window_ratio", seen.second_ratio(), "of the most", Some(PEAK_GOAL)),
        Figure::new("redrive_peak_ten_seconds_ratio", seen.ten_ratio(), "of the most", Some(PEAK_GOAL)),
        Figure::new("redrive_fresh_p99_rise_seconds", seen.rise(), "s", Some(FRESH_RISE_GOAL)),
        Figure::new("redrive_scan_receives", seen.receives_per_letter(), "per letter", Some(SCAN_GOAL)),
        Figure::new("redrive_scan_peak_mib", mib(seen.scan_peak)?, "MiB", None),
    ])
}

/// What one course showed; `suffix` names it.
fn pace_figures(pace: &Pace, suffix: &str) -> [Figure; 4] {
    let name = |name: &str| format!("{name}{suffix}");
    [
        Figure::new(name("limiter_peak_window_ratio"), pace.peak_ratio(), "of the most", Some(PEAK_GOAL)),
        Figure::at_least(name("limiter_utilisation"), pace.utilisation, "of the rate", UTILISATION_GOAL),
        Figure::new(name("limiter_writes_per_delivery"), pace.writes, "writes", None),
        Figure::new(name("receives_per_delivery"), pace.receives, "receives", None),
    ]
}

fn producer_figures(produced: &producer::Produced) -> [Figure; 4] {
    let goal = Some(SCHEDULE_WRITE_UNITS_GOAL);
    [
        Figure::new("schedule_per_second", produced.per_second, "reminders/s", None),
        Figure::new("schedule_write_units_per_reminder", produced.write_units, "write units", goal),
        Figure::new("schedule_again_per_second", produced.again_per_second, "reminders/s", None),
        Figure::new("schedule_again_created", produced.again_created, "reminders", Some(0.0)),
    ]
}

/// The most heap that ten hostile receivers together cost, over as many rounds as it takes to meet them all, and one of
/// ten times the dearest.
async fn hostile_peak() -> Result<f64> {
    let webhook = hostile::client()?;
    let mut most = 0;
    let full = usize::try_from(FULL)?;
    let dearest = vec![Hostile::DEAREST; full];
    for parts in Hostile::ALL.chunks(full).chain([&dearest[..]]) {
        // The first round also sets up what stays for good.
        let (results, peak) = hostile::measured(&webhook, parts, HOSTILE_TOTAL).await?;
        ensure!(results == parts.iter().map(|part| part.result()).collect::<Vec<_>>(), "another result: {results:?}");
        most = most.max(peak);
    }
    Ok(f64::from(u32::try_from(most)?))
}

/// The figures without a path in their name are those of the dearer path: release by dispatch costs a run on top.
fn cost_figures(single: &[Bill; 2], full: &[Bill; 2]) -> Vec<Figure> {
    let dearest = |bills: &[Bill; 2], value: fn(&Bill) -> f64| bills.iter().map(value).fold(0.0, f64::max);
    let by_path = |value: fn(&Bill) -> f64| single.each_ref().map(value);
    let [by_schedule, by_dispatch] = by_path(Bill::ledger_write_units);
    let goal = Some(WRITE_UNITS_GOAL);
    let [schedule_reads, dispatch_reads] = by_path(Bill::read_units);
    vec![
        Figure::new("ledger_write_units_per_delivery", by_schedule.max(by_dispatch), "write units", goal),
        Figure::new("ledger_write_units_per_delivery_by_schedule", by_schedule, "write units", goal),
        Figure::new("ledger_write_units_per_delivery_by_dispatch", by_dispatch, "write units", goal),
        Figure::new("control_write_units_per_delivery", dearest(full, Bill::control_write_units), "write units", None),
        Figure::new("control_write_units_per_delivery_batch_1", dearest(single, Bill::control_write_units), "write units", None),
        Figure::new("read_units_per_delivery_by_schedule_batch_1", schedule_reads, "read units", None),
        Figure::new("read_units_per_delivery_by_dispatch_batch_1", dispatch_reads, "read units", None),
        Figure::new("dynamodb_calls_per_delivery", dearest(full, Bill::dynamodb_calls), "requests", None),
        Figure::new("dynamodb_calls_per_delivery_batch_1", dearest(single, Bill::dynamodb_calls), "requests", None),
        Figure::new("sqs_calls_per_delivery", dearest(full, Bill::sqs_calls), "requests", None),
        Figure::new("sqs_calls_per_delivery_batch_1", dearest(single, Bill::sqs_calls), "requests", None),
    ]
}
