//! I measure how large the hot row is, by the core's own transitions, with every field as long as it may be.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use punctual_adapters::dynamodb::row::row_bytes;
use punctual_core::acquire::Claimer;
use punctual_core::clock::Now;
use punctual_core::delivery::{Delivery, NewDelivery};
use punctual_core::destination::Mode;
use punctual_core::id::{
    Content, Correlation, DERIVED_PREFIX, DeliveryId, DestinationId, IdempotencyKey, MessageId, Owner, Reference,
};
use punctual_core::outcome::{CallResult, Called, classify};
use punctual_core::retry::RetryPolicy;
use punctual_core::settings::RetryMode;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::{self, QUEUE_REACH, Stamp, Terms};

use super::longest::{secret_ids, text};

const MARGIN: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(60);
/// Far enough away for ten attempts.
const WINDOW: Duration = Duration::from_secs(7 * 86_400);
/// As long as a call may take.
const CALL: Duration = Duration::from_millis(19_999);
/// More writes of a destination than there will be.
const DESTINATION_VERSION: u64 = 9_999;
/// The last of the most lanes that a destination may have.
const SHARD: u16 = 63;
/// The length of every derived id, in characters.
const DERIVED_ID: usize = 30;

/// How large a row is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    /// Once it is delivered.
    pub at_its_end: usize,
    /// At the most, over its whole life: a write is billed by the larger of the row before and after it.
    pub at_most: usize,
}

/// The row of a delivery that failed `attempt - 1` times with 503 and was then accepted. Waits too long for the queue
/// lead through the ledger, as they do in production. A migrated delivery has the longest id, and a key of its own.
///
/// # Errors
/// If the core refuses a transition of that life.
pub fn delivered_at(attempt: u32, migrated: bool) -> Result<Bytes> {
    let policy = RetryPolicy { attempts: attempt, ..RetryPolicy::default() };
    let terms = Terms {
        policy: &policy,
        destination_version: DESTINATION_VERSION,
        review_unknown: false,
        margin: MARGIN,
        measured: Duration::ZERO,
        retry_mode: RetryMode::Retry,
        queue_reach: QUEUE_REACH,
    };
    let mut at = Timestamp::from_millis(1_800_000_000_000);
    let mut row = scheduled(at, migrated)?;
    let mut at_most = row_bytes(&row);
    for number in 1..=attempt {
        if row.state == State::Scheduled {
            row = transition::dispatch_claimed(&row, claimer(at)?, Mode::Live, &stamp(at)?)?.after;
            at_most = at_most.max(row_bytes(&row));
            row = transition::queued(&row, MessageId::new("m".repeat(36))?, &stamp(at)?)?.after;
        }
        row = transition::deliver_claimed(&row, claimer(at)?, &stamp(at)?)?.after;
        at_most = at_most.max(row_bytes(&row));
        let status = if number == attempt { 200 } else { 503 };
        let result = CallResult::Answered { status, retry_after: None };
        let class = classify(&result, &std::collections::BTreeMap::new(), Now::exactly(at));
        let called = Called { result, started_at: at, took: CALL, key_ids: secret_ids().join(",") };
        row = transition::finished(&row, &called, class, &terms, 0.5, &stamp(at.plus(CALL))?)?.after;
        at_most = at_most.max(row_bytes(&row));
        at = row.next_attempt_at;
    }
    ensure!(row.state == State::Delivered, "the delivery ended as {}", row.state);
    if row.attempts.len() != usize::try_from(attempt)? {
        bail!("{} attempts instead of {attempt}", row.attempts.len());
    }
    Ok(Bytes { at_its_end: row_bytes(&row), at_most })
}

/// As schedule stores it.
fn scheduled(at: Timestamp, migrated: bool) -> Result<Delivery> {
    let (id, idempotency_key) = if migrated {
        (DeliveryId::new(text("old", DeliveryId::MAX))?, IdempotencyKey::new(text("key", IdempotencyKey::MAX))?)
    } else {
        let id = DeliveryId::new(text(DERIVED_PREFIX, DERIVED_ID))?;
        let key = IdempotencyKey::from(&id);
        (id, key)
    };
    let row = Delivery::new(
        NewDelivery {
            idempotency_key,
            reference: Reference::new(text("reference", Reference::MAX))?,
            destination: DestinationId::new(text("destination", DestinationId::MAX))?,
            shard: SHARD,
            content: Content::of(&[b"content"]),
            deliver_after: at,
            deliver_by: at.plus(WINDOW),
            id,
        },
        at,
        stamp(at)?.by,
    );
    // By a rule whose calendar has the longest name and whose notices are written at their longest.
    let (calendar, notice) = (text("calendar", 32), "P9Y12M500W160D");
    let rule = format!("{calendar}@99999 2027-04-28 -{notice} 01:30 by -{notice} 17:00, zones 2026a");
    Ok(Delivery { rule: Some(rule), ..row })
}

fn stamp(at: Timestamp) -> Result<Stamp> {
    Ok(Stamp { now: Now::exactly(at), by: Correlation::new("c".repeat(Correlation::MAX)).context("a correlation id")? })
}

fn claimer(at: Timestamp) -> Result<Claimer> {
    Ok(Claimer { owner: Owner::new("o".repeat(Owner::MAX))?, by: stamp(at)?.by, until: at.plus(LEASE) })
}
