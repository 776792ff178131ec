//! I turn a payload into attributes and back. I never show its content in an error.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use punctual_core::delivery::Payload;
use punctual_core::id::{Content, DeliveryId, IdentityParts};
use punctual_core::ports::PortError;
use punctual_core::time::Timestamp;

use super::item::{Item, Reader, as_is, text};
use super::{names, row};

/// The sort key of the payload with this content.
pub(crate) fn sort_key(content: &Content) -> String {
    format!("{}{content}", names::ITEM_PAYLOAD)
}

pub(crate) fn encode(id: &DeliveryId, content: &Content, payload: &Payload) -> Item {
    let Payload { body, parts: IdentityParts { tenant, subscriber, renewal_period, reminder_kind }, deliver_after, deliver_by } =
        payload;
    let mut item = row::key(id, sort_key(content));
    item.extend(
        [
            (names::BODY, AttributeValue::B(Blob::new(body.as_slice()))),
            (names::TENANT, text(tenant)),
            (names::SUBSCRIBER, text(subscriber)),
            (names::RENEWAL_PERIOD, text(renewal_period)),
            (names::REMINDER_KIND, text(reminder_kind)),
            (names::DELIVER_AFTER, text(deliver_after)),
            (names::DELIVER_BY, text(deliver_by)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    item
}

/// Reads a payload.
///
/// # Errors
/// [`PortError::Corrupt`] names the delivery and the attribute.
pub(crate) fn decode(item: &Item, id: &DeliveryId) -> Result<Payload, PortError> {
    let read = Reader::new(item, format!("payload of {id}"));
    Ok(Payload {
        body: read.bytes(names::BODY)?,
        parts: IdentityParts {
            tenant: read.required(names::TENANT, as_is)?,
            subscriber: read.required(names::SUBSCRIBER, as_is)?,
            renewal_period: read.required(names::RENEWAL_PERIOD, as_is)?,
            reminder_kind: read.required(names::REMINDER_KIND, as_is)?,
        },
        deliver_after: read.required(names::DELIVER_AFTER, str::parse::<Timestamp>)?,
        deliver_by: read.required(names::DELIVER_BY, str::parse::<Timestamp>)?,
    })
}
