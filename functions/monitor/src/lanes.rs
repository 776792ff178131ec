//! I read a destination's lanes as far as a day ahead, and as far as this run has room and time for. I keep no entry.

use std::sync::{Mutex, PoisonError};

use futures::StreamExt as _;
use punctual_core::delivery::Lane;
use punctual_core::destination::Destination;
use punctual_core::figures::{Backlog, Span};
use punctual_core::ports::{Cursor, Ledger, PortError, Time, WakePage, WakeQuery};
use punctual_core::time::Timestamp;

use crate::run::TIME_RESERVE;

/// The most entries of the wake index that one run reads, over all destinations.
pub const MOST_ENTRIES: usize = 400_000;
/// The most entries of one page; the database answers with no more than a mebibyte of them.
const PAGE: usize = 5_000;
/// How many lanes of one destination are read at once.
const LANES_AT_ONCE: usize = 8;

/// What of [`MOST_ENTRIES`] nobody has taken yet. What one destination does not need is the next ones'.
#[derive(Debug)]
pub struct Room(Mutex<(usize, usize)>);

impl Room {
    /// So many entries for so many destinations.
    #[must_use]
    pub fn of(entries: usize, destinations: usize) -> Self {
        Self(Mutex::new((entries, destinations)))
    }

    /// An equal share of what is left; at least a page.
    fn take(&self) -> usize {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let share = (left.0 / left.1.max(1)).max(PAGE);
        *left = (left.0.saturating_sub(share), left.1.saturating_sub(1));
        share
    }

    fn give_back(&self, entries: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 += entries;
    }
}

/// What was read of a destination's lanes.
#[derive(Debug)]
pub struct Reading {
    /// In numbers.
    pub backlog: Backlog,
    /// Up to here everything is in it; none: everything that was asked for.
    pub read_until: Option<Timestamp>,
    /// What it cost.
    pub read_units: f64,
}

/// Reads all lanes side by side, page by page, so that what is read ends at about one instant.
///
/// # Errors
/// [`PortError`] if a page cannot be read.
pub async fn read<L: Ledger, T: Time>(
    ledger: &L,
    time: &T,
    destination: &Destination,
    span: Span,
    room: &Room,
) -> Result<Reading, PortError> {
    let most = room.take();
    let mut open: Vec<(Lane, Option<Cursor>)> = destination.lanes().map(|lane| (lane, None)).collect();
    let mut reading = Reading { backlog: Backlog::new(span), read_until: None, read_units: 0.0 };
    let mut read = 0_usize;
    while !open.is_empty() {
        if read >= most || time.time_left() <= TIME_RESERVE {
            let place = |cursor: &Option<Cursor>| cursor.as_ref().map(|cursor| cursor.wake_at);
            // A lane that was not begun at all may hold anything.
            let first = if open.iter().any(|(_, cursor)| cursor.is_none()) { None } else { Some(open.iter()) };
            reading.read_until =
                Some(first.and_then(|open| open.filter_map(|(_, cursor)| place(cursor)).min()).unwrap_or(span.now));
            break;
        }
        let limit = (most - read).div_ceil(open.len()).clamp(1, PAGE);
        let pages: Vec<(Lane, Result<WakePage, PortError>)> = futures::stream::iter(open)
            .map(|(lane, start)| async move {
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                let query = WakeQuery { lane: lane.clone(), until: span.until, deadline_by: None, start, limit };
                (lane, ledger.wake(&query).await)
            })
            .buffer_unordered(LANES_AT_ONCE)
            .collect()
            .await;
        open = Vec::new();
        for (lane, page) in pages {
            let page = page?;
            reading.read_units += page.read_units;
            read += page.candidates.len();
            page.candidates.iter().for_each(|candidate| reading.backlog.note(candidate));
            if page.next.is_some() {
                // A page of unreadable entries alone is a page all the same.
                read += usize::from(page.candidates.is_empty());
                open.push((lane, page.next));
            }
        }
    }
    room.give_back(most.saturating_sub(read));
    Ok(reading)
}
