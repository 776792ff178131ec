//! The demo's destinations: what each receiver does, and what must become of its reminders.

use punctual_core::reason::Reason;
use punctual_core::state::State;
use serde_json::{Value, json};

use crate::receiver::Receiver;

/// The signing secret of all destinations; the receiver knows it too.
pub(super) const SECRET: &str = "whsec_cHVuY3R1YWwtZGVtby1zZWNyZXQtMjAyNi0wMQ==";
/// Its name below the stage's path.
pub(super) const SECRET_NAME: &str = "punctual/local/demo";
/// The destination whose reminders only a dispatch run can release.
pub(super) const TICKED: &str = "ticked";

/// A destination and what must become of its reminders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    /// Its id, and the receiver's behaviour.
    pub(super) id: &'static str,
    /// The receiver's path.
    path: &'static str,
    /// What the receiver does.
    pub(super) does: &'static str,
    /// For the whole call, in milliseconds.
    timeout_ms: u64,
    /// How each delivery must end.
    pub(super) ends: State,
    /// With which last reason.
    pub(super) reason: Reason,
    /// After how many attempts.
    pub(super) attempts: usize,
    /// With how many effects at the receiver.
    pub(super) effects: usize,
}

const fn good(id: &'static str, path: &'static str, does: &'static str, attempts: usize) -> Scenario {
    Scenario { id, path, does, timeout_ms: 5_000, ends: State::Delivered, reason: Reason::Accepted, attempts, effects: 1 }
}

/// All destinations.
pub(super) const ALL: [Scenario; 7] = [
    good("healthy", "healthy", "answers 200", 1),
    good("slow", "slow", "answers 200 after 300 ms", 1),
    good("flaky", "flaky", "answers 503 twice, then 200", 3),
    good("limited", "limited", "answers 429 with Retry-After, then 200", 2),
    Scenario {
        ends: State::Dead,
        reason: Reason::Rejected,
        effects: 0,
        ..good("rejecting", "rejecting", "answers 400 for ever", 1)
    },
    Scenario { timeout_ms: 1_000, ..good("late", "late", "processes, but answers too late; 200 at the second call", 2) },
    good(TICKED, "healthy/ticked", "answers 200; released by the tick", 1),
];

impl Scenario {
    /// What operate takes.
    pub(super) fn spec(&self, receiver: &Receiver) -> Value {
        json!({
            "id": self.id,
            "url": receiver.url(self.path),
            "secrets": [SECRET_NAME],
            "connect_timeout_ms": 500,
            "total_timeout_ms": self.timeout_ms,
            "rate_per_second": 100,
            // All twenty that are refused are to be seen dead: the pause that spares a backlog has its own drills.
            "pause_after": {"rejected": 64, "of_last": 64},
            // The late one is silent at its first calls on purpose; the breaker has flows of its own.
            "breaker": {"opens_after": 20},
            "retry": {"base_ms": 1_000, "cap_ms": 10_000, "attempts": 6},
        })
    }
}
