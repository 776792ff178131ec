//! I read the index of dead and expired rows: those that can still be saved first, then those of the last days.

use std::time::Duration;

use punctual_core::figures::Ended;
use punctual_core::ports::{EndedQuery, Ledger, PortError, Time};
use punctual_core::state::State;
use punctual_core::time::Timestamp;

use crate::run::TIME_RESERVE;

/// Deadlines that are longer past are not looked at: as long as the dead letters keep a message.
pub const LATELY: Duration = Duration::from_secs(14 * 86_400);
/// The most entries of each kind that one run reads.
pub const MOST_ENTRIES: usize = 20_000;
/// The most entries of one page.
const PAGE: u32 = 5_000;

/// The dead and expired rows in numbers, and whether all of them were read.
///
/// # Errors
/// [`PortError`] if a page cannot be read.
pub async fn read<L: Ledger, T: Time>(ledger: &L, time: &T, now: Timestamp) -> Result<(Ended, bool), PortError> {
    let mut reading = Reading { ended: Ended::default(), complete: true };
    let lately = now.minus(LATELY);
    // A row whose deadline is this very instant is in one of the first two.
    reading.part(ledger, time, State::Dead, (now, None), now).await?;
    reading.part(ledger, time, State::Dead, (lately, Some(now)), now).await?;
    reading.part(ledger, time, State::Expired, (lately, None), now).await?;
    Ok((reading.ended, reading.complete))
}

struct Reading {
    ended: Ended,
    complete: bool,
}

impl Reading {
    /// Rows with deadlines from `from` on, and before `until`.
    async fn part<L: Ledger, T: Time>(
        &mut self,
        ledger: &L,
        time: &T,
        state: State,
        (from, until): (Timestamp, Option<Timestamp>),
        now: Timestamp,
    ) -> Result<(), PortError> {
        let (mut start, mut read) = (None, 0_usize);
        loop {
            if read >= MOST_ENTRIES || time.time_left() <= TIME_RESERVE {
                self.complete = false;
                return Ok(());
            }
            let page = ledger.ended(&EndedQuery { state, from: Some(from), start, limit: PAGE }).await?;
            read += page.entries.len().max(1);
            for entry in &page.entries {
                if until.is_some_and(|until| entry.deliver_by >= until) {
                    return Ok(());
                }
                self.ended.note(entry, now);
            }
            start = page.next;
            if start.is_none() {
                return Ok(());
            }
        }
    }
}
