//! `make canary`: sends a canary through the running local stack, and exits with 1 if a stage of its way is broken.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match punctual_tests::canary::play().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("canary: {error:#}");
            ExitCode::from(2)
        }
    }
}
