//! I measure how fast one invocation stores and claims. Dynoxide answers from memory on this machine: the numbers show
//! what the code itself allows, and say nothing of DynamoDB's latency.

use std::time::Duration;

use anyhow::{Result, ensure};
use punctual_adapters::clock::monotonic_since_now;

use super::longest;
use super::world::World;

/// Reminders stored by one call, then claimed by one run.
pub const ROWS: u32 = 500;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Speed {
    /// Reminders that one call of schedule stores per second.
    pub schedule_per_second: f64,
    /// Rows that one run of dispatch claims, publishes and marks per second.
    pub claims_per_second: f64,
}

/// Stores [`ROWS`] reminders of a paused destination in one call, resumes it, and claims all in one run.
///
/// # Errors
/// If not all are stored, or not all are claimed by that one run.
pub async fn measure() -> Result<Speed> {
    let world = World::start().await?;
    let rows = usize::try_from(ROWS)?;
    world.put_destination(&longest::destination(1, true)?).await?;
    let event = longest::event(0..rows, false)?;
    world.forget();

    let clock = monotonic_since_now();
    let answer = world.schedule(&event).await?;
    let stored = clock();
    ensure!(answer.summary.created == rows, "not all were created: {:?}", answer.summary);

    world.put_destination(&longest::destination(2, false)?).await?;
    let clock = monotonic_since_now();
    let summary = world.dispatch().await?;
    let claimed = clock();
    ensure!(summary.released.claimed == rows && summary.released.published == rows, "not all were released: {summary:?}");
    Ok(Speed { schedule_per_second: per_second(stored), claims_per_second: per_second(claimed) })
}

fn per_second(took: Duration) -> f64 {
    f64::from(ROWS) / took.as_secs_f64().max(0.001)
}
