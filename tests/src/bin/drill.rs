//! `make drill`: kills the functions at each crash boundary, plays what receivers answer, and exits with 1 if anything
//! does not end as it must. With the word `long`, only the two drills that take a quarter of an hour.

use std::process::ExitCode;

use punctual_tests::drill;

#[tokio::main]
async fn main() -> ExitCode {
    let long = std::env::args().nth(1).is_some_and(|word| word == "long");
    let play = async { if long { drill::play_long().await } else { drill::play().await } };
    tokio::select! {
        played = play => match played {
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
