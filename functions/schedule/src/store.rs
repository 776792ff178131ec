//! I store one checked reminder, or say why it is there already.

use punctual_core::delivery::Delivery;
use punctual_core::ports::{Created, Ledger, PortError};

use crate::input::Checked;
use crate::result::ItemResult;

/// Stores a reminder. The same content again is the stored row, unchanged; other content is a conflict that names the
/// fields.
///
/// # Errors
/// [`PortError`] if the ledger cannot say: the same call may be made again.
pub async fn store<L: Ledger>(ledger: &L, checked: &Checked) -> Result<ItemResult, PortError> {
    let created = match &checked.late {
        None => ledger.create(&checked.row, &checked.payload).await?,
        // Too late for a new one; the same file may be sent again all the same, and changes nothing.
        Some(late) => match ledger.read_one(&checked.row.id).await? {
            Some(row) => Created::Exists(Box::new(row)),
            None => return Ok(ItemResult::invalid(vec![late.clone()])),
        },
    };
    match created {
        Created::New => Ok(ItemResult::created(checked.row.clone())),
        Created::Taken(id) => Ok(ItemResult::taken(&id)),
        Created::Exists(row) if row.content == checked.row.content && row.idempotency_key == checked.row.idempotency_key => {
            Ok(ItemResult::unchanged(*row))
        }
        Created::Exists(row) => {
            let fields = differences(ledger, &row, checked).await?;
            Ok(ItemResult::conflict(*row, fields))
        }
    }
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
            if stored.deliver_after != checked.payload.deliver_after {
                fields.push("deliver_after");
            }
            if stored.deliver_by != checked.payload.deliver_by {
                fields.push("deliver_by");
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
