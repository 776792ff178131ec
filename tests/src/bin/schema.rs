//! Writes `events/schema/*.json` from the types that read the events.

use std::fs;
use std::process::ExitCode;

use punctual_tests::schema;
use punctual_tests::stack::root;

fn main() -> ExitCode {
    let folder = root().join("events/schema");
    let written = schema::files().map_err(|e| e.to_string()).and_then(|files| {
        fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        files.into_iter().try_for_each(|(name, text)| fs::write(folder.join(name), text).map_err(|e| e.to_string()))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("schema: {problem}");
            ExitCode::FAILURE
        }
    }
}
