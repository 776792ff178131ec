//! I am what a function left behind when it came to its end: when, and its last line for a person in the console.

use punctual_core::figures::Heartbeat;
use punctual_core::ports::PortError;
use punctual_core::time::Timestamp;

use super::control::{key, reader};
use super::item::{Item, as_is, text};
use super::names;

pub(super) fn encode(function: &str, heartbeat: &Heartbeat) -> Item {
    let mut item = key(names::KIND_HEARTBEAT, function);
    item.insert(names::AT.to_owned(), text(heartbeat.at));
    item.insert(names::LINE.to_owned(), text(&heartbeat.line));
    item
}

pub(super) fn decode(item: &Item) -> Result<(String, Heartbeat), PortError> {
    let read = reader(item);
    let at = read.required(names::AT, str::parse::<Timestamp>)?;
    let line = read.optional(names::LINE, as_is)?.unwrap_or_default();
    Ok((read.required(names::ID, as_is)?, Heartbeat { at, line }))
}
