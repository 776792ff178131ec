//! I say which dead and expired rows a run takes: criteria that must all hold.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::acquire::can_start;
use crate::clock::Now;
use crate::delivery::Delivery;
use crate::destination::FieldError;
use crate::id::{DeliveryId, DestinationId};
use crate::ports::EndedEntry;
use crate::reason::Reason;
use crate::time::Timestamp;

/// The most delivery ids that a selection names.
pub const MOST_IDS: usize = 100;

/// Which rows: all that is given must hold, and at least one thing is given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// One of these deliveries; 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery_ids: Option<Vec<DeliveryId>>,
    /// Their last reason is one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<Reason>>,
    /// They go to one of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_ids: Option<Vec<DestinationId>>,
    /// Their present death came at this instant or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_from: Option<Timestamp>,
    /// Their present death came before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub died_until: Option<Timestamp>,
    /// Whether a call could still start before their own deadline less the safety margin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_reachable: Option<bool>,
}

/// Whether a value is in a list, where one is given.
fn one_of<T: PartialEq>(list: Option<&Vec<T>>, value: Option<&T>) -> bool {
    list.is_none_or(|list| value.is_some_and(|value| list.contains(value)))
}

/// Whether two lists have nothing in common; a missing one has everything.
fn apart<T: PartialEq>(a: Option<&Vec<T>>, b: Option<&Vec<T>>) -> bool {
    matches!((a, b), (Some(a), Some(b)) if !a.iter().any(|value| b.contains(value)))
}

impl Selection {
    /// Everything that is wrong with it; `path` is where it stands in the whole input, like `selection`.
    #[must_use]
    pub fn problems(&self, path: &str) -> Vec<FieldError> {
        let Self { delivery_ids, reasons, destination_ids, died_from, died_until, deadline_reachable } = self;
        let mut problems = Vec::new();
        list(path, "delivery_ids", delivery_ids.as_ref(), MOST_IDS, &mut problems);
        list(path, "reasons", reasons.as_ref(), Reason::ALL.len(), &mut problems);
        list(path, "destination_ids", destination_ids.as_ref(), MOST_IDS, &mut problems);
        if let (Some(from), Some(until)) = (died_from, died_until)
            && from >= until
        {
            problems.push(FieldError::new(
                "out_of_bounds",
                format!("{path}.died_until"),
                format!("later than died_from, {from}"),
            ));
        }
        let lists = delivery_ids.is_some() || reasons.is_some() || destination_ids.is_some();
        if !lists && died_from.is_none() && died_until.is_none() && deadline_reachable.is_none() {
            let message = "at least one of delivery_ids, reasons, destination_ids, died_from, died_until, deadline_reachable";
            problems.push(FieldError::new("empty_selection", path, message));
        }
        problems
    }

    /// Whether a row, as it was read, is taken: it is dead or expired, and all that is given holds. `margin` is its
    /// destination's.
    #[must_use]
    pub fn matches(&self, row: &Delivery, now: Now, margin: Duration) -> bool {
        let died_at = row.died_at();
        row.state.needs_operator()
            && one_of(self.delivery_ids.as_ref(), Some(&row.id))
            && one_of(self.reasons.as_ref(), row.reason.as_ref())
            && one_of(self.destination_ids.as_ref(), Some(&row.destination))
            && self.died_from.is_none_or(|from| died_at.is_some_and(|at| at >= from))
            && self.died_until.is_none_or(|until| died_at.is_some_and(|at| at < until))
            && self.reachable(row.deliver_by, now, margin)
    }

    /// Whether the row of an index entry may be taken: false only if it surely is not, as far as the entry is up to date.
    #[must_use]
    pub fn may_match(&self, entry: &EndedEntry, now: Now, margin: Duration) -> bool {
        one_of(self.delivery_ids.as_ref(), Some(&entry.id))
            && one_of(self.reasons.as_ref(), entry.reason.as_ref())
            && one_of(self.destination_ids.as_ref(), Some(&entry.destination))
            && self.reachable(entry.deliver_by, now, margin)
    }

    fn reachable(&self, deliver_by: Timestamp, now: Now, margin: Duration) -> bool {
        self.deadline_reachable.is_none_or(|wanted| can_start(deliver_by, margin, now) == wanted)
    }

    /// Whether both may take one row: false only if they surely have none in common, now and later. A deadline that is
    /// reachable today is not tomorrow, so that criterion keeps no two apart.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let before = |a: &Self, b: &Self| matches!((a.died_until, b.died_from), (Some(until), Some(from)) if until <= from);
        !(apart(self.delivery_ids.as_ref(), other.delivery_ids.as_ref())
            || apart(self.reasons.as_ref(), other.reasons.as_ref())
            || apart(self.destination_ids.as_ref(), other.destination_ids.as_ref())
            || before(self, other)
            || before(other, self))
    }
}

/// A list that is given has entries, not too many, and none twice.
fn list<T: Ord>(path: &str, field: &str, values: Option<&Vec<T>>, most: usize, problems: &mut Vec<FieldError>) {
    let Some(values) = values else { return };
    let field = format!("{path}.{field}");
    if values.is_empty() || values.len() > most {
        problems.push(FieldError::new("out_of_bounds", field.as_str(), format!("1 to {most} entries; got {}", values.len())));
    }
    if values.iter().collect::<BTreeSet<_>>().len() < values.len() {
        problems.push(FieldError::new("duplicate", field, "each entry once"));
    }
}
