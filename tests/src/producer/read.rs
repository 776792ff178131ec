//! I read a producer's file: JSON Lines, one reminder a line as schedule takes it; or CSV, whose first line names the fields.
//!
//! I check form only; what a reminder may say is schedule's to judge. A JSON line is sent as it is written, so that its payload's
//! bytes are those of the file.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::value::RawValue;

/// A reminder of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it begins in the file, from 1.
    pub line: u64,
    /// As JSON.
    pub text: String,
}

/// A line that is no reminder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Which, from 1.
    pub line: u64,
    /// What is wrong, and in which field or column.
    pub problem: String,
}

/// A reminder, or why it is none.
pub type Entry = Result<Item, Wrong>;

/// Reads a file; its name's end says in which form.
///
/// # Errors
/// If it can't be read, is named neither `.jsonl` nor `.csv`, or has no reminder; if the first line of a CSV file names a field
/// that reminders don't have.
pub fn file(path: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let entries = match path.extension().and_then(|end| end.to_str()) {
        Some("jsonl") => json_lines(text),
        Some("csv") => super::cells::read(text).with_context(|| path.display().to_string())?,
        _ => bail!("{}: a file that is named .jsonl or .csv", path.display()),
    };
    if entries.is_empty() {
        bail!("{} has no reminder", path.display());
    }
    Ok(entries)
}

/// One reminder a line; empty lines are left out.
fn json_lines(text: &str) -> Vec<Entry> {
    let numbered = text.lines().zip(1_u64..).filter(|(line, _)| !line.trim().is_empty());
    numbered.map(|(text, line)| json(text, line)).collect()
}

fn json(text: &str, line: u64) -> Entry {
    let wrong = |problem| Wrong { line, problem };
    match serde_json::from_str::<&RawValue>(text) {
        Ok(value) if value.get().starts_with('{') => Ok(Item { line, text: value.get().to_owned() }),
        Ok(_) => Err(wrong("one reminder as a JSON object".to_owned())),
        Err(error) => {
            Err(wrong(format!("one reminder as a JSON object; {} at column {}", without_place(&error), error.column())))
        }
    }
}

/// The parser's message without its own place: that is not the file's.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_sent_as_it_is_written_or_named() {
        let file = "{\"a\": 1.50,  \"b\": {}}\r\n\n[1]\n{\"a\":\n";
        let read = json_lines(file);
        assert_eq!(read[0], Ok(Item { line: 1, text: "{\"a\": 1.50,  \"b\": {}}".into() }));
        assert_eq!(read[1], Err(Wrong { line: 3, problem: "one reminder as a JSON object".into() }));
        let problem = "one reminder as a JSON object; EOF while parsing a value at column 5".into();
        assert_eq!(read[2..], [Err(Wrong { line: 4, problem })]);
    }
}
