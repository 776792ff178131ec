//! `make schedule FILE=…`: sends a producer's file to the local stack that `make up` started. Exits with 1 unless the ledger has
//! every reminder as the file says.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use punctual_adapters::clock::monotonic_since_now;
use punctual_tests::producer::{self, BATCH, read, report::Summary};
use punctual_tests::stack::{detached, root};

const USAGE: &str = "usage: producer FILE (by make: make schedule FILE=reminders.jsonl, or .csv)";

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), None) = (arguments.next().filter(|file| !file.is_empty()), arguments.next()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(Path::new(&file)).await {
        Ok(summary) if summary.is_good() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("schedule: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(file: &Path) -> Result<Summary> {
    let entries = read::file(file)?;
    let console = detached::Console::of_running_stack()?;
    say(&format!("sending {} in batches of {BATCH}", file.display()));
    let clock = monotonic_since_now();
    let send = async |event: String| console.send("schedule", event).await;
    let sent = producer::send(entries, send, |summary| say(&summary.progress())).await;
    let summary = sent.context("what was sent before is stored; the same file may be sent again")?;
    summary.lines(clock()).iter().for_each(|line| say(line));
    let results: PathBuf = root().join("target/local/schedule.results.jsonl");
    std::fs::write(&results, summary.json_lines()?).with_context(|| format!("write {}", results.display()))?;
    say(&format!("what became of each: {}", results.display()));
    Ok(summary)
}

/// A reader that has gone, such as `head`, stops nothing.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
