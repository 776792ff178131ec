//! I am the starter of slices in memory. I know no clock and start nothing: a test takes what is due.

use std::collections::BTreeMap;
use std::sync::Mutex;

use punctual_core::id::RunId;
use punctual_core::ports::{PortError, Slices};
use punctual_core::time::Timestamp;

use super::locked;

/// The starter of slices in memory.
#[derive(Debug, Default)]
pub struct MemorySlices {
    planned: Mutex<BTreeMap<(RunId, u32), Timestamp>>,
}

impl MemorySlices {
    /// What is planned, by run and slice.
    #[must_use]
    pub fn planned(&self) -> Vec<(RunId, u32, Timestamp)> {
        locked(&self.planned).iter().map(|((run, slice), at)| (run.clone(), *slice, *at)).collect()
    }

    /// Takes the earliest slice that is due by now: its schedule is gone after its start.
    #[must_use]
    pub fn take_due(&self, now: Timestamp) -> Option<(RunId, u32)> {
        let mut planned = locked(&self.planned);
        let due = planned.iter().filter(|(_, at)| **at <= now).min_by_key(|(key, at)| (**at, (*key).clone()))?.0.clone();
        planned.remove(&due);
        Some(due)
    }
}

impl Slices for MemorySlices {
    async fn schedule(&self, run: &RunId, slice: u32, at: Timestamp) -> Result<(), PortError> {
        let whole = Timestamp::from_millis(at.as_millis().saturating_add(999).div_euclid(1_000).saturating_mul(1_000));
        locked(&self.planned).entry((run.clone(), slice)).or_insert(whole);
        Ok(())
    }
}
