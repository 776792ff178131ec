//! `make bench`: measures what a delivery costs and exits with 1 if a figure misses its goal.

use std::process::ExitCode;

use peak_alloc::PeakAlloc;

/// Counts what is alive on the heap.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[tokio::main]
async fn main() -> ExitCode {
    match punctual_tests::bench::run().await {
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
