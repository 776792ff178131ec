//! I measure what a comparison of a million lines with a million rows takes: the program's own work, and its memory.
//!
//! Rows are made when they are asked for: the time that DynamoDB takes to hand them out is not in it, nor is its cost, which
//! is measured apart on dynoxide.

use std::io::{BufWriter, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use peak_alloc::PeakAlloc;
use punctual_adapters::clock::monotonic_since_now;
use punctual_core::ports::{Rows as _, RowsQuery};
use punctual_core::time::Timestamp;
use punctual_inspect::reconcile::{RUN, reconcile};

use super::longest;
use super::world::World;
use crate::reconcile::{Seed, check, control, request, time};

/// So many deliveries.
pub const DELIVERIES: u64 = 1_000_000;
/// So many rows are scanned to tell what a scan costs.
const SCANNED: usize = 500;

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// Lines of the export.
    pub lines: u64,
    /// From the start to the report.
    pub took: Duration,
    /// The most heap at a time, beyond what was there before, in bytes.
    pub peak: usize,
}

/// Compares a seeded export with its ledger.
///
/// # Errors
/// If something seeded was not found, or something was invented; or if this process does not count its memory.
pub async fn measure() -> Result<Comparison> {
    let seed = Seed { deliveries: DELIVERIES };
    let mut file = tempfile::Builder::new().suffix(".csv").tempfile().context("a file for the export")?;
    let mut into = BufWriter::new(&mut file);
    seed.csv(&mut into)?;
    into.flush()?;
    drop(into);
    let mut request = request(vec![file.path().to_owned()], RUN)?;
    request.list = usize::try_from(DELIVERIES / 100)?;
    let (control, time) = (control().await?, time());
    ensure!(PeakAlloc.current_usage() > 0, "this binary does not count its memory");
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    let clock = monotonic_since_now();
    let audit = reconcile(&request, &seed, &control, &time, &|_| {}).await?;
    let (took, peak) = (clock(), PeakAlloc.peak_usage().saturating_sub(before));
    check(&seed, &audit)?;
    let lines = audit.inputs.iter().map(|input| input.records).sum();
    Ok(Comparison { lines, took, peak })
}

/// What it costs to read a thousand rows of first-try deliveries with payloads of 512 bytes, in read units.
///
/// # Errors
/// If they cannot be stored or read.
pub async fn read_units_per_thousand() -> Result<f64> {
    let world = World::start().await?;
    let destination = longest::destination(1, true)?;
    world.put_destination(&destination).await?;
    ensure!(world.schedule(&longest::event(0..SCANNED, false)?).await?.summary.created == SCANNED, "not all were created");
    let (from, until) = (Timestamp::from_millis(0), Timestamp::from_millis(i64::MAX));
    let mut query = RowsQuery { destination: destination.spec.id, from, until, start: None, limit: None };
    let (ledger, mut rows, mut units) = (world.ledger(), 0, 0.0);
    loop {
        let page = ledger.rows(&query).await?;
        rows += page.rows.len();
        units += page.read_units;
        query.start = page.next;
        if query.start.is_none() {
            break;
        }
    }
    ensure!(rows == SCANNED, "{rows} rows");
    Ok(units * 1_000.0 / f64::from(u32::try_from(SCANNED)?))
}
