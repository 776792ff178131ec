//! `make demo`: plays the main job end to end and exits with 1 if anything is not as it must be.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    tokio::select! {
        played = punctual_tests::demo::play() => match played {
            Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
            Ok(failures) => {
                eprintln!("demo: {} expectations failed", failures.len());
                ExitCode::FAILURE
            }
            Err(error) => {
                eprintln!("demo: {error:#}");
                ExitCode::FAILURE
            }
        },
        () = punctual_tests::interrupted() => {
            eprintln!("demo: interrupted; the local stack is stopped");
            ExitCode::from(130)
        }
    }
}
