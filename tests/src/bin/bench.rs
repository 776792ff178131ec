//! `make bench`: measures what a delivery costs and exits with 1 if a figure misses its goal. With the word `redrive`, only
//! what a redrive costs.

use std::process::ExitCode;

use peak_alloc::PeakAlloc;
use punctual_tests::bench;

/// Counts what is alive on the heap.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[tokio::main]
async fn main() -> ExitCode {
    let redrive = std::env::args().nth(1).is_some_and(|word| word == "redrive");
    let measured = async { if redrive { bench::run_redrive().await } else { bench::run().await } };
    match measured.await {
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
