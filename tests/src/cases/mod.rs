//! I run case files: each says what the product's own code must make of an input, and I say where it does not.
//!
//! I know formats, never cases or file names: a file is recognised by its keys. A file that nobody recognises, that holds
//! no case or that cannot be read fails like a wrong case, and so does an entry that is incomplete.

mod addresses;
mod calendar;
mod contract;
mod entry;
mod format;
mod report;
mod retry_after;
mod signatures;

use std::path::{Path, PathBuf};

pub use contract::FAILURES;
pub use format::Format;
use format::recognise;
pub use report::{Failing, FileReport, Outcome, Report};
use serde_json::Value;

/// Runs every `*.json` file of a folder, in the order of their names. Folders below it are not looked into.
///
/// # Errors
/// One line that says what is wrong with the folder, and what would be right.
pub fn run(folder: &Path) -> Result<Report, String> {
    let right = "give a folder with case files named *.json";
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{} cannot be read ({error}): {right}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{} cannot be read to its end ({error}): {right}", folder.display()))?;
    paths.retain(|path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) && !path.is_dir());
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{} holds no case file: {right}", folder.display()));
    }
    Ok(Report { files: paths.iter().map(|path| file(path)).collect() })
}

fn file(path: &Path) -> FileReport {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let outcome = match std::fs::read_to_string(path) {
        Ok(text) => judge(&text),
        Err(error) => Outcome::Unusable(format!("cannot be read: {error}")),
    };
    FileReport { name, outcome }
}

/// Judges the text of one case file.
#[must_use]
pub fn judge(text: &str) -> Outcome {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return Outcome::Unusable(format!("is no JSON: {error}")),
    };
    let Some(format) = recognise(&value) else {
        return Outcome::Unusable(format!("has no format that is known here: expected {}", format::KNOWN));
    };
    let outcome = match format {
        Format::Addresses => addresses::judge(&value),
        Format::RetryAfter => retry_after::judge(&value),
        Format::Signatures => signatures::judge(&value),
        Format::Contract => contract::judge(text),
        Format::Calendar => calendar::judge(&value),
    };
    match outcome {
        Ok(Outcome::Ran { cases: 0, .. }) => Outcome::Unusable("holds no case".to_owned()),
        Ok(outcome) => outcome,
        Err(problem) => Outcome::Unusable(problem),
    }
}
