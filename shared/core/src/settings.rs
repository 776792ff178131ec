//! I am the stage's switches: one row in the control table that acts without a deploy.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// What happens to a retryable failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryMode {
    /// It is retried by its policy.
    #[default]
    Retry,
    /// It goes to the dead letters at once: the kill switch.
    DeadLetter,
}

/// The stage's switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Settings {
    /// What happens to a retryable failure.
    #[serde(default)]
    pub retry_mode: RetryMode,
    /// Since when dispatch's schedule is off by an operator's decision, if it is: a note beside the schedule, which is what
    /// counts.
    #[serde(default)]
    pub dispatch_paused: Option<Timestamp>,
}

/// A switch, and how it shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// [`Settings::retry_mode`].
    RetryMode(RetryMode),
    /// [`Settings::dispatch_paused`].
    DispatchPaused(Option<Timestamp>),
}

impl Settings {
    /// The switches after one of them was moved.
    #[must_use]
    pub fn with(self, switch: Switch) -> Self {
        match switch {
            Switch::RetryMode(retry_mode) => Self { retry_mode, ..self },
            Switch::DispatchPaused(dispatch_paused) => Self { dispatch_paused, ..self },
        }
    }
}
