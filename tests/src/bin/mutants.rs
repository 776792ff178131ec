//! `make mutants`: breaks one rule at a time and says what caught it; exits with 1 if anything survives.
//! `mutants NAME` tries only those whose name contains the text.

use std::process::ExitCode;

use punctual_tests::mutants::{Verdict, list, prepare, try_one};

#[tokio::main]
async fn main() -> ExitCode {
    let only = std::env::args().nth(1).unwrap_or_default();
    tokio::select! {
        result = play(&only) => match result {
            Ok(0) => ExitCode::SUCCESS,
            Ok(survivors) => {
                eprintln!("mutants: {survivors} were not caught");
                ExitCode::FAILURE
            }
            Err(error) => {
                eprintln!("mutants: {error:#}");
                ExitCode::FAILURE
            }
        },
        () = punctual_tests::interrupted() => ExitCode::from(130),
    }
}

async fn play(only: &str) -> anyhow::Result<usize> {
    println!("copying the sources and running the suite without a mutant");
    prepare().await?;
    let mut survivors = 0;
    println!("{:<42} caught by", "broken rule");
    for mutant in list::ALL.iter().filter(|mutant| mutant.name.contains(only)) {
        let words = match try_one(mutant).await? {
            Verdict::Caught(tests) => {
                let shown: Vec<&str> = tests.iter().take(4).map(String::as_str).collect();
                let more = tests.len().saturating_sub(shown.len());
                format!("{}{}", shown.join(", "), if more > 0 { format!(" and {more} more") } else { String::new() })
            }
            Verdict::Hung => "the suite did not end".to_owned(),
            Verdict::Survived => {
                survivors += 1;
                "NOTHING".to_owned()
            }
            Verdict::Broken(why) => {
                survivors += 1;
                format!("does not compile: {why}")
            }
        };
        println!("{:<42} {words}", mutant.name);
    }
    Ok(survivors)
}
