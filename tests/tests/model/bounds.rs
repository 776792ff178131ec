//! I am the bounds that the model explores to their end, and what it found there. The README repeats me, and a test
//! compares.

/// The last instant, in ticks; the first is 1. Past it actors still run, but time stands.
pub const TICKS: u8 = 5;
/// The first due time and deadline, in ticks.
pub const ASKED: (u8, u8) = (2, 4);
/// The due time and deadline that a reschedule forwards asks for; one backwards asks for the first ones again.
pub const MOVED: (u8, u8) = (3, 5);
/// The deadline that a redrive run gives to rows whose own cannot be kept.
pub const REDRIVEN_BY: u8 = 5;
/// Redrive slices at once, of one run or of two.
pub const SLICES: usize = 2;
/// Dispatch runs at once.
pub const DISPATCHERS: usize = 2;
/// Deliver invocations at once.
pub const CONSUMERS: usize = 2;
/// Writes at once that are decided and have not arrived, besides the outcomes that holders write.
pub const WRITES: usize = 2;
/// Consumers at once that have lost their fence and still want to record their outcome.
pub const ZOMBIES: usize = 1;

/// What is explored: everything at once would not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A reminder that is cancelled, and rescheduled forwards and backwards, again and again.
    Reminder,
    /// One that is cancelled, and redriven whenever it is dead or expired.
    Redrive,
}

/// The bounds of one exploration, and what it found.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The attempt budget.
    pub attempts: u8,
    /// Redrive runs; one or two of them may move the row.
    pub runs: u8,
    /// The attempts that a run grants.
    pub granted: u8,
    /// Distinct states.
    pub states: usize,
    /// The states on the longest of the shortest paths.
    pub depth: usize,
}

impl Scope {
    pub const fn bounds(self) -> Bounds {
        match self {
            Self::Reminder => Bounds { attempts: 2, runs: 0, granted: 0, states: 313_254, depth: 31 },
            Self::Redrive => Bounds { attempts: 1, runs: 2, granted: 1, states: 1_255_335, depth: 40 },
        }
    }
}
