//! Drills of the answers: what receivers and operators do to deliveries that are on their way, on a local stack.
//!
//! Each drill has destinations of its own and leaves the others alone, so all run at the same time on one stack, while
//! dispatch ticks. I repair nothing. Calls, effects and dead letters are counted when all drills have ended: what must
//! not be called is watched that long. `make drill` and the end-to-end tests play the same drills.

mod failing;
pub(crate) mod ground;
mod limited;
mod paused;
mod recalled;
pub(crate) mod report;
mod rotation;
mod unsigned;

use std::time::Duration;

use anyhow::Result;
use futures::future::{FutureExt as _, LocalBoxFuture, join_all};
use punctual_adapters::clock::machine_time;

use crate::stack::{Stack, StackOptions};
use ground::Ground;
use report::Drill;

pub use report::Told;

/// From the start of one dispatch run to the start of the next.
const TICK: Duration = Duration::from_secs(2);

/// The stack that the drills need: it logs all it ever does, because one drill reads whether a secret is among it.
#[must_use]
pub fn options() -> StackOptions {
    StackOptions::default().parameter("LogLevel", "TRACE")
}

/// Plays all drills and tells what became of each.
///
/// # Errors
/// If a part of the stack does not work at all; what a drill finds wrong is told.
pub async fn play(stack: &Stack) -> Result<Vec<Told>> {
    let ground = Ground::start(stack).await?;
    let drills: Vec<Playing<'_>> = vec![
        ("limited::short", limited::short(&ground).boxed_local()),
        ("limited::far", limited::far(&ground, false).boxed_local()),
        ("failing::twice_down", failing::twice_down(&ground).boxed_local()),
        ("failing::in_progress", failing::in_progress(&ground).boxed_local()),
        ("failing::answer_lost", failing::answer_lost(&ground).boxed_local()),
        ("failing::answer_lost_for_review", failing::answer_lost_for_review(&ground).boxed_local()),
        ("recalled::in_mid_call", recalled::in_mid_call(&ground).boxed_local()),
        ("rotation::rotated", rotation::rotated(&ground).boxed_local()),
        ("unsigned::without_a_good_secret", unsigned::without_a_good_secret(&ground).boxed_local()),
        ("paused::in_mid_flight", paused::in_mid_flight(&ground).boxed_local()),
    ];
    run(&ground, drills).await
}

/// Plays the one drill that waits a `Retry-After` of 900 s out: a quarter of an hour.
///
/// # Errors
/// As [`play`].
pub async fn play_long(stack: &Stack) -> Result<Vec<Told>> {
    let ground = Ground::start(stack).await?;
    run(&ground, vec![("limited::far", limited::far(&ground, true).boxed_local())]).await
}

/// A drill, and its name in the code for the case that it stops on an error.
type Playing<'a> = (&'static str, LocalBoxFuture<'a, Result<Drill>>);

async fn run(ground: &Ground<'_>, drills: Vec<Playing<'_>>) -> Result<Vec<Told>> {
    let timed = drills.into_iter().map(async |(name, drill)| {
        let began = machine_time();
        (drill.await.unwrap_or_else(|error| Drill::stopped(name, &error)), machine_time().since(began))
    });
    let ended = tokio::select! {
        ended = join_all(timed) => ended,
        stopped = tick(ground) => return stopped.map(|()| Vec::new()),
    };
    report::close(ground, ended).await
}

/// Runs dispatch for ever, as the schedule would.
pub(crate) async fn tick(ground: &Ground<'_>) -> Result<()> {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        ground.console.dispatch().await?;
    }
}
