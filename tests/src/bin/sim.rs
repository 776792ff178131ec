//! Runs the simulated world: `sim SEEDS [SEED]`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use punctual_tests::world::{self, Report, op, shrink::shrink};

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(Ok(1_000), |n| n.parse())?;
    match arguments.next() {
        Some(seed) => one(seed.parse()?),
        None => many(seeds),
    }
}

/// Replays one seed, line by line.
fn one(seed: u64) -> anyhow::Result<ExitCode> {
    let report = world::run(seed);
    let replayed = world::replay(seed, &report.ops, true);
    println!("{}", replayed.trace.join("\n"));
    println!("{} operations", report.ops.len());
    if report.violation.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    failed(seed, &report)
}

fn failed(seed: u64, report: &Report) -> anyhow::Result<ExitCode> {
    let ops = shrink(seed, report);
    let short = world::replay(seed, &ops, true);
    println!("\n{}\n", short.trace.join("\n"));
    if let Some(violation) = &short.violation {
        println!("# rule {}: {}", violation.rule, violation.detail);
    }
    println!("# seed {seed}\n{}", op::to_text(&ops)?);
    println!("seed {seed} fails: {} of {} operations are enough. Replay: make sim SEED={seed}", ops.len(), report.ops.len());
    Ok(ExitCode::FAILURE)
}

#[expect(clippy::disallowed_methods, reason = "how long the simulation took; nothing in the world reads a clock")]
fn many(seeds: u64) -> anyhow::Result<ExitCode> {
    let began = std::time::Instant::now();
    let (next, operations, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let coverage: Mutex<BTreeMap<String, u64>> = Mutex::default();
    let failure: Mutex<Option<(u64, Report)>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let report = world::run(seed);
                    operations.fetch_add(u64::try_from(report.ops.len()).unwrap_or(0), Ordering::Relaxed);
                    if let Ok(mut coverage) = coverage.lock() {
                        for (what, n) in &report.coverage {
                            *coverage.entry(what.clone()).or_default() += n;
                        }
                    }
                    if report.violation.is_some() {
                        stop.store(true, Ordering::Relaxed);
                        if let Ok(mut failure) = failure.lock() {
                            failure.get_or_insert((seed, report));
                        }
                    } else if seed % 500 == 499 {
                        println!("  {} seeds, {:.1} s", seed + 1, began.elapsed().as_secs_f64());
                    }
                }
            });
        }
    });
    let done = next.load(Ordering::Relaxed).min(seeds);
    let coverage = coverage.into_inner().unwrap_or_default();
    for (what, n) in &coverage {
        println!("  {n:>9}  {what}");
    }
    if let Some((seed, report)) = failure.into_inner().unwrap_or_default() {
        return failed(seed, &report);
    }
    let sum = |prefix: &str| coverage.iter().filter(|(what, _)| what.starts_with(prefix)).map(|(_, n)| n).sum::<u64>();
    let seconds = began.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a count of seeds")]
    let rate = done as f64 / seconds.max(0.001);
    println!(
        "{done} seeds, {} operations, {} calls, {} crashes, {} messages lost; {} deliveries: {} delivered, {} dead, {} expired; no rule broken; {seconds:.0} s, {rate:.0} seeds/s",
        operations.load(Ordering::Relaxed),
        sum("call"),
        sum("crash") + sum("killed"),
        sum("message lost"),
        sum("end: "),
        sum("end: delivered"),
        sum("end: dead"),
        sum("end: expired"),
    );
    Ok(ExitCode::SUCCESS)
}
