//! I count what calls cost, for measurements. In production nobody installs me.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};

/// What one kind of call has cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    /// Calls that succeeded; a refused condition reports no units.
    pub calls: u64,
    /// Read units, of indexes too.
    pub read_units: f64,
    /// Write units, of indexes too.
    pub write_units: f64,
    /// The part of the units that each index took, by its name.
    pub index_units: BTreeMap<String, f64>,
}

/// Adds up the consumed capacity of every call, by the name of the call.
#[derive(Debug, Default)]
pub struct Meter {
    usage: Mutex<BTreeMap<&'static str, Usage>>,
}

impl Meter {
    /// What was counted so far, by the name of the call.
    #[must_use]
    pub fn usage(&self) -> BTreeMap<&'static str, Usage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All write units so far.
    #[must_use]
    pub fn write_units(&self) -> f64 {
        self.usage().values().map(|usage| usage.write_units).sum()
    }

    /// All read units so far.
    #[must_use]
    pub fn read_units(&self) -> f64 {
        self.usage().values().map(|usage| usage.read_units).sum()
    }

    /// Gives what was counted so far and starts again at zero.
    pub fn take(&self) -> BTreeMap<&'static str, Usage> {
        std::mem::take(&mut *self.usage.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// A meter that may be there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metered(pub(crate) Option<Arc<Meter>>);

impl Metered {
    /// What a request asks for: everything for a meter, else nothing.
    pub(crate) fn wanted(&self) -> ReturnConsumedCapacity {
        if self.0.is_some() { ReturnConsumedCapacity::Indexes } else { ReturnConsumedCapacity::None }
    }

    /// Counts one call.
    pub(crate) fn count<'a>(&self, what: &'static str, kind: Kind, capacity: impl IntoIterator<Item = &'a ConsumedCapacity>) {
        let Some(meter) = &self.0 else { return };
        let mut all = meter.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = all.entry(what).or_default();
        usage.calls += 1;
        for capacity in capacity {
            let units = capacity.capacity_units().unwrap_or_default();
            match kind {
                Kind::Read => usage.read_units += units,
                Kind::Write => usage.write_units += units,
            }
            for (index, part) in capacity.global_secondary_indexes().into_iter().flatten() {
                *usage.index_units.entry(index.clone()).or_default() += part.capacity_units().unwrap_or_default();
            }
        }
    }
}
