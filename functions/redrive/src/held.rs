//! I am a run while a slice works on it: every write renews the lease, and an operator's write in between is taken over.

use std::time::Duration;

use punctual_core::clock::Now;
use punctual_core::id::Owner;
use punctual_core::ports::{Control, PortError, Stored};
use punctual_core::redrive::{Lease, Run};

/// How long a write of the run keeps others off it. A slice that dies costs the run so much, and an interval.
pub(crate) const LEASE: Duration = Duration::from_secs(60);
/// Rows are written only while so much of the lease is left: longer than any single call to a table takes.
const ENOUGH: Duration = Duration::from_secs(20);
/// Somebody else's writes may get in between so often.
const MOST_TRIES: usize = 8;

/// A run that a slice holds.
#[derive(Debug)]
pub(crate) struct Held<'a, C> {
    pub(crate) control: &'a C,
    /// As it was last written or read.
    pub(crate) run: Run,
    pub(crate) owner: Owner,
}

impl<C: Control> Held<'_, C> {
    /// Writes a change, on top of what an operator has written in between. False: another slice has the run now.
    ///
    /// # Errors
    /// [`PortError`] if the control table cannot say.
    pub(crate) async fn save(&mut self, now: Now, change: impl Fn(&mut Run)) -> Result<bool, PortError> {
        for _ in 0..MOST_TRIES {
            let lease = Some(Lease { owner: self.owner.clone(), until: now.hi.plus(LEASE) });
            let mut next = Run { lease, ..self.run.next() };
            change(&mut next);
            if self.control.put_run(&next, self.run.version).await? == Stored::Done {
                self.run = next;
                return Ok(true);
            }
            match self.control.run(&self.run.id).await? {
                Some(stored) if stored.lease.as_ref().is_some_and(|lease| lease.owner == self.owner) => self.run = stored,
                _ => return Ok(false),
            }
        }
        let source = "others keep writing it".into();
        Err(PortError::Unavailable { what: "the run's row", source })
    }

    /// Makes sure that enough of the lease is left for the next step. False: another slice has the run now.
    ///
    /// # Errors
    /// [`PortError`] if the control table cannot say.
    pub(crate) async fn renew(&mut self, now: Now) -> Result<bool, PortError> {
        let left = self.run.lease.as_ref().map_or(Duration::ZERO, |lease| lease.until.since(now.hi));
        if left > ENOUGH { Ok(true) } else { self.save(now, |_| {}).await }
    }
}
