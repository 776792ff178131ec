//! I am what a destination's receiver answered last, as a row of the control table: a person reads `..xx.x` in the console.

use punctual_core::id::{Correlation, DestinationId};
use punctual_core::ports::PortError;
use punctual_core::rejections::{Rejections, Results};

use super::control::{key, reader};
use super::item::{Item, number, text};
use super::names;

pub(super) fn encode(id: &DestinationId, rejections: &Rejections) -> Item {
    let Rejections { version, destination_version, results, last_status, by } = rejections;
    let mut item = key(names::KIND_REJECTIONS, id);
    item.insert(names::VERSION.to_owned(), number(*version));
    item.insert(names::DESTINATION_VERSION.to_owned(), number(*destination_version));
    item.insert(names::RESULTS.to_owned(), text(results));
    item.insert(names::BY.to_owned(), text(by));
    if let Some(status) = last_status {
        item.insert(names::LAST_STATUS.to_owned(), number(*status));
    }
    item
}

pub(super) fn decode(item: &Item) -> Result<(DestinationId, Rejections), PortError> {
    let read = reader(item);
    let rejections = Rejections {
        version: read.required_number(names::VERSION)?,
        destination_version: read.required_number(names::DESTINATION_VERSION)?,
        results: read.required(names::RESULTS, str::parse::<Results>)?,
        last_status: read.optional_number(names::LAST_STATUS)?,
        by: read.required(names::BY, Correlation::new)?,
    };
    Ok((read.required(names::ID, DestinationId::new)?, rejections))
}
