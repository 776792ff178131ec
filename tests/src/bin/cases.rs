//! Runs the case files of a folder: `cases FOLDER`. Exits with 1 if a case fails or a file cannot be used.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use punctual_tests::cases;

const USAGE: &str = "usage: cases FOLDER (by make: make cases DIR=folder)";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(folder), None) = (arguments.next().filter(|folder| !folder.is_empty()), arguments.next()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match cases::run(Path::new(&folder)) {
        Ok(report) => {
            // A reader that has gone, such as `head`, changes no verdict.
            let _ = writeln!(std::io::stdout(), "{}", report.lines().join("\n"));
            if report.passes() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problem) => {
            eprintln!("cases: {problem}");
            ExitCode::FAILURE
        }
    }
}
