//! I show the dead letters: whose they are, why and since when they lie here, and whether their deadline can still be kept.
//!
//! Looking means receiving, and that cannot be undone: each letter's receive count grows by one. Everything else stays: I
//! delete nothing, and show every letter again as soon as I have seen them all.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::acquire::can_start;
use punctual_core::clock::Now;
use punctual_core::dead_letter::told;
use punctual_core::delivery::Delivery;
use punctual_core::destination::{Destination, FieldError};
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_core::ports::{Control, Ledger, Letter, Letters, PortError, Time};
use punctual_core::reason::Reason;
use punctual_core::redrive::{ForLetter, LeaveWhy, for_letter};
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_flows::FlowError;
use punctual_flows::input::strict;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Inspect, Response};

/// The most letters of one answer.
pub const MOST: u32 = 1_000;
/// The letters of one answer, unless said otherwise.
const USUAL: u32 = 100;
/// While the others are received a letter is hidden; if I am cut off it shows itself after so long.
const HIDE_SECONDS: u32 = 60;
/// The most letters of one receive.
const MOST_RECEIVED: u32 = 10;
/// How many receives are under way at once.
const RECEIVES_AT_ONCE: u32 = 4;
/// Receiving ends when so little of the invocation is left.
const RESERVE: Duration = Duration::from_secs(20);
/// So many rows are read at once.
const ROWS_AT_ONCE: usize = 100;

/// The `dead_letters` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLettersInput {
    /// Always `dead_letters`.
    pub action: String,
    /// The most letters to look at; 1 to 1,000, 100 unless given.
    #[serde(default = "usual")]
    pub limit: u32,
}

fn usual() -> u32 {
    USUAL
}

/// What lies in the dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LettersView {
    /// How many letters were looked at.
    pub seen: usize,
    /// Whether those are all that the queue showed.
    pub complete: bool,
    /// How many by reason, as the letters say it.
    pub reasons: BTreeMap<String, u32>,
    /// Whose death is not over and whose deadline can still be kept: a redrive may help.
    pub reachable: u32,
    /// Those that could not be shown again at once, and show themselves within a minute.
    pub hidden: usize,
    /// The letters, the oldest first.
    pub letters: Vec<LetterView>,
}

/// One dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LetterView {
    /// The queue's name for it.
    pub message_id: String,
    /// Whose; none of one that names no delivery of ours.
    pub delivery_id: Option<DeliveryId>,
    /// Which of its deaths.
    pub death: Option<u32>,
    /// Why, as the letter says it.
    pub reason: Option<Reason>,
    /// Since when it lies here.
    pub sent_at: Timestamp,
    /// For how many seconds.
    pub age_seconds: u64,
    /// How often it was received, this time included.
    pub receives: u32,
    /// What a sweep would do with it, and why: `leave: unselected`, `delete: older`, …
    pub sweep: String,
    /// Where its delivery stands now.
    pub state: Option<State>,
    /// Whom its delivery goes to.
    pub destination_id: Option<DestinationId>,
    /// The delivery's deadline.
    pub deliver_by: Option<Timestamp>,
    /// Whether a call could still start before that deadline; none where the death is over or nobody knows it.
    pub deadline_reachable: Option<bool>,
}

/// Reads and checks an event.
///
/// # Errors
/// [`FieldError`] with what is wrong.
pub fn read(event: &RawValue) -> Result<DeadLettersInput, FieldError> {
    let input: DeadLettersInput = strict(event, "")?;
    if (1..=MOST).contains(&input.limit) {
        Ok(input)
    } else {
        Err(FieldError::new("out_of_bounds", "limit", format!("1 to {MOST}; got {}", input.limit)))
    }
}

impl<L: Ledger, C: Control, D: Letters, T: Time> Inspect<'_, L, C, D, T> {
    pub(crate) async fn dead_letters(&self, event: &RawValue) -> Result<Response, FlowError> {
        let input = match read(event) {
            Ok(input) => input,
            Err(error) => return Ok(Response::refused(error)),
        };
        let mut letters = Vec::new();
        let received = self.receive_all(input.limit, &mut letters).await;
        // Before anything else: whatever fails, nothing stays hidden for longer than it must.
        let receipts: Vec<String> = letters.iter().map(|letter| letter.receipt.clone()).collect();
        let hidden = self.letters.release(&receipts).await.into_iter().filter(Result::is_err).count();
        let complete = received?;

        letters.sort_by(|a, b| (a.sent_at, &a.id).cmp(&(b.sent_at, &b.id)));
        let rows = self.rows_of(&letters).await?;
        let destinations: BTreeMap<DestinationId, Destination> =
            self.control.destinations().await?.into_iter().map(|one| (one.spec.id.clone(), one)).collect();
        let now = self.time.now()?;
        let letters: Vec<LetterView> =
            letters.iter().map(|letter| view(letter, &rows, &destinations, self.margin, now)).collect();
        let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
        for letter in &letters {
            *reasons.entry(letter.reason.map_or_else(|| "unknown".to_owned(), |reason| reason.to_string())).or_default() += 1;
        }
        let reachable = letters.iter().filter(|letter| letter.deadline_reachable == Some(true)).count();
        let reachable = u32::try_from(reachable).unwrap_or(u32::MAX);
        let view = LettersView { seen: letters.len(), complete, reasons, reachable, hidden, letters };
        let lines = text(&view);
        Ok(Response { dead_letters: Some(view), ..Response::answered(lines) })
    }

    /// Receives until so many are there, or nothing comes any more. Says whether it is the latter.
    async fn receive_all(&self, limit: u32, letters: &mut Vec<Letter>) -> Result<bool, PortError> {
        let mut empty = false;
        loop {
            let left = limit.saturating_sub(u32::try_from(letters.len()).unwrap_or(u32::MAX));
            if left == 0 || self.time.time_left() < RESERVE {
                return Ok(false);
            }
            let receives = (0..RECEIVES_AT_ONCE).map(|n| left.saturating_sub(n * MOST_RECEIVED).min(MOST_RECEIVED));
            let receives = receives.filter(|most| *most > 0).map(|most| self.letters.receive(most, HIDE_SECONDS));
            let before = letters.len();
            let mut failed = None;
            for received in futures::future::join_all(receives).await {
                match received {
                    Ok(some) => letters.extend(some),
                    Err(error) => failed = Some(error),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
            // A queue that is nearly empty answers with what it finds at once: asked twice.
            let nothing = letters.len() == before;
            if nothing && empty {
                return Ok(true);
            }
            empty = nothing;
        }
    }

    /// The rows that letters tell of, as of now.
    async fn rows_of(&self, letters: &[Letter]) -> Result<BTreeMap<DeliveryId, Delivery>, PortError> {
        let mut ids: Vec<DeliveryId> = letters.iter().filter_map(told).map(|told| told.delivery_id).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut rows = BTreeMap::new();
        for some in ids.chunks(ROWS_AT_ONCE) {
            rows.extend(self.ledger.read(some).await?.into_iter().map(|row| (row.id.clone(), row)));
        }
        Ok(rows)
    }
}

fn view(
    letter: &Letter,
    rows: &BTreeMap<DeliveryId, Delivery>,
    destinations: &BTreeMap<DestinationId, Destination>,
    stage: Duration,
    now: Now,
) -> LetterView {
    let told = told(letter);
    let row = told.as_ref().and_then(|told| rows.get(&told.delivery_id));
    let decision = told.as_ref().map_or(ForLetter::Leave(LeaveWhy::Malformed), |told| for_letter(told.death, row));
    let sweep = match decision {
        ForLetter::Delete(why) => format!("delete: {}", why.code()),
        ForLetter::Leave(why) => format!("leave: {}", why.code()),
    };
    let reachable = |row: &Delivery| {
        let margin = destinations.get(&row.destination).map_or(stage, |destination| destination.margin(stage));
        can_start(row.deliver_by, margin, now)
    };
    let waits = decision == ForLetter::Leave(LeaveWhy::Unselected);
    LetterView {
        message_id: letter.id.to_string(),
        death: told.as_ref().and_then(|told| told.death),
        reason: told.as_ref().and_then(|told| told.reason),
        delivery_id: told.map(|told| told.delivery_id),
        sent_at: letter.sent_at,
        age_seconds: now.lo.since(letter.sent_at).as_secs(),
        receives: letter.receives,
        sweep,
        state: row.map(|row| row.state),
        destination_id: row.map(|row| row.destination.clone()),
        deliver_by: row.map(|row| row.deliver_by),
        deadline_reachable: row.filter(|_| waits).map(reachable),
    }
}

fn text(view: &LettersView) -> Vec<String> {
    let all = if view.complete { "that is all the queue showed" } else { "there may be more" };
    let mut lines = vec![format!("{} dead letters looked at; {all}. Nothing was changed but their receive counts.", view.seen)];
    lines.extend(view.reasons.iter().map(|(reason, n)| format!("{reason}: {n}")));
    if view.seen > 0 {
        lines.push(format!("{} have a deadline that can still be kept: plan a redrive.", view.reachable));
    }
    if view.hidden > 0 {
        lines.push(format!("{} could not be shown again at once; they show themselves within a minute.", view.hidden));
    }
    lines
}
