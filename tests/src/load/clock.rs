//! I am time that passes only when everybody waits: then it jumps to the next instant that somebody waits for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use punctual_core::clock::{ClockError, Now};
use punctual_core::ports::Time;
use punctual_core::time::Timestamp;

/// The clock of a world, in whole milliseconds; clones are the same clock.
#[derive(Debug, Clone)]
pub struct Clock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    now: Timestamp,
    timers: BinaryHeap<Reverse<Timer>>,
    drawn: u64,
}

#[derive(Debug)]
struct Timer {
    at: Timestamp,
    number: u64,
    waker: Waker,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Clock {
    /// A clock that says this.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(State { now, timers: BinaryHeap::new(), drawn: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it says.
    #[must_use]
    pub fn instant(&self) -> Timestamp {
        self.state().now
    }

    /// A number that no other call gets, from 1.
    fn draw(&self) -> u64 {
        let mut state = self.state();
        state.drawn += 1;
        state.drawn
    }

    /// Lets time pass until this instant.
    pub async fn until(&self, at: Timestamp) {
        poll_fn(|context| {
            let mut state = self.state();
            if state.now >= at {
                return Poll::Ready(());
            }
            state.drawn += 1;
            let timer = Timer { at, number: state.drawn, waker: context.waker().clone() };
            state.timers.push(Reverse(timer));
            Poll::Pending
        })
        .await;
    }

    /// Lets this much time pass.
    pub async fn pass(&self, how_long: Duration) {
        self.until(self.instant().plus(how_long)).await;
    }

    /// Jumps to the next instant that somebody waits for; gives it, or nothing if nobody waits.
    pub fn jump(&self) -> Option<Timestamp> {
        let mut due = Vec::new();
        let now = {
            let mut state = self.state();
            let Reverse(first) = state.timers.pop()?;
            state.now = state.now.max(first.at);
            due.push(first.waker);
            while state.timers.peek().is_some_and(|Reverse(timer)| timer.at <= state.now) {
                due.extend(state.timers.pop().map(|Reverse(timer)| timer.waker));
            }
            state.now
        };
        due.into_iter().for_each(Waker::wake);
        Some(now)
    }
}

/// The time of one invocation. The database's time is known exactly.
#[derive(Debug)]
pub struct Invocation {
    clock: Clock,
    ends: Timestamp,
}

impl Invocation {
    /// One that begins now and may take so long.
    #[must_use]
    pub fn begin(clock: &Clock, timeout: Duration) -> Self {
        Self { clock: clock.clone(), ends: clock.instant().plus(timeout) }
    }
}

impl Time for Invocation {
    fn now(&self) -> Result<Now, ClockError> {
        Ok(Now::exactly(self.clock.instant()))
    }

    fn time_left(&self) -> Duration {
        self.ends.since(self.clock.instant())
    }

    async fn wait_until(&self, at: Timestamp) -> Result<Now, ClockError> {
        self.clock.until(at).await;
        self.now()
    }

    async fn pause(&self, how_long: Duration) {
        self.clock.pass(how_long).await;
    }

    fn random(&self) -> f64 {
        spread(self.clock.draw())
    }

    fn unique(&self) -> String {
        format!("owner-{}", self.clock.draw())
    }
}

/// A number in `[0, 1)` that looks random: equal inputs give equal outputs (SplitMix64).
#[must_use]
pub(super) fn spread(n: u64) -> f64 {
    let mut z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let bits = ((z ^ (z >> 31)) >> 32) as u32;
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
