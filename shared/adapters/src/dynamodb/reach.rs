//! I am how a destination has been reached lately, as a row of the control table: a person reads an open breaker as its
//! JSON text in the console.

use punctual_core::breaker::{Open, Reach};
use punctual_core::id::{Correlation, DestinationId};
use punctual_core::ports::PortError;

use super::control::{key, reader};
use super::item::{Item, number, text};
use super::names;

pub(super) fn encode(id: &DestinationId, reach: &Reach) -> Result<Item, serde_json::Error> {
    let Reach { version, silent, in_flight, open, by } = reach;
    let mut item = key(names::KIND_REACH, id);
    item.insert(names::VERSION.to_owned(), number(*version));
    item.insert(names::SILENT.to_owned(), number(*silent));
    item.insert(names::IN_FLIGHT.to_owned(), number(*in_flight));
    item.insert(names::BY.to_owned(), text(by));
    if let Some(open) = open {
        item.insert(names::OPEN.to_owned(), text(serde_json::to_string(open)?));
    }
    Ok(item)
}

pub(super) fn decode(item: &Item) -> Result<(DestinationId, Reach), PortError> {
    let read = reader(item);
    let reach = Reach {
        version: read.required_number(names::VERSION)?,
        silent: read.required_number(names::SILENT)?,
        in_flight: read.required_number(names::IN_FLIGHT)?,
        open: read.optional(names::OPEN, serde_json::from_str::<Open>)?,
        by: read.required(names::BY, Correlation::new)?,
    };
    Ok((read.required(names::ID, DestinationId::new)?, reach))
}
