//! I read JSON Lines: one object a line.

use std::borrow::Cow;
use std::io::BufRead;

use serde::Deserialize;

use super::ReconcileError;
use super::export::{Sink, line};

/// The longest line, in bytes.
const LONGEST: usize = 64 * 1024;
/// What a line is.
const RIGHT: &str = "a JSON object on one line with the texts webhook-id and time";

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(rename = "webhook-id", alias = "webhook_id", borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    time: Cow<'a, str>,
}

/// Reads all records.
pub(super) fn read(from: &mut impl BufRead, sink: &mut Sink<'_>) -> Result<(), ReconcileError> {
    let mut bytes = Vec::new();
    let mut number = 0;
    loop {
        let fits = line(from, LONGEST, &mut bytes)
            .map_err(|e| sink.broken(Some(number + 1), format!("a file that can be read; {e}")))?;
        let Some(fits) = fits else { return Ok(()) };
        number += 1;
        let text = bytes.trim_ascii();
        if !fits {
            sink.bad(number, format!("{RIGHT}, of at most {LONGEST} bytes; this one is longer"));
        } else if !text.is_empty() {
            match record(text) {
                Ok(Record { id, time }) => sink.record(number, &id, &time)?,
                Err(problem) => sink.bad(number, problem),
            }
        }
    }
}

fn record(text: &[u8]) -> Result<Record<'_>, String> {
    // Serde takes a list of two texts for the object as well.
    if !text.starts_with(b"{") {
        return Err(RIGHT.to_owned());
    }
    serde_json::from_slice(text).map_err(|error| {
        // Other messages of serde repeat a value.
        let said = error.to_string();
        let named = ["missing field", "duplicate field"].iter().any(|kind| said.starts_with(kind));
        let end = said.find(" at line ").unwrap_or(said.len());
        let detail = said.get(..end).filter(|_| named).map(|said| format!("; {said}"));
        format!("{RIGHT}{}", detail.unwrap_or_default())
    })
}
