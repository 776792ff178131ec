//! I count what a comparison found, and keep so many deviations of each kind as an audit file may list.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::state::State;
use crate::time::Timestamp;

use super::finding::{Finding, Marks, Why, find};
use super::seen::{Place, Seen};
use super::standing::{Period, Standing};

/// A kind of deviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// See [`Finding::Missing`].
    Missing,
    /// See [`Finding::Duplicate`].
    Duplicate,
    /// See [`Finding::Unexpected`].
    Unexpected,
}

impl Kind {
    /// Every one there is.
    pub const ALL: [Kind; 3] = [Kind::Missing, Kind::Duplicate, Kind::Unexpected];

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Missing => "missing",
            Kind::Duplicate => "duplicate",
            Kind::Unexpected => "unexpected",
        }
    }
}

/// How many deliveries of each; every delivery is counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// See [`Finding::Matched`].
    pub matched: u64,
    /// See [`Finding::Missing`].
    pub missing: u64,
    /// See [`Finding::Duplicate`].
    pub duplicate: u64,
    /// See [`Finding::Unexpected`].
    pub unexpected: u64,
    /// The unexpected ones by why.
    pub unexpected_by: BTreeMap<Why, u64>,
    /// See [`Finding::AtBound`].
    pub at_bound: u64,
    /// See [`Finding::Outside`].
    pub outside: u64,
    /// See [`Finding::Agreed`].
    pub agreed: u64,
    /// Lines of the export beyond the first of each duplicate.
    pub surplus_lines: u64,
    /// Matched ones that the receiver got before they were due, by its clock.
    pub matched_early: u64,
    /// Matched ones that the receiver got after their deadline, by its clock.
    pub matched_late: u64,
    /// Matched ones whose time in the export is none at which the ledger called.
    pub matched_apart: u64,
}

/// A success as the ledger recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Accepted {
    /// The attempt's number.
    pub attempt: u32,
    /// When its call started, by the database's clock.
    pub at: Timestamp,
}

/// One deviation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// Which kind.
    pub kind: Kind,
    /// Why it is unexpected; none for the other kinds.
    pub why: Option<Why>,
    /// Which delivery.
    pub delivery_id: String,
    /// Where it stands in the ledger, if that has it.
    pub state: Option<State>,
    /// How many calls of the ledger may have reached the receiver.
    pub calls: u32,
    /// Its success, if the ledger has one.
    pub accepted: Option<Accepted>,
    /// How many lines the export has of it.
    pub lines: u64,
    /// The first four of them.
    pub places: Vec<Place>,
    /// The earliest and the latest time in the export.
    pub times: Option<(Timestamp, Timestamp)>,
}

/// Counts and the listed deviations.
#[derive(Debug, Clone)]
pub struct Reckoning {
    period: Period,
    most: usize,
    counts: Counts,
    listed: BTreeMap<Kind, Vec<Deviation>>,
}

impl Reckoning {
    /// Of nothing yet; at most `most` deviations of each kind are listed.
    #[must_use]
    pub fn new(period: Period, most: usize) -> Self {
        Self { period, most, counts: Counts::default(), listed: BTreeMap::new() }
    }

    /// Adds one delivery's two sides.
    pub fn add(&mut self, standing: Option<&Standing>, seen: Option<&Seen>) {
        let finding = find(&self.period, standing, seen);
        let counts = &mut self.counts;
        let (counter, deviation) = match finding {
            Finding::Matched(Marks { early, late, apart }) => {
                counts.matched_early += u64::from(early);
                counts.matched_late += u64::from(late);
                counts.matched_apart += u64::from(apart);
                (&mut counts.matched, None)
            }
            Finding::Missing => (&mut counts.missing, Some((Kind::Missing, None))),
            Finding::Duplicate => {
                counts.surplus_lines += seen.map_or(0, |seen| seen.lines.saturating_sub(1));
                (&mut counts.duplicate, Some((Kind::Duplicate, None)))
            }
            Finding::Unexpected(why) => {
                *counts.unexpected_by.entry(why).or_default() += 1;
                (&mut counts.unexpected, Some((Kind::Unexpected, Some(why))))
            }
            Finding::AtBound => (&mut counts.at_bound, None),
            Finding::Outside => (&mut counts.outside, None),
            Finding::Agreed => (&mut counts.agreed, None),
        };
        *counter += 1;
        if let Some((kind, why)) = deviation {
            let list = self.listed.entry(kind).or_default();
            if list.len() < self.most {
                list.extend(deviates(kind, why, standing, seen));
            }
        }
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The listed deviations, kind by kind, in the order in which they were added.
    pub fn deviations(&self) -> impl Iterator<Item = &Deviation> {
        self.listed.values().flatten()
    }

    /// How many deviations were counted and are not listed.
    #[must_use]
    pub fn not_listed(&self) -> u64 {
        let all = self.counts.missing + self.counts.duplicate + self.counts.unexpected;
        all.saturating_sub(u64::try_from(self.deviations().count()).unwrap_or(u64::MAX))
    }

    /// Whether nothing deviates.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.counts.missing + self.counts.duplicate + self.counts.unexpected == 0
    }
}

fn deviates(kind: Kind, why: Option<Why>, standing: Option<&Standing>, seen: Option<&Seen>) -> Option<Deviation> {
    let id = standing.map(|standing| &standing.id).or(seen.map(|seen| &seen.id))?;
    let accepted = standing.and_then(|standing| standing.success);
    Some(Deviation {
        kind,
        why,
        delivery_id: id.to_string(),
        state: standing.map(|standing| standing.state),
        calls: standing.map_or(0, |standing| standing.calls),
        accepted: accepted.map(|success| Accepted { attempt: success.attempt, at: success.span.from }),
        lines: seen.map_or(0, |seen| seen.lines),
        places: seen.map(|seen| seen.places.clone()).unwrap_or_default(),
        times: seen.map(|seen| (seen.earliest, seen.latest)),
    })
}
