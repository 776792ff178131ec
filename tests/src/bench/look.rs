//! I measure what one run of monitor costs: read units and time, by how much falls due within a day and how much does not.
//!
//! Dynoxide answers from memory on this machine: units are exact, and the time is what the code itself needs, without
//! DynamoDB's latency (one page of a mebibyte at a time for each lane).

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use futures::{StreamExt as _, TryStreamExt as _};
use punctual_adapters::clock::{machine_time, monotonic_since_now};
use punctual_adapters::memory::{MemoryDeadLetters, MemoryQueue};
use punctual_core::figures::Figures;
use punctual_core::ports::{Created, Ledger as _, Time as _};
use punctual_core::time::Timestamp;
use punctual_monitor::{Memory, Monitor};

use super::admission;
use super::world::{LEDGER, World};

/// How many rows one request writes.
const CHUNK: usize = 25;
/// How many requests are under way at once.
const AT_ONCE: usize = 16;
/// Monitor's timeout in the template.
const TIMEOUT: Duration = Duration::from_secs(55);

/// What a run cost.
#[derive(Debug, Clone)]
pub struct Look {
    /// Read units of both tables.
    pub read_units: f64,
    /// How long it took.
    pub took: Duration,
    /// What it said.
    pub figures: Figures,
}

/// One run over so many rows that are due or fall due within a day, and so many that fall due in a month.
///
/// # Errors
/// If the rows cannot be stored, or the run fails.
pub async fn measure(near: usize, far: usize) -> Result<Look> {
    let world = World::start().await?;
    world.put_destination(&admission::destination()?).await?;
    let now = machine_time();
    let (first, payload) = admission::delivery(0, now.minus(Duration::from_secs(2)), now.plus(Duration::from_secs(3_600)))?;
    ensure!(world.ledger().create(&first, &payload).await? == Created::New, "it is there already");
    let id = AttributeValue::S(first.id.to_string());
    let stored =
        world.client().get_item().table_name(LEDGER).key("delivery_id", id).key("item", AttributeValue::S("delivery".into()));
    let item = stored.send().await?.item.context("the row")?;
    // Half of what is near is due already, by the database's time too, which is known to within two seconds; the rest falls due
    // through the day.
    let due = |n: usize| -> Result<Timestamp> {
        let (n, near) = (u64::try_from(n)?, u64::try_from(near.max(1))?);
        Ok(match n {
            _ if n >= near => now.plus(Duration::from_secs(30 * 86_400 + n)),
            _ if n.is_multiple_of(2) => now.minus(Duration::from_millis(2_000 + n)),
            _ => now.plus(Duration::from_millis(n * 86_000_000 / near)),
        })
    };
    let text = |value: String| AttributeValue::S(value);
    let mut requests = Vec::new();
    for n in 1..near + far {
        let mut item = item.clone();
        let due = due(n)?;
        for (name, value) in [
            ("delivery_id", format!("{}-{n:07}", first.id)),
            ("lane", format!("acme#{}", n % 2)),
            ("wake_at", due.to_string()),
            ("deliver_by", due.plus(Duration::from_secs(86_400)).to_string()),
        ] {
            ensure!(item.insert(name.to_owned(), text(value)).is_some(), "a row has no {name}");
        }
        let put = PutRequest::builder().set_item(Some(item)).build()?;
        requests.push(WriteRequest::builder().put_request(put).build());
    }
    let chunks: Vec<Vec<WriteRequest>> = requests.chunks(CHUNK).map(<[WriteRequest]>::to_vec).collect();
    futures::stream::iter(chunks)
        .map(|chunk| async {
            let answer = world.client().batch_write_item().request_items(LEDGER, chunk).send().await?;
            ensure!(answer.unprocessed_items.unwrap_or_default().is_empty(), "rows were left out");
            Ok(())
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    world.forget();

    let (ledger, control, time) = (world.ledger(), world.control(), world.time_for(TIMEOUT));
    let monitor = Monitor {
        ledger: &ledger,
        control: &control,
        queue: &MemoryQueue::new(now),
        dead_letters: &MemoryDeadLetters::default(),
        time: &time,
        memory: &Memory::default(),
        tick: world.tick,
        margin: world.margin,
        by: World::by()?,
    };
    let clock = monotonic_since_now();
    let figures = monitor.run().await?;
    let took = clock();
    ensure!(time.now().is_ok(), "the database's time is known");
    let read_units = world.ledger_meter.read_units() + world.control_meter.read_units();
    Ok(Look { read_units, took, figures })
}
