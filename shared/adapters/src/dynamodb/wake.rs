//! I read entries of the wake index, and places in it.

use punctual_core::admission::Candidate;
use punctual_core::delivery::Lane;
use punctual_core::id::DeliveryId;
use punctual_core::ports::{Cursor, PortError};
use punctual_core::time::Timestamp;

use super::item::{Item, Reader, text};
use super::{names, row};

fn reader(item: &Item) -> Reader<'_> {
    let id = item.get(names::DELIVERY_ID).and_then(|id| id.as_s().ok()).map_or("without an id", String::as_str);
    Reader::new(item, format!("wake entry of delivery {id}"))
}

/// The key that a query goes on after.
pub(crate) fn start_key(lane: &Lane, cursor: &Cursor) -> Item {
    let mut key = row::key(&cursor.id, names::ITEM_DELIVERY);
    key.insert(names::LANE.to_owned(), text(lane));
    key.insert(names::WAKE_AT.to_owned(), text(cursor.wake_at));
    key
}

/// The place that a key names.
pub(crate) fn cursor(key: &Item) -> Result<Cursor, PortError> {
    let read = reader(key);
    Ok(Cursor {
        wake_at: read.required(names::WAKE_AT, str::parse::<Timestamp>)?,
        id: read.required(names::DELIVERY_ID, DeliveryId::new)?,
    })
}

/// The row that an entry tells of.
pub(crate) fn candidate(item: &Item) -> Result<Candidate, PortError> {
    let read = reader(item);
    Ok(Candidate {
        id: read.required(names::DELIVERY_ID, DeliveryId::new)?,
        wake_at: read.required(names::WAKE_AT, str::parse::<Timestamp>)?,
        held_until: read.optional(names::HELD_UNTIL, str::parse::<Timestamp>)?,
        deliver_by: read.required(names::DELIVER_BY, str::parse::<Timestamp>)?,
    })
}
