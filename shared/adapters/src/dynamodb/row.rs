//! I turn a delivery into attributes and back, strictly: what I cannot read is an error that names the item.
//!
//! What can be derived is not stored, and neither is a none, a zero or an empty list: each write is billed by the
//! row's whole size. Attributes that I do not know are left alone, so that an older program can read a newer row.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use punctual_core::delivery::{Cancel, Delivery, Hold, Lane};
use punctual_core::id::{Content, DeliveryId, DestinationId, IdempotencyKey, MessageId, Owner, Reference, RunId};
use punctual_core::ports::PortError;
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;

use super::item::{Item, Reader, as_is, item_bytes, number, text, texts};
use super::names;

/// The bytes that every write of this row is billed by; a write unit is 1,024 of them.
#[must_use]
pub fn row_bytes(row: &Delivery) -> usize {
    item_bytes(&encode(row))
}

/// The key of an item of the ledger.
pub(crate) fn key(partition: impl ToString, item: impl ToString) -> Item {
    HashMap::from([
        (names::DELIVERY_ID.to_owned(), text(partition.to_string())),
        (names::ITEM.to_owned(), text(item.to_string())),
    ])
}

/// Whose item it is, as its key says; empty if that says nothing.
pub(crate) fn name(item: &Item) -> String {
    item.get(names::DELIVERY_ID).and_then(|id| id.as_s().ok()).cloned().unwrap_or_default()
}

/// What is at a delivery's place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stored {
    /// A row.
    Row(Box<Delivery>),
    /// No row, but the id under which the reminder was migrated.
    Alias(DeliveryId),
}

pub(crate) fn encode(row: &Delivery) -> Item {
    // Every field by name: a new one does not compile until it is decided how to store it.
    let Delivery {
        id,
        idempotency_key,
        reference,
        destination,
        shard,
        content,
        state,
        version,
        deliver_after,
        deliver_by,
        next_attempt_at,
        floor,
        rule,
        wake_at,
        held_until,
        lease_owner,
        lease_until,
        message,
        reason,
        shadow,
        attempts,
        granted,
        rescues,
        late_success,
        hold,
        cancel,
        death,
        dlq_sent,
        redrives,
        moves,
        history,
    } = row;
    let mut item = key(id, names::ITEM_DELIVERY);
    let mut put = |name: &str, value: Option<AttributeValue>| {
        if let Some(value) = value {
            item.insert(name.to_owned(), value);
        }
    };
    let counted = |n: &u32| (*n > 0).then(|| number(*n));
    put(names::IDEMPOTENCY_KEY, (*idempotency_key != IdempotencyKey::from(id)).then(|| text(idempotency_key)));
    put(names::REFERENCE, Some(text(reference)));
    put(names::DESTINATION_ID, Some(text(destination)));
    put(names::SHARD, Some(number(*shard)));
    put(names::CONTENT, Some(text(content)));
    put(names::STATE, Some(text(state)));
    put(names::VERSION, Some(number(*version)));
    put(names::DELIVER_AFTER, Some(text(deliver_after)));
    put(names::DELIVER_BY, Some(text(deliver_by)));
    put(names::NEXT_ATTEMPT_AT, Some(text(next_attempt_at)));
    put(names::RULE, rule.as_ref().map(text));
    put(names::FLOOR, floor.map(text));
    put(names::LANE, wake_at.map(|_| text(row.lane())));
    put(names::WAKE_AT, wake_at.map(text));
    put(names::HELD_UNTIL, held_until.map(text));
    put(names::LEASE_OWNER, lease_owner.as_ref().map(text));
    put(names::LEASE_UNTIL, lease_until.map(text));
    put(names::MESSAGE, message.as_ref().map(text));
    put(names::REASON, reason.map(text));
    put(names::SHADOW, shadow.then(|| AttributeValue::Bool(true)));
    put(names::ATTEMPTS, (!attempts.is_empty()).then(|| texts(attempts)));
    put(names::GRANTED, counted(granted));
    put(names::RESCUES, counted(rescues));
    put(names::LATE_SUCCESS, late_success.map(number));
    put(names::HOLD, hold.as_ref().map(encode_hold));
    put(names::CANCELLED, cancel.as_ref().map(|cancel| signed(cancel.since, &cancel.by, &cancel.why)));
    put(names::DEATH, counted(death));
    put(names::DLQ_SENT, counted(dlq_sent));
    put(names::REDRIVES, (!redrives.is_empty()).then(|| texts(redrives)));
    put(names::MOVES, (!moves.is_empty()).then(|| texts(moves)));
    put(names::RUN_ID, row.run().map(text));
    put(names::ATTENTION, state.needs_operator().then(|| text(state)));
    put(names::HISTORY, Some(texts(history)));
    item
}

pub(crate) fn encode_hold(hold: &Hold) -> AttributeValue {
    signed(hold.since, &hold.by, &hold.why)
}

/// An operator's act: when, who and why.
fn signed(since: Timestamp, by: &str, why: &str) -> AttributeValue {
    AttributeValue::M(HashMap::from([
        (names::SINCE.to_owned(), text(since)),
        (names::BY.to_owned(), text(by)),
        (names::WHY.to_owned(), text(why)),
    ]))
}

/// Reads what is at a delivery's place.
///
/// # Errors
/// [`PortError::Corrupt`] names the item and the attribute.
pub(crate) fn decode(item: &Item) -> Result<Stored, PortError> {
    let name = item.get(names::DELIVERY_ID).and_then(|id| id.as_s().ok()).map_or("without an id", String::as_str);
    let read = Reader::new(item, format!("delivery {name}"));
    if let Some(id) = read.optional(names::MIGRATED_TO, DeliveryId::new)? {
        return Ok(Stored::Alias(id));
    }
    decode_row(&read).map(|row| Stored::Row(Box::new(row)))
}

fn decode_row(read: &Reader<'_>) -> Result<Delivery, PortError> {
    let id = read.required(names::DELIVERY_ID, DeliveryId::new)?;
    let time = |attribute| read.optional(attribute, str::parse::<Timestamp>);
    let needed = |attribute| read.required(attribute, str::parse::<Timestamp>);
    let counted = |attribute| read.optional_number::<u32>(attribute).map(Option::unwrap_or_default);
    let row = Delivery {
        idempotency_key: read.optional(names::IDEMPOTENCY_KEY, IdempotencyKey::new)?.unwrap_or_else(|| (&id).into()),
        reference: read.required(names::REFERENCE, Reference::new)?,
        destination: read.required(names::DESTINATION_ID, DestinationId::new)?,
        shard: read.required_number(names::SHARD)?,
        content: read.required(names::CONTENT, Content::new)?,
        state: read.required(names::STATE, str::parse::<State>)?,
        version: read.required_number(names::VERSION)?,
        deliver_after: needed(names::DELIVER_AFTER)?,
        deliver_by: needed(names::DELIVER_BY)?,
        next_attempt_at: needed(names::NEXT_ATTEMPT_AT)?,
        wake_at: time(names::WAKE_AT)?,
        held_until: time(names::HELD_UNTIL)?,
        lease_owner: read.optional(names::LEASE_OWNER, Owner::new)?,
        lease_until: time(names::LEASE_UNTIL)?,
        message: read.optional(names::MESSAGE, MessageId::new)?,
        reason: read.optional(names::REASON, str::parse::<Reason>)?,
        shadow: read.flag(names::SHADOW)?,
        attempts: read.list(names::ATTEMPTS)?,
        granted: counted(names::GRANTED)?,
        rescues: counted(names::RESCUES)?,
        rule: read.optional(names::RULE, str::parse)?,
        floor: time(names::FLOOR)?,
        late_success: read.optional_number(names::LATE_SUCCESS)?,
        hold: read.map(names::HOLD)?.map(|hold| decode_hold(&hold)).transpose()?,
        cancel: read.map(names::CANCELLED)?.map(|cancel| decode_cancel(&cancel)).transpose()?,
        death: counted(names::DEATH)?,
        dlq_sent: counted(names::DLQ_SENT)?,
        moves: read.list(names::MOVES)?,
        redrives: read.list(names::REDRIVES)?,
        history: read.list(names::HISTORY)?,
        id,
    };
    let lane = read.optional(names::LANE, str::parse::<Lane>)?;
    if lane != row.wake_at.map(|_| row.lane()) {
        return Err(read.corrupt("attribute lane contradicts wake_at, destination_id or shard"));
    }
    if read.optional(names::RUN_ID, RunId::new)?.as_ref() != row.run() {
        return Err(read.corrupt("attribute run_id contradicts redrives"));
    }
    Ok(row)
}

fn decode_hold(read: &Reader<'_>) -> Result<Hold, PortError> {
    let (since, by, why) = decode_signed(read)?;
    Ok(Hold { since, by, why })
}

fn decode_cancel(read: &Reader<'_>) -> Result<Cancel, PortError> {
    let (since, by, why) = decode_signed(read)?;
    Ok(Cancel { since, by, why })
}

fn decode_signed(read: &Reader<'_>) -> Result<(Timestamp, String, String), PortError> {
    Ok((
        read.required(names::SINCE, str::parse::<Timestamp>)?,
        read.required(names::BY, as_is)?,
        read.required(names::WHY, as_is)?,
    ))
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
