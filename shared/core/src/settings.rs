//! I am the stage's switches: one row in the control table that acts without a deploy.

use serde::{Deserialize, Serialize};

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
}
