//! I read a destination's part of the wake index: what may be due, what is in flight, what must be looked at.
//!
//! Entries are hints. I claim nothing.

use std::time::Duration;

use punctual_core::acquire::can_start;
use punctual_core::admission::Candidate;
use punctual_core::clock::Now;
use punctual_core::delivery::Lane;
use punctual_core::destination::Destination;
use punctual_core::ports::{Control, Cursor, Ledger, PortError, WakeQuery};
use punctual_core::time::Timestamp;

use crate::summary::Summary;

/// The most entries of one page.
const PAGE: u32 = 250;

/// What a destination's lanes hold.
#[derive(Debug, Default)]
pub struct Scan {
    /// Nobody holds these, as far as the index knows.
    pub fresh: Vec<Candidate>,
    /// Their hold has ended, or their deadline can no longer be met: read them before deciding.
    pub ended: Vec<Candidate>,
    /// Held and in order: when each is due.
    pub outstanding: Vec<Timestamp>,
    /// Whether everything up to the horizon was read.
    pub complete: bool,
}

/// Which part of the lanes is read, and how it is judged.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Entries up to this instant.
    pub until: Timestamp,
    /// The database's time.
    pub now: Now,
    /// The destination's safety margin.
    pub margin: Duration,
}

/// Reads all lanes of a destination from their heads, at most what can be in flight twice over.
///
/// Where a lane's head holds nothing that can be released (rows that cannot be read, more ended holds than one run takes
/// back), the lane is read once more from where the last run stopped, so that nothing at a head starves what is behind.
///
/// # Errors
/// [`PortError`] if the index cannot be read; the cursors stay as they were.
pub async fn scan<L: Ledger, C: Control>(
    ledger: &L,
    control: &C,
    destination: &Destination,
    cursors: &[(Lane, Cursor)],
    window: Window,
    summary: &mut Summary,
) -> Result<Scan, PortError> {
    let mut scan = Scan { complete: true, ..Scan::default() };
    let most = usize::try_from(destination.spec.max_in_flight).unwrap_or(usize::MAX).saturating_mul(2).saturating_add(500);
    let per_lane = most.div_ceil(usize::from(destination.spec.shards.max(1)));
    for lane in destination.lanes() {
        let kept = cursors.iter().find(|(at, _)| *at == lane).map(|(_, cursor)| cursor);
        let fresh = scan.fresh.len();
        let mut rest = part(ledger, &lane, None, per_lane, window, &mut scan, summary).await?;
        scan.complete &= rest.is_none();
        let clogged = scan.fresh.len() == fresh;
        if let Some(end) = rest.take().filter(|_| clogged) {
            let start = kept.filter(|cursor| (cursor.wake_at, &cursor.id) > (end.wake_at, &end.id)).cloned().unwrap_or(end);
            rest = part(ledger, &lane, Some(start), per_lane, window, &mut scan, summary).await?;
        }
        if kept != rest.as_ref() {
            control.keep_cursor(&lane, rest.as_ref()).await?;
        }
    }
    Ok(scan)
}

/// Reads up to `most` entries of a lane; gives where it goes on.
async fn part<L: Ledger>(
    ledger: &L,
    lane: &Lane,
    mut start: Option<Cursor>,
    most: usize,
    window: Window,
    scan: &mut Scan,
    summary: &mut Summary,
) -> Result<Option<Cursor>, PortError> {
    let Window { until, now, margin } = window;
    let mut read = 0_usize;
    loop {
        let limit = PAGE.min(u32::try_from(most.saturating_sub(read)).unwrap_or(PAGE)).max(1);
        let query = WakeQuery { lane: lane.clone(), until, deadline_by: None, start, limit };
        let page = ledger.wake(&query).await?;
        summary.pages += 1;
        summary.read_units += page.read_units;
        summary.seen += page.candidates.len();
        // An unreadable entry was read all the same: a page counts by what was asked for.
        read += usize::try_from(limit).unwrap_or(usize::MAX);
        for candidate in page.candidates {
            let hopeless = !can_start(candidate.deliver_by, margin, now);
            match candidate.held_until {
                None if hopeless => scan.ended.push(candidate),
                None => scan.fresh.push(candidate),
                Some(end) if now.reached(end) => scan.ended.push(candidate),
                Some(_) => scan.outstanding.push(candidate.wake_at),
            }
        }
        start = page.next;
        if start.is_none() || read >= most {
            return Ok(start);
        }
    }
}
