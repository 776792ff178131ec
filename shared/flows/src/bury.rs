//! I bury dead and expired work: the dead letter first, then the mark in the ledger.
//!
//! The row is already `dead` or `expired` with its death counted. Until `dlq_sent` equals `death`, redelivery and
//! dispatch call me again: the dead-letter queue is at least once, and the ledger is the authority.

use punctual_core::dead_letter::DeadLetter;
use punctual_core::delivery::Delivery;
use punctual_core::id::Correlation;
use punctual_core::ports::{DeadLetters, Ledger, Time, Written};
use punctual_core::transition;

use crate::fault::{self, Point};
use crate::{FlowError, stamp};

/// Sends the dead letter that the row owes, and marks it sent. A row that owes none is left alone.
///
/// # Errors
/// [`FlowError`] if the letter could not be sent or the mark not written: whoever sees the row next repeats it.
pub async fn bury<L: Ledger, D: DeadLetters, T: Time>(
    ledger: &L,
    dead_letters: &D,
    time: &T,
    row: Delivery,
    by: &Correlation,
) -> Result<(), FlowError> {
    let mut row = row;
    while row.owes_dead_letter() {
        fault::point(Point::BeforeLetter, &row.id);
        dead_letters.send(&DeadLetter::of(&row)).await?;
        fault::point(Point::AfterLetter, &row.id);
        let Ok(marked) = transition::dead_letter_sent(&row, &stamp(time, by)?) else { return Ok(()) };
        match ledger.write(&marked).await? {
            Written::Done | Written::Absent => return Ok(()),
            // Somebody wrote the row meanwhile: if it still owes this letter, it is sent again.
            Written::Conflict(current) => row = *current,
        }
    }
    Ok(())
}
