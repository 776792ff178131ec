//! I am what a receiver's export has of one delivery.

use crate::id::DeliveryId;
use crate::time::Timestamp;

use super::standing::Period;

/// A line of an export: which delivery, and when the receiver says to have got it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// Its `webhook-id`.
    pub id: DeliveryId,
    /// Where it stands.
    pub place: Place,
    /// Its time, by the receiver's clock.
    pub at: Timestamp,
}

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which file, from 0.
    pub file: u16,
    /// Which line of it, from 1; of a record of several lines the first.
    pub line: u64,
}

/// The most places that are kept of one delivery.
const MOST_PLACES: usize = 4;

/// All lines of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Which delivery.
    pub id: DeliveryId,
    /// How many lines.
    pub lines: u64,
    /// How many of them within the period, by the receiver's clock.
    pub inside: u64,
    /// The earliest time.
    pub earliest: Timestamp,
    /// The latest time.
    pub latest: Timestamp,
    /// The first four lines, in order.
    pub places: Vec<Place>,
}

impl Seen {
    /// Of a first line.
    #[must_use]
    pub fn first(line: Line, period: &Period) -> Self {
        let Line { id, place, at } = line;
        let mut seen = Self { id, lines: 0, inside: 0, earliest: at, latest: at, places: Vec::new() };
        seen.add(place, at, period);
        seen
    }

    /// Adds a further line of the same delivery.
    pub fn add(&mut self, place: Place, at: Timestamp, period: &Period) {
        self.lines = self.lines.saturating_add(1);
        self.inside = self.inside.saturating_add(u64::from(period.holds(at)));
        self.earliest = self.earliest.min(at);
        self.latest = self.latest.max(at);
        if self.places.len() < MOST_PLACES {
            self.places.push(place);
        }
    }
}
