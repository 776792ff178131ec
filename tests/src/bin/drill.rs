//! `make drill`: kills the functions at each crash boundary and exits with 1 if anything does not converge as it must.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    tokio::select! {
        played = punctual_tests::drill::play() => match played {
            Ok(failures) if failures.is_empty() => ExitCode::SUCCESS,
            Ok(failures) => {
                eprintln!("drill: {} expectations failed", failures.len());
                ExitCode::FAILURE
            }
            Err(error) => {
                eprintln!("drill: {error:#}");
                ExitCode::FAILURE
            }
        },
        () = punctual_tests::interrupted() => {
            eprintln!("drill: interrupted; the local stacks are stopped");
            ExitCode::from(130)
        }
    }
}
