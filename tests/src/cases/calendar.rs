//! I judge due times: a renewal date, a notice, a local time and a business calendar, and the business instant they come to.

use std::collections::BTreeMap;

use punctual_core::calendar::due::DueInput;
use punctual_core::calendar::{Calendar, CalendarInput};
use punctual_core::destination::FieldError;
use punctual_core::time::Timestamp;
use punctual_flows::input::strict;
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::entry::{Cases, Mismatch, kind, list, quoted, text};
use super::format::Format;
use super::report::Outcome;

/// Calendars by name; none where one is not valid.
type Calendars = BTreeMap<String, Option<Calendar>>;

pub(super) fn judge(file: &Value) -> Result<Outcome, String> {
    let Some(Value::Object(written)) = file.get("calendars") else {
        return Err(format!("needs calendars, an object; got {}", kind(file.get("calendars"))));
    };
    let mut cases = Cases::default();
    let mut calendars = Calendars::new();
    for (name, written) in written {
        let read = calendar(written, &format!("calendars.{name}"));
        let read = read.map_err(|errors| {
            for FieldError { field, message, .. } in errors {
                cases.take(field, Err(Mismatch(format!("expected {message}"))));
            }
        });
        calendars.insert(name.clone(), read.ok());
    }
    for (i, case) in list(file, "cases")?.iter().enumerate() {
        let part = |name| text(case, name).unwrap_or("?");
        let parts = ["calendar", "renewal_date", "notice", "local_time"].map(part).join(" ");
        cases.take(format!("cases[{i}] {}", quoted(&parts)), one(case, &calendars));
    }
    Ok(cases.outcome(Format::Calendar))
}

fn calendar(written: &Value, field: &str) -> Result<Calendar, Vec<FieldError>> {
    let raw = to_raw_value(written).map_err(|e| vec![FieldError::new("invalid_field", field, e.to_string())])?;
    strict::<CalendarInput>(&raw, field).map_err(|e| vec![e])?.check(field)
}

fn one(case: &Value, calendars: &Calendars) -> Result<(), Mismatch> {
    let name = text(case, "calendar")?;
    let due = DueInput {
        calendar: "case".to_owned(),
        renewal_date: text(case, "renewal_date")?.to_owned(),
        notice: text(case, "notice")?.to_owned(),
        local_time: text(case, "local_time")?.to_owned(),
        deliver_by: None,
    };
    let expected: Timestamp = text(case, "deliver_after")?
        .parse()
        .map_err(|e| Mismatch::new("deliver_after, an instant", format!("one that is {e}")))?;
    let calendar = calendars.get(name).ok_or_else(|| Mismatch::new("a calendar of this file", quoted(name)))?;
    let calendar = calendar.as_ref().ok_or_else(|| Mismatch::new("a valid calendar", "one with the errors above"))?;
    let rule = due.check("").map_err(|errors| {
        let problems: Vec<String> =
            errors.iter().map(|e| format!("{}: {}", e.field.trim_start_matches('.'), e.message)).collect();
        Mismatch::new(problems.join("; "), "something else")
    })?;
    match rule.window(calendar, None) {
        Ok(window) if window.deliver_after == expected => Ok(()),
        Ok(window) => Err(Mismatch::new(expected, window.deliver_after)),
        Err(refused) => Err(Mismatch::new(expected, format!("a refusal, which wants {refused}"))),
    }
}
