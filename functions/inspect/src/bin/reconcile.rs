//! Compares a receiver's export with a stage's ledger, prints what was found, and writes the report as JSON.

#![recursion_limit = "256"]

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use punctual_adapters::aws::Aws;
use punctual_inspect::reconcile::arguments::{Arguments, USAGE, read};
use punctual_inspect::reconcile::audit::Audit;
use punctual_inspect::reconcile::{reconcile, text};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(errors) => {
            errors.iter().for_each(|error| eprintln!("reconcile: {error}"));
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments).await {
        Ok(audit) => {
            // A reader that has gone, such as `head`, is no failure: the report is written.
            let _ = writeln!(std::io::stdout(), "{}report        {}", text(&audit), arguments.out.display());
            ExitCode::from(u8::from(!audit.clean))
        }
        Err(error) => {
            eprintln!("reconcile: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(arguments: &Arguments) -> Result<Audit> {
    let out = &arguments.out;
    ensure!(!out.exists(), "{} exists already; a report is never overwritten", out.display());
    let aws = Aws::connect().await;
    let (ledger, control) = (aws.ledger(&arguments.ledger_table()), aws.control(&arguments.control_table()));
    // A person waits, not an invocation: there is no deadline.
    let time = aws.time(&arguments.control_table(), u64::MAX);
    let audit = reconcile(&arguments.request, &ledger, &control, &time, &|told| eprintln!("reconcile: {told}")).await?;
    keep(out, &audit).with_context(|| format!("the report cannot be written to {}", out.display()))?;
    Ok(audit)
}

/// Under its name there is the whole report, or nothing.
fn keep(out: &Path, audit: &Audit) -> Result<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, audit)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()?;
    file.persist_noclobber(out)?;
    Ok(())
}
