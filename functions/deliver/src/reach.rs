//! I keep calls from a destination that does not answer, and let one record at a time ask whether it does again.
//!
//! What a batch hears is kept in one line for each destination, counts at once for the batch's own records, and is written
//! once, before the batch is answered. A destination that is reached and proven costs no write.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_core::breaker::{Gate, Heard, Reach, Rules};
use punctual_core::clock::Now;
use punctual_core::destination::Destination;
use punctual_core::id::{Correlation, DestinationId, Owner};
use punctual_core::ports::{Control, DeadLetters, Ledger, PortError, Queue, Secrets, Stored, Time, Watched, Webhook};
use punctual_core::time::Timestamp;
use punctual_flows::{FlowError, chain};

use crate::batch::Known;
use crate::pause::{MOST_TRIES, SPREAD};
use crate::tally::Tally;
use crate::{CLOCK_BOUND, Deliver};

/// How one destination is reached: as it was stored, and what this batch has heard since.
#[derive(Debug)]
struct Line {
    stored: Reach,
    rules: Rules,
    /// In the order in which the calls ended.
    calls: Vec<Heard>,
    /// A record has asked for the probe: no other of this batch does.
    asked: bool,
    /// The lease that it got.
    probe: Option<Owner>,
}

impl Line {
    /// Whether a call may be made, by all that is known here. A lease counts until it is given back.
    fn gate(&self, now: Now) -> Gate {
        let heard = self.stored.heard(&self.calls, None, self.rules, now, &self.stored.by);
        heard.as_ref().unwrap_or(&self.stored).gate(now)
    }
}

/// The lines of a batch, shared by its records. Nobody waits for anything under my lock.
#[derive(Debug, Default)]
pub struct Lines(Mutex<BTreeMap<DestinationId, Line>>);

impl Lines {
    /// Learns how these destinations were reached; one of which nothing is stored is unproven.
    pub(crate) fn learn(&self, destinations: &[Destination], reach: Vec<(DestinationId, Reach)>, by: &Correlation) {
        let mut stored: BTreeMap<DestinationId, Reach> = reach.into_iter().collect();
        let mut lines = self.locked();
        for destination in destinations {
            let id = &destination.spec.id;
            let stored = stored.remove(id).unwrap_or_else(|| Reach::unproven(by.clone()));
            let line = Line { stored, rules: destination.reach_rules(), calls: Vec::new(), asked: false, probe: None };
            lines.insert(id.clone(), line);
        }
    }

    /// Whether a call may be made. Of a destination that is not known here nothing speaks against it.
    #[must_use]
    pub fn gate(&self, id: &DestinationId, now: Now) -> Gate {
        self.locked().get(id).map_or(Gate::Closed, |line| line.gate(now))
    }

    /// A call has ended.
    pub fn heard(&self, id: &DestinationId, heard: Heard) {
        if let (Some(line), Heard::Answer | Heard::Silence) = (self.locked().get_mut(id), heard) {
            line.calls.push(heard);
        }
    }

    /// The row with the lease of a probe, to be written; none if it is not the time, or another record has asked.
    fn asking(&self, id: &DestinationId, owner: Owner, until: Timestamp, now: Now, by: &Correlation) -> Option<Reach> {
        let mut lines = self.locked();
        let line = lines.get_mut(id).filter(|line| !line.asked && line.gate(now) == Gate::MayProbe)?;
        let probing = line.stored.probing(owner, until, now, by)?;
        line.asked = true;
        Some(probing)
    }

    fn probing(&self, id: &DestinationId, stored: Reach) {
        if let Some(line) = self.locked().get_mut(id) {
            line.probe = stored.open.as_ref().and_then(|open| open.probe.as_ref()).map(|probe| probe.owner.clone());
            line.stored = stored;
        }
    }

    /// Whether there is something to note, or a lease to give back.
    pub(crate) fn has_heard(&self) -> bool {
        self.locked().values().any(|line| !line.calls.is_empty() || line.probe.is_some())
    }

    fn take(&self) -> BTreeMap<DestinationId, Line> {
        std::mem::take(&mut *self.locked())
    }

    /// Every change above is whole, whatever became of its caller.
    fn locked(&self) -> MutexGuard<'_, BTreeMap<DestinationId, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: DeadLetters, S: Secrets, W: Webhook, T: Time> Deliver<'_, L, C, Q, D, S, W, T> {
    /// Takes the lease of the probe for a record that is about to claim; false if another has it. It ends no earlier than
    /// this invocation can.
    ///
    /// # Errors
    /// [`FlowError`] if it could not be written: the record is seen again.
    pub(crate) async fn may_probe(&self, id: &DestinationId, known: &Known, now: Now) -> Result<bool, FlowError> {
        let owner = Owner::new(self.time.unique())
            .map_err(|e| PortError::Corrupt { item: "lease owner".into(), problem: e.to_string() })?;
        let until = now.hi.plus(self.time.time_left() + CLOCK_BOUND);
        let Some(probing) = known.lines.asking(id, owner, until, now, &self.by) else { return Ok(false) };
        if self.control.note_reach(id, &probing).await? == Stored::Conflict {
            return Ok(false);
        }
        tracing::info!(by = %self.by, destination_id = %id, "a destination is probed");
        known.lines.probing(id, probing);
        Ok(true)
    }

    /// Notes what the calls of a batch heard, and gives back the lease of a probe that made none. A failure is logged and no
    /// more: a lease ends by its time, and the next batch hears the same.
    pub(crate) async fn note_reach(&self, known: &Known, tally: &mut Tally) {
        for (id, line) in known.lines.take() {
            if let Err(error) = self.note_line(&id, line, tally).await {
                tracing::error!(by = %self.by, destination_id = %id, error = %chain(&error), "how a destination is reached could not be noted");
            }
        }
    }

    async fn note_line(&self, id: &DestinationId, line: Line, tally: &mut Tally) -> Result<(), FlowError> {
        let Line { mut stored, mut rules, calls, probe, .. } = line;
        if calls.is_empty() && probe.is_none() {
            return Ok(());
        }
        for round in 0..MOST_TRIES {
            if round > 0 {
                let Watched { destinations, reach, .. } = self.control.watch(std::slice::from_ref(id)).await?;
                let Some(destination) = destinations.into_iter().next() else { return Ok(()) };
                rules = destination.reach_rules();
                stored = reach.into_iter().next().map_or_else(|| Reach::unproven(self.by.clone()), |(_, reach)| reach);
            }
            let now = self.time.now()?;
            let Some(next) = stored.heard(&calls, probe.as_ref(), rules, now, &self.by) else { return Ok(()) };
            match self.control.note_reach(id, &next).await? {
                Stored::Done => {
                    self.report(id, &stored, &next, tally);
                    return Ok(());
                }
                Stored::Conflict => self.time.pause(SPREAD.mul_f64(self.time.random())).await,
            }
        }
        tracing::error!(by = %self.by, destination_id = %id, "how a destination is reached could not be noted: too many lost races");
        Ok(())
    }

    fn report(&self, id: &DestinationId, before: &Reach, after: &Reach, tally: &mut Tally) {
        match (&before.open, &after.open) {
            (None, Some(open)) => {
                tally.opened.insert(id.clone());
                tracing::error!(by = %self.by, destination_id = %id, silent = after.silent, probe_at = %open.probe_at,
                    "a breaker is open: the destination does not answer");
            }
            (Some(open), None) => {
                tracing::info!(by = %self.by, destination_id = %id, since = %open.since, probes = open.probes, "a breaker is closed");
            }
            (Some(before), Some(open)) if before.probes != open.probes => {
                tracing::warn!(by = %self.by, destination_id = %id, probes = open.probes, probe_at = %open.probe_at, "a probe was not answered");
            }
            _ => {}
        }
    }
}
