//! `make drill`: the compiled functions are killed at each crash boundary, and every delivery must converge all the same.
//!
//! The functions are built with fault points ([`punctual_flows::fault`]) and end themselves by SIGKILL where a drill
//! orders it ([`cases`]). Two stacks run side by side, one for the way into the queue and one for the way out, because
//! the emulator ends all environments of a function when one of them dies. Within a stack blows fall one after another,
//! and all deliveries converge at the same time. I repair nothing: I only run dispatch, as the schedule would. Slices
//! of redrive runs are killed after that ([`slices`]), on three stacks more. The drills of the answers ([`crate::answers`])
//! follow on a stack of their own, with a normal build of the functions.

pub mod build;
mod cases;
pub(crate) mod letters;
mod provoke;
pub(crate) mod report;
mod side;
mod slices;

use std::time::Duration;

use anyhow::{Context as _, Result};
use punctual_adapters::clock::machine_time;

use crate::answers::{self, Told};
use crate::stack::{Stack, StackOptions};
use side::Side;

pub use report::Failure;

/// From the start of one dispatch run to the start of the next.
const TICK: Duration = Duration::from_secs(2);
/// What the run, the queue and the call may take themselves, once it is their turn.
const WORK: Duration = Duration::from_secs(3);
/// The deployed lease of a dispatch run.
const DISPATCH_LEASE: Duration = Duration::from_secs(10);
/// The deployed time after which a message that nobody took counts as lost.
const HANDOFF: Duration = Duration::from_secs(10);
/// Deliver's timeout in the template: its lease is what is left of it, and two seconds.
const DELIVER_TIMEOUT: Duration = Duration::from_secs(30);
/// The bound on the difference between two clocks.
const CLOCK_BOUND: Duration = Duration::from_secs(2);
/// The queue's visibility here; 180 s in the template, which nobody wants to watch. Longer than any lease, as there.
const VISIBILITY: Duration = Duration::from_secs(40);

/// Runs all drills; gives what failed.
///
/// # Errors
/// If a part of the stack does not work at all, or a blow could not be struck.
pub async fn play() -> Result<Vec<Failure>> {
    let began = machine_time();
    let binaries = build::binaries()?;
    let count = cases::INTO_THE_QUEUE.len() + cases::OUT_OF_THE_QUEUE.len();
    println!(
        "Punctual drill: {count} deliveries, each struck at one crash boundary.\n\
         bound = what is left of the lease, or the handoff threshold of {} s from due, but at most the queue's visibility of {} s,\n\
         \x20       + one tick of {} s + {} s for the run, the queue and the call\n",
        HANDOFF.as_secs(),
        VISIBILITY.as_secs(),
        TICK.as_secs(),
        WORK.as_secs(),
    );
    let options = StackOptions { binaries: Some(binaries), ..StackOptions::default() }
        .parameter("DispatchLeaseSeconds", DISPATCH_LEASE.as_secs())
        .parameter("HandoffThresholdSeconds", HANDOFF.as_secs());
    let (into, out) = tokio::try_join!(side(options.clone(), &cases::INTO_THE_QUEUE), side(options, &cases::OUT_OF_THE_QUEUE),)?;
    let outcomes: Vec<_> = into.into_iter().chain(out).collect();
    let mut failures = report::tell(&outcomes);
    println!("\n    Slices of redrive runs, killed on three stacks at the same time:\n");
    let (between, within, sweeping) = tokio::try_join!(
        on_slices(&slices::BETWEEN, false),
        on_slices(&slices::WITHIN, false),
        on_slices(&slices::SWEEPING, false),
    )?;
    failures.extend(tell([between, within, sweeping].into_iter().flatten().collect()));
    println!("\n    Drills of the answers, at the same time on one stack:\n");
    failures.extend(on_answers(async |stack| answers::play(stack).await).await?);
    println!("\nIt took {} s in all. The local stacks are stopped.", machine_time().since(began).as_secs());
    Ok(failures)
}

/// Runs the two drills that wait a quarter of an hour out, a `Retry-After` of 900 s and letters that a dead slice has hidden;
/// gives what failed.
///
/// # Errors
/// If a part of the stack does not work at all.
pub async fn play_long() -> Result<Vec<Failure>> {
    println!(
        "Punctual drill: a receiver answers 429 with Retry-After: 900, and a slice of redrive dies in its sweep.\n\
         The second calls, and the second sweep, come in a quarter of an hour.\n"
    );
    let answers = on_stack(answers::options(), async |stack| answers::play_long(stack).await);
    let (answers, sweeping) = tokio::try_join!(answers, on_slices(&slices::SWEEPING, true))?;
    Ok(tell([answers, sweeping].into_iter().flatten().collect()))
}

/// Plays drills of the answers on a stack of their own, prints them, and gives what failed.
async fn on_answers(play: impl AsyncFnOnce(&Stack) -> Result<Vec<Told>>) -> Result<Vec<Failure>> {
    Ok(tell(on_stack(answers::options(), play).await?))
}

/// Kills slices on a stack of their own.
async fn on_slices(kills: &[slices::Kill], patient: bool) -> Result<Vec<Told>> {
    let options = StackOptions { binaries: Some(build::binaries()?), ..StackOptions::default() };
    let options = options.parameter("RedriveSliceSeconds", slices::INTERVAL.as_secs());
    on_stack(options, async |stack| slices::play(stack, kills, patient).await).await
}

async fn on_stack(options: StackOptions, play: impl AsyncFnOnce(&Stack) -> Result<Vec<Told>>) -> Result<Vec<Told>> {
    let stack = Stack::start(options).await?;
    let told = play(&stack).await;
    let log = stack.log().display().to_string();
    stack.stop().await?;
    told.with_context(|| format!("the emulator's log is {log}"))
}

/// Prints what was told, and gives what failed.
fn tell(told: Vec<Told>) -> Vec<Failure> {
    told.iter().for_each(Told::print);
    let failure = |told: &Told, problem: &String| Failure(format!("{}: {problem}", told.what));
    told.iter().flat_map(|told| told.problems.iter().map(move |problem| failure(told, problem))).collect()
}

async fn side(options: StackOptions, cases: &[cases::Case]) -> Result<Vec<report::Outcome>> {
    let stack = Stack::start(options).await?;
    let outcomes = async { Side::start(&stack).await?.run(cases).await }.await;
    let log = stack.log().display().to_string();
    stack.stop().await?;
    outcomes.with_context(|| format!("the emulator's log is {log}"))
}
