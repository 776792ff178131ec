//! I bring both sides of each delivery together, in the order of their ids.

use std::collections::BTreeSet;

use punctual_core::id::DeliveryId;
use punctual_core::ports::{Rows, RowsNamed};
use punctual_core::reconcile::{Line, Reckoning, Seen, Standing};

use super::sorter::{Sorted, Sorter};
use super::{ReconcileError, Request, few};

/// So many deliveries that the scan did not have are looked up at a time.
const LOOK_UP: usize = 100;

/// The export, one delivery after the other.
struct Export<'a> {
    lines: Sorted<Line>,
    next: Option<Line>,
    request: &'a Request,
}

impl Export<'_> {
    /// All lines of the next delivery.
    fn next(&mut self) -> std::io::Result<Option<Seen>> {
        let Some(first) = self.next.take() else { return Ok(None) };
        let mut seen = Seen::first(first, &self.request.period);
        while let Some(line) = self.lines.next()? {
            if line.id != seen.id {
                self.next = Some(line);
                break;
            }
            seen.add(line.place, line.at, &self.request.period);
        }
        Ok(Some(seen))
    }
}

/// Counts all deliveries of both sides. What is in the export and was not in the scan is looked up by its id: a row outside
/// the period, or another destination's, is not unknown, and neither is one that is there and cannot be read. Such a row is
/// not judged: its id is added to `unreadable`.
pub(super) async fn join<R: Rows>(
    request: &Request,
    ledger: &R,
    rows: Sorter<Standing>,
    lines: Sorter<Line>,
    unreadable: &mut Vec<String>,
) -> Result<Reckoning, ReconcileError> {
    let scratch = ReconcileError::Scratch;
    let known: BTreeSet<String> = unreadable.iter().cloned().collect();
    let mut rows = rows.sorted().map_err(scratch)?;
    let mut lines = lines.sorted().map_err(scratch)?;
    let next = lines.next().map_err(scratch)?;
    let mut export = Export { lines, next, request };
    let mut reckoning = Reckoning::new(request.period, request.list);
    let mut alone: Vec<Seen> = Vec::new();
    let (mut row, mut seen) = (rows.next().map_err(scratch)?, export.next().map_err(scratch)?);
    loop {
        let order = match (&row, &seen) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(row), Some(seen)) => row.id.cmp(&seen.id),
        };
        if order.is_gt() {
            // An unreadable row proves nothing, neither for its delivery nor against it.
            alone.extend(seen.take().filter(|seen| !known.contains(seen.id.as_str())));
            if alone.len() >= LOOK_UP {
                look_up(request, ledger, &mut alone, &mut reckoning, unreadable).await?;
            }
        } else {
            reckoning.add(row.as_ref(), seen.as_ref().filter(|_| order.is_eq()));
            row = rows.next().map_err(scratch)?;
        }
        if order.is_ge() {
            seen = export.next().map_err(scratch)?;
        }
    }
    look_up(request, ledger, &mut alone, &mut reckoning, unreadable).await?;
    Ok(reckoning)
}

async fn look_up<R: Rows>(
    request: &Request,
    ledger: &R,
    alone: &mut Vec<Seen>,
    reckoning: &mut Reckoning,
    unreadable: &mut Vec<String>,
) -> Result<(), ReconcileError> {
    let ids: Vec<DeliveryId> = alone.iter().map(|seen| seen.id.clone()).collect();
    let found = if ids.is_empty() { RowsNamed::default() } else { ledger.rows_named(&ids).await? };
    for seen in alone.drain(..).filter(|seen| !found.unreadable.iter().any(|id| id == seen.id.as_str())) {
        let row = found.rows.iter().find(|row| row.id == seen.id);
        let standing = row.map(|row| Standing::of(row, &request.destination, &request.period));
        reckoning.add(standing.as_ref(), Some(&seen));
    }
    unreadable.extend(found.unreadable);
    few(unreadable)
}
