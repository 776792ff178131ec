//! I measure a redrive on the local stack, in real time: what it does to fresh deliveries beside it, how its calls follow each
//! other at the receiver, and what a pass over a long dead-letter queue costs.
//!
//! The functions are the compiled ones, and the slices are started by their schedules. The receiver's clock counts.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use punctual_adapters::aws::Aws;
use punctual_adapters::clock::machine_time;
use punctual_adapters::dynamodb::DynamoControl;
use punctual_core::breaker::Reach;
use punctual_core::id::{Correlation, DestinationId, RunId};
use punctual_core::ports::{Control as _, Stored};
use punctual_core::reason::Reason;
use punctual_core::redrive::{Phase, Run};
use punctual_core::time::Timestamp;
use serde_json::{Value, json};

use crate::buried;
use crate::console::Console;
use crate::load::report::fullest;
use crate::receiver::Receiver;
use crate::stack::{DynamoDb, Stack, StackOptions, sdk_config};

/// Dead deliveries that come back beside fresh ones.
pub const REDRIVEN: usize = 5_000;
/// Calls a second that the destination takes.
const RATE: usize = 150;
/// Of them, those that a redrive may have.
pub const CAP: usize = 30;
/// What a second may hold beyond the cap: as much again.
pub const BURST: usize = CAP;
/// Fresh deliveries that fall due in a second, and how long they do so without a redrive.
pub const FRESH: usize = 10;
const ALONE: usize = 60;
/// Fresh deliveries are scheduled so long before they are due.
const LEAD: Duration = Duration::from_secs(3);
/// Dead letters of a sweep.
pub const LETTERS: usize = 20_000;
/// Of them, those whose rows its run has moved.
pub const SELECTED: usize = 10;
/// From one slice to the next.
const INTERVAL: u64 = 10;
/// Within so long a run, or what it has moved, is at its end.
const BOUND: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(500);
const SECRET: &str = "whsec_cHVuY3R1YWwtYmVuY2gtc2VjcmV0LTIwMjYtMDE=";
const SECRET_NAME: &str = "punctual/local/bench";

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// From due to first call of fresh deliveries, 99th percentile, without a redrive.
    pub alone_p99: Duration,
    /// The same beside one.
    pub beside_p99: Duration,
    /// Redriven calls of the fullest second.
    pub second: usize,
    /// Redriven calls of the fullest ten seconds.
    pub ten: usize,
    /// From the first redriven call to the last.
    pub took: Duration,
    /// Letters that the sweep has received.
    pub scan_receives: u64,
    /// The most memory that the sweep's process held, in bytes.
    pub scan_peak: u64,
}

struct Bench<'a> {
    console: Console<'a>,
    control: DynamoControl,
    receiver: Receiver,
}

/// Measures: ten minutes.
///
/// # Errors
/// If the stack does not work, or a delivery is lost, called twice or not called.
pub async fn measure() -> Result<Seen> {
    let options = StackOptions::default()
        .dynamodb(DynamoDb::Dynoxide)
        .parameter("TickState", "ENABLED")
        .parameter("RedriveSliceSeconds", INTERVAL);
    let stack = Stack::start(options).await?;
    let seen = on(&stack).await;
    let log = stack.log().display().to_string();
    stack.stop().await?;
    seen.with_context(|| format!("the emulator's log is {log}"))
}

async fn on(stack: &Stack) -> Result<Seen> {
    let console = Console::new(stack);
    console.create_secret(SECRET_NAME, SECRET).await?;
    let control = Aws::with(sdk_config(stack.dynamodb_endpoint()).await).control(&stack.control_table()?);
    let bench = Bench { console, control, receiver: Receiver::start(&[SECRET]).await? };
    for id in ["crm", "swept"] {
        bench.destination(id).await?;
    }
    buried::all(stack, &[("crm", Reason::Rejected, REDRIVEN)]).await?;

    let until = machine_time().plus(Duration::from_secs(u64::try_from(ALONE)?));
    let alone = bench.fresh("alone", async || Ok(machine_time() < until)).await?;
    let alone = bench.waits(0, alone, 0).await?;
    let run = bench.start("crm", REDRIVEN, CAP).await?;
    let moving = async || Ok(matches!(bench.run(&run).await?.phase, Phase::Canary | Phase::Moving));
    let beside = bench.fresh("beside", moving).await?;
    let beside = bench.waits(alone.len(), beside, REDRIVEN).await?;
    let redriven = bench.redriven();
    let (second, ten) = (bench.most_within(&redriven, 1), bench.most_within(&redriven, 10));
    let took = redriven.last().zip(redriven.first()).map_or(Duration::ZERO, |(last, first)| last.since(*first));
    bench.swept(&run).await?;

    buried::all(stack, &[("swept", Reason::Rejected, SELECTED), ("swept", Reason::KeyConflict, LETTERS - SELECTED)]).await?;
    let run = bench.start("swept", SELECTED, CAP).await?;
    let swept = bench.swept(&run).await?;
    ensure!(usize::try_from(swept.counters.moved)? == SELECTED, "{} rows were moved", swept.counters.moved);
    let deleted: u32 = swept.counters.deleted.values().sum();
    ensure!(usize::try_from(deleted)? == SELECTED, "{deleted} letters were deleted");
    ensure!(bench.receiver.duplicate_effects() == 0, "an effect too many");
    let scan_peak = stack.worker_pids("redrive")?.into_iter().filter_map(peak).max().unwrap_or_default();
    let (alone_p99, beside_p99) = (p99(alone), p99(beside));
    let scan_receives = swept.counters.scan_receives;
    Ok(Seen { alone_p99, beside_p99, second, ten, took, scan_receives, scan_peak })
}

impl Bench<'_> {
    /// Registers a destination that is proven: as much may be out for it as it allows.
    async fn destination(&self, id: &str) -> Result<()> {
        let spec = json!({
            "id": id,
            "url": self.receiver.url(&format!("healthy/{id}")),
            "secrets": [SECRET_NAME],
            "total_timeout_ms": 5_000,
            "rate_per_second": RATE,
            "max_in_flight": 10_000,
        });
        self.console.put_destination(spec).await?;
        let reach = Reach { version: 1, in_flight: 10_000, ..Reach::unproven(Correlation::new("bench")?) };
        ensure!(self.control.note_reach(&DestinationId::new(id)?, &reach).await? == Stored::Done, "{id} has a reach");
        Ok(())
    }

    /// Lets fresh deliveries fall due, one after another, as long as it is wanted; says how many.
    async fn fresh(&self, kind: &str, wanted: impl AsyncFn() -> Result<bool>) -> Result<usize> {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        let mut scheduled = 0;
        while wanted().await? {
            seconds.tick().await;
            let first = machine_time().plus(LEAD);
            let reminders: Vec<Value> = (0..FRESH).map(|n| reminder(kind, scheduled + n, n, first)).collect();
            let answer = self.console.schedule(&reminders).await?;
            let created = answer.pointer("/summary/created").and_then(Value::as_u64);
            ensure!(created == Some(u64::try_from(FRESH)?), "not all were created: {answer}");
            scheduled += FRESH;
        }
        Ok(scheduled)
    }

    /// From due to call of the fresh deliveries after the first `skip`, once all are called, and so many redriven ones.
    async fn waits(&self, skip: usize, fresh: usize, redriven: usize) -> Result<Vec<Duration>> {
        let all = u64::try_from(skip + fresh + redriven)?;
        ensure!(self.receiver.wait_for_calls(all, BOUND).await, "{} of {all} calls came", self.receiver.call_count());
        let calls = self.receiver.calls();
        ensure!(calls.len() == skip + fresh + redriven, "{} calls, not {all}", calls.len());
        ensure!(
            self.receiver.duplicate_effects() == 0 && self.receiver.calls_before_due().is_empty(),
            "a call too many, or early"
        );
        let waits = calls.iter().filter_map(|call| Some(call.received_at_ms - call.due_ms?)).skip(skip);
        let waits: Vec<Duration> = waits.filter_map(|ms| u64::try_from(ms).ok()).map(Duration::from_millis).collect();
        ensure!(waits.len() == fresh, "{} fresh calls, not {fresh}", waits.len());
        Ok(waits)
    }

    /// When redriven calls arrived: those whose body does not say when it was due.
    fn redriven(&self) -> Vec<Timestamp> {
        let calls = self.receiver.calls();
        calls.iter().filter(|call| call.due_ms.is_none()).map(|call| Timestamp::from_millis(call.received_at_ms)).collect()
    }

    fn most_within(&self, calls: &[Timestamp], seconds: u64) -> usize {
        fullest(calls.iter().copied(), Duration::from_secs(seconds))
    }

    async fn start(&self, destination: &str, most: usize, rate: usize) -> Result<RunId> {
        let order = json!({
            "action": "start",
            "owner": "bench",
            "why": "a measurement",
            "evidence": "a measurement",
            "selection": {"reasons": [Reason::Rejected.code()], "destination_ids": [destination]},
            "max_count": most,
            "rate_per_second": rate,
            "canary_size": SELECTED / 2,
            "abort_threshold_percent": 10,
        });
        let answer = self.console.do_it("redrive", &order).await?;
        let id = answer.pointer("/run/run/id").and_then(Value::as_str).context("a run without an id")?;
        Ok(RunId::new(id)?)
    }

    /// The run, which must not have stopped.
    async fn run(&self, id: &RunId) -> Result<Run> {
        let run = self.control.run(id).await?.with_context(|| format!("no run {id}"))?;
        if let Some(stopped) = &run.stopped {
            bail!("run {id} stopped: {}", stopped.text);
        }
        Ok(run)
    }

    async fn swept(&self, id: &RunId) -> Result<Run> {
        let began = machine_time();
        loop {
            let run = self.run(id).await?;
            if run.swept {
                return Ok(run);
            }
            ensure!(machine_time().since(began) < BOUND, "run {id} is {} after {} s", run.phase, BOUND.as_secs());
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Number `number`, one of those of a second: they fall due one after another.
fn reminder(kind: &str, number: usize, of_second: usize, first: Timestamp) -> Value {
    let due = first.plus(Duration::from_secs(1).mul_f64(as_f64(of_second) / as_f64(FRESH)));
    json!({
        "tenant": "acme",
        "subscriber": format!("fresh-{number}"),
        "renewal_period": "2027",
        "reminder_kind": kind,
        "destination_id": "crm",
        "reference": format!("{kind}-{number}"),
        "deliver_after": due,
        "deliver_by": due.plus(Duration::from_secs(3_600)),
        "payload": {"due": due},
    })
}

fn p99(mut waits: Vec<Duration>) -> Duration {
    waits.sort_unstable();
    waits.get((waits.len() * 99 / 100).min(waits.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// The most memory that a process has held, in bytes.
fn peak(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1_024)
}

/// A small count.
fn as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

impl Seen {
    /// Redriven calls of the fullest second over what the run's limiter allows: its rate and burst.
    #[must_use]
    pub fn second_ratio(&self) -> f64 {
        as_f64(self.second) / as_f64(CAP + BURST)
    }

    /// The same for ten seconds.
    #[must_use]
    pub fn ten_ratio(&self) -> f64 {
        as_f64(self.ten) / as_f64(10 * CAP + BURST)
    }

    /// By how much fresh deliveries are called later beside a redrive, in seconds, at the 99th percentile; none if they are not.
    #[must_use]
    pub fn rise(&self) -> f64 {
        self.beside_p99.saturating_sub(self.alone_p99).as_secs_f64()
    }

    /// Letters received for each one in the queue.
    #[must_use]
    pub fn receives_per_letter(&self) -> f64 {
        as_f64(usize::try_from(self.scan_receives).unwrap_or(usize::MAX)) / as_f64(LETTERS)
    }
}
