//! I am one run of monitor, in the order of its steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use punctual_core::breaker::Reach;
use punctual_core::destination::Destination;
use punctual_core::figures::backlog::Suspect;
use punctual_core::figures::stage::{AHEAD, Known};
use punctual_core::figures::{Figures, LookedAt, Repeats, Span};
use punctual_core::id::{Correlation, DeliveryId, DestinationId};
use punctual_core::ports::{Control, Gauge, Ledger, Overview, Time};
use punctual_core::redrive::Run;
use punctual_core::rejections::Rejections;
use punctual_core::settings::RetryMode;
use punctual_core::time::Timestamp;
use punctual_flows::{FlowError, chain};

use crate::lanes::{MOST_ENTRIES, Reading, Room};

/// Reading stops when this little of the invocation is left: the figures want their time too.
pub const TIME_RESERVE: Duration = Duration::from_secs(8);
/// The most rows that one run reads, over all destinations: those that are late for their call the longest.
pub const MOST_ROWS: usize = 500;
/// How many destinations are read at once.
const DESTINATIONS_AT_ONCE: usize = 4;

/// What an execution environment remembers from one run to the next.
#[derive(Debug, Default)]
pub struct Memory {
    repeats: Mutex<Repeats>,
    /// When the first run was: whoever has never been heard of since has been silent for so long.
    began: Mutex<Option<Timestamp>>,
    /// When each destination was last seen that could not be called; one that was seen callable ever since is not in it.
    held_back: Mutex<BTreeMap<DestinationId, Timestamp>>,
    /// How many messages could be received at the last look.
    visible: Mutex<u64>,
}

impl Memory {
    /// Since when a destination may be called: since it was last changed (a resume is a change), or seen paused or with an open
    /// breaker. Notes what is seen now.
    fn callable_since(&self, destination: &Destination, reach: Option<&Reach>, now: Timestamp) -> Timestamp {
        let mut held_back = self.held_back.lock().unwrap_or_else(PoisonError::into_inner);
        if destination.paused.is_some() || reach.is_some_and(|reach| reach.open.is_some()) {
            held_back.insert(destination.spec.id.clone(), now);
        }
        let seen = held_back.get(&destination.spec.id).copied();
        seen.map_or(destination.changed.at, |seen| seen.max(destination.changed.at))
    }

    /// The larger of the last look's number and this one's, which is kept.
    fn lately(&self, visible: u64) -> u64 {
        let mut before = self.visible.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *before, visible).max(visible)
    }
}

/// Monitor with its ports.
#[derive(Debug)]
pub struct Monitor<'a, L, C, Q, D, T> {
    /// The ledger.
    pub ledger: &'a L,
    /// The control table.
    pub control: &'a C,
    /// The queue of deliveries.
    pub queue: &'a Q,
    /// The dead-letter queue.
    pub dead_letters: &'a D,
    /// The database's time and this invocation's end.
    pub time: &'a T,
    /// What is remembered.
    pub memory: &'a Memory,
    /// From one tick of dispatch to the next.
    pub tick: Duration,
    /// The stage's safety margin.
    pub margin: Duration,
    /// Joins the log lines.
    pub by: Correlation,
}

impl<L: Ledger, C: Control + Overview, Q: Gauge, D: Gauge, T: Time> Monitor<'_, L, C, Q, D, T> {
    /// Runs once.
    ///
    /// # Errors
    /// [`FlowError`] if the control table, the index of dead rows or a queue cannot be read, or the database's time is not
    /// known well enough: then there are no figures, and the heartbeat is missing too. A destination that cannot be read is
    /// counted and logged, and hides no other.
    pub async fn run(&self) -> Result<Figures, FlowError> {
        let mut destinations = self.control.destinations().await?;
        let (reaches, rejections, calls, cursors, runs, heartbeat, settings, queue, dead_letters) = futures::join!(
            self.control.reaches(),
            self.control.rejections(),
            self.control.calls(),
            self.control.cursors(),
            self.control.runs(),
            self.control.heartbeat("dispatch"),
            self.control.lookup(&[]),
            self.queue.fill(),
            self.dead_letters.fill(),
        );
        let reaches: BTreeMap<DestinationId, Reach> = reaches?.into_iter().collect();
        let now = self.time.now()?;
        let mut figures = Figures::begin(now.lo);
        figures.cursors = count(cursors?.len());
        figures.retries_disabled = settings?.1.retry_mode == RetryMode::DeadLetter;
        (figures.queue, figures.dead_letters) = (queue?, dead_letters?);
        figures.visible_lately = self.memory.lately(figures.queue.visible);
        let beat = heartbeat?.map_or_else(|| self.began(now.lo), |heartbeat| heartbeat.at);
        figures.dispatch_age_seconds = now.lo.since(beat).as_secs();
        // A run that cannot be read slows nothing down here: whoever starts one is told.
        let runs = runs.inspect_err(|error| tracing::error!(by = %self.by, error = %chain(error), "redrive runs cannot be read"));
        let runs: Vec<Run> = runs.unwrap_or_default().into_iter().filter(|run| run.phase.is_active()).collect();
        figures.redrives = count(runs.len());
        figures.rejecting = count(rejecting(&destinations, &rejections?));
        let repeats = {
            let mut repeats = self.memory.repeats.lock().unwrap_or_else(PoisonError::into_inner);
            repeats.look(&calls?);
            repeats.clone()
        };

        let (ended, complete) = crate::ended::read(self.ledger, self.time, now.lo).await?;
        figures.ended(&ended);
        figures.truncated += u64::from(!complete);

        // Each run begins somewhere else: one that has no time for all leaves out others each time.
        rotate(&mut destinations, self.time.random());
        let room = Room::of(MOST_ENTRIES, destinations.len());
        // Each reading is added up as soon as it is there, and let go.
        let mut readings = futures::stream::iter(&destinations)
            .map(|destination| {
                let span = Span { now: now.lo, until: now.lo.plus(AHEAD), margin: destination.margin(self.margin) };
                let room = &room;
                async move { (destination, crate::lanes::read(self.ledger, self.time, destination, span, room).await) }
            })
            .buffer_unordered(DESTINATIONS_AT_ONCE);
        let mut suspects = Vec::new();
        while let Some((destination, reading)) = readings.next().await {
            let id = &destination.spec.id;
            match reading {
                Ok(Reading { backlog, read_until, read_units }) => {
                    suspects.extend(backlog.to_look_at());
                    figures.read_units += read_units;
                    let known = Known {
                        destination,
                        reach: reaches.get(id),
                        backlog: &backlog,
                        read_until,
                        calls_percent: repeats.percent(id),
                        redriving: runs.iter().any(|run| may_take(run, id)),
                        callable_since: Some(self.memory.callable_since(destination, reaches.get(id), now.lo)),
                    };
                    figures.destination(known, self.tick);
                }
                Err(error) => {
                    figures.unread += 1;
                    tracing::error!(by = %self.by, destination_id = %id, error = %chain(&error), "a destination cannot be read");
                }
            }
        }
        drop(readings);
        let looked_at = self.look_at(suspects).await?;
        figures.looked_at(&looked_at);
        let paused: BTreeSet<DestinationId> =
            destinations.iter().filter(|one| one.paused.is_some()).map(|one| one.spec.id.clone()).collect();
        figures.letters(&ended, &looked_at, &paused);
        Ok(figures)
    }

    /// Reads the rows that are late for their call, those that are late the longest.
    async fn look_at(&self, mut suspects: Vec<Suspect>) -> Result<LookedAt, FlowError> {
        suspects.sort_unstable();
        suspects.truncate(MOST_ROWS);
        let ids: Vec<DeliveryId> = suspects.iter().map(|suspect| suspect.id.clone()).collect();
        let mut looked_at = LookedAt::default();
        if ids.is_empty() {
            return Ok(looked_at);
        }
        let since: BTreeMap<DeliveryId, Timestamp> = suspects.into_iter().map(|suspect| (suspect.id, suspect.since)).collect();
        let rows = self.ledger.read(&ids).await?;
        let now = self.time.now()?;
        for row in &rows {
            // The index is a moment behind: a row that has come to its end is late for nothing.
            if let Some(since) = since.get(&row.id).filter(|_| row.wake_at.is_some()) {
                looked_at.note(row, *since, now);
            }
        }
        Ok(looked_at)
    }

    fn began(&self, now: Timestamp) -> Timestamp {
        *self.memory.began.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now)
    }
}

/// Whether a run may take a part of this destination's rate.
fn may_take(run: &Run, id: &DestinationId) -> bool {
    run.order.selection.destination_ids.as_ref().is_none_or(|ids| ids.contains(id))
}

/// How many destinations rejected any of their last calls, as they are now.
fn rejecting(destinations: &[Destination], noted: &[(DestinationId, Rejections)]) -> usize {
    let is_rejecting = |destination: &&Destination| {
        let of_last = destination.spec.pause_after.of_last;
        noted.iter().any(|(id, rejections)| {
            *id == destination.spec.id
                && rejections.destination_version == destination.version
                && rejections.results.rejected(of_last) > 0
        })
    };
    destinations.iter().filter(is_rejecting).count()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Begins the list at a place that `random` in `[0, 1)` chooses.
fn rotate(list: &mut [Destination], random: f64) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a short list"
    )]
    let turn = (list.len() as f64 * random) as usize;
    list.rotate_left(turn.min(list.len()));
}
