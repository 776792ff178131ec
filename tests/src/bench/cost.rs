//! I measure what deliveries cost that succeed at the first try, from the application's call to the deleted message.

use std::fmt;

use anyhow::{Context as _, Result, ensure};
use punctual_adapters::dynamodb::row::row_bytes;
use punctual_adapters::dynamodb::{Meter, Usage};
use punctual_core::ports::Ledger as _;
use punctual_core::state::State;

use super::calls::Counts;
use super::longest;
use super::world::World;

/// Who releases the deliveries to the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Schedule itself: they were due within the horizon.
    Schedule,
    /// A run of dispatch.
    Dispatch,
    /// Schedule, of reminders that bring their own ids and keys along: stored in a transaction.
    Migrated,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schedule => "released by schedule",
            Self::Dispatch => "released by dispatch",
            Self::Migrated => "migrated, released by schedule",
        })
    }
}

/// What one kind of call of one function cost, for all deliveries together.
#[derive(Debug, Clone)]
pub struct Line {
    /// The function.
    pub function: &'static str,
    /// `ledger` or `control`.
    pub table: &'static str,
    /// The step, as the design names it, or the adapter's name of the call.
    pub step: &'static str,
    /// What it cost.
    pub usage: Usage,
}

/// What some deliveries cost.
#[derive(Debug, Clone)]
pub struct Bill {
    /// Who released them.
    pub path: Path,
    /// How many, in one batch; 1 to 10.
    pub deliveries: u32,
    /// The costs, in the order of the functions.
    pub lines: Vec<Line>,
    /// Requests to DynamoDB by operation, all functions together.
    pub dynamodb_calls: Counts,
    /// Requests to SQS by operation, those of Lambda's poller included.
    pub sqs_calls: Counts,
    /// The bytes of the largest row at its end.
    pub row_bytes: usize,
}

impl Bill {
    /// Write units of the ledger per delivery, indexes included.
    #[must_use]
    pub fn ledger_write_units(&self) -> f64 {
        self.lines.iter().filter(|l| l.table == "ledger").map(|l| l.usage.write_units).sum::<f64>() / f64::from(self.deliveries)
    }

    /// Read units of both tables per delivery.
    #[must_use]
    pub fn read_units(&self) -> f64 {
        self.lines.iter().map(|l| l.usage.read_units).sum::<f64>() / f64::from(self.deliveries)
    }

    /// Write units of the control table per delivery. The heartbeat of a run is one, however much it releases: it is none of
    /// theirs.
    #[must_use]
    pub fn control_write_units(&self) -> f64 {
        let lines = self.lines.iter().filter(|l| l.table == "control" && l.step != HEARTBEAT);
        lines.map(|l| l.usage.write_units).sum::<f64>() / f64::from(self.deliveries)
    }

    /// Write units of the control table for each run of dispatch.
    #[must_use]
    pub fn heartbeat_write_units(&self) -> f64 {
        self.lines.iter().filter(|l| l.step == HEARTBEAT).map(|l| l.usage.write_units).sum()
    }

    /// Requests to DynamoDB per delivery.
    #[must_use]
    pub fn dynamodb_calls(&self) -> f64 {
        per_delivery(&self.dynamodb_calls, self.deliveries)
    }

    /// Requests to SQS per delivery.
    #[must_use]
    pub fn sqs_calls(&self) -> f64 {
        per_delivery(&self.sqs_calls, self.deliveries)
    }

    fn note(&mut self, function: &'static str, world: &World) {
        self.note_table(function, "ledger", &world.ledger_meter);
        self.note_table(function, "control", &world.control_meter);
        add(&mut self.dynamodb_calls, world.dynamodb_calls.take());
        add(&mut self.sqs_calls, world.sqs_calls.take());
    }

    fn note_table(&mut self, function: &'static str, table: &'static str, meter: &Meter) {
        // The meter orders by name; a reader wants the order in which things happen.
        let mut lines: Vec<Line> =
            meter.take().into_iter().map(|(call, usage)| Line { function, table, step: step(function, call), usage }).collect();
        lines.sort_by_key(|line| STEPS.iter().position(|(_, _, step)| *step == line.step));
        self.lines.extend(lines);
    }
}

fn per_delivery(counts: &Counts, deliveries: u32) -> f64 {
    let requests = u32::try_from(counts.values().sum::<u64>()).unwrap_or(u32::MAX);
    f64::from(requests) / f64::from(deliveries)
}

fn add(sum: &mut Counts, counts: Counts) {
    for (operation, count) in counts {
        *sum.entry(operation).or_default() += count;
    }
}

/// What dispatch leaves behind at the end of a run.
const HEARTBEAT: &str = "note_heartbeat";

/// The design's steps: function, the adapter's name of the call, step.
const STEPS: [(&str, &str, &str); 9] = [
    ("schedule", "create payload", "payload"),
    ("schedule", "create", "create"),
    ("schedule", "acquire", "claim"),
    ("schedule", "write", "queued"),
    ("dispatch", "acquire", "claim"),
    ("dispatch", "write", "queued"),
    ("deliver", "acquire", "delivering"),
    ("deliver", "payload", "read payload"),
    ("deliver", "write", "outcome"),
];

fn step(function: &str, call: &'static str) -> &'static str {
    STEPS.iter().find(|(f, c, _)| (*f, *c) == (function, call)).map_or(call, |(_, _, step)| step)
}

/// Measures `deliveries` deliveries in one batch (1 to 10), in a world of their own.
///
/// # Errors
/// If a delivery does not succeed at its first try.
pub async fn first_try(path: Path, deliveries: u32) -> Result<Bill> {
    let world = World::start().await?;
    let count = usize::try_from(deliveries)?;
    let paused = path == Path::Dispatch;
    world.put_destination(&longest::destination(1, paused)?).await?;
    world.forget();

    let mut bill =
        Bill { path, deliveries, lines: Vec::new(), dynamodb_calls: Counts::new(), sqs_calls: Counts::new(), row_bytes: 0 };
    let answer = world.schedule(&longest::event(0..count, path == Path::Migrated)?).await?;
    ensure!(answer.summary.created == count, "not all were created: {:?}", answer.results);
    bill.note("schedule", &world);
    if path == Path::Dispatch {
        world.put_destination(&longest::destination(2, false)?).await?;
        world.forget();
        let summary = world.dispatch().await?;
        ensure!(summary.released.published == count, "not all were published: {summary:?}");
        bill.note("dispatch", &world);
    } else {
        ensure!(answer.released.published == count, "not all were published: {:?}", answer.released);
    }
    ensure!(world.deliver().await? == count, "the batch was not a full one");
    bill.note("deliver", &world);

    ensure!(world.messages_left() == 0, "messages are left");
    let ids: Vec<_> = answer.results.iter().filter_map(|result| result.delivery_id.clone()).collect();
    let rows = world.ledger().read(&ids).await?;
    ensure!(rows.len() == count, "rows are missing");
    ensure!(rows.iter().all(|row| row.state == State::Delivered && row.attempts.len() == 1), "not all were delivered at once");
    bill.row_bytes = rows.iter().map(row_bytes).max().context("a row")?;
    Ok(bill)
}
