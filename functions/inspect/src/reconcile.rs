//! I compare a receiver's export with the ledger: which deliveries both have, and which one side has alone.
//!
//! A person runs me as the program `reconcile`, before an audit or after an incident; no function calls me. Memory is
//! bounded whatever the sizes are: both sides are sorted by id through files without a name, which are gone with this
//! process, however it ends. What the comparison means is decided in the core; I read, sort, join and report.

pub mod arguments;
pub mod audit;
mod csv_lines;
mod entry;
mod export;
mod join;
mod json_lines;
mod sorter;
mod text;

use std::path::PathBuf;

use punctual_core::clock::ClockError;
use punctual_core::id::DestinationId;
use punctual_core::ports::{Control, PortError, Rows, RowsQuery, Time};
use punctual_core::reconcile::{Line, Period, Standing};
use punctual_core::time::Timestamp;

use audit::{Asked, Audit, Scanned};
use export::Problems;
use sorter::Sorter;

pub use text::text;

/// So many entries of a side are sorted in memory at a time.
pub const RUN: usize = 65_536;
/// The most rows that may be unreadable before the ledger counts as broken.
const MOST_UNREADABLE: usize = 10_000;
/// How often progress is told, in lines or rows.
const TELL_EVERY: u64 = 100_000;

/// What is to be compared.
#[derive(Debug, Clone)]
pub struct Request {
    /// Whose deliveries.
    pub destination: DestinationId,
    /// Of which period.
    pub period: Period,
    /// Who asks.
    pub by: String,
    /// The name of the ledger that is asked, for the report.
    pub ledger: String,
    /// The export's files, 1 to 1,000.
    pub files: Vec<PathBuf>,
    /// The most deviations of each kind, and unreadable lines, that the report lists.
    pub list: usize,
    /// So many entries are sorted in memory at a time, at least 1; [`RUN`] unless a test says otherwise.
    pub run: usize,
}

/// Why nothing was compared.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The destination is not registered.
    #[error("destination {0} is not registered")]
    UnknownDestination(DestinationId),
    /// The period has not ended.
    #[error("this period can be compared from {over} on, its tolerance included; the database's time is {now}")]
    NotOver {
        /// When it has ended by every clock.
        over: Timestamp,
        /// What time it is.
        now: Timestamp,
    },
    /// An input cannot be used at all.
    #[error("{file}{}: {problem}", line.map_or_else(String::new, |line| format!(":{line}")))]
    Input {
        /// Which file.
        file: String,
        /// Which line, if one is to blame.
        line: Option<u64>,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// So many rows cannot be read that the rest proves nothing.
    #[error("more than {MOST_UNREADABLE} rows of the ledger cannot be read; the first is {0}")]
    Unreadable(String),
    /// The files that are sorted through cannot be written or read.
    #[error("temporary file")]
    Scratch(#[source] std::io::Error),
    /// The ledger or the control table cannot be read.
    #[error("the tables cannot be read")]
    Port(#[from] PortError),
    /// The database's time is not known well enough.
    #[error("the time cannot be told")]
    Clock(#[from] ClockError),
}

/// Compares. `tell` hears how far it has come, now and then.
///
/// # Errors
/// [`ReconcileError`] if there is nothing to tell. Lines and rows that cannot be read are no error: they are counted and
/// listed, and the answer is not clean.
pub async fn reconcile<R: Rows, C: Control, T: Time>(
    request: &Request,
    ledger: &R,
    control: &C,
    time: &T,
    tell: &dyn Fn(String),
) -> Result<Audit, ReconcileError> {
    let (destinations, _) = control.lookup(std::slice::from_ref(&request.destination)).await?;
    if destinations.is_empty() {
        return Err(ReconcileError::UnknownDestination(request.destination.clone()));
    }
    let (at, over) = (time.now()?.lo, request.period.until.plus(request.period.tolerance));
    if at < over {
        return Err(ReconcileError::NotOver { over, now: at });
    }

    let mut lines: Sorter<Line> = Sorter::new(request.run);
    let mut problems = Problems::new(request.list);
    let inputs = export::read_all(&request.files, &mut lines, &mut problems, tell)?;
    let mut rows: Sorter<Standing> = Sorter::new(request.run);
    let mut scanned = scan(request, ledger, &mut rows, tell).await?;
    tell("comparing".to_owned());
    let reckoning = join::join(request, ledger, rows, lines, &mut scanned.unreadable).await?;
    let asked = Asked { by: request.by.clone(), at, ledger: request.ledger.clone() };
    Ok(Audit::new(asked, request, inputs, problems, scanned, &reckoning))
}

/// Whether so few rows are unreadable that the rest proves something.
fn few(unreadable: &[String]) -> Result<(), ReconcileError> {
    let first = unreadable.first().filter(|_| unreadable.len() > MOST_UNREADABLE);
    first.map_or(Ok(()), |first| Err(ReconcileError::Unreadable(first.clone())))
}

/// Reads every row that may have been called within the period.
async fn scan<R: Rows>(
    request: &Request,
    ledger: &R,
    rows: &mut Sorter<Standing>,
    tell: &dyn Fn(String),
) -> Result<Scanned, ReconcileError> {
    let Request { destination, period, .. } = request;
    let mut query = RowsQuery {
        destination: destination.clone(),
        from: period.from.minus(period.tolerance),
        until: period.until.plus(period.tolerance),
        start: None,
        limit: None,
    };
    let mut scanned = Scanned::default();
    loop {
        let page = ledger.rows(&query).await?;
        scanned.read_units += page.read_units;
        for row in &page.rows {
            rows.add(Standing::of(row, destination, period)).map_err(ReconcileError::Scratch)?;
            scanned.rows += 1;
            if scanned.rows.is_multiple_of(TELL_EVERY) {
                tell(format!("{} rows of the ledger", scanned.rows));
            }
        }
        scanned.unreadable.extend(page.unreadable);
        few(&scanned.unreadable)?;
        query.start = page.next;
        if query.start.is_none() {
            return Ok(scanned);
        }
    }
}
