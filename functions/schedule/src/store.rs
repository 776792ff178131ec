//! I store one checked reminder, or say why it is there already.

use punctual_core::delivery::{Delivery, Payload};
use punctual_core::ports::{Created, Ledger, PortError};

use crate::check::{Checked, content};
use crate::result::ItemResult;
use crate::when::When;

/// Stores a reminder. The same content again is the stored row, unchanged; other content is a conflict that names the
/// fields. One that can't be stored now is answered all the same if it was stored before.
///
/// # Errors
/// [`PortError`] if the ledger cannot say: the same call may be made again.
pub async fn store<L: Ledger>(ledger: &L, checked: &Checked) -> Result<ItemResult, PortError> {
    if checked.is_blocked() {
        return match ledger.read_one(&checked.row.id).await? {
            Some(row) => compared(ledger, row, checked).await,
            None => Ok(blocked(checked)),
        };
    }
    match ledger.create(&checked.row, &checked.payload).await? {
        Created::New => Ok(ItemResult::created(checked.row.clone()).with_steps(&checked.due)),
        Created::Taken(id) => Ok(ItemResult::taken(&id)),
        Created::Exists(row) => compared(ledger, *row, checked).await,
    }
}

/// Says what storing it would do, and changes nothing. A key that a migrated reminder shares with another delivery is
/// found by storing only.
///
/// # Errors
/// [`PortError`] if the ledger cannot say.
pub async fn preview<L: Ledger>(ledger: &L, checked: &Checked) -> Result<ItemResult, PortError> {
    match ledger.read_one(&checked.row.id).await? {
        Some(row) => compared(ledger, row, checked).await,
        None if checked.is_blocked() => Ok(blocked(checked)),
        None => Ok(ItemResult::would_create(&checked.row).with_steps(&checked.due)),
    }
}

fn blocked(checked: &Checked) -> ItemResult {
    ItemResult::invalid(checked.due.blocked.clone()).with_steps(&checked.due)
}

/// The reminder beside the stored row.
async fn compared<L: Ledger>(ledger: &L, row: Delivery, checked: &Checked) -> Result<ItemResult, PortError> {
    if row.content == checked.row.content && row.idempotency_key == checked.row.idempotency_key {
        return Ok(ItemResult::unchanged(row).beside(&checked.due));
    }
    let fields = differences(ledger, &row, checked).await?;
    Ok(ItemResult::conflict(row, fields))
}

/// The fields in which the stored reminder differs, as it was first asked for.
async fn differences<L: Ledger>(ledger: &L, row: &Delivery, checked: &Checked) -> Result<Vec<&'static str>, PortError> {
    let mut fields = Vec::new();
    if row.idempotency_key != checked.row.idempotency_key {
        fields.push("idempotency_key");
    }
    if row.content == checked.row.content {
        return Ok(fields);
    }
    if row.destination != checked.row.destination {
        fields.push("destination_id");
    }
    if row.reference != checked.row.reference {
        fields.push("reference");
    }
    match ledger.payload(&row.id, &row.content).await? {
        Some(stored) => {
            // Whether the stored one had this rule, another or none, only the hash knows.
            if content(&stored.body, &row.destination, &row.reference, &checked.when) != row.content {
                fields.extend(when_differs(&stored, checked));
            }
            if stored.body != checked.payload.body {
                fields.push("payload");
            }
        }
        // Erased: the content hash says that something differs, but no longer what.
        None => fields.push("payload"),
    }
    Ok(fields)
}

/// Which of the fields that say when it is due differ, if any does.
fn when_differs(stored: &Payload, checked: &Checked) -> Vec<&'static str> {
    let Some(now) = checked.due.instants.filter(|_| !matches!(checked.when, When::Rule(..))) else { return vec!["rule"] };
    let after = (stored.deliver_after != now.deliver_after).then_some("deliver_after");
    let by = (stored.deliver_by != now.deliver_by).then_some("deliver_by");
    let given: Vec<&'static str> = after.into_iter().chain(by).collect();
    // The same instants, but stored by a rule.
    if given.is_empty() { vec!["rule"] } else { given }
}
