//! I say what one delivery's two sides mean.

use crate::time::Timestamp;

use super::seen::Seen;
use super::standing::{Period, Standing};

/// What a comparison found of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The ledger has a success within the period, and the export has it once.
    Matched(Marks),
    /// The ledger has a success within the period, and the export does not have it.
    Missing,
    /// The ledger has a success within the period, and the export has it more than once.
    Duplicate,
    /// The export has it within the period, and the ledger has no success of it there.
    Unexpected(Why),
    /// The ledger has a success at a bound of the period, and the export does not have it: by the receiver's clock it may
    /// lie outside.
    AtBound,
    /// The export has it outside the period, and the ledger has no success of it within.
    Outside,
    /// The ledger has no success of it within the period, and the export does not have it either.
    Agreed,
}

/// What is remarkable about a matched delivery's time, by the receiver's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Before its due time.
    pub early: bool,
    /// After its deadline.
    pub late: bool,
    /// At no time at which the ledger called.
    pub apart: bool,
}

/// Why a delivery is not expected in the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The ledger has no such delivery.
    Unknown,
    /// It goes to another destination.
    OtherDestination,
    /// No call was ever made for it.
    NeverCalled,
    /// It was called, and no success is recorded: its answer may have been lost.
    NotAccepted,
    /// Its success is recorded at another time, outside the period.
    AcceptedOutside,
}

impl Why {
    /// Every one there is.
    pub const ALL: [Why; 5] = [Why::Unknown, Why::OtherDestination, Why::NeverCalled, Why::NotAccepted, Why::AcceptedOutside];

    /// What the word means, in a few words for a person.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Why::Unknown => "the ledger has no such delivery",
            Why::OtherDestination => "it goes to another destination",
            Why::NeverCalled => "the ledger never called for it",
            Why::NotAccepted => "called, but no success is recorded",
            Why::AcceptedOutside => "its success lies outside the period",
        }
    }

    fn of(standing: Option<&Standing>) -> Self {
        match standing {
            None => Why::Unknown,
            Some(standing) if !standing.here => Why::OtherDestination,
            Some(standing) if standing.success.is_some() => Why::AcceptedOutside,
            Some(standing) if standing.calls == 0 => Why::NeverCalled,
            Some(_) => Why::NotAccepted,
        }
    }
}

/// Says what the two sides of one delivery mean.
#[must_use]
pub fn find(period: &Period, standing: Option<&Standing>, seen: Option<&Seen>) -> Finding {
    let own = standing.filter(|standing| standing.here);
    let success = own.and_then(|standing| Some((standing, standing.success?)));
    let within = success.filter(|(_, success)| period.perhaps(success.span));
    match (within, seen) {
        (Some((_, success)), None) if period.surely(success.span) => Finding::Missing,
        (Some(_), None) => Finding::AtBound,
        (Some(_), Some(seen)) if seen.lines > 1 => Finding::Duplicate,
        (Some((standing, _)), Some(seen)) => Finding::Matched(marks(period, standing, seen.earliest)),
        (None, Some(seen)) if seen.inside == 0 => Finding::Outside,
        (None, Some(_)) => Finding::Unexpected(Why::of(standing)),
        (None, None) => Finding::Agreed,
    }
}

fn marks(period: &Period, standing: &Standing, at: Timestamp) -> Marks {
    let tolerance = period.tolerance;
    Marks {
        early: at.plus(tolerance) < standing.deliver_after,
        late: at.minus(tolerance) > standing.deliver_by,
        apart: !standing.called.is_some_and(|called| called.near(at, tolerance)),
    }
}
