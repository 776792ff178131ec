//! I am a ledger and a receiver's export that are known to deviate, delivery by delivery, in every way there is: what a
//! comparison must find is known beforehand.
//!
//! Rows are made when they are asked for, so that a million of them need no memory: what is measured is the comparison's.

mod program;
mod seed;

pub use program::Served;
pub use seed::{Fate, Seed};

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, ensure};
use punctual_adapters::memory::MemoryControl;
use punctual_core::delivery::Delivery;
use punctual_core::destination::{Change, Destination};
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::ports::{Control as _, PortError, Rows, RowsNamed, RowsPage, RowsPlace, RowsQuery, Stored};
use punctual_core::reconcile::{Kind, Period, Why};
use punctual_core::time::Timestamp;
use punctual_inspect::reconcile::Request;
use punctual_inspect::reconcile::audit::Audit;
use serde_json::json;

use crate::load::clock::{Clock, Invocation};

/// Rows of a page.
const PAGE: u64 = 1_000;

/// Whose deliveries are compared.
///
/// # Errors
/// None: the name is good.
pub fn destination() -> Result<DestinationId> {
    Ok(DestinationId::new("renewals")?)
}

/// The period: a day, on which clocks are within a minute.
#[must_use]
pub fn period() -> Period {
    let from = Timestamp::from_millis(1_796_083_200_000);
    Period { from, until: from.plus(Duration::from_secs(86_400)), tolerance: Duration::from_secs(60) }
}

/// A control table with the destination.
///
/// # Errors
/// If it cannot be registered.
pub async fn control() -> Result<MemoryControl> {
    let control = MemoryControl::default();
    let spec = json!({"id": destination()?, "url": "https://receiver.invalid/hook", "secrets": ["punctual/test/key"]});
    let changed = Change { at: period().from, by: "test".into(), why: "a comparison".into() };
    let destination = Destination { spec: serde_json::from_value(spec)?, version: 1, paused: None, changed };
    ensure!(control.put_destination(&destination, 0).await? == Stored::Done, "it is registered already");
    Ok(control)
}

/// An invocation a week after the period.
#[must_use]
pub fn time() -> Invocation {
    let now = period().until.plus(Duration::from_secs(7 * 86_400));
    Invocation::begin(&Clock::new(now), Duration::from_secs(60))
}

/// A request for this export.
///
/// # Errors
/// None: the names are good.
pub fn request(files: Vec<std::path::PathBuf>, run: usize) -> Result<Request> {
    let (by, ledger) = ("ann".to_owned(), "seeded".to_owned());
    Ok(Request { destination: destination()?, period: period(), by, ledger, files, list: 10_000, run })
}

impl Rows for Seed {
    async fn rows(&self, query: &RowsQuery) -> Result<RowsPage, PortError> {
        let start = query.start.as_ref().map_or(Ok(0), |place| place.partition.parse::<u64>());
        let start = start.map_err(|_| PortError::Corrupt { item: "place".into(), problem: "no number".into() })?;
        let end = self.deliveries.min(start + PAGE);
        let wanted = |row: &Delivery| row.destination == query.destination && row.deliver_by >= query.from;
        let rows = (start..end).filter_map(|n| self.row(n)).filter(wanted).collect();
        let next = (end < self.deliveries).then(|| RowsPlace { partition: end.to_string(), item: "delivery".into() });
        Ok(RowsPage { rows, next, ..RowsPage::default() })
    }

    async fn rows_named(&self, ids: &[DeliveryId]) -> Result<RowsNamed, PortError> {
        let rows = ids.iter().filter_map(|id| self.row(self.number(id)?)).collect();
        Ok(RowsNamed { rows, unreadable: Vec::new() })
    }
}

/// Compares what was found with what is known, id by id; says what is wrong.
///
/// # Errors
/// If something was not found, or invented.
pub fn check(seed: &Seed, audit: &Audit) -> Result<()> {
    let mut expected: BTreeMap<(Kind, Option<Why>), BTreeSet<String>> = BTreeMap::new();
    for n in 0..seed.deliveries {
        if let Some(deviates) = seed.fate(n).deviates() {
            expected.entry(deviates).or_default().insert(seed.id(n)?.to_string());
        }
    }
    let mut found: BTreeMap<(Kind, Option<Why>), BTreeSet<String>> = BTreeMap::new();
    for one in &audit.deviations {
        let new = found.entry((one.kind, one.why)).or_default().insert(one.delivery_id.clone());
        ensure!(new, "{} is listed twice", one.delivery_id);
    }
    for (kind, ids) in &expected {
        let none = BTreeSet::new();
        let found = found.get(kind).unwrap_or(&none);
        ensure!(
            found == ids,
            "{kind:?}: {} of {} found, {} invented",
            found.intersection(ids).count(),
            ids.len(),
            found.difference(ids).count()
        );
    }
    ensure!(found.keys().all(|kind| expected.contains_key(kind)), "invented: {:?}", found.keys());
    let matched = (0..seed.deliveries).filter(|n| seed.fate(*n).matches()).count();
    ensure!(audit.counts.matched == u64::try_from(matched)?, "matched: {} instead of {matched}", audit.counts.matched);
    ensure!(audit.deviations_not_listed == 0 && !audit.clean, "deviations are hidden");
    let counts = &audit.counts;
    ensure!((counts.at_bound, counts.matched_early, counts.matched_late, counts.matched_apart) == (0, 0, 0, 0), "{counts:?}");
    Ok(())
}
