//! I read entries of the indexes that redrive asks: dead and expired rows, and the rows that a run moved last.

use punctual_core::id::{DeliveryId, DestinationId, RunId};
use punctual_core::ports::{EndedEntry, EndedPlace, PortError, RunRow};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;

use super::item::{Item, Reader, text};
use super::{names, row};

fn reader<'a>(item: &'a Item, index: &str) -> Reader<'a> {
    let id = item.get(names::DELIVERY_ID).and_then(|id| id.as_s().ok()).map_or("without an id", String::as_str);
    Reader::new(item, format!("{index} entry of delivery {id}"))
}

/// The key that a query of the ended rows goes on after.
pub(crate) fn start_key(state: State, place: &EndedPlace) -> Item {
    let mut key = row::key(&place.id, names::ITEM_DELIVERY);
    key.insert(names::ATTENTION.to_owned(), text(state));
    key.insert(names::DELIVER_BY.to_owned(), text(place.deliver_by));
    key
}

/// The place that a key names.
pub(crate) fn place(key: &Item) -> Result<EndedPlace, PortError> {
    let read = reader(key, names::INDEX_ATTENTION);
    Ok(EndedPlace {
        deliver_by: read.required(names::DELIVER_BY, str::parse::<Timestamp>)?,
        id: read.required(names::DELIVERY_ID, DeliveryId::new)?,
    })
}

/// The dead or expired row that an entry tells of.
pub(crate) fn entry(item: &Item) -> Result<EndedEntry, PortError> {
    let read = reader(item, names::INDEX_ATTENTION);
    Ok(EndedEntry {
        id: read.required(names::DELIVERY_ID, DeliveryId::new)?,
        state: read.required(names::ATTENTION, str::parse::<State>)?,
        deliver_by: read.required(names::DELIVER_BY, str::parse::<Timestamp>)?,
        reason: read.optional(names::REASON, str::parse::<Reason>)?,
        death: read.optional_number(names::DEATH)?.unwrap_or_default(),
        dlq_sent: read.optional_number(names::DLQ_SENT)?.unwrap_or_default(),
        destination: read.required(names::DESTINATION_ID, DestinationId::new)?,
    })
}

/// The key that a query of a run's rows goes on after.
pub(crate) fn start_of_run(run: &RunId, id: &DeliveryId) -> Item {
    let mut key = row::key(id, names::ITEM_DELIVERY);
    key.insert(names::RUN_ID.to_owned(), text(run));
    key
}

/// The id that a key names.
pub(crate) fn id(key: &Item) -> Result<DeliveryId, PortError> {
    reader(key, names::INDEX_RUN).required(names::DELIVERY_ID, DeliveryId::new)
}

/// The row of a run that an entry tells of.
pub(crate) fn row_of_run(item: &Item) -> Result<RunRow, PortError> {
    let read = reader(item, names::INDEX_RUN);
    Ok(RunRow {
        id: read.required(names::DELIVERY_ID, DeliveryId::new)?,
        state: read.required(names::STATE, str::parse::<State>)?,
        reason: read.optional(names::REASON, str::parse::<Reason>)?,
        deliver_by: read.required(names::DELIVER_BY, str::parse::<Timestamp>)?,
    })
}

/// What can be read; the rest is reported to the log and must not take it along.
pub(crate) fn readable<T>(items: &[Item], read: impl Fn(&Item) -> Result<T, PortError>) -> Vec<T> {
    let report = |problem: PortError| tracing::error!(%problem, "an entry of an index is left out");
    items.iter().filter_map(|item| read(item).map_err(report).ok()).collect()
}
