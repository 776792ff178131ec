//! I am dispatch's schedule in memory: on or off, and I start nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use punctual_core::ports::{PortError, Ticks};

/// The schedule in memory; on to begin with.
#[derive(Debug)]
pub struct MemoryTicks(AtomicBool);

impl Default for MemoryTicks {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl MemoryTicks {
    /// Whether it is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Ticks for MemoryTicks {
    async fn switch(&self, on: bool) -> Result<bool, PortError> {
        Ok(self.0.swap(on, Ordering::SeqCst))
    }
}
