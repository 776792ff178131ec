//! A local stack for play: `stack up` starts it, `stack down` ends it, `stack status` shows it, `stack send FILE` sends it a test
//! event, and `stack environment` is for programs that are to use it.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use punctual_tests::stack::detached;

const USAGE: &str = "usage: stack up | down | status | environment | send FILE";

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (what, file) = (arguments.next(), arguments.next());
    let outcome = match (what.as_deref(), file) {
        (Some("send"), Some(file)) if !file.is_empty() => detached::send(Path::new(&file)).await,
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
