//! I take a batch: every record on its own, and a response that names exactly those that must be seen again.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures::future::{Either, join_all, select};
use punctual_core::destination::Destination;
use punctual_core::id::{Correlation, DestinationId};
use punctual_core::message::{Message, MessageError};
use punctual_core::ports::{Control, DeadLetters, Ledger, PortError, Queue, Secrets, Time, Watched, Webhook};
use punctual_core::rejections::Rejections;
use punctual_core::settings::Settings;
use punctual_core::time::Timestamp;
use punctual_flows::chain;
use punctual_flows::release::invisible_seconds;

use crate::reach::Lines;
use crate::slots::Office;
use crate::tally::Tally;
use crate::{Deliver, Disposition};

/// A message that failed for a passing reason is seen again after this.
pub const TRY_AGAIN: Duration = Duration::from_secs(5);
/// Whatever a record does, the batch is answered when this little of the invocation is left.
const BATCH_RESERVE: Duration = Duration::from_millis(400);
/// What the calls came to is noted while so much of the invocation is left: the messages must still be hidden.
const NOTE_RESERVE: Duration = Duration::from_millis(2_000);
/// A slow note does not keep the batch's other destinations longer than this.
const NOTE_MOST: Duration = Duration::from_millis(3_000);
/// The longest visibility that a received message is given here.
const MAX_HIDE_SECONDS: u64 = 900;

/// What all records of a batch share.
#[derive(Debug, Default)]
pub struct Known {
    /// The destinations that the messages name, as of now.
    pub destinations: BTreeMap<DestinationId, Destination>,
    /// Those of them that cannot be read: their records wait, and take no other along.
    pub unreadable: BTreeSet<DestinationId>,
    /// How their receivers answered last, where a rejection was among it.
    pub rejections: BTreeMap<DestinationId, Rejections>,
    /// How they have been reached lately, and what this batch has heard since.
    pub lines: Lines,
    /// The switches, as of now.
    pub settings: Settings,
    /// Where slots of their rates are booked.
    pub offices: BTreeMap<DestinationId, Office>,
}

impl Known {
    /// Learns what was read.
    pub(crate) fn learn(&mut self, watched: Watched, by: &Correlation) {
        self.lines.learn(&watched.destinations, watched.reach, by);
        self.destinations.extend(watched.destinations.into_iter().map(|d| (d.spec.id.clone(), d)));
        self.rejections.extend(watched.rejections);
        self.settings = watched.settings;
    }
}

/// One received message.
#[derive(Debug)]
pub struct Record<'a> {
    /// Its place in the batch.
    pub number: usize,
    /// Its text.
    pub body: &'a str,
    /// What it says, if it can be read.
    pub message: Result<Message, MessageError>,
    /// How often it was received; approximate.
    pub receive_count: u32,
    /// When it was first received; approximate.
    pub first_received: Option<Timestamp>,
    /// When the queue accepted it; approximate.
    pub sent: Option<Timestamp>,
}

impl<'a> Record<'a> {
    fn of((place, message): (usize, &'a SqsMessage)) -> Self {
        let body = message.body.as_deref().unwrap_or_default();
        let number = |name: &str| message.attributes.get(name).and_then(|text| text.parse::<i64>().ok());
        Self {
            number: place,
            body,
            message: Message::parse(body),
            receive_count: number("ApproximateReceiveCount").and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            first_received: number("ApproximateFirstReceiveTimestamp").map(Timestamp::from_millis),
            sent: number("SentTimestamp").map(Timestamp::from_millis),
        }
    }
}

impl<L: Ledger, C: Control, Q: Queue, D: DeadLetters, S: Secrets, W: Webhook, T: Time> Deliver<'_, L, C, Q, D, S, W, T> {
    /// Handles a batch. Never fails as a whole: what could not be done is named in the response.
    pub async fn handle(&self, event: &SqsEvent) -> (SqsBatchResponse, Tally) {
        let records: Vec<Record<'_>> = event.records.iter().enumerate().map(Record::of).collect();
        let ids: Vec<DestinationId> =
            records.iter().filter_map(|r| r.message.as_ref().ok()).map(|m| m.destination_id.clone()).collect();
        let mut tally = Tally { received: records.len(), ..Tally::default() };
        let dispositions = match self.known(&ids).await {
            Ok(mut known) => {
                self.pause_before_calls(&mut known, &mut tally).await;
                self.open(&records, &mut known);
                let done = join_all(records.iter().map(|record| self.record(record, &known))).await;
                let dispositions = done
                    .into_iter()
                    .map(|(disposition, part)| {
                        tally.add(part);
                        disposition
                    })
                    .collect();
                tally.slots_wasted = tally.slots_booked.saturating_sub(tally.called + tally.shadowed);
                self.note_in_time(&known, &mut tally).await;
                dispositions
            }
            Err(error) => {
                tracing::error!(by = %self.by, error = %chain(&error), "the control table cannot be read; the batch is seen again");
                tally.failed += records.len();
                vec![Disposition::HideFor(TRY_AGAIN); records.len()]
            }
        };
        (self.respond(event, &dispositions).await, tally)
    }

    /// Looks the destinations up, in one read. Where one of them is corrupt they are looked up one by one.
    async fn known(&self, ids: &[DestinationId]) -> Result<Known, PortError> {
        let mut known = Known::default();
        match self.control.watch(ids).await {
            Ok(watched) => known.learn(watched, &self.by),
            Err(PortError::Corrupt { .. }) => {
                for id in ids.iter().collect::<BTreeSet<_>>() {
                    match self.control.watch(std::slice::from_ref(id)).await {
                        Ok(watched) => known.learn(watched, &self.by),
                        Err(error @ PortError::Corrupt { .. }) => {
                            tracing::error!(by = %self.by, destination_id = %id, error = %error, "a destination cannot be read");
                            known.unreadable.insert(id.clone());
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) => return Err(error),
        }
        Ok(known)
    }

    /// A batch is answered in time, noted or not.
    async fn note_in_time(&self, known: &Known, tally: &mut Tally) {
        if tally.outcomes.is_empty() && !known.lines.has_heard() {
            return;
        }
        let budget = self.time.time_left().saturating_sub(NOTE_RESERVE).min(NOTE_MOST);
        let note = pin!(async {
            self.note_reach(known, tally).await;
            self.note(known, tally).await;
        });
        if let Either::Right(_) = select(note, pin!(self.time.pause(budget))).await {
            tracing::error!(by = %self.by, "what the receivers answered could not be noted within the invocation");
        }
    }

    async fn record(&self, record: &Record<'_>, known: &Known) -> (Disposition, Tally) {
        let mut tally = Tally::default();
        let budget = self.time.time_left().saturating_sub(BATCH_RESERVE);
        let processed = {
            let process = pin!(self.process(record, known, &mut tally));
            match select(process, pin!(self.time.pause(budget))).await {
                Either::Left((processed, _)) => Some(processed),
                Either::Right(_) => None,
            }
        };
        let disposition = match processed {
            Some(Ok(disposition)) => disposition,
            // One slow record takes no other along: what it has written stands, and its lease ends by itself.
            None => {
                tally.failed += 1;
                let id = record.message.as_ref().map_or("unreadable", |m| m.delivery_id.as_str());
                tracing::error!(by = %self.by, delivery_id = id, "a record did not end within the invocation; it is seen again");
                Disposition::HideFor(TRY_AGAIN)
            }
            Some(Err(error)) => {
                tally.failed += 1;
                let id = record.message.as_ref().map_or("unreadable", |m| m.delivery_id.as_str());
                tracing::error!(by = %self.by, delivery_id = id, error = %chain(&error), "a record is seen again");
                Disposition::HideFor(TRY_AGAIN)
            }
        };
        (disposition, tally)
    }

    /// Hides what must be seen again until it is due, then names it. A failed hide is no error: the row's own time
    /// protects it. An item without an id can't be named, and naming it would fail the whole batch.
    async fn respond(&self, event: &SqsEvent, dispositions: &[Disposition]) -> SqsBatchResponse {
        let mut response = SqsBatchResponse::default();
        let mut hides = Vec::new();
        for (message, disposition) in event.records.iter().zip(dispositions) {
            let seconds = match (disposition, self.time.now()) {
                (Disposition::Acknowledge, _) => continue,
                (Disposition::HideFor(wait), _) => wait.as_secs(),
                (Disposition::HideUntil(at), Ok(now)) => invisible_seconds(*at, now),
                (Disposition::HideUntil(_), Err(_)) => TRY_AGAIN.as_secs(),
            };
            match message.message_id.as_deref() {
                Some(id) if !id.is_empty() => response.add_failure(id),
                _ => tracing::error!(by = %self.by, "a message without an id cannot be reported; rescue publishes it again"),
            }
            if let Some(receipt) = message.receipt_handle.as_deref() {
                hides.push((receipt, u32::try_from(seconds.min(MAX_HIDE_SECONDS)).unwrap_or(0)));
            }
        }
        let results = join_all(hides.iter().map(|(receipt, seconds)| self.queue.hide(receipt, *seconds))).await;
        for error in results.into_iter().filter_map(Result::err) {
            tracing::warn!(by = %self.by, error = %chain(&error), "a message could not be hidden; the row's own time protects it");
        }
        response
    }
}
