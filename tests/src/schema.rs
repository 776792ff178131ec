//! I write the JSON Schemas of the events that applications and operators make up themselves, from the very types that read
//! them.
//!
//! A schema says what the form alone can say. What depends on the world (a destination, a calendar, the time), and what
//! excludes each other (instants and a rule), is answered by the function, by field.

use std::collections::BTreeMap;

use punctual_operate::input::{ImportHolidays, PutCalendar};
use punctual_schedule::canary::CanaryInput;
use punctual_schedule::input::{CancelInput, GetInput, RescheduleInput, ScheduleInput};
use schemars::{Schema, schema_for};

/// The files by name, as they should be.
///
/// # Errors
/// If a schema is no JSON, which it is.
pub fn files() -> Result<BTreeMap<String, String>, serde_json::Error> {
    let schemas: [(&str, Schema); 7] = [
        ("operate.import_holidays", schema_for!(ImportHolidays)),
        ("operate.put_calendar", schema_for!(PutCalendar)),
        ("schedule.canary", schema_for!(CanaryInput)),
        ("schedule.cancel", schema_for!(CancelInput)),
        ("schedule.get", schema_for!(GetInput)),
        ("schedule.reschedule", schema_for!(RescheduleInput)),
        ("schedule.schedule", schema_for!(ScheduleInput)),
    ];
    let text = |schema: &Schema| serde_json::to_string_pretty(schema).map(|text| format!("{text}\n"));
    schemas.iter().map(|(name, schema)| Ok((format!("{name}.json"), text(schema)?))).collect()
}
