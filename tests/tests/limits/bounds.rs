//! I am the bounds that the limiter's and the breaker's models explore to their end, and what they found there. The README
//! repeats me, and a test compares.

/// What an exploration found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Distinct states.
    pub states: usize,
    /// The states on the longest of the shortest paths.
    pub depth: usize,
}

/// Consumers of the limiter.
pub const CONSUMERS: usize = 2;
/// Bookings that they begin, all together; each of two calls.
pub const BOOKINGS: u8 = 3;
/// Deliver batches at once that share a breaker.
pub const BATCHES: usize = 2;
/// Probes in vain, one after the other.
pub const PROBES: u8 = 1;
/// The limiter, clocks agreeing.
pub const AGREEING: Found = Found { states: 532_001, depth: 24 };
/// The limiter, clocks off.
pub const SKEWED: Found = Found { states: 863_226, depth: 24 };
/// The breaker.
pub const BREAKER: Found = Found { states: 1_468_132, depth: 92 };
