//! I read the rows that a selection takes, nearest deadline first, a hundred at a time: never all of them at once.
//!
//! The `attention` index tells which rows may be meant; the rows themselves, as of now, decide. A selection that names
//! deliveries reads those alone.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use punctual_core::clock::Now;
use punctual_core::delivery::Delivery;
use punctual_core::destination::Destination;
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::ports::{EndedEntry, EndedPlace, EndedQuery, Ledger, PortError};
use punctual_core::redrive::Selection;
use punctual_core::state::State;

/// The most entries of one page of the index.
const PAGE: u32 = 1_000;
/// So many rows are read at once.
const BATCH: usize = 100;

/// The margins before a deadline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Margins<'a> {
    /// The registered destinations.
    pub(crate) destinations: &'a BTreeMap<DestinationId, Destination>,
    /// The stage's.
    pub(crate) stage: Duration,
}

impl Margins<'_> {
    /// A destination's margin; the stage's for one that is not registered.
    pub(crate) fn of(self, id: &DestinationId) -> Duration {
        self.destinations.get(id).map_or(self.stage, |destination| destination.margin(self.stage))
    }
}

/// The dead or the expired rows.
#[derive(Debug)]
struct Stream {
    state: State,
    read: VecDeque<EndedEntry>,
    next: Option<EndedPlace>,
    over: bool,
}

impl Stream {
    fn new(state: State) -> Self {
        Self { state, read: VecDeque::new(), next: None, over: false }
    }

    async fn fill<L: Ledger>(&mut self, ledger: &L, seen: &mut u64) -> Result<(), PortError> {
        while self.read.is_empty() && !self.over {
            let query = EndedQuery { state: self.state, from: None, start: self.next.take(), limit: PAGE };
            let page = ledger.ended(&query).await?;
            *seen = seen.saturating_add(u64::try_from(page.entries.len()).unwrap_or(0));
            self.read = page.entries.into();
            self.over = page.next.is_none();
            self.next = page.next;
        }
        Ok(())
    }
}

/// The rows that a selection takes.
#[derive(Debug)]
pub(crate) struct Candidates<'a, L> {
    ledger: &'a L,
    selection: &'a Selection,
    margins: Margins<'a>,
    streams: [Stream; 2],
    named: Option<Vec<DeliveryId>>,
    /// How many entries of the index were read.
    pub(crate) seen: u64,
}

impl<'a, L: Ledger> Candidates<'a, L> {
    pub(crate) fn new(ledger: &'a L, selection: &'a Selection, margins: Margins<'a>) -> Self {
        let streams = [Stream::new(State::Dead), Stream::new(State::Expired)];
        Self { ledger, selection, margins, streams, named: selection.delivery_ids.clone(), seen: 0 }
    }

    /// The next rows, nearest deadline first; none once all were read. A batch may be empty.
    pub(crate) async fn batch(&mut self, now: Now) -> Result<Option<Vec<Delivery>>, PortError> {
        let ids = match &mut self.named {
            Some(named) => std::mem::take(named),
            None => self.entries(now).await?,
        };
        if ids.is_empty() {
            return Ok(None);
        }
        let mut rows = self.ledger.read(&ids).await?;
        rows.retain(|row| self.selection.matches(row, now, self.margins.of(&row.destination)));
        rows.sort_by(|a, b| (a.deliver_by, &a.id).cmp(&(b.deliver_by, &b.id)));
        Ok(Some(rows))
    }

    /// The next entries of the index that may be meant, from both streams in the order of their deadlines.
    async fn entries(&mut self, now: Now) -> Result<Vec<DeliveryId>, PortError> {
        let mut ids = Vec::new();
        while ids.len() < BATCH {
            let Some(entry) = self.entry().await? else { break };
            if self.selection.may_match(&entry, now, self.margins.of(&entry.destination)) {
                ids.push(entry.id);
            }
        }
        Ok(ids)
    }

    async fn entry(&mut self) -> Result<Option<EndedEntry>, PortError> {
        let [dead, expired] = &mut self.streams;
        dead.fill(self.ledger, &mut self.seen).await?;
        expired.fill(self.ledger, &mut self.seen).await?;
        let place = |entry: &EndedEntry| (entry.deliver_by, entry.id.clone());
        Ok(match (dead.read.front().map(place), expired.read.front().map(place)) {
            (Some(first), Some(second)) if second < first => expired.read.pop_front(),
            (None, _) => expired.read.pop_front(),
            _ => dead.read.pop_front(),
        })
    }
}
