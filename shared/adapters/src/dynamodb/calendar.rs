//! I am a business calendar as a row of the control table: a person reads its JSON text in the console.

use punctual_core::calendar::{CalendarInput, StoredCalendar};
use punctual_core::destination::Change;
use punctual_core::id::CalendarId;
use punctual_core::ports::PortError;

use super::control::{key, reader};
use super::item::{Item, number, text};
use super::names;

pub(super) fn encode(calendar: &StoredCalendar) -> Result<Item, serde_json::Error> {
    let StoredCalendar { id, spec, version, changed } = calendar;
    let mut item = key(names::KIND_CALENDAR, id);
    item.insert(names::SPEC.to_owned(), text(serde_json::to_string(spec)?));
    item.insert(names::VERSION.to_owned(), number(*version));
    item.insert(names::CHANGED.to_owned(), text(serde_json::to_string(changed)?));
    Ok(item)
}

pub(super) fn decode(item: &Item) -> Result<StoredCalendar, PortError> {
    let read = reader(item);
    Ok(StoredCalendar {
        id: read.required(names::ID, CalendarId::new)?,
        spec: read.required(names::SPEC, serde_json::from_str::<CalendarInput>)?,
        version: read.required_number(names::VERSION)?,
        changed: read.required(names::CHANGED, serde_json::from_str::<Change>)?,
    })
}
