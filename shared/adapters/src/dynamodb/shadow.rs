//! I am the shadow sink's items in the control table: `kind` is `shadow#destination`, `id` is `deliver_after#delivery_id`,
//! so that a report reads one destination's entries in the order of their due times.

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use punctual_core::id::{Content, DeliveryId, DestinationId};
use punctual_core::ports::{PortError, ShadowPage, ShadowQuery};
use punctual_core::shadow::{ShadowEntry, ShadowPlace};
use punctual_core::time::Timestamp;

use super::error::port_error;
use super::expression::Placeholders;
use super::item::{Item, Reader, as_is, number, text};
use super::meter::{Kind, Metered};
use super::names;

/// The most entries of one page.
const PAGE: i32 = 1_000;

fn kind(destination: &DestinationId) -> String {
    format!("{}{destination}", names::KIND_SHADOW)
}

fn key(destination: &DestinationId, place: &ShadowPlace) -> Item {
    Item::from([(names::KIND.to_owned(), text(kind(destination))), (names::ID.to_owned(), text(place))])
}

pub(crate) fn encode(entry: &ShadowEntry) -> Item {
    let mut item = key(&entry.destination, &entry.place());
    item.insert(names::DELIVER_BY.to_owned(), text(entry.deliver_by));
    item.insert(names::POSTED_AT.to_owned(), text(entry.posted_at));
    item.insert(names::ATTEMPT.to_owned(), number(entry.attempt));
    item.insert(names::DESTINATION_VERSION.to_owned(), number(entry.destination_version));
    item.insert(names::CONTENT.to_owned(), text(&entry.content));
    item.insert(names::BODY_BYTES.to_owned(), number(entry.body_bytes));
    item.insert(names::KEY_IDS.to_owned(), text(&entry.key_ids));
    item
}

fn decode(item: &Item) -> Result<ShadowEntry, PortError> {
    let id = item.get(names::ID).and_then(|id| id.as_s().ok()).map_or("without an id", String::as_str);
    let read = Reader::new(item, format!("shadow entry {id}"));
    let whose = |text: &str| text.strip_prefix(names::KIND_SHADOW).and_then(|id| DestinationId::new(id).ok()).ok_or(());
    let place = read.required(names::ID, place)?;
    Ok(ShadowEntry {
        destination: read.required(names::KIND, whose)?,
        delivery_id: place.delivery_id,
        deliver_after: place.deliver_after,
        deliver_by: read.required(names::DELIVER_BY, str::parse::<Timestamp>)?,
        posted_at: read.required(names::POSTED_AT, str::parse::<Timestamp>)?,
        attempt: read.required_number(names::ATTEMPT)?,
        destination_version: read.required_number(names::DESTINATION_VERSION)?,
        content: read.required(names::CONTENT, Content::new)?,
        body_bytes: read.required_number(names::BODY_BYTES)?,
        key_ids: read.required(names::KEY_IDS, as_is)?,
    })
}

fn place(text: &str) -> Result<ShadowPlace, ()> {
    let (after, id) = text.split_once('#').ok_or(())?;
    Ok(ShadowPlace { deliver_after: after.parse().map_err(|_| ())?, delivery_id: DeliveryId::new(id).map_err(|_| ())? })
}

/// One page of a destination's entries.
///
/// # Errors
/// [`PortError`] if the table or an entry cannot be read.
pub(crate) async fn page(query: QueryFluentBuilder, meter: &Metered, wanted: &ShadowQuery) -> Result<ShadowPage, PortError> {
    let what = "shadow_entries";
    let mut p = Placeholders::default();
    let of = p.compare(names::KIND, "=", text(kind(&wanted.destination)));
    // `#` sorts before every character of an id: an instant alone lies before all entries that are due at it.
    let (id, from, until) = (p.name(names::ID), p.value(text(wanted.from)), p.value(text(wanted.until)));
    let page = query
        .key_condition_expression(format!("{of} AND {id} BETWEEN {from} AND {until}"))
        .set_expression_attribute_names(p.names())
        .set_expression_attribute_values(p.values())
        .set_exclusive_start_key(wanted.start.as_ref().map(|place| key(&wanted.destination, place)))
        .limit(PAGE)
        .consistent_read(true)
        .return_consumed_capacity(meter.wanted())
        .send()
        .await
        .map_err(|e| port_error(what, e))?;
    meter.count(what, Kind::Read, page.consumed_capacity());
    let entries = page.items().iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    let next = page.last_evaluated_key().and_then(|key| key.get(names::ID)).and_then(|id| id.as_s().ok());
    Ok(ShadowPage { entries, next: next.and_then(|text| place(text).ok()) })
}
