//! Kills of redrive's slices: at each of a slice's boundaries the compiled function ends itself, and the run comes to the same
//! totals all the same.
//!
//! Each kill has a run of its own, over rows that have died on the ordinary way. Its slices are started by the scheduler, as
//! they are deployed. I repair nothing: I run dispatch, as its schedule would, and where a slice dies before it has planned the
//! next one, I start it a second time, as Lambda would, and the emulator does not.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aws_sdk_sqs::types::QueueAttributeName;
use punctual_adapters::clock::machine_time;
use punctual_core::id::DeliveryId;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_flows::fault::{self, Point};
use serde_json::{Value, json};

use super::report::seconds;
use crate::answers::ground::{BOUND, Ground, field, until};
use crate::answers::report::{DELIVERED, Drill, Told, Wanted, close};
use crate::answers::tick;
use crate::stack::Stack;

/// Rows of a run, and of the canary among them; and dead ones that it does not select.
const ROWS: usize = 6;
const CANARY: usize = 2;
const OTHERS: usize = 2;
/// From one slice to the next, as it is deployed here, and how often the emulator looks for schedules that are due.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
const LOOKS: Duration = Duration::from_secs(10);
/// A slice that dies at work holds its run so long.
const LEASE: Duration = Duration::from_secs(60);
/// A slice that dies in its sweep may have hidden letters so long: the pass, and what was still under way.
const HIDDEN: Duration = Duration::from_secs(900 + 120);
/// What the slices and the calls take themselves.
const WORK: Duration = Duration::from_secs(10);

/// What a slice is killed at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kill {
    id: &'static str,
    what: &'static str,
    point: Point,
}

impl Kill {
    /// The points that have the run's name, and not that of one of its rows.
    fn is_of_the_run(self) -> bool {
        matches!(self.point, Point::SliceBegun | Point::SliceScheduled | Point::SliceEnded)
    }

    /// From the kill to the run's end at most: what must end first, a slice that judges the canary, one that moves the rest,
    /// one more that was idle in between, and the work.
    fn bound(self) -> Duration {
        let wait = match self.point {
            Point::BeforeLetterDelete => HIDDEN,
            _ if self.is_of_the_run() => Duration::ZERO,
            _ => LEASE,
        };
        wait + 3 * (INTERVAL + LOOKS) + WORK
    }
}

/// Between two slices.
pub(super) const BETWEEN: [Kill; 3] = [
    Kill { id: "slice-begun", what: "redrive killed before its slice has planned the next one", point: Point::SliceBegun },
    Kill { id: "slice-scheduled", what: "redrive killed after it, before anything else", point: Point::SliceScheduled },
    Kill { id: "slice-ended", what: "redrive killed at a slice's end, before its answer", point: Point::SliceEnded },
];

/// In the middle of a slice.
pub(super) const WITHIN: [Kill; 2] = [
    Kill { id: "row-moved", what: "redrive killed after a row's ledger write, before its message", point: Point::RowMoved },
    Kill { id: "row-sent", what: "redrive killed after a row's message, before it is counted", point: Point::RowSent },
];

/// In the sweep. What it has hidden shows itself in a quarter of an hour.
pub(super) const SWEEPING: [Kill; 1] =
    [Kill { id: "letter-kept", what: "redrive killed before it deletes a dead letter", point: Point::BeforeLetterDelete }];

/// A row that the run takes: attempts and history go on where they were.
const REDRIVEN: Wanted = Wanted {
    attempts: Some(&["rejected", "accepted"]),
    history: Some(&[
        "scheduled",
        "dispatching",
        "delivering#1",
        "dead#1 rejected",
        "dead dead_letter_sent",
        "scheduled redriven",
        "dispatching",
        "delivering#2",
        "delivered#2 accepted",
    ]),
    calls: Some(2),
    ..DELIVERED
};

/// A dead row that the run does not take.
const LEFT: Wanted = Wanted {
    ends: State::Dead,
    reason: Reason::KeyConflict,
    attempts: Some(&["key_conflict"]),
    history: Some(&["scheduled", "dispatching", "delivering#1", "dead#1 key_conflict", "dead dead_letter_sent"]),
    calls: Some(1),
    effects: 0,
    letters: 1,
};

/// Plays kills one after another, and tells what became of each. Whoever is not patient sees a run whose slice died in its
/// sweep wait, and not its end.
///
/// # Errors
/// If a part of the stack does not work at all.
pub(super) async fn play(stack: &Stack, kills: &[Kill], patient: bool) -> Result<Vec<Told>> {
    let ground = Ground::start(stack).await?;
    let ended = tokio::select! {
        ended = strike(&ground, kills, patient) => ended?,
        stopped = tick(&ground) => return stopped.map(|()| Vec::new()),
    };
    close(&ground, ended).await
}

async fn strike(ground: &Ground<'_>, kills: &[Kill], patient: bool) -> Result<Vec<(Drill, Duration)>> {
    for kill in kills {
        for (id, path, rows) in [(kill.id.to_owned(), "rejecting", ROWS), (others(*kill), "conflict", OTHERS)] {
            ground.destination(&id, &format!("{path}/{id}"), json!({})).await?;
            ground.ended(&ground.now(&id, rows).await?).await?;
        }
    }
    ground.receiver.heal(true);
    let mut ended = Vec::new();
    for kill in kills {
        let began = machine_time();
        let played = one(ground, *kill, patient).await;
        ended.push(played.unwrap_or_else(|error| (Drill::stopped(kill.what, &error), machine_time().since(began))));
    }
    Ok(ended)
}

fn others(kill: Kill) -> String {
    format!("{}-others", kill.id)
}

/// Starts a run, kills one of its slices, and sees it through. Says how long it took from the kill.
async fn one(ground: &Ground<'_>, kill: Kill, patient: bool) -> Result<(Drill, Duration)> {
    let mut drill = Drill::new(kill.what);
    let rows: Vec<DeliveryId> = (0..ROWS).map(|n| crate::answers::ground::id(kill.id, n)).collect();
    let left: Vec<DeliveryId> = (0..OTHERS).map(|n| crate::answers::ground::id(&others(kill), n)).collect();
    let started = ground.console.do_it("redrive", &order(kill)).await?;
    let run = started.pointer("/run/run/id").and_then(Value::as_str).context("a run without an id")?.to_owned();
    let named = if kill.is_of_the_run() { DeliveryId::new(&run).context("a run's name")? } else { last(&rows)? };
    let order = lay(ground.stack, kill.point, &named)?;
    // The first slice, or the one after the canary.
    let within = BOUND + 2 * (INTERVAL + LOOKS);
    let gone =
        until("the fault point", within, async || Ok(if order.exists() { Err(named.to_string()) } else { Ok(machine_time()) }));
    let at: Timestamp = gone.await?;
    if kill.point == Point::SliceBegun {
        ground.stack.invoke_async("redrive", &json!({"action": "slice", "run_id": run, "slice": 1})).await?;
    }
    let sweeps = kill.point == Point::BeforeLetterDelete;
    let letters = if sweeps && !patient { 0 } else { 1 };
    if sweeps && !patient {
        waits(ground, kill, &run, &mut drill).await?;
    } else {
        let status = until("the end of the run", kill.bound(), async || {
            let status = status(ground, &run).await?;
            Ok(if *at_path(&status, "/run/run/swept") == true { Ok(status) } else { Err(field(&status, "text").to_string()) })
        });
        let status = status.await?;
        let took = machine_time().since(at);
        drill.note(format!("its run came to its end {} after the kill, of {} at most", seconds(took), seconds(kill.bound())));
        counted(&status, &mut drill);
    }
    let took = machine_time().since(at);
    ground.ended(&rows).await?;
    rows.iter().for_each(|id| drill.row(id, REDRIVEN));
    left.iter().for_each(|id| drill.row(id, Wanted { letters, ..LEFT }));
    Ok((drill, took))
}

/// A run whose slice died in its sweep has moved everything, waits, and knows until when; all letters are there, hidden.
async fn waits(ground: &Ground<'_>, kill: Kill, run: &str, drill: &mut Drill) -> Result<()> {
    let killed = status(ground, run).await?;
    let number = |status: &Value| at_path(status, "/run/run/slice").as_u64();
    let later = until("a slice that waits", LEASE + 3 * (INTERVAL + LOOKS) + WORK, async || {
        let status = status(ground, run).await?;
        let after = number(&status) > number(&killed) && at_path(&status, "/run/run/lease").is_null();
        Ok(if after { Ok(status) } else { Err(field(&status, "text").to_string()) })
    });
    let later = later.await?;
    let until = at_path(&later, "/run/run/pass/undecided_until").as_str().unwrap_or_default();
    let phase = at_path(&later, "/run/run/phase").as_str().unwrap_or_default();
    drill.expect(phase == "sweeping" && !until.is_empty(), || format!("the run is {phase}, and waits until {until:?}"));
    let delivered = at_path(&later, "/run/totals/delivered").clone();
    drill.expect(delivered == ROWS, || format!("{delivered} rows are delivered, not {ROWS}"));
    let (visible, hidden) = letters(ground.stack).await?;
    drill.expect((visible, hidden) == (0, ROWS + OTHERS), || {
        format!("{visible} dead letters are in sight and {hidden} hidden, not all {} hidden", ROWS + OTHERS)
    });
    drill.note(format!("all {hidden} letters are hidden, none is lost; its run waits until {until} before it sweeps again"));
    drill.note(format!("make drill LONG=1 sees its end, {} at most after the kill", seconds(kill.bound())));
    Ok(())
}

/// What the run has counted must be what happened.
fn counted(status: &Value, drill: &mut Drill) {
    for (path, wanted) in [
        ("/run/run/phase", json!("done")),
        ("/run/run/counters/moved", json!(ROWS)),
        ("/run/totals/rows", json!(ROWS)),
        ("/run/totals/delivered", json!(ROWS)),
        ("/run/run/counters/deleted/moved", json!(ROWS)),
    ] {
        let told = at_path(status, path).clone();
        drill.expect(told == wanted, || format!("its run tells {path} {told}, not {wanted}"));
    }
}

fn order(kill: Kill) -> Value {
    json!({
        "action": "start",
        "owner": "drill",
        "why": kill.what,
        "evidence": "the receiver is mended",
        "selection": {"reasons": [Reason::Rejected.code()], "destination_ids": [kill.id]},
        "max_count": 100,
        "rate_per_second": 10,
        "canary_size": CANARY,
        "abort_threshold_percent": 10,
    })
}

/// The row that is moved last: of one deadline, they go in the order of their ids.
fn last(rows: &[DeliveryId]) -> Result<DeliveryId> {
    rows.iter().max().cloned().context("no rows")
}

fn lay(stack: &Stack, point: Point, id: &DeliveryId) -> Result<PathBuf> {
    let directory = stack.scratch().join(fault::DIRECTORY);
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let path = directory.join(fault::order(point, id));
    std::fs::write(&path, "").with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

async fn status(ground: &Ground<'_>, run: &str) -> Result<Value> {
    ground.console.do_it("redrive", &json!({"action": "status", "run_id": run})).await
}

fn at_path<'v>(answer: &'v Value, path: &str) -> &'v Value {
    answer.pointer(path).unwrap_or(&Value::Null)
}

/// Dead letters in sight, and hidden ones.
async fn letters(stack: &Stack) -> Result<(usize, usize)> {
    let names = [QueueAttributeName::ApproximateNumberOfMessages, QueueAttributeName::ApproximateNumberOfMessagesNotVisible];
    let request = stack.sqs().await.get_queue_attributes().queue_url(stack.dead_letter_queue_url()?);
    let answer = request.set_attribute_names(Some(names.to_vec())).send().await.context("the dead-letter queue's size")?;
    let counts = answer.attributes.unwrap_or_default();
    let count = |name| counts.get(name).and_then(|count| count.parse().ok());
    let [visible, hidden] = &names;
    let both = (count(visible), count(hidden));
    ensure!(both.0.is_some() && both.1.is_some(), "the dead-letter queue has no size: {counts:?}");
    Ok((both.0.unwrap_or_default(), both.1.unwrap_or_default()))
}
