//! I judge how `Retry-After` texts are read.

use std::time::Duration;

use punctual_core::retry_after::floor;
use punctual_core::time::Timestamp;
use serde_json::Value;

use super::entry::{Cases, Mismatch, kind, list, quoted, text};
use super::format::Format;
use super::report::Outcome;

/// No deadline is so far away.
const BEYOND_ANY_DEADLINE: Duration = Duration::from_secs(10 * 366 * 86_400);

pub(super) fn judge(file: &Value) -> Result<Outcome, String> {
    let now = text(file, "now").map_err(|m| m.0)?;
    let now: Timestamp = now.parse().map_err(|error| format!("needs now, an instant: {error}"))?;
    let mut cases = Cases::default();
    for (i, case) in list(file, "cases")?.iter().enumerate() {
        match text(case, "retry_after") {
            Ok(header) => cases.take(format!("cases[{i}] {}", quoted(header)), one(case, header, now)),
            Err(mismatch) => cases.take(format!("cases[{i}]"), Err(mismatch)),
        }
    }
    Ok(cases.outcome(Format::RetryAfter))
}

fn one(case: &Value, header: &str, now: Timestamp) -> Result<(), Mismatch> {
    let floor = floor(header, now);
    let (good, expected) = match case.get("floor_s") {
        Some(Value::Null) => (floor.is_none(), "no floor".to_owned()),
        Some(Value::String(word)) if word == "either" => (true, "a floor or none".to_owned()),
        Some(Value::String(word)) if word == "beyond_any_deadline" => {
            (floor.is_some_and(|floor| floor > BEYOND_ANY_DEADLINE), "a floor beyond any deadline".to_owned())
        }
        Some(Value::Number(number)) if number.is_u64() => {
            (floor == number.as_u64().map(Duration::from_secs), format!("a floor of {number} s"))
        }
        other => {
            let right = "floor_s: whole seconds, null, \"either\" or \"beyond_any_deadline\"";
            return Err(Mismatch::new(right, kind(other)));
        }
    };
    let got = floor.map_or("no floor".to_owned(), |floor| format!("a floor of {} s", floor.as_secs_f64()));
    if good { Ok(()) } else { Err(Mismatch::new(expected, got)) }
}
