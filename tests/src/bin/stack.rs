//! Starts, ends and shows a local stack for play: `stack up`, `stack down`, `stack status`, and `stack environment` for
//! programs that are to use it.

use std::io::Write as _;
use std::process::ExitCode;

use punctual_tests::stack::detached;

const USAGE: &str = "usage: stack up | down | status | environment";

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let outcome = match (arguments.next().as_deref(), arguments.next()) {
        (Some("up"), None) => detached::up().await,
        (Some("down"), None) => detached::down(),
        (Some("status"), None) => detached::status(),
        (Some("environment"), None) => detached::environment(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(report) => {
            // A reader that has gone, such as `head`, is no failure of the stack.
            let _ = writeln!(std::io::stdout(), "{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("stack: {error:#}");
            ExitCode::FAILURE
        }
    }
}
