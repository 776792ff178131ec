//! `make bench`: measures what a delivery costs and exits with 1 if a figure misses its goal. With the word `admission`
//! only how 12,000 drain, with `redrive` only what a redrive costs.

use std::process::ExitCode;

use peak_alloc::PeakAlloc;
use punctual_tests::bench;

/// Counts what is alive on the heap.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[tokio::main]
async fn main() -> ExitCode {
    let only = std::env::args().nth(1);
    let measured = match only.as_deref() {
        None => bench::run().await,
        Some("admission") => bench::run_admission().await,
        Some("redrive") => bench::run_redrive().await,
        Some(other) => Err(anyhow::anyhow!("ONLY must be admission or redrive, or left out; got {other}")),
    };
    match measured {
        Ok(missed) if missed.is_empty() => ExitCode::SUCCESS,
        Ok(missed) => {
            let names: Vec<String> = missed.into_iter().map(|figure| figure.figure).collect();
            eprintln!("bench: goals missed: {}", names.join(", "));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
