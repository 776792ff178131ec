//! I pause a destination whose receiver refuses: at once after a 410, and after k of the last n calls were rejected.
//!
//! What a batch saw is written once for each destination, before the batch is answered, and only where a rejection is in
//! sight: a healthy destination costs no write. Results and pause are two writes; whoever reads results that call for a
//! pause makes it before it calls anybody, so a crash between the two kills no delivery.

use std::time::Duration;

use punctual_core::destination::{Change, Destination, Pause};
use punctual_core::id::DestinationId;
use punctual_core::ports::{Control, DeadLetters, Ledger, PortError, Queue, Secrets, Stored, Time, Watched, Webhook};
use punctual_core::rejections::{Rejections, Seen, still_stands};
use punctual_flows::chain;

use crate::Deliver;
use crate::batch::Known;
use crate::tally::Tally;

/// A write loses at most so many races. Each round somebody's write succeeds, and a pause ends the race for all.
pub(crate) const MOST_TRIES: u32 = 20;
/// The longest wait before a lost race is tried again.
pub(crate) const SPREAD: Duration = Duration::from_millis(50);

/// What one call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whose receiver was called.
    pub destination: DestinationId,
    /// The destination's version that was read for it.
    pub version: u64,
    /// What the call says about the receiver.
    pub seen: Seen,
}

impl<L: Ledger, C: Control, Q: Queue, D: DeadLetters, S: Secrets, W: Webhook, T: Time> Deliver<'_, L, C, Q, D, S, W, T> {
    /// Pauses what results that were stored by others call for: the records of this batch go back to the ledger uncalled,
    /// whether or not the pause can be written.
    pub(crate) async fn pause_before_calls(&self, known: &mut Known, tally: &mut Tally) {
        let Known { destinations, rejections, .. } = known;
        for destination in destinations.values_mut().filter(|destination| destination.paused.is_none()) {
            let why = rejections.get(&destination.spec.id).and_then(|stored| stored.why_pause(destination));
            if let Some(why) = why {
                self.pause(destination, &why, tally).await;
                let since = self.time.now().map_or(destination.changed.at, |now| now.lo);
                destination.paused = Some(Pause { since, by: self.name(), why });
            }
        }
    }

    /// Notes what the calls of a batch came to, and pauses where that calls for it. A failure is logged and no more.
    pub(crate) async fn note(&self, known: &Known, tally: &mut Tally) {
        let mut outcomes = std::mem::take(&mut tally.outcomes);
        // Whoever is paused by now begins anew when it is resumed.
        outcomes.retain(|outcome| !tally.paused.contains(&outcome.destination));
        while let Some(id) = outcomes.first().map(|outcome| outcome.destination.clone()) {
            let (mine, others) = outcomes.into_iter().partition(|outcome| outcome.destination == id);
            outcomes = others;
            if let Err(error) = self.note_one(&id, mine, known, tally).await {
                tracing::error!(by = %self.by, destination_id = %id, error = %chain(&error), "what a receiver answered could not be noted");
            }
        }
    }

    async fn note_one(
        &self,
        id: &DestinationId,
        outcomes: Vec<Outcome>,
        known: &Known,
        tally: &mut Tally,
    ) -> Result<(), PortError> {
        let mut destination = known.destinations.get(id).cloned();
        let mut stored = known.rejections.get(id).cloned();
        for round in 0..MOST_TRIES {
            if round > 0 || destination.is_none() {
                let Watched { destinations, rejections, .. } = self.control.watch(std::slice::from_ref(id)).await?;
                destination = destinations.into_iter().next();
                stored = rejections.into_iter().next().map(|(_, rejections)| rejections);
            }
            let Some(destination) = &destination else { return Ok(()) };
            let seen: Vec<Seen> =
                outcomes.iter().filter(|outcome| outcome.version == destination.version).map(|outcome| outcome.seen).collect();
            let Some(noted) = Rejections::noted(stored.as_ref(), destination, &seen, &self.by) else { return Ok(()) };
            match self.control.note_rejections(id, &noted).await? {
                Stored::Done => {
                    if let Some(why) = noted.why_pause(destination) {
                        self.pause(destination, &why, tally).await;
                    }
                    return Ok(());
                }
                Stored::Conflict => self.time.pause(SPREAD.mul_f64(self.time.random())).await,
            }
        }
        tracing::error!(by = %self.by, destination_id = %id, "what a receiver answered could not be noted: too many lost races");
        Ok(())
    }

    /// Pauses a destination for review. Whoever changed it meanwhile is right, unless the receiver cannot see the change.
    pub(crate) async fn pause(&self, destination: &Destination, why: &str, tally: &mut Tally) {
        let id = &destination.spec.id;
        let mut current = destination.clone();
        for _ in 0..MOST_TRIES {
            let now = match self.time.now() {
                Ok(now) => now,
                Err(error) => {
                    tracing::error!(by = %self.by, destination_id = %id, error = %error, "a destination could not be paused");
                    return;
                }
            };
            let (by, why) = (self.name(), why.to_owned());
            let paused = Destination {
                paused: Some(Pause { since: now.lo, by: by.clone(), why: why.clone() }),
                changed: Change { at: now.lo, by, why: why.clone() },
                version: current.version.saturating_add(1),
                ..current.clone()
            };
            let next = match self.control.put_destination(&paused, current.version).await {
                Ok(Stored::Done) => {
                    tally.paused.insert(id.clone());
                    tracing::error!(by = %self.by, destination_id = %id, why, "a destination is paused");
                    return;
                }
                Ok(Stored::Conflict) => {
                    self.control.lookup(std::slice::from_ref(id)).await.map(|(found, _)| found.into_iter().next())
                }
                Err(error) => Err(error),
            };
            match next {
                Ok(Some(next)) if still_stands(&current, &next) => current = next,
                Ok(_) => return,
                Err(error) => {
                    tracing::error!(by = %self.by, destination_id = %id, error = %chain(&error), "a destination could not be paused");
                    return;
                }
            }
        }
    }

    /// How a change that deliver makes is signed.
    fn name(&self) -> String {
        format!("deliver {}", self.by)
    }
}
