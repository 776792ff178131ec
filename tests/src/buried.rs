//! I bury: rows that are dead as deliver leaves them, with their payload and their dead letter, without the time that it takes
//! to die.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use punctual_adapters::aws::Aws;
use punctual_adapters::clock::machine_time;
use punctual_adapters::dynamodb::DynamoLedger;
use punctual_adapters::sqs::SqsDeadLetters;
use punctual_core::attempt::{Answer, Attempt};
use punctual_core::dead_letter::DeadLetter;
use punctual_core::delivery::{Delivery, NewDelivery, Payload};
use punctual_core::history::HistoryEntry;
use punctual_core::id::{Content, Correlation, DeliveryId, DestinationId, IdempotencyKey, IdentityParts, Reference};
use punctual_core::ports::{Created, DeadLetters as _, Ledger as _, Written};
use punctual_core::reason::Reason;
use punctual_core::state::State;
use punctual_core::time::Timestamp;
use punctual_core::transition::Transition;

use crate::stack::{Stack, sdk_config};

/// So many are buried at once.
const AT_ONCE: usize = 16;
/// They were due so long ago, and have so long to go.
const DUE: Duration = Duration::from_secs(600);
const LEFT: Duration = Duration::from_secs(3_600);
/// They died so long ago.
const DIED: Duration = Duration::from_secs(60);

/// A dead row as deliver leaves it.
fn died(row: &Delivery, reason: Reason, at: Timestamp) -> Result<Delivery> {
    let (status, attempts) = match reason {
        Reason::Rejected => (400, 1),
        Reason::KeyConflict => (422, 1),
        _ => (503, 3),
    };
    let attempt = |number| Attempt {
        number,
        started_at: at,
        took: Duration::from_millis(20),
        answer: Answer::Status(status),
        reason: if status == 503 { Reason::ServerError } else { reason },
        destination_version: 1,
        key_ids: "flows".into(),
    };
    let mut dead = Delivery {
        state: State::Dead,
        version: 2,
        reason: Some(reason),
        wake_at: None,
        attempts: (1..=attempts).map(attempt).collect(),
        death: 1,
        dlq_sent: 1,
        ..row.clone()
    };
    let by = Correlation::new("before")?;
    dead.history.push(HistoryEntry { at, state: State::Dead, attempt: Some(attempts), reason: Some(reason), by });
    Ok(dead)
}

/// Stores a dead row with its payload and its dead letter.
async fn bury(
    (ledger, letters): (&DynamoLedger, &SqsDeadLetters),
    number: usize,
    destination: &str,
    reason: Reason,
) -> Result<Delivery> {
    let now = machine_time();
    let parts = IdentityParts {
        tenant: "acme".into(),
        subscriber: format!("subscriber-{number}"),
        renewal_period: "2027".into(),
        reminder_kind: destination.into(),
    };
    let (id, body) = (DeliveryId::derive(&parts), format!("{{\"n\":{number}}}").into_bytes());
    let (deliver_after, deliver_by) = (now.minus(DUE), now.plus(LEFT));
    let new = NewDelivery {
        idempotency_key: IdempotencyKey::from(&id),
        reference: Reference::new(format!("contract-{number}"))?,
        destination: DestinationId::new(destination)?,
        shard: id.shard(2),
        content: Content::of(&[&body]),
        deliver_after,
        deliver_by,
        id,
    };
    let row = Delivery::new(new, deliver_after, Correlation::new("before")?);
    let payload = Payload { body, parts, deliver_after, deliver_by };
    ensure!(ledger.create(&row, &payload).await? == Created::New, "{} exists", row.id);
    let dead = died(&row, reason, now.minus(DIED))?;
    let written = ledger.write(&Transition { before: row, after: dead.clone() }).await?;
    ensure!(written == Written::Done, "a lost race without a rival");
    letters.send(&DeadLetter::of(&dead)).await?;
    Ok(dead)
}

/// Stores so many dead rows for each group of a destination and a reason; they are numbered through.
///
/// # Errors
/// If a row exists, or a table or the dead-letter queue cannot be written.
pub async fn all(stack: &Stack, groups: &[(&str, Reason, usize)]) -> Result<Vec<Delivery>> {
    let ledger = Aws::with(sdk_config(stack.dynamodb_endpoint()).await).ledger(&stack.ledger_table()?);
    let letters = Aws::with(sdk_config(stack.endpoint()).await).dead_letters(&stack.dead_letter_queue_url()?);
    let each = groups.iter().flat_map(|(destination, reason, rows)| std::iter::repeat_n((*destination, *reason), *rows));
    iter(each.enumerate())
        .map(|(number, (destination, reason))| bury((&ledger, &letters), number, destination, reason))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}
