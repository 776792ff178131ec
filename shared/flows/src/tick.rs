//! I am the input of a run of dispatch or monitor: what EventBridge Scheduler sends, or a person from the console.

use serde::Deserialize;

/// A run's input; what it says is logged and decides nothing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// Which tick.
    pub tick: Details,
}

/// The schedule's own words.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Details {
    /// For when the tick was scheduled.
    #[serde(default)]
    pub scheduled_at: Option<String>,
    /// Which execution; new for each try.
    #[serde(default)]
    pub execution_id: Option<String>,
}
