//! I am the fault points: the crash boundaries at which a drill kills a function's own process.
//!
//! Without the feature `drill`, which nothing deployed has, a point is nothing. With it, a point that finds an order
//! takes it away, so that it is carried out once, and ends the process by SIGKILL: no destructor, no answer, no log
//! line. An order is an empty file in [`DIRECTORY`] below the process's temporary directory, named by [`order`].

use punctual_core::id::DeliveryId;

/// Where orders lie, below the temporary directory. A binary that contains this text contains fault points.
pub const DIRECTORY: &str = "punctual-fault-points";

/// A boundary between two effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A run is about to claim the row for publishing.
    BeforeClaim,
    /// The row is claimed; its message is not sent.
    Claimed,
    /// The message is sent; the row is not marked.
    Published,
    /// The row is marked `queued`.
    Marked,
    /// Deliver has the message; the row is not claimed.
    Received,
    /// The row is `delivering`; the call is not made.
    Delivering,
    /// The call was made; its outcome is not recorded.
    Called,
    /// The outcome is recorded; the message is not acknowledged.
    Recorded,
    /// The row is dead; its dead letter is not sent.
    BeforeLetter,
    /// The dead letter is sent; the row is not marked.
    AfterLetter,
    /// A slice of a redrive run came; the next one is not planned.
    SliceBegun,
    /// The next slice is planned; nothing else is done.
    SliceScheduled,
    /// A run has written a row back to the ledger; it is not released.
    RowMoved,
    /// A moved row is released; its dead letter is not deleted.
    RowSent,
    /// The dead letter of a death that is over is about to be deleted.
    BeforeLetterDelete,
    /// A slice has let go of its run.
    SliceEnded,
}

/// The name of the file that orders a kill at this point of this delivery; a redrive run's own points have its name.
#[must_use]
pub fn order(point: Point, id: &DeliveryId) -> String {
    format!("{point:?}.{id}")
}

/// A boundary that this process passes with this delivery.
#[cfg(not(feature = "drill"))]
#[inline(always)]
pub fn point(_point: Point, _id: &DeliveryId) {}

/// A boundary that this process passes with this delivery; it ends here if a drill ordered so.
#[cfg(feature = "drill")]
pub fn point(point: Point, id: &DeliveryId) {
    use rustix::process::{Signal, getpid, kill_process};
    let file = std::env::temp_dir().join(DIRECTORY).join(order(point, id));
    if std::fs::remove_file(file).is_ok() && kill_process(getpid(), Signal::KILL).is_err() {
        std::process::abort();
    }
}
