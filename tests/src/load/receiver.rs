//! I am a receiver: I answer after a while, fail now and then, am down for a time, and remember every call.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use punctual_core::outcome::{CallResult, Failure};
use punctual_core::ports::{Request, Webhook};
use punctual_core::time::Timestamp;

use super::clock::{Clock, spread};

/// How it behaves.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// How long an answer takes.
    pub latency: Duration,
    /// So many of a hundred calls are answered with 503.
    pub failing_percent: u32,
    /// From when until when nothing answers: a call ends by its total timeout.
    pub down: Option<(Timestamp, Timestamp)>,
}

/// A call that began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its idempotency key.
    pub key: String,
    /// When its first byte left.
    pub at: Timestamp,
    /// When it was accepted, if it was.
    pub accepted_at: Option<Timestamp>,
}

/// The receiver.
#[derive(Debug)]
pub struct Receiver {
    clock: Clock,
    behaviour: Behaviour,
    calls: Mutex<Vec<Call>>,
}

impl Receiver {
    /// One that nobody has called.
    #[must_use]
    pub fn new(clock: Clock, behaviour: Behaviour) -> Self {
        Self { clock, behaviour, calls: Mutex::default() }
    }

    /// All calls, in the order in which they began.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, key: String) -> usize {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(Call { key, at: self.clock.instant(), accepted_at: None });
        calls.len() - 1
    }

    fn accept(&self, number: usize) {
        if let Some(call) = self.calls.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
            call.accepted_at = Some(self.clock.instant());
        }
    }
}

impl Webhook for Receiver {
    async fn call(&self, request: &Request, may_start: &(dyn Fn() -> bool + Send + Sync)) -> CallResult {
        if !may_start() {
            return CallResult::not_called();
        }
        let key = request.headers.iter().find(|(name, _)| *name == "idempotency-key").map(|(_, value)| value.clone());
        let number = self.note(key.unwrap_or_default());
        let now = self.clock.instant();
        if self.behaviour.down.is_some_and(|(from, until)| (from..until).contains(&now)) {
            self.clock.pass(request.total_timeout).await;
            return Failure::Timeout.into();
        }
        self.clock.pass(self.behaviour.latency).await;
        let drawn = spread(u64::try_from(number).unwrap_or_default());
        if drawn * 100.0 < f64::from(self.behaviour.failing_percent) {
            return CallResult::Answered { status: 503, retry_after: None };
        }
        self.accept(number);
        CallResult::Answered { status: 200, retry_after: None }
    }
}
