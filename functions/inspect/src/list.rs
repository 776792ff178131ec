//! I list deliveries by state, reason, destination, age and deadline, page by page, from the indexes that hold them.
//!
//! Dead and expired rows come from the attention index, in the order of their deadlines; rows that are still on their way from
//! the lanes of the wake index, in the order of when dispatch must next look. Indexes are a moment old; the rows that I show
//! are read as of now. One answer reads no more than its bounds, and says how much it read.

use punctual_core::delivery::{Delivery, Lane};
use punctual_core::destination::FieldError;
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::ports::{Control, Cursor, EndedPlace, EndedQuery, Ledger, Time, WakeQuery};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;
use punctual_flows::input::strict;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Inspect, Response, cursor};

/// The most deliveries in one answer.
const MOST: usize = 100;
/// The most entries of indexes that one answer is made from.
const MOST_ENTRIES: usize = 2_000;
/// The most entries of one page, and rows of one read.
const PAGE: u32 = 100;
/// Reading ends when so little of the invocation is left.
const RESERVE: std::time::Duration = std::time::Duration::from_secs(5);
/// Later than every row's time: 9999-12-31T23:59:59.999Z.
const END_OF_TIME: i64 = 253_402_300_799_999;

/// The `list` action.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListInput {
    /// Always `list`.
    pub action: String,
    /// In which state; not delivered, cancelled or shadowed.
    pub state: State,
    /// With this last reason.
    #[serde(default)]
    pub reason: Option<Reason>,
    /// Of this destination; none: of all.
    #[serde(default)]
    pub destination_id: Option<DestinationId>,
    /// In this state for so many seconds or more.
    #[serde(default)]
    pub min_age_seconds: Option<u64>,
    /// With a deadline before this instant.
    #[serde(default)]
    pub deadline_before: Option<Timestamp>,
    /// How many; 1 to 100. Default 20.
    #[serde(default = "twenty")]
    pub limit: usize,
    /// Where to go on, from the answer before to the same question.
    #[serde(default)]
    pub cursor: Option<String>,
}

fn twenty() -> usize {
    20
}

/// One delivery of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Which one.
    pub delivery_id: DeliveryId,
    /// Where it stands.
    pub state: State,
    /// Its last reason.
    pub reason: Option<Reason>,
    /// Whom it goes to.
    pub destination_id: DestinationId,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// The same in seconds, now.
    pub age_seconds: u64,
    /// Its next call starts no earlier.
    pub next_attempt_at: Timestamp,
    /// Its deadline.
    pub deliver_by: Timestamp,
    /// Attempts made.
    pub attempts: usize,
    /// Whether an operator holds it.
    pub held: bool,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct List {
    /// What was found, in the order of the index.
    pub deliveries: Vec<Listed>,
    /// So many entries of the index were read for it.
    pub entries_read: usize,
    /// Whether that was the last of it; if not, `cursor` goes on, also where nothing was found.
    pub complete: bool,
}

/// Where a list goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Place {
    /// Among dead or expired rows.
    Ended(EndedPlace),
    /// In a lane; without a cursor from its head.
    Lane(String, Option<Cursor>),
}

/// Reads and checks an event.
///
/// # Errors
/// [`FieldError`] that names the field.
pub fn read(event: &RawValue) -> Result<ListInput, FieldError> {
    let input: ListInput = strict(event, "")?;
    if !(1..=MOST).contains(&input.limit) {
        return Err(FieldError::new("out_of_bounds", "limit", format!("1 to {MOST}; got {}", input.limit)));
    }
    let ask = match input.state {
        State::Delivered => "delivered is in no index: explain one by its id, reference or identity, or reconcile a period",
        State::Cancelled => "cancelled is in no index: explain one by its id, reference or identity, or read operations",
        State::Shadowed => "shadowed is in no index: ask shadow_report for a period, or explain one",
        _ => return Ok(input),
    };
    Err(FieldError::new("not_listed", "state", format!("a state that an index holds; {ask}")))
}

/// What is collected.
struct Collected<'q> {
    input: &'q ListInput,
    now: Timestamp,
    found: Vec<Listed>,
    entries: usize,
}

impl Collected<'_> {
    fn is_full(&self) -> bool {
        self.found.len() >= self.input.limit || self.entries >= MOST_ENTRIES
    }

    /// Takes a row if it is asked for.
    fn take(&mut self, row: &Delivery) {
        let input = self.input;
        let since = row.died_at().or_else(|| entered(row)).unwrap_or(row.next_attempt_at);
        let age_seconds = self.now.since(since).as_secs();
        let wanted = row.state == input.state
            && input.reason.is_none_or(|reason| row.reason == Some(reason))
            && input.destination_id.as_ref().is_none_or(|id| row.destination == *id)
            && input.min_age_seconds.is_none_or(|least| age_seconds >= least)
            && input.deadline_before.is_none_or(|before| row.deliver_by < before);
        if wanted {
            self.found.push(Listed {
                delivery_id: row.id.clone(),
                state: row.state,
                reason: row.reason,
                destination_id: row.destination.clone(),
                since,
                age_seconds,
                next_attempt_at: row.next_attempt_at,
                deliver_by: row.deliver_by,
                attempts: row.attempts.len(),
                held: row.hold.is_some(),
            });
        }
    }
}

/// Since when a row is in its state: the first of its last lines in that state.
fn entered(row: &Delivery) -> Option<Timestamp> {
    row.history.iter().rev().take_while(|line| line.state == row.state).last().map(|line| line.at)
}

impl<L: Ledger, C: Control, D, T: Time> Inspect<'_, L, C, D, T> {
    pub(crate) async fn list(&self, event: &RawValue) -> Result<Response, FlowError> {
        let input = match read(event) {
            Ok(input) => input,
            Err(error) => return Ok(Response::refused(error)),
        };
        let question = question(&input);
        let start = match input.cursor.as_deref().map(|text| cursor::read::<Place>(&question, text)).transpose() {
            Ok(start) => start,
            Err(error) => return Ok(Response::refused(error)),
        };
        // Every answer of the database tells its time: a fresh environment has seen none yet.
        self.control.lookup(&[]).await?;
        let mut collected = Collected { input: &input, now: self.time.now()?.lo, found: Vec::new(), entries: 0 };
        let next = match (input.state, start) {
            (State::Dead | State::Expired, Some(Place::Ended(place))) => self.ended(&mut collected, Some(place)).await?,
            (State::Dead | State::Expired, _) => self.ended(&mut collected, None).await?,
            (_, Some(Place::Lane(lane, cursor))) => self.alive(&mut collected, Some((lane, cursor))).await?,
            _ => self.alive(&mut collected, None).await?,
        };
        let list = List { deliveries: collected.found, entries_read: collected.entries, complete: next.is_none() };
        let cursor = next.and_then(|place| cursor::written(&question, place).ok());
        let mut text: Vec<String> = list.deliveries.iter().map(line).collect();
        let more = if list.complete { "that is all" } else { "send the cursor to go on" };
        text.push(format!("{} found in {} index entries; {more}.", list.deliveries.len(), list.entries_read));
        Ok(Response { list: Some(list), cursor, ..Response::answered(text) })
    }

    async fn ended(&self, collected: &mut Collected<'_>, mut start: Option<EndedPlace>) -> Result<Option<Place>, FlowError> {
        let input = collected.input;
        loop {
            // The first page is read whatever the time: without a place to go on from, an answer would say that this is all.
            if start.is_some() && (collected.is_full() || self.time.time_left() <= RESERVE) {
                return Ok(start.map(Place::Ended));
            }
            let page =
                self.ledger.ended(&EndedQuery { state: input.state, start: start.clone(), limit: PAGE, from: None }).await?;
            // The index is in the order of deadlines: beyond the one that is asked for there is nothing.
            let wanted: Vec<&DeliveryId> = page
                .entries
                .iter()
                .filter(|entry| input.reason.is_none_or(|reason| entry.reason == Some(reason)))
                .filter(|entry| input.destination_id.as_ref().is_none_or(|id| entry.destination == *id))
                .map(|entry| &entry.id)
                .collect();
            let rows = self.rows(wanted.into_iter().cloned().collect()).await?;
            for entry in &page.entries {
                if input.deadline_before.is_some_and(|before| entry.deliver_by >= before) {
                    return Ok(None);
                }
                collected.entries += 1;
                if let Some(row) = rows.iter().find(|row| row.id == entry.id) {
                    collected.take(row);
                }
                let place = EndedPlace { deliver_by: entry.deliver_by, id: entry.id.clone() };
                if collected.is_full() {
                    return Ok(Some(Place::Ended(place)));
                }
            }
            start = page.next;
            if start.is_none() {
                return Ok(None);
            }
        }
    }

    async fn alive(
        &self,
        collected: &mut Collected<'_>,
        start: Option<(String, Option<Cursor>)>,
    ) -> Result<Option<Place>, FlowError> {
        let input = collected.input;
        let destinations = match &input.destination_id {
            Some(id) => self.control.lookup(std::slice::from_ref(id)).await?.0,
            None => self.control.destinations().await?,
        };
        let mut lanes: Vec<Lane> = destinations.iter().flat_map(|destination| destination.lanes()).collect();
        lanes.sort();
        let (first, mut cursor) = start.map_or((None, None), |(lane, cursor)| (lane.parse::<Lane>().ok(), cursor));
        // A lane that is there no more is passed over, and the place in it with it.
        if first.as_ref().is_some_and(|first| !lanes.contains(first)) {
            cursor = None;
        }
        for lane in lanes.into_iter().filter(|lane| first.as_ref().is_none_or(|first| lane >= first)) {
            loop {
                if collected.is_full() || self.time.time_left() <= RESERVE {
                    return Ok(Some(Place::Lane(lane.to_string(), cursor)));
                }
                let until = Timestamp::from_millis(END_OF_TIME);
                let query = WakeQuery { lane: lane.clone(), until, deadline_by: None, start: cursor.clone(), limit: PAGE };
                let page = self.ledger.wake(&query).await?;
                // A scheduled row is held by nobody; every other one was, until some instant.
                let scheduled = input.state == State::Scheduled;
                let wanted = page.candidates.iter().filter(|candidate| candidate.held_until.is_none() == scheduled);
                let rows = self.rows(wanted.map(|candidate| candidate.id.clone()).collect()).await?;
                for candidate in &page.candidates {
                    collected.entries += 1;
                    if let Some(row) = rows.iter().find(|row| row.id == candidate.id) {
                        collected.take(row);
                    }
                    if collected.is_full() {
                        let place = Cursor { wake_at: candidate.wake_at, id: candidate.id.clone() };
                        return Ok(Some(Place::Lane(lane.to_string(), Some(place))));
                    }
                }
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(None)
    }

    async fn rows(&self, ids: Vec<DeliveryId>) -> Result<Vec<Delivery>, FlowError> {
        if ids.is_empty() { Ok(Vec::new()) } else { Ok(self.ledger.read(&ids).await?) }
    }
}

/// What a cursor is good for: everything that was asked but how much of it.
fn question(input: &ListInput) -> String {
    let ListInput { state, reason, destination_id, min_age_seconds, deadline_before, .. } = input;
    serde_json::json!(["list", state, reason, destination_id, min_age_seconds, deadline_before]).to_string()
}

fn line(listed: &Listed) -> String {
    let reason = listed.reason.map_or("-", Reason::code);
    let held = if listed.held { ", held" } else { "" };
    format!(
        "{} {} {reason} to {} for {} s, deadline {}, {} attempts{held}",
        listed.delivery_id, listed.state, listed.destination_id, listed.age_seconds, listed.deliver_by, listed.attempts
    )
}
