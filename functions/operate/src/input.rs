//! I read what an operator sends: strict, and never without who and why.

use punctual_core::destination::{FieldError, Spec};
use punctual_core::id::{DeliveryId, DestinationId};
use punctual_flows::input::{action, strict};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The `put_destination` action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutDestination {
    /// Always `put_destination`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// The whole destination; it replaces the stored one, but keeps its pause.
    pub destination: Box<RawValue>,
    /// Only if this is the stored version; 0 for a new one. Without it the newest version is replaced.
    #[serde(default)]
    pub expected_version: Option<u64>,
    /// The destination, read.
    #[serde(skip)]
    pub spec: Option<Spec>,
}

/// The `pause`, `resume` and `promote` actions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnDestination {
    /// `pause`, `resume` or `promote`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// Which destination.
    pub destination_id: DestinationId,
}

/// The `hold`, `release` and `cancel` actions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnDelivery {
    /// `hold`, `release` or `cancel`.
    pub action: String,
    /// Who; 1 to 64 characters.
    pub by: String,
    /// Why; 1 to 256 characters.
    pub why: String,
    /// Which delivery.
    pub delivery_id: DeliveryId,
}

/// What is asked for.
#[derive(Debug)]
pub enum Action {
    /// Register or replace a destination.
    PutDestination(Box<PutDestination>),
    /// Pause a destination.
    Pause(OnDestination),
    /// Resume a destination.
    Resume(OnDestination),
    /// Make a destination live.
    Promote(OnDestination),
    /// Freeze a delivery.
    Hold(OnDelivery),
    /// Release a frozen delivery.
    Release(OnDelivery),
    /// Take a delivery back.
    Cancel(OnDelivery),
}

/// Reads an event.
///
/// # Errors
/// Every [`FieldError`] that can be told from the input alone.
pub fn read(event: &RawValue) -> Result<Action, Vec<FieldError>> {
    let one = |e| vec![e];
    let name = action(event, &["put_destination", "pause", "resume", "promote", "hold", "release", "cancel"]).map_err(one)?;
    match name {
        "put_destination" => {
            let mut input: PutDestination = strict(event, "").map_err(one)?;
            who_and_why(&input.by, &input.why)?;
            input.spec = Some(strict(&input.destination, "destination").map_err(one)?);
            Ok(Action::PutDestination(Box::new(input)))
        }
        "pause" | "resume" | "promote" => {
            let input: OnDestination = strict(event, "").map_err(one)?;
            who_and_why(&input.by, &input.why)?;
            Ok(match name {
                "pause" => Action::Pause(input),
                "resume" => Action::Resume(input),
                _ => Action::Promote(input),
            })
        }
        _ => {
            let input: OnDelivery = strict(event, "").map_err(one)?;
            who_and_why(&input.by, &input.why)?;
            Ok(match name {
                "hold" => Action::Hold(input),
                "release" => Action::Release(input),
                _ => Action::Cancel(input),
            })
        }
    }
}

fn who_and_why(by: &str, why: &str) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    for (field, value, max) in [("by", by, 64), ("why", why, 256)] {
        if value.trim().is_empty() || value.chars().count() > max {
            errors.push(FieldError::new("out_of_bounds", field, format!("1 to {max} characters")));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
