//! I am the bound that the model explores to its end, and what it found there. The README repeats me, and a test
//! compares.

/// The last instant, in ticks; the first is 1. Past it actors still run, but time stands.
pub const TICKS: u8 = 5;
/// The first due time and deadline, in ticks.
pub const ASKED: (u8, u8) = (2, 4);
/// The due time and deadline that a reschedule asks for.
pub const MOVED: (u8, u8) = (3, 5);
/// The attempt budget.
pub const ATTEMPTS: u8 = 2;
/// Dispatch runs at once.
pub const DISPATCHERS: usize = 2;
/// Deliver invocations at once.
pub const CONSUMERS: usize = 2;
/// Writes at once that are decided and have not arrived, besides the outcomes that holders write.
pub const WRITES: usize = 2;
/// Consumers at once that have lost their fence and still want to record their outcome.
pub const ZOMBIES: usize = 1;
/// Distinct states.
pub const STATES: usize = 484_002;
/// The states on the longest of the shortest paths.
pub const DEPTH: usize = 31;
